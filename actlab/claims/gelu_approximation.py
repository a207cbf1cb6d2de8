"""Text A: GELU's approximations and its gradient."""

import dataclasses
import functools
import inspect
from collections.abc import Callable

import jax
import numpy as np

from actlab import activations
from actlab.activations.properties import StaticCost, static_cost
from actlab.claims import maths
from actlab.claims.claim import Finding, Verdict, claim, graded
from actlab.claims.maths import Phi, jax_tanh_form, phi, steepest_fall, turning_point

GRID = np.linspace(-6, 6, 2**17)
CURVATURE = 1.6  # bound of |f''| of the difference: both forms have sup |f''| = sqrt(2 / pi) < 0.8
GOLDEN = (np.sqrt(5) - 1) / 2
TAIL = 6e-9  # bound of the difference for |z| > 6, where it is even and both forms lie between -TAIL and 0 on the left
FORMS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "exact": functools.partial(jax.nn.gelu, approximate=False),
    "tanh form": jax_tanh_form,
    "ReLU": jax.nn.relu,
}


@dataclasses.dataclass(frozen=True)
class Error:
    """tanh form minus exact GELU: its largest value with its place, its least, and a proven bound of both."""

    at: float
    largest: float
    lowest_at: float
    lowest: float
    bound: float
    slope_at: float
    slope: float


def approximation_error() -> Error:
    """The error on GRID; `bound` holds on the whole line, by the difference's first two derivatives between points."""
    error = maths.value("gelu_tanh", GRID) - maths.value("gelu", GRID)
    slope = np.abs(maths.slope("gelu_tanh", GRID) - maths.slope("gelu", GRID))
    half_step = (GRID[1] - GRID[0]) / 2
    between = half_step * (slope.max() + half_step * CURVATURE)
    high, low, steep = np.argmax(error), np.argmin(error), np.argmax(slope)
    return Error(
        at=abs(GRID[high]),
        largest=error[high],
        lowest_at=abs(GRID[low]),
        lowest=error[low],
        bound=max(float(np.max(np.abs(error)) + between), TAIL),
        slope_at=abs(GRID[steep]),
        slope=slope[steep],
    )


def roundings_that_differ(reach: float, decimals: int = 4) -> float:
    """Share of [-reach, reach] where the two forms, rounded, are different numbers."""
    # Multiples of the golden ratio: an even grid would step in time with the rounding.
    z = reach * (2 * (np.arange(2**20) * GOLDEN % 1) - 1)
    exact, approximate = z * Phi(z), tanh_form(z)
    return float(np.mean(np.round(exact, decimals) != np.round(approximate, decimals)))


def tanh_form(z: np.ndarray) -> np.ndarray:
    """z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))), by numpy."""
    return z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))


@functools.cache
def cost(form: str, backward: bool = False) -> StaticCost:
    """Static cost per element of one of FORMS."""
    return static_cost(FORMS[form], backward=backward)


def share_of_feed_forward(form: str, d_model: int) -> float:
    """Forward operations of the activation over those of the two matrix products: 4 d_model per hidden unit."""
    return cost(form).total / (4 * d_model)


def _counted(form: str, backward: bool = False) -> str:
    count = cost(form, backward)
    return f"{form} {count.flops:g} + {count.transcendentals:g}"


def _of_catalogue(name: str) -> str:
    count = static_cost(activations.get(name).fn)
    return f"{name} with {count.flops:g} + {count.transcendentals:g}"


@claim("A10", "cost", "Phi needs the error function, and that is expensive.", experiments=("X-8",))
def _expensive() -> Finding:
    ratio = cost("exact").total / cost("ReLU").total
    share = share_of_feed_forward("exact", 768)
    counts = ", ".join(_counted(form) for form in FORMS)
    evidence = (
        f"XLA's count for CPU per element (flops + transcendentals): {counts}. Dear beside ReLU ({ratio:.3g} times), "
        f"but {share:.2%} of a feed-forward layer's products at d_model 768. Time depends on the backend: a JAX "
        "developer reports the exact form much slower on TPU, the paper's author the exact form slightly faster in "
        "PyTorch."
    )
    source = "computed; jax issue 4428 (remarks by jekbradbury and Hendrycks)"
    dear_alone, dear_in_layer = ratio > 10, share > 0.1
    return Finding(graded(dear_alone and dear_in_layer, dear_alone or dear_in_layer), evidence, source)


