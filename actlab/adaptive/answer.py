"""The answer of a comparison, in words, as a table and as a page that answers first."""

import dataclasses
import html
import importlib
import itertools
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actlab.adaptive import judgement
from actlab.adaptive.judgement import BLOCK, PairState
from actlab.adaptive.search import RUNGS, Progress
from actlab.analysis.effects import DIFFERENT, Verdict, nats


@dataclasses.dataclass(frozen=True)
class Measured:
    """An activation: its learning rate, why that is not resolved or "", and its mean test loss over the fresh seeds."""

    name: str
    rate: float | None
    unresolved: str
    loss: float
    seeds: int
    failed: int  # of the seeds, runs that diverged or collapsed


@dataclasses.dataclass(frozen=True)
class Width:
    """What was judged at a d_model: parameters and bytes in words, its pairs, none before the first seed, and the
    activations of which a run failed."""

    width: int
    scale: str
    pairs: tuple[PairState, ...]
    failed: tuple[str, ...] = ()


class Table(list[dict[str, Any]]):
    """A list of dicts, a row each."""

    def to_pandas(self) -> Any:
        """A pandas.DataFrame of the rows; raises ModuleNotFoundError where pandas is not installed."""
        return importlib.import_module("pandas").DataFrame(list(self))


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a comparison has found so far; losses in `unit`, times in seconds.

    `pairs` has the difference of each two activations with an interval that holds over all pairs and all numbers of
    seeds at once. `widths` has them at each width, the config's first; `trends` has how each pair's difference changes
    from the first width to the last, "equivalent" if it does not. The intervals of further widths and of trends hold
    together among themselves. `verdicts`, `table` and `scales` are lists of dicts.
    """

    activations: tuple[Measured, ...]
    pairs: tuple[PairState, ...]
    unit: str
    margin: float
    scale: str
    spent: float
    budget: float
    block_seconds: float  # what one more seed of every activation takes
    sds: Mapping[tuple[str, str], float]  # of the paired differences
    first_look: int
    searched: Mapping[str, Mapping[float, Progress]]
    workdir: pathlib.Path
    signal: int  # that stopped it, or 0
    widths: tuple[Width, ...] = ()
    trends: tuple[PairState, ...] = ()
    obstacle: str = ""  # why the search found no rates and will find none

    @property
    def decided(self) -> bool:
        """Whether every pair is lower, higher or equivalent, at every width, and every trend is known."""
        states = [self.pairs, *(one.pairs for one in self.widths), *([self.trends] if len(self.widths) > 1 else [])]
        return all(pairs and all(pair.verdict != Verdict.UNDECIDED for pair in pairs) for pairs in states)

    @property
    def verdicts(self) -> "Table":
        """A dict per pair: first, second, verdict in words, difference (first less second), low, high, seeds."""
        return Table(_row(pair) for pair in self.pairs)

    @property
    def scales(self) -> "Table":
        """A dict per width and pair: those of `verdicts` at each width, and of the trends with the width "all".

        Of a trend the difference is the change of the difference from the first width to the last, and the verdict says
        grows, shrinks, turns round, appears, changes, holds or undecided.
        """
        rows = [{"width": one.width, **_row(pair)} for one in self.widths for pair in one.pairs]
        for trend in self.trends:
            rows.append({"width": "all", **_row(trend), "verdict": self._course(trend)})
        return Table(rows)

    @property
    def table(self) -> "Table":
        """A dict per activation, the lowest mean test loss first."""
        rows = sorted(self.activations, key=lambda one: (math.isnan(one.loss), one.loss))
        return Table(
            {
                "activation": one.name,
                "learning_rate": one.rate,
                "rate_not_resolved": one.unresolved,
                "test_loss": _finite(one.loss),
                "seeds": one.seeds,
                "failed": one.failed,
            }
            for one in rows
        )

    @property
    def sentences(self) -> list[str]:
        """The answer: what to take, what each other pair with it says, and where that holds."""
        if not self.pairs:
            return [f"Undecided: {self._why_nothing()}"]
        # One that is shown to be higher than another is not the best, whatever the means are now.
        beaten = {pair.second for pair in self.pairs if pair.verdict == Verdict.SUPPORTED}
        beaten |= {pair.first for pair in self.pairs if pair.verdict == Verdict.REFUTED}
        best, *others = sorted(self.table, key=lambda row: row["activation"] in beaten)
        name = best["activation"]
        states = {other["activation"]: _oriented(self.pairs, name, other["activation"]) for other in others}
        level = [other for other, state in states.items() if state.verdict == Verdict.EQUIVALENT]
        unclear = [other for other, state in states.items() if state.verdict == Verdict.UNDECIDED]
        taken = f"Take {name} at {best['learning_rate']:g}" if not unclear else f"So far {name} is lowest"
        also = "".join(f", or {other}" for other in level) if not unclear else ""
        found = [f"{taken}{also}{self._but(name, states)}."]
        # What is known before what is open.
        for other, state in sorted(states.items(), key=lambda item: item[1].verdict == Verdict.UNDECIDED):
            interval = _interval(-state.high, -state.low)
            if state.verdict == Verdict.SUPPORTED:
                found.append(f"{name} beats {other} by {_number(-state.mean)} {self.unit} ({interval}).")
            elif state.verdict == Verdict.EQUIVALENT:
                found.append(f"{other} is equivalent: within {self.margin:g} {self.unit} ({interval}).")
            else:
                # An activation that is lower so far may be higher than a third.
                far = f"{_number(abs(state.mean))} {'lower' if state.mean > 0 else 'higher'} so far"
                found.append(f"{other} is open: {far} ({interval}){self._needed(state)}.")
        for one in self.activations:
            if one.unresolved:
                found.append(f"The best learning rate of {one.name} is not resolved: {one.unresolved}.")
            if one.failed:
                found.append(f"{one.failed} of {one.seeds} runs of {one.name} failed at {one.rate:g}.")
        found += [self._over_widths(name, other) for other in states] if self.trends else []
        if len(self.widths) < 2:
            found.append(
                f"This holds at {self.scale}, this length and initialisation; --scales=3 asks about other widths."
            )
        elif not self.trends:
            found.append(f"This holds at {self.scale}; no seed is trained at every width yet.")
        else:
            last = self.widths[-1]
            first = self.widths[0].width
            found.append(f"What to take is for width {first}: {self.scale}; width {last.width} has {last.scale}.")
        return found

    def progress(self, width: int) -> list[str]:
        """After seeds of a width: where its pairs stand that are open or were decided by them, and open trends."""
        left = f"{duration(max(self.budget - self.spent, 0))} left"
        where = f" at width {width}" if len(self.widths) > 1 else ""
        states = [
            (f"{pair.first} less {pair.second}{where}", pair)
            for one in self.widths
            for pair in one.pairs
            if one.width == width
        ]
        states += [(f"change of {trend.first} less {trend.second}", trend) for trend in self.trends]
        lines = []
        for label, state in states:
            if state.decided_at is None or state.decided_at > state.seeds - BLOCK:
                row = _row(state)
                low, high = (("?" if row[end] is None else nats(row[end], "+")) for end in ("low", "high"))
                interval = "no interval yet" if low == high == "?" else f"{low} to {high}"
                found = f"{nats(row['difference'], '+')} {self.unit} ({interval})  {row['verdict']}"
                lines.append(f"{state.seeds:>3} seeds   {label}  {found}  {left}")
        return lines

    def __str__(self) -> str:
        return " ".join(self.sentences)

    def _repr_html_(self) -> str:
        """What a notebook shows: the answer, the intervals and both tables."""
        return f"<style>{_STYLE}</style><div class=actlab>{_body(self)}</div>"

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "answer": str(self),
            "decided": self.decided,
            "unit": self.unit,
            "margin": self.margin,
            "scale": self.scale,
            "table": self.table,
            "verdicts": self.verdicts,
            "scales": self.scales,
            "seconds": round(self.spent, 1),
            "budget": self.budget,
        }

    def _but(self, name: str, others: Iterable[str]) -> str:
        """Where another activation is lower at a further width."""
        for one in reversed(self.widths[1:]):
            for other in others if one.pairs else ():
                if _oriented(one.pairs, name, other).verdict == Verdict.REFUTED:
                    return f" at width {self.widths[0].width}, but not at width {one.width}, where {other} is lower"
        return ""

    def _course(self, trend: PairState) -> str:
        """What a pair's difference does as the width grows."""
        states = [_oriented(one.pairs, trend.first, trend.second) for one in self.widths]
        if {Verdict.SUPPORTED, Verdict.REFUTED} <= {state.verdict for state in states}:
            return "turns round"
        if trend.verdict in (Verdict.UNDECIDED, Verdict.EQUIVALENT):
            return {Verdict.UNDECIDED: "undecided", Verdict.EQUIVALENT: "holds"}[trend.verdict]
        # Where the first width shows no difference, the sign of what it has is noise.
        if states[0].verdict in DIFFERENT:
            return "grows" if trend.mean * states[0].mean > 0 else "shrinks"
        return "appears" if states[-1].verdict in DIFFERENT else "changes"

    def _over_widths(self, name: str, other: str) -> str:
        """What the lead of the first over the other does as the width grows."""
        trend = _oriented(self.trends, name, other)
        states = {one.width: _oriented(one.pairs, name, other) for one in self.widths}
        uneven = {state.seeds for state in states.values()} != {trend.seeds}
        seeds = {width: f" ({state.seeds} seeds)" if uneven else "" for width, state in states.items()}
        seen = ", ".join(f"{_number(-state.mean)} at width {width}{seeds[width]}" for width, state in states.items())
        which = f"{trend.seeds} seeds{' at every width' if uneven else ''}"
        change = f"{_number(-trend.mean)}, {_interval(-trend.high, -trend.low)}, {which}"
        course = self._course(trend)
        failed = {one for width in self.widths for one in width.failed} & {name, other}
        if course == "undecided" and failed:
            return (
                f"Whether {name}'s lead over {other} changes with the width cannot be decided, since runs of "
                f"{' and '.join(sorted(failed))} failed: {seen}."
            )
        if course == "undecided":
            return f"Whether {name}'s lead over {other} changes with the width is open: {seen} (change {change})."
        if course == "appears":
            return f"A difference appears with the width: {name}'s lead over {other} is {seen} (change {change})."
        return f"With the width {name}'s lead over {other} {course}: {seen} (change {change})."

    def _needed(self, state: PairState) -> str:
        """How many more seeds, and how long, would settle a difference as large as this one seems."""
        sd = self.sds.get((state.first, state.second), self.sds.get((state.second, state.first)))
        if sd is None or state.seeds < 2:
            return ""
        if any(one.name == state.second and one.failed for one in self.activations):
            return "; it cannot be called higher, since a run of it failed"
        if state.seeds >= self.first_look and math.isinf(state.high):
            return "; it cannot be called higher, since its learning rate is not resolved"
        if (half_width := state.needed(self.margin)) <= 0:
            return (
                "; no number of seeds settles a difference of this size, since the best learning rates are not known"
                " closely enough"
            )
        needed = judgement.seeds_needed(half_width, sd, len(self.pairs))
        if needed is None or needed - state.seeds > 1000:
            return "; a difference of this size takes more than 1,000 seeds to settle"
        more = max(needed - state.seeds, 1)
        seeds = "one more seed" if more == 1 else f"{more} more seeds"
        time = duration(more * self.block_seconds)
        return f"; about {seeds}, {time}, would settle a difference of this size"

    def _why_nothing(self) -> str:
        if self.obstacle:
            return self.obstacle
        if any(one.rate is None for one in self.activations):
            return "the search for the learning rates is not over."
        return "no seed of all activations is trained to its end at these rates."


