"""Comparisons as tables for the terminal."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from actlab.analysis.comparison import COVERED, Comparison, listed, qualified
from actlab.analysis.effects import Verdict, nats, span
from actlab.analysis.ranking import View

STYLE = {
    Verdict.SUPPORTED: "green",
    Verdict.REFUTED: "red",
    Verdict.EQUIVALENT: "blue",
    Verdict.UNDECIDED: "yellow",
}


def show(comparison: Comparison) -> RenderableType:
    """One comparison in full, for the terminal."""
    main, unit = comparison.main, comparison.unit
    over = f", sensitivity over {listed(main.sensitivity_rates)}" if len(main.sensitivity_rates) > 1 else ""
    parts: list[RenderableType] = [
        Text(f"scale       {comparison.condition.scale}"),
        Text(f"ranking     loss at each activation's own best learning rate, {unit}{over}"),
        _ranking(main),
        Text("pairs       first minus second, nats; each interval by itself, p after Holm; is the first lower?"),
        *_pairs(main),
        Text("views       loss at own best learning rate within an equal budget"),
        _views(comparison),
    ]
    parts.append(Text(f"equal       within {comparison.margin:.2g} {unit}"))
    parts += [Text(f"warning     {warning}") for warning in comparison.warnings]
    parts += [Text(f"verdict     {sentence}") for sentence in comparison.sentences]
    parts.append(Text(f"answer      {comparison.answer}", style="bold"))
    return Group(*parts)


def _ranking(view: View) -> Table:
    columns = ("activation", "loss", "95% interval", "best rate", "LR sensitivity", "95% interval")
    grid = _grid(*columns, "seeds", "runs", "failed")
    for one in view.standings:
        rate = "-" if one.best_rate is None else f"{one.best_rate:g}"
        sensitivity = (_number(one.sensitivity), span(one.sensitivity_interval))
        failed = ", ".join(f"{count} {how}" for how, count in one.failed.items()) or "0"
        counts = (str(one.seeds), str(one.runs), failed)
        loss = (_number(one.loss), span(one.interval))
        grid.add_row(one.activation, *loss, rate, *sensitivity, *counts)
    return grid


def _pairs(view: View) -> Iterator[RenderableType]:
    wider = any(pair.seeds_and_documents for pair in view.pairs)
    columns = ("difference", "95% interval", *(["seeds and documents"] if wider else []), "p")
    grid = _grid("question", "where", *columns, "seeds", "left out", "verdict")
    for pair in view.pairs:
        rates = {f"at {rate:g}": judgement for rate, judgement in pair.at_rates.items()}
        # The pair's rates may be more than those that all activations share.
        over = pair.sensitivity_rates
        of_pair = f" over {listed(over)}" if over and over != view.sensitivity_rates else ""
        places = {"own best": pair.own_best, **rates, f"LR sensitivity{of_pair}": pair.sensitivity}
        for where, judgement in places.items():
            effect = judgement.effect
            verdict = Text(qualified(judgement), style=STYLE[judgement.verdict])
            if effect.undecidable:
                verdict.append(f" ({judgement.reason})")
            grid.add_row(
                pair.question if where == "own best" else "",
                where,
                _number(effect.mean, "+"),
                span(effect.interval, "+"),
                *([span(pair.seeds_and_documents if where == "own best" else None, "+")] if wider else []),
                "-" if judgement.p is None else f"{judgement.p:.2g}",
                str(effect.n),
                str(effect.left_out),
                verdict,
            )
    yield grid
    if wider:
        yield Text(f"covered     {COVERED}")


def _views(comparison: Comparison) -> Table:
    grid = _grid("equal", "budget", "ranking")
    for one in comparison.views:
        order = ", ".join(f"{standing.activation} {_number(standing.loss)}" for standing in one.standings)
        grid.add_row(one.name, one.words, f"{order}{comparison.read_on(one)}" if order else one.reason)
    return grid


def _grid(*columns: str) -> Table:
    return Table(*columns, box=None, pad_edge=False)


def _number(value: float | None, sign: str = "") -> str:
    return "-" if value is None else nats(value, sign)
