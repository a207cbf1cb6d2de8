"""Text C: tanh, ReLU and GELU as functions, and its code snippets."""

import functools
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from actlab.claims import maths
from actlab.claims.claim import Finding, Verdict, claim, graded
from actlab.claims.maths import Phi, jax_tanh_form, steepest_fall, turning_point

GRID = np.linspace(-8, 8, 2001)
EXACT = 1e-13  # of a float64 identity
LARGE = 1e3  # a function that passes it on its way to 1e6 counts as unbounded


@claim("C09", "math", "tanh's output lies between -1 and 1.")
def _tanh_bounds() -> Finding:
    values = maths.value("tanh", GRID)
    evidence = (
        f"On [-8, 8] it runs from {values.min():.9f} to {values.max():.9f}; the ends -1 and 1 are limits, not values."
    )
    return Finding(graded(np.all(np.abs(values) < 1)), evidence)


@claim("C10", "empirical", "Being centred on 0, tanh can help the gradient flow.", experiments=("X-13",))
def _centred() -> Finding:
    mean = maths.mean(lambda z: maths.value("tanh", z))
    slopes = {name: maths.mean(lambda z, name=name: maths.slope(name, z) ** 2) for name in ("tanh", "gelu")}
    evidence = (
        f"Under N(0, 1) tanh's mean output is 0 within {max(abs(mean), 1e-15):.0e}, its mean squared slope "
        f"{slopes['tanh']:.6g} (GELU {slopes['gelu']:.6g}). Whether centring helps training needs the experiment."
    )
    return Finding(Verdict.OPEN, evidence)


def relu_descends() -> tuple[float, float]:
    """Squared error of a sum of two ReLUs fitted to |z| by gradient descent: before, and after 50 steps."""
    z, weights = GRID[::20], np.array([0.5, -0.1])

    def residual(weights: np.ndarray) -> np.ndarray:
        return sum(maths.value("relu", weight * z) for weight in weights) - np.abs(z)

    before = float(np.mean(residual(weights) ** 2))
    for _ in range(50):
        error = residual(weights)
        gradient = np.array([np.mean(2 * error * maths.slope("relu", weight * z) * z) for weight in weights])
        weights = weights - 0.02 * gradient
    return before, float(np.mean(residual(weights) ** 2))


@claim("C11", "math", "Backpropagation requires a differentiable activation, as tanh is.")
def _differentiable() -> Finding:
    step = 1e-6
    left, right = abs(float(maths.value("relu", -step))) / step, float(maths.value("relu", step)) / step
    before, after = relu_descends()
    evidence = (
        f"ReLU has slope {left:g} left of 0 and {right:g} right of it, so it is not differentiable there; yet "
        f"gradient descent fits two ReLUs to |z|: squared error {before:.4g} before, {after:.2g} after 50 steps."
    )
    return Finding(graded(left == right or after > before / 2), evidence)


@claim("C12", "math", "tanh saturates, so that gradients vanish.")
def _tanh_saturates() -> Finding:
    slopes = maths.slope("tanh", np.array([0.0, 3.0, 8.0]))
    evidence = (
        f"tanh' is {slopes[0]:g} at 0, {slopes[1]:.6g} at 3, {slopes[2]:.3g} at 8; jnp.tanh's gradient in bfloat16 "
        f"is {_silence(maths.silent_below(jnp.tanh))}."
    )
    return Finding(graded(slopes[1] < 0.01 * slopes[0] and slopes[2] < 1e-6 * slopes[0]), evidence)


def _silence(z: float) -> str:
    return f"exactly 0 at and below {z:g}" if np.isfinite(z) else "nowhere exactly 0 down to -100"


@claim("C13", "math", "For negative input ReLU's gradient is 0.")
def _relu_gradient() -> Finding:
    largest = float(np.max(np.abs(maths.slope("relu", GRID[GRID < 0]))))
    return Finding(graded(largest == 0), f"Its largest |slope| on [-8, 0) is {largest:g}.")


def mask_variance(z: np.ndarray) -> np.ndarray:
    """Variance of z B, B ~ Bernoulli(Phi(z)): the random map of which GELU is the mean."""
    return z**2 * Phi(z) * Phi(-z)


