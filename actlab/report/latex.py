"""Verdicts as a LaTeX table of booktabs, for papers."""

import math
from collections.abc import Iterator, Sequence

from actlab.analysis.comparison import UNRESOLVED, Comparison, qualified
from actlab.analysis.contrasts import Pair
from actlab.analysis.effects import CONFIDENCE, nats

_COLUMNS = ("Question", "Difference", "Interval", "Seeds", "$p$", "Verdict")
_ALIGNED = "lrcrrl"
_ESCAPED = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    **{character: rf"\{character}" for character in "{}$&#%_"},
}
_NOTHING = "--"


def table(comparisons: Sequence[Comparison]) -> str:
    r"""A `table` environment: a row for each pair at own best learning rates, with the numbers that `verdict` prints.

    Several conditions are groups of rows. It needs \usepackage{booktabs} and nothing else.
    """
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering\small\setlength{\tabcolsep}{4pt}",  # so that it fits the text of an article
        rf"  \caption{{{_caption(comparisons)}}}",
        r"  \label{tab:verdicts}",
        rf"  \begin{{tabular}}{{{_ALIGNED}}}",
        r"    \toprule",
        f"    {_line(_COLUMNS)}",
    ]
    for one in comparisons:
        lines.append(r"    \midrule")
        if len(comparisons) > 1:
            lines.append(rf"    \multicolumn{{{len(_COLUMNS)}}}{{l}}{{{escaped(one.condition.scale)}}} \\")
        lines += [f"    {_line(_cells(pair))}" for pair in one.main.pairs]
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is: gelu_scale(s=0.16) is gelu\\_scale(s=0.16)."""
    return "".join(_ESCAPED.get(character, character) for character in text)


def _caption(comparisons: Sequence[Comparison]) -> str:
    units = " or ".join(dict.fromkeys(one.unit for one in comparisons))
    read_on = " or ".join(dict.fromkeys(one.main.grid.read_on for one in comparisons if one.main.grid))
    confidence = escaped(f"{CONFIDENCE:.0%}")
    sizes = [[result.parameters for result in one.condition.results] for one in comparisons]
    apart = max(max(of) / min(of) - 1 for of in sizes)  # gated layers are rounded
    equal = (
        escaped(f"parameters equal to within {math.ceil(round(1000 * apart, 6)) / 10:g}%")
        if apart
        else "equal parameters"
    )
    sentences = [
        f"Is the first activation's {read_on} loss lower than the second's? First minus second in {escaped(units)}, "
        f"paired by seed, each at its own best learning rate and at {equal}, with {confidence} interval",
        "$p$ of a difference, after Holm over the tests of a condition; losses are equivalent within "
        + " or ".join(dict.fromkeys(f"{one.margin:.2g}" for one in comparisons)),
    ]
    if any(qualified(pair.own_best) != pair.own_best.verdict for one in comparisons for pair in one.main.pairs):
        sentences.append(f"$\\dagger$: {UNRESOLVED}")
    if len(comparisons) == 1:
        sentences.append(escaped(comparisons[0].condition.scale))
    return "".join(f"{sentence}. " for sentence in sentences).rstrip()


def _cells(pair: Pair) -> Iterator[str]:
    judgement, effect = pair.own_best, pair.own_best.effect
    yield " $<$ ".join(rf"\texttt{{{escaped(name)}}}" for name in pair.contrast.activations)
    yield _NOTHING if effect.mean is None else f"${_number(nats(effect.mean, '+'))}$"
    ends = effect.interval and [_number(nats(end, "+")) for end in effect.interval]
    yield f"$[{', '.join(ends)}]$" if ends else _NOTHING
    yield str(effect.n)
    yield _NOTHING if judgement.p is None else f"${_number(f'{judgement.p:.2g}')}$"
    yield f"{judgement.verdict}$^\\dagger$" if qualified(judgement) != judgement.verdict else str(judgement.verdict)


def _number(text: str) -> str:
    """-2.1e-05 as LaTeX's mathematics has it: -2.1 x 10^-5."""
    digits, exponential, power = text.partition("e")
    return rf"{digits} \times 10^{{{int(power)}}}" if exponential else digits


def _line(cells: Sequence[str] | Iterator[str]) -> str:
    return " & ".join(cells) + r" \\"
