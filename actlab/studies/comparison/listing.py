"""Comparisons as a person reads them: the verdict, the ranking, the pairs, the other views, the warnings."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from actlab.studies.comparison.comparison import Comparison, Seen
from actlab.studies.comparison.pairs import Pair
from actlab.studies.comparison.ranking import Standing
from actlab.studies.statistics import Interval, Judgement, Verdict, nats
from actlab.training.objectives import UNITS

STYLE = {
    Verdict.SUPPORTED: "green",
    Verdict.REFUTED: "red",
    Verdict.EQUIVALENT: "blue",
    Verdict.UNDECIDED: "yellow",
}


def show(comparison: Comparison) -> RenderableType:
    """One comparison in full."""
    main = comparison.main
    parts: list[RenderableType] = [
        Text(f"scale       {comparison.condition.scale}"),
        Text(f"ranking     validation loss at each activation's own best learning rate, {_unit(comparison)}"),
        _ranking(main.standings),
        Text("pairs       first minus second, nats; each interval by itself, p after Holm; is the first lower?"),
        _pairs(main.pairs),
        Text("views       loss at own best learning rate within an equal budget"),
        _views(comparison.seen),
    ]
    if comparison.dunnett is not None:
        parts.append(Text("Dunnett     " + ", ".join(f"{name} p {p:.2g}" for name, p in comparison.dunnett.items())))
    parts += [Text(f"warning     {warning}") for warning in comparison.warnings]
    parts += [Text(f"verdict     {sentence}", style="bold") for sentence in comparison.sentences]
    return Group(*parts)


def _unit(comparison: Comparison) -> str:
    return UNITS[comparison.condition.results[0].objective]


def _ranking(standings: Sequence[Standing]) -> Table:
    columns = ("activation", "group", "loss", "95% interval", "best rate", "LR sensitivity", "95% interval")
    grid = _grid(*columns, "seeds", "runs", "failed")
    for one in standings:
        loss, sensitivity = _number(one.loss), _number(one.sensitivity)
        rate = "-" if one.best_rate is None else f"{one.best_rate:g}"
        names, counts = (one.activation, ",".join(one.groups)), (str(one.seeds), str(one.runs), str(one.failed))
        spread = _interval(one.sensitivity_interval)
        grid.add_row(*names, loss, _interval(one.interval), rate, sensitivity, spread, *counts)
    return grid


def _pairs(pairs: Sequence[Pair]) -> Table:
    grid = _grid("question", "where", "difference", "95% interval", "BCa", "p", "seeds", "left out", "verdict")
    for pair in pairs:
        rates = {f"at {rate:g}": judgement for rate, judgement in pair.at_rates.items()}
        places = {"own best": pair.own_best, **rates, "LR sensitivity": pair.sensitivity}
        for where, judgement in places.items():
            grid.add_row(str(pair.question) if where == "own best" else "", where, *_judgement(judgement))
    return grid


def _judgement(judgement: Judgement) -> tuple[str | Text, ...]:
    effect = judgement.effect
    verdict = Text(str(judgement.verdict), style=STYLE[judgement.verdict])
    if effect.undecidable:
        verdict.append(f" ({judgement.reason})")
    p = "-" if judgement.p is None else f"{judgement.p:.2g}"
    intervals = (_interval(effect.interval, "+"), _interval(effect.bootstrap, "+"))
    return _number(effect.mean, "+"), *intervals, p, str(effect.n), str(effect.left_out), verdict


def _views(seen: Sequence[Seen]) -> Table:
    grid = _grid("equal", "budget", "ranking")
    for one in seen:
        order = ", ".join(f"{standing.activation} {_number(standing.loss)}" for standing in one.standings)
        grid.add_row(one.view.name, one.view.words, order or one.view.reason)
    return grid


def _grid(*columns: str) -> Table:
    return Table(*columns, box=None, pad_edge=False)


def _number(value: float | None, sign: str = "") -> str:
    return "-" if value is None else nats(value, sign)


def _interval(interval: Interval | None, sign: str = "") -> str:
    return "-" if interval is None else f"{nats(interval.low, sign)} to {nats(interval.high, sign)}"
