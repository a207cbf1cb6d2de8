"""Conditions: which runs may be compared, at what scale, and within which margin they are equal."""

import dataclasses
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from actlab.analysis.effects import MARGIN
from actlab.analysis.results import Axes, Result
from actlab.errors import UserError

# A gated feed-forward is rounded to a multiple of 8, which leaves a small difference in size; more is another scale.
_OTHER_SCALE, _NOTEWORTHY = 0.05, 0.01
# The largest difference that counts as none: of next tokens in nats per byte of text, else in the unit of the loss, as
# masked tokens and documents are no fixed amount of text. Nothing published sets the latter two.
MARGINS = {"next_token": MARGIN, "masked_token": 0.005, "classification": 0.005}


@dataclasses.dataclass(frozen=True)
class Condition:
    """The finished and diverged runs at one place of the further axes, of at least two activations.

    They differ only in activation, learning rate and seed. `to_come` are activation and learning rate of each run that
    is not done.
    """

    axes: Axes
    results: tuple[Result, ...]
    warnings: tuple[str, ...]
    to_come: tuple[tuple[str, float], ...] = ()

    @property
    def scale(self) -> str:
        """The scale that a verdict holds at, in words."""
        return scale_of(self.results, self.axes)


def scale_of(results: Sequence[Result], axes: Axes) -> str:
    """The scale of runs at a place of further axes, in words."""
    whole = [result for result in results if result.status == "finished"] or results
    one, place = max(whole, key=lambda result: result.steps), "".join(f", {path}={value}" for path, value in axes)
    spans = []
    for what in ("parameters", "steps"):
        low, high = (extreme(getattr(run, what) for run in whole) for extreme in (min, max))
        near = high <= (1 + _OTHER_SCALE) * low  # gated layers are rounded
        spans.append(f"{getattr(one, what):,} {what}" if near else f"{low:,} to {high:,} {what}")
    return f"{', '.join(spans)}, {one.data} ({one.tokenizer}){place}"


def conditions(results: Sequence[Result]) -> list[Condition]:
    """Groups runs by their further axes, in table order. Runs that are not done are left out, with a warning.

    So are places with fewer than two activations, or where they share no learning rate, if others can be compared.

    Raises:
        UserError: for no runs; mixed objectives, data sets, data fingerprints or tokenizers; if no place can be
            compared; and within a condition for a run given twice, or mixed steps, tokens per step, floors, or numbers
            of parameters or FLOPs that differ by more than 5%.
    """
    done = [result for result in results if result.done]
    if not results:
        raise UserError("the table has no runs: train first.")
    for what in ("objective", "data", "tokenizer"):
        require_one(what, done)
    known = [result for result in done if result.data_fingerprint]
    require_one("data fingerprint", known, lambda result: result.data_fingerprint)
    varying = varying_axes(results)
    groups: dict[Axes, list[Result]] = {}
    for result in results:
        groups.setdefault(result.axes_among(varying), []).append(result)
    lacking = {place: why for place, group in groups.items() if (why := _lacking(place, group))}
    left_out = [why for place, why in lacking.items() if not _is_to_come(groups[place])]
    if len(lacking) == len(groups):
        raise UserError((left_out or list(lacking.values()))[0])
    return [_condition(place, group, left_out) for place, group in groups.items() if place not in lacking]


def margin_of(results: Sequence[Result]) -> float:
    """The margin of equivalence in the unit of these results' losses; those of next tokens are given per byte of text.

    Raises:
        UserError: for tokens whose length in bytes the table does not say, and for a mixture of tokenizers.
    """
    done = [result for result in results if result.done]
    if not done or done[0].objective != "next_token":
        return MARGINS[(done or results)[0].objective]
    for what in ("tokenizer", "bytes_per_token"):
        require_one(what, done)
    one = done[0]
    if one.tokenizer == "bytes":
        return MARGINS["next_token"]
    if one.bytes_per_token is None:
        raise UserError(
            f"the table has no column bytes_per_token, by which a margin in nats per byte is one in {one.unit}: give "
            f"the margin yourself, python -m actlab verdict --margin=NUMBER, in {one.unit}."
        )
    # Losses are read on test where every run has one. Rows of older versions lack the length of its tokens.
    known = [result for result in done if result.test_bytes_per_token is not None]
    require_one("test_bytes_per_token", known)
    on_test = all(result.test_loss is not None for result in done if result.learned)
    length = known[0].test_bytes_per_token if known and on_test else None
    return MARGINS["next_token"] * (length or one.bytes_per_token)


