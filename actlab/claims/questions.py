"""The five questions that text A puts to its reader, answered with computed numbers."""

import csv
import dataclasses
import math
import pathlib
import statistics
from collections.abc import Callable

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from actlab.analysis.effects import ALPHA, Effect, nats, paired
from actlab.claims import RESULTS, gelu_approximation, maths
from actlab.claims.architecture import BERT_BASE, BERT_LARGE
from actlab.claims.maths import Phi, jax_tanh_form, phi, steepest_fall, turning_point
from actlab.models.layers import INIT_STD

SWAPS = pathlib.Path("activation_swap", "evaluations.csv")
SCALES = (0.25, 0.5, 1.0, 2.0)


@dataclasses.dataclass(frozen=True)
class Question:
    """A question, and what computes its answer from the folder of studies, of which most need nothing."""

    id: str
    text: str
    answer: Callable[[pathlib.Path], str]


def at_zero(_: pathlib.Path = RESULTS) -> str:
    """Value, slope, curvature and series of GELU at 0."""
    value, gate = float(maths.value("gelu", 0.0)), float(Phi(0.0))
    slopes = [float(maths.slope(name, 0.0)) for name in ("gelu", "gelu_tanh")]
    bend = float(maths.curvature("gelu", 0.0))
    near = 0.1
    series = near / 2 + near**2 / math.sqrt(2 * math.pi) - near**4 / (6 * math.sqrt(2 * math.pi))
    missed = abs(series - float(maths.value("gelu", near)))
    return (
        f"The gate is half open, Phi(0) = {gate:g}, but there is nothing to let through: GELU(0) = 0 x {gate:g} = "
        f"{value:g}. Its slope is Phi(0) + 0 phi(0) = {slopes[0]:g} (tanh form {slopes[1]:g}), its curvature 2 "
        f"phi(0) = {bend:.12g}. Near 0 it is z/2 + z^2/sqrt(2 pi) - z^4/(6 sqrt(2 pi)), at z = {near:g} within "
        f"{missed:.1g}."
    )


def at_minus_two_and_a_half(_: pathlib.Path = RESULTS) -> str:
    """Value and slope at z = -2.5, and what that slope does."""
    z = -2.5
    value, slope = float(maths.value("gelu", z)), float(maths.slope("gelu", z))
    tanh_value, tanh_slope = float(maths.value("gelu_tanh", z)), float(maths.slope("gelu_tanh", z))
    relu, relu_slope = float(maths.value("relu", z)), float(maths.slope("relu", z))
    weaker = float(maths.slope("gelu", 0.0)) / abs(slope)
    direction = "lowers" if slope < 0 else "raises"
    return (
        f"Phi({z:g}) = {float(Phi(z)):.12g} and phi({z:g}) = {float(phi(z)):.12g}, so GELU = {value:.12g} and GELU' "
        f"= Phi + z phi = {slope:.12g} (tanh form {tanh_value:.10g} and {tanh_slope:.10g}). ReLU gives {relu:g} and "
        f"slope {relu_slope:g}. Raising this pre-activation {direction} the output, and the slope is {weaker:.3g} "
        "times smaller than at 0: a unit that should fire is pushed away from firing until z has passed "
        f"{turning_point():.5g}."
    )


def change(first: str, second: str, scale: float) -> tuple[float, float]:
    """Root mean square of second - first relative to first, and its mean, for z ~ N(0, scale^2)."""

    def difference(z: np.ndarray) -> np.ndarray:
        return maths.value(second, z) - maths.value(first, z)

    power = maths.mean(lambda z: difference(z) ** 2, scale) / maths.mean(lambda z: maths.value(first, z) ** 2, scale)
    return math.sqrt(power), maths.mean(difference, scale)


