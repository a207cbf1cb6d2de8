"""The answer of a comparison, in words and as tables."""

import dataclasses
import importlib
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actlab.adaptive import judgement
from actlab.adaptive.judgement import BLOCK, PairState
from actlab.adaptive.search import Progress
from actlab.analysis.effects import DIFFERENT, Verdict, nats
from actlab.console import duration


@dataclasses.dataclass(frozen=True)
class Candidate:
    """An activation: its learning rate, why that is not resolved or "", and its mean test loss over the fresh seeds."""

    name: str
    rate: float | None
    unresolved: str
    loss: float
    seeds: int
    failed: int  # of the seeds, runs that diverged or collapsed


@dataclasses.dataclass(frozen=True)
class Width:
    """What was judged at one d_model: its pairs (none before the first seed) and the activations with a failed run."""

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

    activations: tuple[Candidate, ...]
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
        return all(pairs and all(pair.verdict != Verdict.UNDECIDED for pair in pairs) for pairs in self._states)

    @property
    def may_grow(self) -> bool:
        """Whether more seeds may decide something."""
        open_states = (not pairs or any(pair.is_open(self.margin) for pair in pairs) for pairs in self._states)
        return not self.obstacle and any(open_states)

    @property
    def _states(self) -> list[tuple[PairState, ...]]:
        """The pairs at each width, and the trends."""
        return [self.pairs, *(one.pairs for one in self.widths), *([self.trends] if len(self.widths) > 1 else [])]

    @property
    def verdicts(self) -> Table:
        """A dict per pair: first, second, verdict in words, difference (first less second), low, high, seeds."""
        return Table(_row(pair) for pair in self.pairs)

    @property
    def scales(self) -> Table:
        """A dict per width and pair: those of `verdicts` at each width, and of the trends with the width "all".

        Of a trend the difference is the change of the difference from the first width to the last, and the verdict says
        grows, shrinks, reverses, appears, changes, holds or undecided.
        """
        rows = [{"width": one.width, **_row(pair)} for one in self.widths for pair in one.pairs]
        for trend in self.trends:
            rows.append({"width": "all", **_row(trend), "verdict": self._course(trend)})
        return Table(rows)

    @property
    def table(self) -> Table:
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
            reason, _, more = self._why_nothing().removesuffix(".").partition(": ")  # the first is a heading
            return [f"Undecided: {reason}.", *([f"{more[0].upper()}{more[1:]}."] if more else [])]
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
            interval = span(-state.high, -state.low)
            if state.verdict == Verdict.SUPPORTED:
                found.append(f"{name} beats {other} by {rounded(-state.mean)} {self.unit} ({interval}).")
            elif state.verdict == Verdict.EQUIVALENT:
                found.append(f"{other} is equivalent: within {self.margin:g} {self.unit} ({interval}).")
            else:
                # An activation that is lower so far may be higher than a third.
                far = f"{rounded(abs(state.mean))} {'lower' if state.mean > 0 else 'higher'} so far"
                found.append(f"{other} is open: {far} ({interval}){self._needed(state)}.")
        for one in self.activations:
            if one.unresolved:
                found.append(f"The best learning rate of {one.name} is not resolved: {one.unresolved}.")
            if one.failed:
                found.append(f"{one.failed} of {one.seeds} runs of {one.name} failed at {one.rate:g}.")
        found += [self._over_widths(name, other) for other in states] if self.trends else []
        found += [self._at_width(one, name, other, states[other]) for one in self.widths[1:] for other in states]
        if len(self.widths) < 2:
            found.append(
                f"This holds at {self.scale}, this length and initialisation; the option scales=3 asks about other "
                "widths."
            )
        elif not self.trends:
            found.append(f"This holds at {self.scale}; no seed is trained at every width yet.")
        else:
            last = self.widths[-1]
            first = self.widths[0].width
            found.append(f"The answer is for width {first}: {self.scale}; width {last.width} has {last.scale}.")
        return [sentence for sentence in found if sentence]

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
        from actlab.adaptive import page  # which reads answers

        return page.fragment(self)

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
            return "reverses"
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
        seen = ", ".join(f"{rounded(-state.mean)} at width {width}{seeds[width]}" for width, state in states.items())
        which = f"{trend.seeds} seeds{' at every width' if uneven else ''}"
        change = f"{rounded(-trend.mean)}, {span(-trend.high, -trend.low)}, {which}"
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
        return f"{name}'s lead over {other} {course} with the width: {seen} (change {change})."

    def _at_width(self, width: Width, name: str, other: str, at_first: PairState) -> str:
        """What is decided at a further width and not so at the first."""
        state = _oriented(width.pairs, name, other) if width.pairs else at_first
        if state.verdict in (at_first.verdict, Verdict.UNDECIDED):
            return ""
        where = f"At width {width.width}"
        if state.verdict == Verdict.EQUIVALENT:
            return f"{where} {name} and {other} are equivalent ({span(-state.high, -state.low)})."
        if state.verdict == Verdict.REFUTED:
            return f"{where} {other} beats {name} by {rounded(state.mean)} ({span(state.low, state.high)})."
        return f"{where} {name} beats {other} by {rounded(-state.mean)} ({span(-state.high, -state.low)})."

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
        "verdict": WORDS[pair.verdict],
        "difference": _finite(pair.mean),
        "low": _finite(pair.low),
        "high": _finite(pair.high),
        "seeds": pair.seeds,
        "decided_at": pair.decided_at,
    }


WORDS = {
    Verdict.SUPPORTED: "lower",
    Verdict.REFUTED: "higher",
    Verdict.EQUIVALENT: "equivalent",
    Verdict.UNDECIDED: "undecided",
}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def rounded(value: float | None, digits: int = 3) -> str:
    """A number, "?" if it is not known; rounded, but not to zero, which a decided interval excludes."""
    if value is None or not math.isfinite(value):
        return "?"
    while value and round(value, digits) == 0 and digits < 9:
        digits += 1
    return f"{round(value, digits) + 0.0:.{digits}f}"


def span(low: float | None, high: float | None) -> str:
    """An interval in words; a bound that is not known is "?"."""
    known = [bound for bound in (low, high) if bound is not None and math.isfinite(bound)]
    return f"{rounded(low)} to {rounded(high)}" if known else "no interval yet"