def _is_to_come(group: Iterable[Result]) -> bool:
    done = {result.activation for result in group if result.done}
    return len(done) < 2 and {result.activation for result in group} > done


def varying_axes(results: Sequence[Result]) -> list[str]:
    """The further axes at which the runs have more than one value, in the order of the table."""
    values: dict[str, set[str]] = {}
    for path, value in itertools.chain.from_iterable(result.axes for result in results):
        values.setdefault(path, set()).add(value)
    return [path for path, found in values.items() if len(found) > 1]


def _lacking(axes: Axes, group: Sequence[Result]) -> str:
    """What the done runs of a place lack to be compared; empty for nothing."""
    rates: dict[str, set[float]] = {}
    for result in group:
        if result.done:
            rates.setdefault(result.activation, set()).add(result.learning_rate)
    where = "".join(f" at {path}={value}" for path, value in axes)
    if len(rates) < 2 and _is_to_come(group):
        later = " or ".join(name for name in dict.fromkeys(result.activation for result in group) if name not in rates)
        return f"no run of {later} is trained to its end{where}: let the training command go on with them."
    if len(rates) < 2:
        return f"only {', '.join(rates)} has runs{where}: train another activation at the same learning rates."
    if not set.intersection(*rates.values()):
        return f"{', '.join(rates)} share no learning rate{where}: train them at the same ones."
    return ""


def _condition(axes: Axes, group: Sequence[Result], left_out: Sequence[str]) -> Condition:
    done = [result for result in group if result.done]
    to_come = tuple((result.activation, result.learning_rate) for result in group if not result.done)
    n_open = len(group) - len(done)
    warnings = [f"{n_open} of {len(group)} runs are not trained to their end and are left out"] if n_open else []
    warnings += [f"left out: {why.removesuffix('.')}" for why in left_out]
    require_run_once(done)
    # A diverged run ends where it diverged, perhaps before its first step.
    require_one("steps", [result for result in done if result.status == "finished"])
    started = [result for result in done if result.steps]
    require_one("tokens per step", started, lambda result: result.tokens / result.steps)
    require_one("floor", [result for result in done if result.floor is not None])
    for what in ("parameters", "flops_per_token"):
        differ = spread(what, done)
        if differ > _NOTEWORTHY:
            warnings.append(f"{what} differ by {differ:.1%} between activations")
    return Condition(axes, tuple(done), tuple(warnings), to_come)


def require_one(what: str, results: Sequence[Result], value: Callable[[Result], object] | None = None) -> None:
    """Raises UserError if the runs differ in a field, or in the `value` of that name."""
    value = value or operator.attrgetter(what)
    found = {value(result): result for result in reversed(results)}
    if len(found) > 1:
        one, other = list(found)[-1], list(found)[0]
        raise UserError(
            f"the table mixes {what} {one} ({found[one].run}) and {other} ({found[other].run}): "
            "compare runs of one objective, data set, tokenizer and scale."
        )


def spread(what: Literal["parameters", "flops_per_token"], results: Sequence[Result]) -> float:
    """Largest over smallest, minus 1. Raises UserError where that is another scale."""
    cost = operator.attrgetter(what)
    least, most = min(results, key=cost), max(results, key=cost)
    if cost(least) <= 0:
        raise UserError(f"{what}={cost(least):g} of {least.run} must be positive: correct the table.")
    found = cost(most) / cost(least) - 1
    if found > _OTHER_SCALE:
        raise UserError(
            f"the table mixes scales: {what} is {cost(least):,.0f} for {least.run} and {cost(most):,.0f} for "
            f"{most.run}, {found:.0%} more: compare models of equal size and context."
        )
    return found


def require_run_once(results: Iterable[Result]) -> None:
    """Raises UserError if two runs have the same activation, learning rate and seed."""
    seen: set[tuple[str, float, int]] = set()
    for result in results:
        place = (result.activation, result.learning_rate, result.seed)
        if place in seen:
            raise UserError(
                f"{result.activation} at learning rate {result.learning_rate:g} with seed {result.seed} comes twice: "
                "remove one of the rows, or give the axis that tells them apart its column."
            )
        seen.add(place)