def _oriented(states: Sequence[PairState], one: str, other: str) -> PairState:
    """The pair as one less other."""
    for pair in states:
        if (pair.first, pair.second) == (one, other):
            return pair
        if (pair.first, pair.second) == (other, one):
            turned = {Verdict.SUPPORTED: Verdict.REFUTED, Verdict.REFUTED: Verdict.SUPPORTED}
            return dataclasses.replace(
                pair,
                first=one,
                second=other,
                verdict=turned.get(pair.verdict, pair.verdict),
                mean=-pair.mean,
                low=-pair.high,
                high=-pair.low,
                allowance_low=pair.allowance_high,
                allowance_high=pair.allowance_low,
                mean_low=-pair.mean_high,
                mean_high=-pair.mean_low,
            )
    raise KeyError((one, other))


def _row(pair: PairState) -> dict[str, Any]:
    return {
        "first": pair.first,
        "second": pair.second,
        "verdict": _WORDS[pair.verdict],
        "difference": _finite(pair.mean),
        "low": _finite(pair.low),
        "high": _finite(pair.high),
        "seeds": pair.seeds,
        "decided_at": pair.decided_at,
    }


def page(answer: Answer, command: str) -> str:
    """A self-contained page whose first screen is the answer."""
    tried = "".join(
        f"<tr><td>{_e(name)}</td><td class=n>{rate:g}</td><td class=n>{one.rung}/{RUNGS}</td>"
        f"<td class=n>{'failed' if any(one.failed) else ' '.join(format(loss, '.4f') for loss in one.losses)}</td></tr>"
        for name, rates in answer.searched.items()
        for rate, one in sorted(rates.items())
    )
    may_grow = any(pair.settles(answer.margin) for pair in answer.pairs) or not (answer.pairs or answer.obstacle)
    return _PAGE.format(
        title=_e(answer.sentences[0]),
        style=_STYLE,
        body=_body(answer),
        tried=tried,
        unit=_e(answer.unit),
        first_look=answer.first_look,
        more=_MORE if may_grow else "",
        spent=duration(answer.spent),
        budget=duration(answer.budget),
        command=_e(command),
    )


