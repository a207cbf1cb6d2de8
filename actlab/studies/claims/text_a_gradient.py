"""Text A: GELU's gradient, and the units that get none."""

import numpy as np

from actlab.studies.claims import curves
from actlab.studies.claims.claim import Finding, Verdict, claim, graded
from actlab.studies.claims.gelu import Phi, jax_tanh_form, phi, steepest_fall, turning_point

GRID = np.linspace(-8, 8, 2001)
EXACT = 1e-13  # of a float64 identity


@claim("A22", "math", "GELU'(z) is Phi(z) + z phi(z).")
def _gradient_formula() -> Finding:
    error = float(np.max(np.abs(curves.slope("gelu", GRID) - (Phi(GRID) + GRID * phi(GRID)))))
    return Finding(graded(error < EXACT), f"Autodiff and the formula differ by at most {error:.2g} on [-8, 8].")


@claim("A23", "math", "GELU' is positive everywhere right of about -0.75.")
def _positive_right_of() -> Finding:
    turn = turning_point()
    right = curves.slope("gelu", np.linspace(turn + 1e-6, 8, 2001))
    left = curves.slope("gelu", np.linspace(-8, turn - 1e-6, 2001))
    evidence = f"GELU' is 0 at z = {turn:.12g}, negative left of it and positive right of it."
    return Finding(graded(abs(turn + 0.75) < 0.005 and np.all(right > 0) and np.all(left < 0)), evidence)


def zeros_of_slope(name: str = "gelu") -> np.ndarray:
    """Where f' is 0 or changes sign on [-8, 8], to the grid's step."""
    slopes = curves.slope(name, GRID)
    return GRID[:-1][(slopes[:-1] == 0) | (slopes[:-1] * slopes[1:] < 0)]


@claim("A24", "math", "GELU' is nowhere 0: there is no dead zone.")
def _no_dead_zone() -> Finding:
    fall = steepest_fall()
    tail = np.abs(curves.slope("gelu", np.array([-4.0, -5.0])))
    evidence = (
        f"GELU' is 0 at {turning_point():.6g}, negative below (least, {float(curves.slope('gelu', fall)):.6g}, at "
        f"{fall:.6g}), and fades: |GELU'| = {tail[0]:.3g} at -4, {tail[1]:.3g} at -5. In bfloat16 the tanh form as "
        f"jax.nn writes it returns exactly 0 at and below {curves.silent_below(jax_tanh_form):g}."
    )
    return Finding(graded(zeros_of_slope().size == 0), evidence)


@claim("A25", "math", "At z = -0.5 ReLU' is 0, so this input changes none of the unit's weights.")
def _no_update() -> Finding:
    gradient, output = float(curves.slope("relu", -0.5)), float(curves.value("relu", -0.5))
    evidence = (
        f"The incoming weights' gradient has the factor ReLU'(-0.5) = {gradient:g}, the outgoing ones' the factor "
        f"ReLU(-0.5) = {output:g}."
    )
    return Finding(graded(gradient == 0 and output == 0), evidence)


@claim("A40", "math", "GELU avoids dead units because its gradient stays nonzero for negative pre-activations.")
def _nonzero_for_negatives() -> Finding:
    negative = GRID[GRID < 0]
    zeros = zeros_of_slope()
    alive = float(np.mean(curves.slope("gelu", negative) != 0))
    wrong_way = float(Phi(turning_point()))
    evidence = (
        f"On [-8, 0) GELU' is nonzero but at {zeros.size} point, so it is seldom 0; yet it points the wrong way "
        f"below {turning_point():.6g} ({wrong_way:.1%} of N(0, 1)) and is exactly 0 in bfloat16, in jax.nn's tanh "
        f"form, at and below {curves.silent_below(jax_tanh_form):g}."
    )
    return Finding(graded(zeros.size == 0, alive > 0.99), evidence)


@claim(
    "A47",
    "empirical",
    "Over millions of parameters the extra gradient of GELU on negatives adds up to a difference in training.",
    experiments=("X-3",),
)
def _adds_up() -> Finding:
    negative = curves.mean(lambda z: curves.slope("gelu", z) ** 2, negative=True)
    total = curves.mean(lambda z: curves.slope("gelu", z) ** 2)
    evidence = (
        f"The text shows no evidence. For z ~ N(0, 1) negatives account for {negative / total:.2%} of the mean "
        f"squared slope ({negative:.6g} of {total:.6g}); what that does to training needs the experiment."
    )
    return Finding(Verdict.OPEN, evidence)


@claim("A57", "math", "GELU'(z) is positive for every z.")
def _positive_everywhere() -> Finding:
    lowest = min(float(np.min(curves.slope("gelu", GRID))), float(curves.slope("gelu", steepest_fall())))
    evidence = f"GELU' is negative below {turning_point():.6g}; its least value is {lowest:.6g}."
    return Finding(graded(lowest > 0), evidence)