@claim("A11", "math", "GELU is close to z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))).")
def _tanh_formula() -> Finding:
    z = GRID[::64]
    apart = max(float(np.max(np.abs(maths.value(name, z) - tanh_form(z)))) for name in ("gelu_tanh", "gelu_tanh_jax"))
    bound = approximation_error().bound
    evidence = (
        f"It is the tanh form of the catalogue and of jax.nn within {apart:.2g}; from GELU it is at most {bound:.5g} "
        "off."
    )
    return Finding(graded(apart < 1e-13 and bound < 1e-3), evidence)


@claim("A12", "history", "The tanh form is what PyTorch and TensorFlow compute.")
def _what_frameworks_compute() -> Finding:
    jax_default = inspect.signature(jax.nn.gelu).parameters["approximate"].default
    tanh_by_default = {"PyTorch": False, "TensorFlow": False}  # cited; the jax default above is read here
    evidence = (
        "Both default to the exact form: torch.nn.functional.gelu(approximate='none'), "
        "tf.nn.gelu(approximate=False), also tf.keras.activations.gelu. It is jax.nn.gelu's default "
        f"(approximate={jax_default}) and keras.ops.gelu's."
    )
    source = "PyTorch 2.13 and TensorFlow API documentation; jax.nn.gelu's signature, read here"
    return Finding(graded(all(tanh_by_default.values()), any(tanh_by_default.values())), evidence, source)


@claim("A20", "math", "The tanh form agrees with GELU to four decimals over the whole line.")
def _four_decimals() -> Finding:
    error = approximation_error()
    shares = [roundings_that_differ(reach) for reach in (3.0, 5.0)]
    evidence = (
        f"The largest error is {error.largest:.7g} at |z| = {error.at:.4g} (never above {error.bound:.7g}), the "
        f"other lobe's {error.lowest:.5g} at {error.lowest_at:.5g}; rounded to 4 decimals the two differ on "
        f"{shares[0]:.2%} of [-3, 3] and {shares[1]:.2%} of [-5, 5]."
    )
    return Finding(graded(error.bound < 0.5e-4), evidence)


@claim("A21", "math", "The error of the tanh form shows only where extreme precision is asked for.")
def _only_at_extreme_precision() -> Finding:
    z = np.array([-3.0, -4.0, -5.0])
    relative = maths.value("gelu_tanh", z) / maths.value("gelu", z) - 1
    error = approximation_error()
    coarsest = 2.0**-8  # half the spacing of bfloat16 above 1
    evidence = (
        f"Relative error {relative[0]:.1%} at z = -3, {relative[1]:.1%} at -4, {relative[2]:.1%} at -5, all above "
        f"bfloat16's {coarsest:.1%}; the derivative is off by up to {error.slope:.4g}, at |z| = {error.slope_at:.5g}."
    )
    return Finding(graded(np.all(np.abs(relative) < coarsest)), evidence)


@claim("A50", "cost", "GELU takes about 3 to 4 times the FLOPs of max(0, z).", experiments=("X-8",))
def _three_to_four_times() -> Finding:
    forms = ("exact", "tanh form")
    ratios = {form: cost(form).total / cost("ReLU").total for form in forms}
    within = [2.5 <= ratio <= 4.5 for ratio in ratios.values()]
    forward = ", ".join(_counted(form) for form in FORMS)
    backward = ", ".join(_counted(form, True) for form in FORMS)
    shares = ", ".join(
        f"{share_of_feed_forward('tanh form', d):.2%} / {share_of_feed_forward('exact', d):.2%} at d_model {d}"
        for d in (384, 768)
    )
    evidence = (
        "The programs counted here are jax.nn.gelu(approximate=False), exact, and jax.nn.gelu(approximate=True), tanh "
        f"form, in float32: {ratios['exact']:.3g} and {ratios['tanh form']:.3g} times ReLU's operations. XLA counts "
        f"for CPU (flops + transcendentals) forward: {forward}; backward: {backward}. Share of the feed-forward "
        f"products, tanh / exact: {shares}. The catalogue computes the same two functions by programs of its own, "
        f"{' and '.join(map(_of_catalogue, ('gelu', 'gelu_tanh')))} forward; the study on cost counts the first."
    )
    return Finding(graded(all(within), any(within)), evidence)


@claim("A51", "math", "Near z = 0 the tanh form has a small error of the order of 1e-4.")
def _error_near_zero() -> Finding:
    near = np.linspace(0.0, 0.5, 2001)
    error = np.abs(maths.value("gelu_tanh", near) - maths.value("gelu", near))
    far = approximation_error()
    evidence = (
        f"Up to |z| = 0.5 it is at most {error.max():.3g}, at z = 0.1 {error[400]:.3g}; the largest, "
        f"{far.largest:.4g}, lies at |z| = {far.at:.4g}."
    )
    return Finding(graded(10**-4.5 < float(error.max()) < 10**-3.5), evidence)