def _body(answer: Answer) -> str:
    """The answer, its figure, and tables of pairs and activations."""
    first, *others = answer.sentences
    losses = "".join(
        f"<tr><td>{_e(row['activation'])}</td><td class=n>{_number(row['test_loss'], 4)}</td>"
        f"<td class=n>{'' if row['learning_rate'] is None else format(row['learning_rate'], 'g')}</td>"
        f"<td class=n>{row['seeds']}</td><td class=n>{row['failed']}</td><td>{_e(row['rate_not_resolved'])}</td></tr>"
        for row in answer.table
    )
    return _BODY.format(
        first=_e(first),
        said=_e(" ".join(others)),
        figure=_figure([(f"{pair.first} less {pair.second}", pair) for pair in answer.pairs], answer.margin),
        unit=_e(answer.unit),
        margin=f"{answer.margin:g}",
        pairs=_pair_rows((f"{row['first']} less {row['second']}", row) for row in answer.verdicts),
        losses=losses,
        widths=_widths(answer),
    )


def _pair_rows(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    return "".join(
        f"<tr><td>{_e(label)}</td><td>{_e(row['verdict'])}</td>"
        f"<td class=n>{_number(row['difference'])}</td><td class=n>{_interval(row['low'], row['high'])}</td>"
        f"<td class=n>{row['seeds']}</td></tr>"
        for label, row in rows
    )


def _widths(answer: Answer) -> str:
    """Figure and table of all widths, if there are several."""
    if len(answer.widths) < 2:
        return ""
    labelled = [(f"{pair.first} less {pair.second}", one.width, pair) for one in answer.widths for pair in one.pairs]
    drawn = [(f"{pair}, {width}", state) for pair, width, state in sorted(labelled, key=lambda one: one[:2])]
    ends = f"{answer.widths[0].width} to {answer.widths[-1].width}"
    rows = _pair_rows(
        (f"{row['first']} less {row['second']}, {f'change {ends}' if row['width'] == 'all' else row['width']}", row)
        for row in answer.scales
    )
    first_look = judgement.first_look(len(answer.widths) * math.comb(len(answer.activations), 2))
    return _WIDTHS.format(figure=_figure(drawn, answer.margin), rows=rows, ends=ends, first_look=first_look)


def duration(seconds: float) -> str:
    """A time in words that --budget reads, rounded up: 0.2s, 40s, 2m14s, 12m, 1.5h."""
    if seconds < 90:
        return f"{math.ceil(10 * seconds) / 10:g}s" if seconds < 10 else f"{math.ceil(seconds)}s"
    if seconds < 600:
        minutes, rest = divmod(math.ceil(seconds), 60)
        return f"{minutes}m{f'{rest}s' if rest else ''}"
    return f"{math.ceil(seconds / 60)}m" if seconds < 90 * 60 else f"{math.ceil(seconds / 360) / 10:g}h"


_WORDS = {
    Verdict.SUPPORTED: "lower",
    Verdict.REFUTED: "higher",
    Verdict.EQUIVALENT: "equivalent",
    Verdict.UNDECIDED: "undecided",
}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float | None, digits: int = 3) -> str:
    """Rounded, but not to zero if it is not: a decided interval excludes it. A bound that is not known is "?"."""
    if value is None or not math.isfinite(value):
        return "?"
    while value and round(value, digits) == 0 and digits < 9:
        digits += 1
    return f"{round(value, digits) + 0.0:.{digits}f}"


