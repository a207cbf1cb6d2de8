"""The exact formula of a record: checked against the function it stands for, and evaluated in float64."""

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # loads scipy.special at its first use, which takes a sixth of a second
from jaxtyping import Float

from actlab.activations.definition import Activation, same
from actlab.activations.proofs.jets import Arithmetic, Constant, Jet, Piece, Piecewise, whole
from actlab.errors import UserError

Numbers = np.ndarray | np.float64


class Floats(Arithmetic):
    """Plain float64 arrays, without error bounds."""

    def constant(self, value: Constant) -> np.float64:
        """The nearest float64."""
        return np.float64(float(value))

    def decays(self, x: Numbers, rates: Sequence[Fraction], powers: Sequence[int]) -> dict[int, Numbers]:
        """x^k e^-v(x) for each k."""
        exponent = sum(float(rate) * x ** (k + 1) for k, rate in enumerate(rates) if rate)
        decay = np.exp(-exponent)
        return {k: x**k * decay for k in powers}

    def normal_tails(self, x: Numbers, powers: Sequence[int]) -> dict[int, Numbers]:
        """x^k Phi(-x) for each k."""
        tail = scipy.special.ndtr(-x)
        return {k: x**k * tail for k in powers}

    def log1p(self, x: Numbers) -> Numbers:
        """log(1 + x)."""
        return np.log1p(x)


FLOATS = Floats()


_CHECK = np.linspace(-8.0, 8.0, 129)  # in units of the function
_FAR = 2.0 ** np.arange(4, 18)  # in units of the function too
_TOLERANCE = 1e-5  # of the largest value near 0, and of each beyond; float32 rounds to 1e-7
_NEAR = 1e-4  # in units of the function: the fourth order of x is 1e-12 of the first


@functools.lru_cache(maxsize=1024)
def exact_of(record: Activation, scale: float) -> Piecewise | None:
    """The formula of fn; that of a vector-valued one depends on the scale. None where the record has none.

    Raises:
        UserError: where a formula that is not the catalogue's own fails, or differs from fn.
    """
    if record.exact is None:
        return None
    vector = {} if record.elementwise else {"scale": scale}
    numbers = tuple({**vector, **record.parameters, **record.theta}.items())
    return _checked(record, record.exact, numbers, record.fn if record.elementwise else None)


@functools.lru_cache(maxsize=1024)
def exact_of_value(record: Activation) -> Piecewise | None:
    """The formula of value_fn.

    Raises:
        UserError: as exact_of.
    """
    if record.value_fn is same:
        return whole(lambda x: x)
    if record.value_exact is None:
        return None
    return _checked(record, record.value_exact, (), record.value_fn)


@functools.lru_cache(maxsize=1024)
def _formula(exact: Callable[..., Piecewise], numbers: tuple[tuple[str, float], ...]) -> Piecewise:
    """Gated forms share the formula of their gate, and with it all that is cached."""
    return exact(**dict(numbers))


def _checked(
    record: Activation, exact: Callable[..., Piecewise], numbers: tuple[tuple[str, float], ...], fn: Callable | None
) -> Piecewise:
    """The formula; one that is not the catalogue's own (tests compare those) is compared with fn, if that is given."""
    if getattr(exact, "__module__", "").startswith("actlab.activations."):
        return _formula(exact, numbers)
    told = f"the exact formula of activation {record.name!r}"
    try:
        formula = _formula(exact, numbers)
        # At a break both pieces hold as one-sided limits, and fn may jump there.
        x = np.unique(np.concatenate([_CHECK, _FAR, -_FAR]) * formula.unit).astype(np.float32)
        x = x[~np.isin(x, np.asarray(formula.breaks, np.float32))]
        with np.errstate(all="ignore"):
            found = derivatives(formula, x.astype(np.float64))[0]
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"{told} fails with {type(error).__name__}, {error}: build each piece of x with + - * / and the functions "
            "decaying, normal_tail and log1p of actlab.activations."
        ) from error
    if fn is None:
        return formula
    # A model's initialiser asks for a gain while it is traced; the values must be numbers even then.
    with jax.ensure_compile_time_eval():
        values = np.asarray(fn(jnp.asarray(x)), np.float64)
    near = np.abs(x) <= _CHECK[-1] * formula.unit
    with np.errstate(all="ignore"):
        difference = np.abs(found - values)
        difference[~near & ~np.isfinite(values)] = 0  # beyond the range of float32
        size = np.maximum(np.max(np.abs(values[near])), np.abs(values))
        excess = np.where(difference == 0, 0, difference / size)
    wrong = np.flatnonzero(~(excess <= _TOLERANCE))
    if wrong.size:
        worst = max(wrong, key=lambda i: (near[i], excess[i]))
        raise UserError(
            f"{told} differs from its function by {difference[worst]:.2g} at {x[worst]:g}: they must be the same "
            "function."
        )
    return formula


def derivatives(formula: Piecewise, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, "3 n"]:
    """f, f', f'' in float64 at points in increasing order, as rows."""
    rows = np.empty((3, x.size))
    ends = [0, *np.searchsorted(x, formula.breaks), x.size]
    for piece, start, end in zip(formula.pieces, ends, ends[1:], strict=False):
        jet = piece.at(Jet.variable(x[start:end], 2, FLOATS))
        for order in range(3):
            rows[order, start:end] = jet.derivative(order)
        near = slice(*np.searchsorted(x[start:end], [-_NEAR * formula.unit, _NEAR * formula.unit]))
        if 0.0 in (piece.low, piece.high) and near.start < near.stop:
            rows[0, start:end][near] = _near_0(piece, x[start:end][near], rows[0, start:end][near])
    return rows


def _near_0(piece: Piece, x: Float[np.ndarray, " n"], values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """f by its series at 0, for e^x - 1 and its like lose all their digits there; `values` where f has no slope."""
    coefficients = [float(np.squeeze(one)) for one in piece.at(Jet.variable(np.zeros(1), 3, FLOATS)).coefficients]
    return np.polynomial.polynomial.polyval(x, coefficients) if coefficients[1] else values