@claim("C15", "math", "GELU is stochastic: it adds noise to the activation.", experiments=("X-11",))
def _stochastic() -> Finding:
    draws = np.stack([maths.value("gelu", GRID) for _ in range(3)])
    spread = float(np.max(np.ptp(draws, axis=0)))
    random = float(mask_variance(np.array([1.0]))[0])
    evidence = (
        f"Three evaluations differ by {spread:g}: GELU is deterministic. It is the mean of a random map, z times a "
        f"Bernoulli(Phi(z)) mask, whose variance at z = 1 is {random:.4g}; its own is 0."
    )
    return Finding(graded(spread > 0), evidence, "computed; arXiv:1606.08415, section 2")


@claim("C16", "math", "By that GELU is free of dead neurons.")
def _no_dead_neurons() -> Finding:
    slopes = maths.slope("gelu", GRID)
    silent = maths.silent_below(jax_tanh_form)
    tail = np.abs(slopes[GRID <= -5]).max()
    evidence = (
        f"There is no noise to free it; its slope is 0 at {turning_point():.6g}, negative below, at most {tail:.2g} "
        f"in size below -5, and in bfloat16 (jax.nn's tanh form) {_silence(silent)}."
    )
    return Finding(graded(np.all(slopes > 0) and not np.isfinite(silent)), evidence)


@claim("C17", "math", "GELU is its input times a cumulative normal distribution.")
def _times_cumulative() -> Finding:
    error = float(np.max(np.abs(maths.value("gelu", GRID) - GRID * Phi(GRID))))
    return Finding(graded(error < EXACT), f"The two differ by at most {error:.2g} on [-8, 8].")


@claim("C18", "math", "GELU's output is not bounded.")
def _unbounded() -> Finding:
    highest = float(maths.value("gelu", 1e6))
    lowest = min(float(maths.value("gelu", turning_point())), float(maths.value("gelu", -1e6)))
    evidence = f"Above it is not (GELU(1e6) = {highest:g}); below it is, by {lowest:.6g}."
    return Finding(graded(highest > LARGE and lowest < -LARGE, highest > LARGE), evidence)


@claim("C25", "math", "tanh's gradients lie between 0 and 1.")
def _tanh_gradient_bounds() -> Finding:
    slopes = maths.slope("tanh", GRID)
    x = 3.0
    of_weight = float(maths.slope("tanh", 0.1 * x)) * x
    inside = np.all((slopes > 0) & (slopes <= 1))
    evidence = (
        f"tanh' lies in (0, {slopes.max():g}]. The gradient that the text prints is that of a weight, which is "
        f"multiplied by the input (and by what comes from above): at x = {x:g}, w = 0.1 it is {of_weight:.4g}."
    )
    return Finding(graded(inside and of_weight <= 1, inside), evidence)


@claim("C26", "math", "GELU's gradients vary more, which lets them explore a wider parameter space.")
def _gradient_variability() -> Finding:
    variance = {name: _slope_variance(name) for name in ("gelu", "tanh")}
    ratio = variance["gelu"] / variance["tanh"]
    lowest = float(maths.slope("gelu", steepest_fall()))
    explored = False  # nothing is defined that could be measured
    evidence = (
        f"Under N(0, 1) Var f' is {variance['gelu']:.6g} for GELU and {variance['tanh']:.6g} for tanh, {ratio:.3g} "
        f"times; GELU' runs from {lowest:.6g} to {1 - lowest:.6g}. For exploring parameter space nothing is offered."
    )
    return Finding(graded(ratio > 1 and explored, ratio > 1), evidence)


def _slope_variance(name: str) -> float:
    mean = maths.mean(lambda z: maths.slope(name, z))
    return maths.mean(lambda z: (maths.slope(name, z) - mean) ** 2)


PI = 3.14159  # as the snippet has it
Z = np.linspace(-6, 6, 12_001)  # its step, 0.001, holds -1, 0 and 1
AGREES = 1e-5  # covers the snippet's short pi
N_DRAWS, N_BATCH, N_IN, N_OUT = 4000, 5, 10, 20


@functools.cache
def layer_outputs() -> dict[str, Float[np.ndarray, "draw unit"]]:
    """Pre-activations of two layers Linear(10, 20), one for each activation, on 5 standard normal inputs they share.

    Drawn anew 4,000 times; weights and biases are uniform on +-1/sqrt(10), torch.nn.Linear's default.
    """
    rng = np.random.default_rng(0)
    bound = 1 / math.sqrt(N_IN)
    x = rng.standard_normal((N_DRAWS, N_BATCH, N_IN))

    def layer() -> np.ndarray:
        weights = rng.uniform(-bound, bound, (N_DRAWS, N_IN, N_OUT))
        return (x @ weights + rng.uniform(-bound, bound, (N_DRAWS, 1, N_OUT))).reshape(N_DRAWS, -1)

    return {"tanh": layer(), "gelu": layer()}