def _interval(low: float | None, high: float | None) -> str:
    known = [bound for bound in (low, high) if bound is not None and math.isfinite(bound)]
    return f"{_number(low)} to {_number(high)}" if known else "no interval yet"


def _e(text: object) -> str:
    return html.escape(str(text))


def _figure(pairs: Sequence[tuple[str, PairState]], margin: float) -> str:
    """The labelled pairs' intervals as SVG: a line for each, the margin as a band around 0.

    A line whose end is not known goes on to the frame.
    """
    known = [(label, pair) for label, pair in pairs if math.isfinite(pair.low) or math.isfinite(pair.high)]
    if not known:
        return ""
    ends = [end for _, pair in known for end in (pair.low, pair.mean, pair.high) if math.isfinite(end)]
    low, high = min(-margin, *ends) * 1.08, max(margin, *ends) * 1.08
    left, width, step = max(190, 7 * max(len(label) for label, _ in known) + 24), 520, 30
    x = lambda value: left + (value - low) / (high - low) * width  # noqa: E731
    bottom = step * len(known) + 12
    band = f'<rect class=band x="{x(-margin):.1f}" y="6" width="{x(margin) - x(-margin):.1f}" '
    parts = [
        f'{band}height="{bottom - 6}"/>',
        f'<line class=zero x1="{x(0):.1f}" x2="{x(0):.1f}" y1="6" y2="{bottom}"/>',
    ]
    for row, (label, pair) in enumerate(known):
        y = 12 + step * row + step / 2
        kind = _WORDS[pair.verdict]
        parts.append(
            f'<text x="{left - 12}" y="{y + 4:.1f}" text-anchor="end">{_e(label)}</text>'
            f'<line class="bar {kind}" x1="{x(max(pair.low, low)):.1f}" x2="{x(min(pair.high, high)):.1f}" '
            f'y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<circle class="{kind}" cx="{x(pair.mean):.1f}" cy="{y:.1f}" r="4"/>'
        )
    for value in itertools.chain([0.0], (one for one in (low / 1.08, high / 1.08))):
        parts.append(f'<text x="{x(value):.1f}" y="{bottom + 18}" text-anchor="middle">{_number(value)}</text>')
    return (
        f'<svg viewBox="0 0 {left + width + 40} {bottom + 26}" role="img" '
        f'aria-label="Differences of test loss with their intervals">{"".join(parts)}</svg>'
    )


