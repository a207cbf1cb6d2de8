"""Text A: the values and properties of GELU."""

import functools

import numpy as np

from actlab.claims import maths
from actlab.claims.claim import Cell, Finding, Row, claim, graded, judge_leniently, printed
from actlab.claims.maths import Phi, phi, turning_point

GRID = np.linspace(-6, 6, 2001)
EXACT = 1e-13  # of a float64 identity, relative to 1 + |z|
SLIGHT = 0.1  # "slightly" takes away at most a tenth


def differ(first: np.ndarray, second: np.ndarray) -> float:
    """Largest difference of two functions over GRID, relative to 1 + |z|."""
    return float(np.max(np.abs(first - second) / (1 + np.abs(GRID))))


@claim("A01", "math", "At z = -0.1 both ReLU's output and its gradient are exactly 0.")
def _relu_below_zero() -> Finding:
    output, gradient = float(maths.value("relu", -0.1)), float(maths.slope("relu", -0.1))
    return Finding(graded(output == 0 and gradient == 0), f"ReLU(-0.1) = {output:g}, ReLU'(-0.1) = {gradient:g}.")


@claim("A02", "math", "GELU multiplies its input by the chance that this input is positive under N(0, 1).")
def _gate_as_chance() -> Finding:
    z = np.array([-2.0, -1.0, -0.1, 0.5, 1.0, 3.0])
    gate = maths.value("gelu", z) / z
    positive = 1 - float(Phi(0.0))
    evidence = (
        f"A N(0, 1) variable is positive with probability {positive:g} whatever z is; the gate GELU(z)/z is the "
        f"chance that such a variable lies below z: {gate[4]:.6g} at z = 1, {gate[1]:.6g} at z = -1. It is also the "
        "chance that z plus N(0, 1) noise is positive."
    )
    return Finding(graded(np.allclose(gate, positive), np.allclose(gate, Phi(z), rtol=1e-12)), evidence)


@claim("A03", "math", "GELU lets z = -0.1 through with only slight damping.")
def _damping() -> Finding:
    output = float(maths.value("gelu", -0.1))
    removed = 1 - output / -0.1
    return Finding(graded(removed <= SLIGHT), f"GELU(-0.1) = {output:.6g}: {removed:.1%} of the input is taken away.")


@claim("A05", "math", "GELU(z) is z times the normal distribution function.")
def _definition() -> Finding:
    error = differ(maths.value("gelu", GRID), GRID * Phi(GRID))
    return Finding(graded(error < EXACT), f"The two differ by at most {error:.2g} relative to 1 + |z| on [-6, 6].")


@claim("A06", "math", "The normal distribution function is 1/2 at 0, and GELU is 0 there.")
def _at_zero() -> Finding:
    gate, output = float(Phi(0.0)), float(maths.value("gelu", 0.0))
    return Finding(graded(gate == 0.5 and output == 0), f"Phi(0) = {gate:g}, GELU(0) = {output:g}.")


@claim("A07", "math", "Phi(-1) is about 0.158, so that GELU(-1) is -0.158.")
def _at_minus_one() -> Finding:
    return judge_leniently(
        {"Phi(-1)": Cell("0.158", float(Phi(-1.0))), "GELU(-1)": Cell("-0.158", float(maths.value("gelu", -1.0)))}
    )


@claim("A08", "math", "Phi(3) is about 0.999 and GELU(3) about 3.")
def _at_three() -> Finding:
    return judge_leniently(
        {"Phi(3)": Cell("0.999", float(Phi(3.0))), "GELU(3)": Cell("3", float(maths.value("gelu", 3.0)))}
    )


@claim("A09", "terminology", "A ReLU unit that gets z = -1 is dead for that input.")
def _dead_or_inactive() -> Finding:
    here = float(maths.slope("relu", -1.0))
    elsewhere = float(np.max(maths.slope("relu", GRID)))
    evidence = (
        f"ReLU' is {here:g} at z = -1, so the unit is inactive there; a dead unit is inactive for all or nearly all "
        f"inputs, and ReLU' reaches {elsewhere:g} on others."
    )
    return Finding(graded(here == 0 and elsewhere == 0, here == 0), evidence)