def width(name: str) -> Float[np.ndarray, "draw"]:
    """Largest minus least output in each draw. GELU falls left of its minimum, so that all outputs are evaluated."""
    z = layer_outputs()[name]
    chunks = np.array_split(z.reshape(-1), 4)
    return np.ptp(np.concatenate([maths.value(name, chunk) for chunk in chunks]).reshape(z.shape), axis=1)


@claim("C20", "numeric", "Its first snippet shows that GELU's outputs span a wider range than tanh's.")
def _wider_range() -> Finding:
    gelu, tanh = width("gelu"), width("tanh")
    share = float(np.mean(gelu > tanh))
    error = math.sqrt(share * (1 - share) / N_DRAWS)
    evidence = (
        f"Of {N_DRAWS:,} draws of that code (pre-activations of standard deviation "
        f"{layer_outputs()['gelu'].std():.3f}) GELU's range is wider in {share:.1%} (standard error {error:.1%}); "
        f"mean widths: tanh {tanh.mean():.3g}, GELU {gelu.mean():.3g}."
    )
    return Finding(graded(share > 0.95, share > 0.5), evidence)


@claim("C22", "code", "The second snippet's gradient of tanh(x w + b) with respect to w is right.")
def _tanh_gradient() -> Finding:
    x, w, b = 2.0, 0.5, 0.1
    snippet = (1 - math.tanh(x * w + b) ** 2) * x
    autodiff = float(maths.slope("tanh", x * w + b)) * x
    evidence = f"At x = 2, w = 0.5, b = 0.1: (1 - tanh^2(x w + b)) x = {snippet:.6g}, autodiff {autodiff:.6g}."
    return Finding(graded(abs(snippet - autodiff) < AGREES), evidence)


def gate(z: np.ndarray) -> np.ndarray:
    """The snippet's (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))) / 2."""
    return 0.5 * (1 + np.tanh(math.sqrt(2 / PI) * (z + 0.044715 * z**3)))


@claim("C23", "code", "The second snippet's forward pass is GELU of the linear layer.")
def _gelu_forward() -> Finding:
    x, b = 2.0, 0.1
    z = x * np.linspace(-3, 3, 2001) + b
    snippet, true = x * gate(z), maths.value("gelu_tanh", z)
    apart = float(np.max(np.abs(snippet - true)))
    evidence = (
        "It multiplies the gate of x w + b with the raw x instead of x w + b: with x = 2, b = 0.1 and w in [-3, 3] "
        f"it is off by up to {apart:.3g}."
    )
    return Finding(graded(apart < AGREES), evidence)


def snippet_derivative(z: np.ndarray) -> np.ndarray:
    """The snippet's gate plus (1 - tanh^2 u) u' / 2; the second term misses a factor z."""
    steep = math.sqrt(2 / PI) * (1 + 3 * 0.044715 * z**2)
    return gate(z) + 0.5 * (1 - (2 * gate(z) - 1) ** 2) * steep


@claim("C24", "code", "The second snippet's derivative is that of GELU's tanh form.")
def _gelu_derivative() -> Finding:
    snippet, true = snippet_derivative(Z), maths.slope("gelu_tanh", Z)
    error = np.abs(snippet - true)
    worst = int(np.argmax(error))
    at = {z: int(np.argmin(np.abs(Z - z))) for z in (-1.0, 0.0, 1.0)}
    short_pi = math.sqrt(2 / PI) - math.sqrt(2 / math.pi)
    evidence = (
        f"Its second term misses the factor z: off by up to {error[worst]:.4f} (at z = {Z[worst]:.3f}); at 0 it "
        f"gives {snippet[at[0.0]]:.6f} instead of {true[at[0.0]]:.6g}, at -1 {snippet[at[-1.0]]:.4f} instead of "
        f"{true[at[-1.0]]:.4f}; at 1 it is right within {error[at[1.0]]:.1g}. pi cut to 3.14159 moves sqrt(2/pi) by "
        f"{short_pi:.2g}."
    )
    return Finding(graded(error[worst] < AGREES), evidence)