_STYLE = """
.actlab { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem }
.actlab h1 { font-size: 1.9rem; line-height: 1.2; margin-bottom: .5rem }
.actlab h2 { font-size: 1.1rem; margin-top: 2.2rem }
.actlab table { border-collapse: collapse; width: 100% }
.actlab td, .actlab th { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884 }
.actlab .n { text-align: right; font-variant-numeric: tabular-nums }
.actlab svg { width: 100%; height: auto; font-size: 13px } .actlab svg text { fill: currentColor }
.actlab .band { fill: #8883 } .actlab .zero { stroke: #888 } .actlab .bar { stroke-width: 3 }
.actlab .lower { stroke: #0a8a5f; fill: #0a8a5f } .actlab .higher { stroke: #c25a10; fill: #c25a10 }
.actlab .equivalent { stroke: #3b74d0; fill: #3b74d0 } .actlab .undecided { stroke: #888; fill: #888 }
.actlab .small { opacity: .75; font-size: .9rem }
"""
_BODY = """
<h1>{first}</h1>
<p>{said}</p>
{figure}
<p class="small">Differences of test loss in {unit}, negative where the first is lower. The band is the margin of
equivalence, {margin}.</p>
<h2>Pairs</h2>
<table><tr><th>pair</th><th>verdict</th><th class=n>difference</th><th class=n>interval</th><th class=n>seeds</th></tr>
{pairs}</table>
<h2>Activations</h2>
<table><tr><th>activation</th><th class=n>test loss</th><th class=n>learning rate</th><th class=n>seeds</th>
<th class=n>failed</th><th></th></tr>{losses}</table>
{widths}"""
_WIDTHS = """
<h2>Widths</h2>
{figure}
<table><tr><th>pair, width</th><th>verdict</th><th class=n>difference</th><th class=n>interval</th>
<th class=n>seeds</th></tr>{rows}</table>
<p class="small">The learning rates of the first width, carried to the others by mup. The change is that of the
difference, {ends}, along the straight line in the logarithm of the width; the intervals of further widths and of the
changes hold together at 95% among themselves, and nothing of them is decided with fewer than {first_look} seeds.</p>
"""
_MORE = ", so that seeds may be added (the same command with a larger <code>--budget</code>)"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 3rem auto; max-width: 52rem; padding: 0 1rem; color: #222; background: #fff }}
@media (prefers-color-scheme: dark) {{ body {{ color: #ddd; background: #16181c }} }}
{style}</style></head><body class="actlab">
{body}
<h2>Learning rates that were tried</h2>
<p class="small">On seeds of their own, by validation loss; a rate that could not win any more was stopped before its
last step.</p>
<table><tr><th>activation</th><th class=n>rate</th><th class=n>trained</th>
<th class=n>validation loss of each seed, {unit}</th></tr>
{tried}</table>
<h2>How sure this is</h2>
<p class="small">The learning rates were fixed before the first seed that judges. The intervals hold together at 95%,
over all pairs and however often one looks{more}; nothing is decided with fewer than {first_look} seeds. They cover
other seeds on this test text.
{spent} of {budget} were used.</p>
<p class="small"><code>{command}</code></p>
</body></html>
"""