@claim("A26", "math", "GELU'(-0.5) = 0.3085 + (-0.5)(0.3521), about 0.133.")
def _slope_at_minus_half() -> Finding:
    z = -0.5
    return judge_leniently(
        {
            "Phi(-0.5)": Cell("0.3085", float(Phi(z))),
            "phi(-0.5)": Cell("0.3521", float(phi(z))),
            "GELU'(-0.5)": Cell("0.133", float(maths.slope("gelu", z))),
        }
    )


def values_row(z: float, gate: str, exact: str, approximate: str) -> Row:
    """A row of the text's first table: Phi, GELU, its tanh form."""
    return {
        f"Phi({z:g})": Cell(gate, float(Phi(z))),
        f"GELU({z:g})": Cell(exact, float(maths.value("gelu", z))),
        f"tanh form({z:g})": Cell(approximate, float(maths.value("gelu_tanh", z))),
    }


# z, Phi, GELU, tanh form as printed.
VALUES = {
    "A14": (-3.0, "0.0013", "-0.0040", "-0.0040"),
    "A15": (-1.0, "0.1587", "-0.1587", "-0.1588"),
    "A16": (0.0, "0.5000", "0.0000", "0.0000"),
    "A17": (0.5, "0.6915", "0.3457", "0.3457"),
    "A18": (1.0, "0.8413", "0.8413", "0.8412"),
    "A19": (3.0, "0.9987", "2.9960", "2.9960"),
}
# z, GELU' as printed.
SLOPES = {
    "A27": (-3.0, "0.0040"),
    "A28": (-1.0, "0.0833"),
    "A29": (0.0, "0.5000"),
    "A30": (0.5, "0.8832"),
    "A31": (1.0, "1.0833"),
    "A32": (3.0, "1.0040"),
}


def slope_row(z: float, text: str) -> Row:
    """A row of the text's gradient column."""
    return {f"GELU'({z:g})": Cell(text, float(maths.slope("gelu", z)))}


ROWS = {
    **{
        id: printed(
            id,
            f"At z = {z:g}: Phi is {gate}, GELU {exact} and its tanh form {approximate}.",
            functools.partial(values_row, z, gate, exact, approximate),
        )
        for id, (z, gate, exact, approximate) in VALUES.items()
    },
    **{
        id: printed(id, f"GELU'({z:g}) is {slope}.", functools.partial(slope_row, z, slope))
        for id, (z, slope) in SLOPES.items()
    },
}


@claim("A33", "table", "The columns for ReLU (0, 0, 0, 0.5, 1, 3) and its gradient (0, 0, 0, 1, 1, 1) are right.")
def _relu_columns() -> Finding:
    z = np.array([-3.0, -1.0, 0.0, 0.5, 1.0, 3.0])
    values, slopes = maths.value("relu", z), maths.slope("relu", z)
    right = np.array_equal(values, [0, 0, 0, 0.5, 1, 3]) and np.array_equal(slopes, [0, 0, 0, 1, 1, 1])
    evidence = (
        f"ReLU: {_listed(values)}; autodiff's ReLU': {_listed(slopes)}. ReLU'(0) = {slopes[2]:g} is a convention."
    )
    return Finding(graded(right), evidence)


@claim("A41", "table", "A table of ReLU, ELU (alpha 1) and GELU at z = -3, -1, 0, 0.5, 1, 3 is right in all 18 cells.")
def _three_functions() -> Finding:
    # The text is not at hand: the cells are its four-decimal columns as quoted elsewhere, ELU's from z = 0 on being z.
    columns = {
        "relu": ("0.0000", "0.0000", "0.0000", "0.5000", "1.0000", "3.0000"),
        "elu": ("-0.9502", "-0.6321", "0.0000", "0.5000", "1.0000", "3.0000"),
        "gelu": ("-0.0040", "-0.1587", "0.0000", "0.3457", "0.8413", "2.9960"),
    }
    z = np.array([-3.0, -1.0, 0.0, 0.5, 1.0, 3.0])
    computed = {name: maths.value(name, z) for name in columns}
    wrong = sum(
        not Cell(text, float(value)).right
        for name, texts in columns.items()
        for text, value in zip(texts, computed[name], strict=True)
    )
    elu = computed["elu"]
    return Finding(graded(wrong == 0), f"{wrong} of 18 cells wrong; ELU(-3) = {elu[0]:.6g}, ELU(-1) = {elu[1]:.6g}.")


