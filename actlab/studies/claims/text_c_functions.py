"""Text C: tanh, ReLU and GELU as functions."""

import jax.numpy as jnp
import numpy as np

from actlab.studies.claims import curves
from actlab.studies.claims.claim import Finding, Verdict, claim, graded
from actlab.studies.claims.gelu import Phi, jax_tanh_form, steepest_fall, turning_point

GRID = np.linspace(-8, 8, 2001)
EXACT = 1e-13  # of a float64 identity
LARGE = 1e3  # a function that passes it on its way to 1e6 counts as unbounded


@claim("C09", "math", "tanh's output lies between -1 and 1.")
def _tanh_bounds() -> Finding:
    values = curves.value("tanh", GRID)
    evidence = (
        f"On [-8, 8] it runs from {values.min():.9f} to {values.max():.9f}; the ends -1 and 1 are limits, not values."
    )
    return Finding(graded(np.all(np.abs(values) < 1)), evidence)


@claim("C10", "empirical", "Being centred on 0, tanh can help the gradient flow.", experiments=("X-13",))
def _centred() -> Finding:
    mean = curves.mean(lambda z: curves.value("tanh", z))
    slopes = {name: curves.mean(lambda z, name=name: curves.slope(name, z) ** 2) for name in ("tanh", "gelu")}
    evidence = (
        f"Under N(0, 1) tanh's mean output is 0 within {max(abs(mean), 1e-15):.0e}, its mean squared slope "
        f"{slopes['tanh']:.6g} (GELU {slopes['gelu']:.6g}). Whether centring helps training needs the experiment."
    )
    return Finding(Verdict.OPEN, evidence)


def relu_descends() -> tuple[float, float]:
    """Squared error of a sum of two ReLUs fitted to |z| by gradient descent: before, and after 50 steps."""
    z, weights = GRID[::20], np.array([0.5, -0.1])

    def residual(weights: np.ndarray) -> np.ndarray:
        return sum(curves.value("relu", weight * z) for weight in weights) - np.abs(z)

    before = float(np.mean(residual(weights) ** 2))
    for _ in range(50):
        error = residual(weights)
        gradient = np.array([np.mean(2 * error * curves.slope("relu", weight * z) * z) for weight in weights])
        weights = weights - 0.02 * gradient
    return before, float(np.mean(residual(weights) ** 2))


@claim("C11", "math", "Backpropagation requires a differentiable activation, as tanh is.")
def _differentiable() -> Finding:
    step = 1e-6
    left, right = abs(float(curves.value("relu", -step))) / step, float(curves.value("relu", step)) / step
    before, after = relu_descends()
    evidence = (
        f"ReLU has slope {left:g} left of 0 and {right:g} right of it, so it is not differentiable there; yet "
        f"gradient descent fits two ReLUs to |z|: squared error {before:.4g} before, {after:.2g} after 50 steps."
    )
    return Finding(graded(left == right or after > before / 2), evidence)


@claim("C12", "math", "tanh saturates, so that gradients vanish.")
def _tanh_saturates() -> Finding:
    slopes = curves.slope("tanh", np.array([0.0, 3.0, 8.0]))
    evidence = (
        f"tanh' is {slopes[0]:g} at 0, {slopes[1]:.6g} at 3, {slopes[2]:.3g} at 8; jnp.tanh's gradient in bfloat16 "
        f"is {_silence(curves.silent_below(jnp.tanh))}."
    )
    return Finding(graded(slopes[1] < 0.01 * slopes[0] and slopes[2] < 1e-6 * slopes[0]), evidence)


def _silence(z: float) -> str:
    return f"exactly 0 at and below {z:g}" if np.isfinite(z) else "nowhere exactly 0 down to -100"


@claim("C13", "math", "For negative input ReLU's gradient is 0.")
def _relu_gradient() -> Finding:
    largest = float(np.max(np.abs(curves.slope("relu", GRID[GRID < 0]))))
    return Finding(graded(largest == 0), f"Its largest |slope| on [-8, 0) is {largest:g}.")


def mask_variance(z: np.ndarray) -> np.ndarray:
    """Variance of z B, B ~ Bernoulli(Phi(z)): the random map of which GELU is the mean."""
    return z**2 * Phi(z) * Phi(-z)


@claim("C15", "math", "GELU is stochastic: it adds noise to the activation.", experiments=("X-11",))
def _stochastic() -> Finding:
    draws = np.stack([curves.value("gelu", GRID) for _ in range(3)])
    spread = float(np.max(np.ptp(draws, axis=0)))
    random = float(mask_variance(np.array([1.0]))[0])
    evidence = (
        f"Three evaluations differ by {spread:g}: GELU is deterministic. It is the mean of a random map, z times a "
        f"Bernoulli(Phi(z)) mask, whose variance at z = 1 is {random:.4g}; its own is 0."
    )
    return Finding(graded(spread > 0), evidence, "computed; arXiv:1606.08415, section 2")


@claim("C16", "math", "By that GELU is free of dead neurons.")
def _no_dead_neurons() -> Finding:
    slopes = curves.slope("gelu", GRID)
    silent = curves.silent_below(jax_tanh_form)
    tail = np.abs(slopes[GRID <= -5]).max()
    evidence = (
        f"There is no noise to free it; its slope is 0 at {turning_point():.6g}, negative below, at most {tail:.2g} "
        f"in size below -5, and in bfloat16 (jax.nn's tanh form) {_silence(silent)}."
    )
    return Finding(graded(np.all(slopes > 0) and not np.isfinite(silent)), evidence)


@claim("C17", "math", "GELU is its input times a cumulative normal distribution.")
def _times_cumulative() -> Finding:
    error = float(np.max(np.abs(curves.value("gelu", GRID) - GRID * Phi(GRID))))
    return Finding(graded(error < EXACT), f"The two differ by at most {error:.2g} on [-8, 8].")


@claim("C18", "math", "GELU's output is not bounded.")
def _unbounded() -> Finding:
    highest = float(curves.value("gelu", 1e6))
    lowest = min(float(curves.value("gelu", turning_point())), float(curves.value("gelu", -1e6)))
    evidence = f"Above it is not (GELU(1e6) = {highest:g}); below it is, by {lowest:.6g}."
    return Finding(graded(highest > LARGE and lowest < -LARGE, highest > LARGE), evidence)


@claim("C25", "math", "tanh's gradients lie between 0 and 1.")
def _tanh_gradient_bounds() -> Finding:
    slopes = curves.slope("tanh", GRID)
    x = 3.0
    of_weight = float(curves.slope("tanh", 0.1 * x)) * x
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
    lowest = float(curves.slope("gelu", steepest_fall()))
    explored = False  # nothing is defined that could be measured
    evidence = (
        f"Under N(0, 1) Var f' is {variance['gelu']:.6g} for GELU and {variance['tanh']:.6g} for tanh, {ratio:.3g} "
        f"times; GELU' runs from {lowest:.6g} to {1 - lowest:.6g}. For exploring parameter space nothing is offered."
    )
    return Finding(graded(ratio > 1 and explored, ratio > 1), evidence)


def _slope_variance(name: str) -> float:
    mean = curves.mean(lambda z: curves.slope(name, z))
    return curves.mean(lambda z: (curves.slope(name, z) - mean) ** 2)