SLOPE_GRID = np.linspace(-8, 8, 2001)
EXACT = 1e-13  # of a float64 identity


@claim("A22", "math", "GELU'(z) is Phi(z) + z phi(z).")
def _gradient_formula() -> Finding:
    error = float(np.max(np.abs(maths.slope("gelu", SLOPE_GRID) - (Phi(SLOPE_GRID) + SLOPE_GRID * phi(SLOPE_GRID)))))
    return Finding(graded(error < EXACT), f"Autodiff and the formula differ by at most {error:.2g} on [-8, 8].")


@claim("A23", "math", "GELU' is positive everywhere right of about -0.75.")
def _positive_right_of() -> Finding:
    turn = turning_point()
    right = maths.slope("gelu", np.linspace(turn + 1e-6, 8, 2001))
    left = maths.slope("gelu", np.linspace(-8, turn - 1e-6, 2001))
    evidence = f"GELU' is 0 at z = {turn:.12g}, negative left of it and positive right of it."
    return Finding(graded(abs(turn + 0.75) < 0.005 and np.all(right > 0) and np.all(left < 0)), evidence)


def zeros_of_slope() -> np.ndarray:
    """Where GELU' is 0 or changes sign on [-8, 8], to the grid's step."""
    slopes = maths.slope("gelu", SLOPE_GRID)
    return SLOPE_GRID[:-1][(slopes[:-1] == 0) | (slopes[:-1] * slopes[1:] < 0)]


@claim("A24", "math", "GELU' is nowhere 0: there is no dead zone.")
def _no_dead_zone() -> Finding:
    fall = steepest_fall()
    tail = np.abs(maths.slope("gelu", np.array([-4.0, -5.0])))
    evidence = (
        f"GELU' is 0 at {turning_point():.6g}, negative below (least, {float(maths.slope('gelu', fall)):.6g}, at "
        f"{fall:.6g}), and fades: |GELU'| = {tail[0]:.3g} at -4, {tail[1]:.3g} at -5. In bfloat16 the tanh form as "
        f"jax.nn writes it returns exactly 0 at and below {maths.silent_below(jax_tanh_form):g}."
    )
    return Finding(graded(zeros_of_slope().size == 0), evidence)


@claim("A25", "math", "At z = -0.5 ReLU' is 0, so this input changes none of the unit's weights.")
def _no_update() -> Finding:
    gradient, output = float(maths.slope("relu", -0.5)), float(maths.value("relu", -0.5))
    evidence = (
        f"The incoming weights' gradient has the factor ReLU'(-0.5) = {gradient:g}, the outgoing ones' the factor "
        f"ReLU(-0.5) = {output:g}."
    )
    return Finding(graded(gradient == 0 and output == 0), evidence)


@claim("A40", "math", "GELU avoids dead units because its gradient stays nonzero for negative pre-activations.")
def _nonzero_for_negatives() -> Finding:
    negative = SLOPE_GRID[SLOPE_GRID < 0]
    zeros = zeros_of_slope()
    alive = float(np.mean(maths.slope("gelu", negative) != 0))
    wrong_way = float(Phi(turning_point()))
    evidence = (
        f"On [-8, 0) GELU' is nonzero but at {zeros.size} point, so it is seldom 0; yet it points the wrong way "
        f"below {turning_point():.6g} ({wrong_way:.1%} of N(0, 1)) and is exactly 0 in bfloat16, in jax.nn's tanh "
        f"form, at and below {maths.silent_below(jax_tanh_form):g}."
    )
    return Finding(graded(zeros.size == 0, alive > 0.99), evidence)


@claim(
    "A47",
    "empirical",
    "Over millions of parameters the extra gradient of GELU on negatives adds up to a difference in training.",
    experiments=("X-3",),
)
def _adds_up() -> Finding:
    negative = maths.mean(lambda z: maths.slope("gelu", z) ** 2, negative=True)
    total = maths.mean(lambda z: maths.slope("gelu", z) ** 2)
    evidence = (
        f"The text shows no evidence. For z ~ N(0, 1) negatives account for {negative / total:.2%} of the mean "
        f"squared slope ({negative:.6g} of {total:.6g}); what that does to training needs the experiment."
    )
    return Finding(Verdict.OPEN, evidence)


@claim("A57", "math", "GELU'(z) is positive for every z.")
def _positive_everywhere() -> Finding:
    lowest = min(float(np.min(maths.slope("gelu", SLOPE_GRID))), float(maths.slope("gelu", steepest_fall())))
    evidence = f"GELU' is negative below {turning_point():.6g}; its least value is {lowest:.6g}."
    return Finding(graded(lowest > 0), evidence)