@claim("A45", "table", "The output printed under the text's code is what that code prints.")
def _printed_output() -> Finding:
    # The code prints GELU, its tanh form and the gradient; Phi stands in the text's table alone.
    rows = [list(values_row(z, *texts).values()) for z, *texts in VALUES.values()]
    cells = [cell for _, *printed in rows for cell in printed]
    slopes = [cell for z, text in SLOPES.values() for cell in slope_row(z, text).values()]
    wrong, wrong_slopes = sum(not cell.right for cell in cells), sum(not cell.right for cell in slopes)
    evidence = (
        f"{wrong_slopes} of {len(slopes)} gradients and {wrong} of {len(cells)} values (GELU and its tanh form at "
        f"{len(rows)} points) differ from what the formulas give: the block is no output of them."
    )
    return Finding(graded(wrong + wrong_slopes == 0), evidence)


@claim("A46", "math", "At z = -3 GELU' is 0.004: tiny, but not zero.")
def _slope_at_minus_three() -> Finding:
    cell = Cell("0.004", float(maths.slope("gelu", -3.0)))
    times = abs(cell.value) / float(cell.printed)
    return Finding(
        graded(cell.right), f"GELU'(-3) = {cell}: {times:.3g} times that in size, with sign {np.sign(cell.value):+g}."
    )


@claim("A42", "math", "ELU levels off at -alpha.")
def _elu_saturates() -> Finding:
    gap = max(abs(float(maths.value(f"elu(alpha={alpha})", -60.0 * alpha)) + alpha) for alpha in (0.5, 1.0, 2.0))
    return Finding(graded(gap < EXACT), f"At z = -60 alpha, |ELU + alpha| is at most {gap:.2g} for alpha = 0.5, 1, 2.")


@claim("A43", "math", "GELU goes to 0 as z goes to minus infinity.")
def _gelu_vanishes() -> Finding:
    outputs = np.abs(maths.value("gelu", np.array([-5.0, -10.0, -20.0, -30.0])))
    shrinking = np.all(np.diff(outputs) < 0) and outputs[-1] < 1e-100
    evidence = f"|GELU| is {', '.join(f'{output:.4g}' for output in outputs)} at z = -5, -10, -20, -30."
    return Finding(graded(shrinking), evidence)


@claim("A44", "math", "ELU's negative output is without bound, which helps centring.")
def _elu_unbounded() -> Finding:
    lowest = float(np.min(maths.value("elu", -np.logspace(-3, 6, 2001))))
    return Finding(
        graded(lowest < -1e3), f"The lowest ELU (alpha 1) for z down to -1e6 is {lowest:.6g}: it is bounded by -alpha."
    )


@claim("A48", "math", "For negative input ELU uses an exponential.")
def _elu_exponential() -> Finding:
    z = np.linspace(-6, -1e-3, 2001)
    error = float(np.max(np.abs(maths.value("elu", z) - np.expm1(z))))
    return Finding(graded(error < EXACT), f"ELU(z) = e^z - 1 on [-6, 0) within {error:.2g}.")


@claim("A52", "math", "GELU's outputs are skewed towards positive values.")
def _skewed() -> Finding:
    mean = maths.mean(lambda z: maths.value("gelu", z))
    variance = maths.mean(lambda z: (maths.value("gelu", z) - mean) ** 2)
    skewness = maths.mean(lambda z: (maths.value("gelu", z) - mean) ** 3) / variance**1.5
    relu = maths.mean(lambda z: maths.value("relu", z))
    evidence = f"For z ~ N(0, 1): mean {mean:.6g} (ReLU {relu:.6g}), skewness {skewness:.4g}."
    return Finding(graded(mean > 0 and skewness > 0), evidence)


@claim("A53", "math", "GELU's output never falls below about -0.17.")
def _minimum() -> Finding:
    lowest = {name: float(maths.value(name, turning_point(name))) for name in ("gelu", "gelu_tanh")}
    evidence = f"The minimum is {lowest['gelu']:.6g} (tanh form {lowest['gelu_tanh']:.6g})."
    return Finding(graded(all(Cell("-0.17", value).right for value in lowest.values())), evidence)


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:g}" for value in values)