def swap(results: pathlib.Path = RESULTS) -> str:
    """What replacing GELU by ReLU in a trained encoder does at once, by computation and by the study of it."""
    swapped = [change("gelu", "relu", scale) for scale in SCALES]
    control = [change("gelu", "gelu_tanh", scale)[0] for scale in SCALES]
    table = results / SWAPS
    return (
        f"BERT-base has {BERT_BASE['blocks']} feed-forward blocks, not {BERT_LARGE['blocks']}. Its weights were "
        "fitted to GELU, so the swap changes every block's function before a step is taken; dying units need "
        f"training. For pre-activations N(0, s^2) with s = {', '.join(f'{scale:g}' for scale in SCALES)} the hidden "
        f"vector changes by {', '.join(f'{relative:.1%}' for relative, _ in swapped)} of its root mean square, with "
        f"a mean shift of {', '.join(f'{shift:+.4f}' for _, shift in swapped)} per unit (GELU to its tanh form: "
        f"{min(control):.3%} to {max(control):.3%}). "
    ) + (_swap_measured(table) if table.is_file() else _TO_VERIFY)


_TO_VERIFY = (
    "To verify (experiment X-6): the loss right after the swap against the number of swapped blocks; dead units before "
    "and after fine-tuning; controls GELU to tanh form, swap with the mean shift folded into the next bias, swap with "
    "continued pre-training, ReLU from the start; several seeds, since three epochs of fine-tuning are noisy."
)


