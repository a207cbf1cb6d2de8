"""The exact formula of a record: checked against the function it stands for, and evaluated in float64."""

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import scipy.special
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
_TOLERANCE = 1e-5  # of the largest value there; float32 rounds to 1e-7
_NEAR = 1e-4  # in units of the function: the fourth order of x is 1e-12 of the first


@functools.lru_cache(maxsize=1024)
def exact_of(record: Activation, scale: float) -> Piecewise | None:
    """The formula of fn; that of a vector-valued one depends on the scale. None where the record has none.

    Raises:
        UserError: where a formula that is not the catalogue's own differs from fn.
    """
    if record.exact is None:
        return None
    vector = {} if record.elementwise else {"scale": scale}
    formula = _formula(record.exact, tuple({**vector, **record.parameters, **record.theta}.items()))
    if record.elementwise:
        _check(record, record.exact, formula, record.fn)
    return formula


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
    formula = _formula(record.value_exact, ())
    _check(record, record.value_exact, formula, record.value_fn)
    return formula


@functools.lru_cache(maxsize=1024)
def _formula(exact: Callable[..., Piecewise], numbers: tuple[tuple[str, float], ...]) -> Piecewise:
    """Gated forms share the formula of their gate, and with it all that is cached."""
    return exact(**dict(numbers))


def _check(record: Activation, exact: Callable, formula: Piecewise, fn: Callable) -> None:
    if getattr(exact, "__module__", "").startswith("actlab.activations."):
        return  # the tests compare these
    x = (_CHECK * formula.unit).astype(np.float32)
    values = np.asarray(fn(jnp.asarray(x)), np.float64)
    with np.errstate(all="ignore"):
        difference = np.abs(derivatives(formula, x.astype(np.float64))[0] - values)
    worst = int(np.argmax(difference))
    if not difference[worst] <= _TOLERANCE * np.max(np.abs(values)):
        raise UserError(
            f"the exact formula of activation {record.name!r} differs from its function by {difference[worst]:.2g} "
            f"at {x[worst]:g}: they must be the same function."
        )


def derivatives(formula: Piecewise, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, "3 n"]:
    """f, f', f'' in float64 at points in increasing order, as rows."""
    rows = np.empty((3, x.size))
    ends = [0, *np.searchsorted(x, formula.breaks), x.size]
    for piece, start, end in zip(formula.pieces, ends, ends[1:], strict=False):
        jet = piece.formula(Jet.variable(x[start:end], 2, FLOATS))
        for order in range(3):
            rows[order, start:end] = jet.derivative(order)
        near = slice(*np.searchsorted(x[start:end], [-_NEAR * formula.unit, _NEAR * formula.unit]))
        if 0.0 in (piece.low, piece.high) and near.start < near.stop:
            rows[0, start:end][near] = _near_0(piece, x[start:end][near], rows[0, start:end][near])
    return rows


def _near_0(piece: Piece, x: Float[np.ndarray, " n"], values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """f by its series at 0, for e^x - 1 and its like lose all their digits there; `values` where f has no slope."""
    coefficients = [float(np.squeeze(one)) for one in piece.formula(Jet.variable(np.zeros(1), 3, FLOATS)).coefficients]
    return np.polynomial.polynomial.polyval(x, coefficients) if coefficients[1] else values