def _swap_measured(path: pathlib.Path) -> str:
    """The answer of experiment X-6, from its row per run and evaluation."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    blocks = sorted({int(row["blocks"]) for row in rows if row["to"] == "relu"})
    every = blocks[-1]

    def cell(stage: str, last: bool, of: str, to: str, n: int, fold: bool = False) -> dict[int, float]:
        """A number by seed, at the first or the last evaluation."""
        arm = {"stage": stage, "activation": "gelu", "to": to, "blocks": str(n), "fold": str(fold)}
        mine = [row for row in rows if row[of] and arm.items() <= row.items()]
        step = (max if last else min)(int(row["step"]) for row in mine)
        return {int(row["seed"]): float(row[of]) for row in mine if int(row["step"]) == step}

    def above(stage: str, last: bool, n: int, fold: bool = False, to: str = "relu") -> Effect:
        return paired(cell(stage, last, "loss", to, n, fold), cell(stage, last, "loss", "", 0))

    def share(stage: str, last: bool) -> float:
        return statistics.fmean(cell(stage, last, "dead_fraction", "relu", every).values())

    at_once = [above("swap", False, n) for n in blocks]
    folded, later = above("swap", False, every, fold=True), above("swap", True, every)
    control, tuned = above("swap", False, every, to="gelu_tanh"), above("finetune", True, every)
    steps = max(int(row["step"]) for row in rows if row["stage"] == "swap")
    before, after = share("finetune", False), share("finetune", True)
    mismatch = "what is lost before any step is lost to weights that were fitted to another function"
    verdict = f"units die, too, but {mismatch}" if after > before else f"no more die, and {mismatch}"
    losses = ", ".join(f"{_mean(effect):.3f}" for effect in at_once)
    shown = "" if tuned.p is not None and tuned.p <= ALPHA else ", a difference that is not shown"
    return (
        f"Experiment X-6 (experiments/{SWAPS.parent}, {at_once[-1].n} seeds) has answered it at the scale of an "
        f"encoder with {every} blocks. ReLU in {', '.join(map(str, blocks))} of them costs {losses} nats per masked "
        f"token before any step, the last {_within(at_once[-1])}; the control, GELU's tanh form in all, "
        f"{_within(control)}. To fold the mean shift into the next bias takes "
        f"{1 - _mean(folded) / _mean(at_once[-1]):.0%} of it back without training, and {steps} steps of pre-training "
        f"leave {_within(later)}. Of the swapped units {before:.1%} are dead (D4) before fine-tuning and {after:.1%} "
        f"after it: {verdict}. After fine-tuning the loss is above that without a swap by {_within(tuned)}{shown}."
    )


def _mean(effect: Effect) -> float:
    return statistics.fmean(effect.differences)


def _within(effect: Effect) -> str:
    low, high = effect.interval or (math.nan, math.nan)
    return f"{nats(_mean(effect))} (95% interval {nats(low)} to {nats(high)})"


def near_zero(_: pathlib.Path = RESULTS) -> str:
    """What the tanh form becomes for small z."""
    z = 0.1
    beta = 2 * math.sqrt(2 / math.pi)
    without = z / (1 + math.exp(-beta * z))
    values = {name: float(maths.value(name, z)) for name in ("gelu", "gelu_tanh", "silu", "quick_gelu")}
    return (
        f"At z = {z:g} the cubic term is {0.044715 * z**3:.5g}, {0.044715 * z**2:.4%} of z, and it vanishes as z^3. "
        f"Without it the form is z/2 (1 + tanh(sqrt(2/pi) z)) = z sigmoid({beta:.7g} z): a Swish with beta = 2 "
        f"sqrt(2/pi). At {z:g}: GELU {values['gelu']:.12g}, tanh form {values['gelu_tanh']:.12g}, without the cubic "
        f"{without:.12g}, SiLU {values['silu']:.12g}, quick_gelu {values['quick_gelu']:.12g}. To match GELU's series "
        f"through z^4 the coefficient would be 2/(3 pi) - 1/6 = {2 / (3 * math.pi) - 1 / 6:.6g}; 0.044715 gives that "
        "up for a smaller greatest error."
    )


def slower(_: pathlib.Path = RESULTS) -> str:
    """Where GELU learns more slowly than ReLU."""
    width = 384
    scale = INIT_STD * math.sqrt(width)
    power = {name: maths.mean(lambda z, name=name: maths.slope(name, z) ** 2, scale) for name in ("gelu", "relu")}
    cost = {form: gelu_approximation.cost(form, backward=True) for form in gelu_approximation.FORMS}
    counts = {form: f"{count.flops:g} + {count.transcendentals:g}" for form, count in cost.items()}
    turn, fall = turning_point(), steepest_fall()
    least, stuck, far = maths.slope("gelu", np.array([fall, -1.5, -4.0]))
    return (
        f"The premise fails: GELU' is negative below {turn:.12g}, least ({least:.6g}) at {fall:.5g}. Slower, then: "
        f"(a) a unit that sits at z = -1.5 and ought to fire has slope {stuck:.4g} and is driven down, where ReLU "
        f"does nothing; {float(Phi(turn)):.1%} of N(0, 1) lies there. (b) Plateaus: slope 0 at the turn, "
        f"{abs(far):.2g} in size at -4, exactly 0 in bfloat16 at and below {maths.silent_below(jax_tanh_form):g} "
        f"(jax.nn's tanh form). (c) Time: {counts['tanh form']} (tanh) or {counts['exact']} (exact) operations per "
        f"element backward against {cost['ReLU'].flops:g}. (d) A smaller slope: at GPT-2's initialisation and width "
        f"{width} (pre-activations of standard deviation {scale:.3f}) the mean squared slope is {power['gelu']:.4g} "
        f"against {power['relu']:.4g}, {1 - power['gelu'] / power['relu']:.0%} less. (e) Without LayerNorm ReLU is "
        "reported 8.2% better in perplexity (arXiv:2410.09637, secondary source). And a slope that is never 0 does "
        "not make learning fast: sigmoid's is positive everywhere."
    )


QUESTIONS = (
    Question("Q1", "Why is GELU(0) = 0 when the gate is half open there, and what is its gradient?", at_zero),
    Question(
        "Q2",
        "What are value and gradient at z = -2.5, beside ReLU's, and is that gradient of use?",
        at_minus_two_and_a_half,
    ),
    Question(
        "Q3",
        "All feed-forward GELUs of BERT-base become ReLU and fine-tuning gets worse: why, and how to verify?",
        swap,
    ),
    Question("Q4", "At small z such as 0.1 the cubic term fades: what does the tanh form become?", near_zero),
    Question("Q5", "If GELU' > 0 everywhere, when could GELU still learn more slowly than ReLU?", slower),
)


def answers(results: pathlib.Path = RESULTS) -> RenderableType:
    """Every question with its answer, for the terminal; `results` is the folder of studies."""
    grid = Table.grid(padding=(0, 2, 1, 0))
    for question in QUESTIONS:
        grid.add_row(question.id, Group(Text(question.text, style="bold"), Text(question.answer(results))))
    return grid
