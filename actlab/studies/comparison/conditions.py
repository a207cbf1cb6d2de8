"""Conditions: runs that may be compared, since they differ in activation, learning rate and seed only."""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Sequence

from actlab.errors import UserError
from actlab.studies.table import Result

# A gated feed-forward is rounded to a multiple of 8, which leaves a little; more is another scale.
_OTHER_SCALE, _NOTEWORTHY = 0.05, 0.01


@dataclasses.dataclass(frozen=True)
class Condition:
    """The finished and diverged runs at one place on the further axes, at least two activations.

    `to_come` are activations with runs there that are not done.
    """

    axes: tuple[tuple[str, str], ...]
    results: tuple[Result, ...]
    warnings: tuple[str, ...]
    to_come: frozenset[str] = frozenset()

    @property
    def scale(self) -> str:
        """The scale that a verdict holds at, in words."""
        first = max(self.results, key=lambda result: result.steps)
        place = "".join(f", {path}={value}" for path, value in self.axes)
        return f"{first.parameters:,} parameters, {first.steps:,} steps, {first.data} ({first.tokenizer}){place}"


def conditions(results: Sequence[Result]) -> list[Condition]:
    """Groups runs by their further axes, in the order of the table; what is not done is left out, with a warning.

    So are places where fewer than two activations have done runs and others are to come.

    Raises:
        UserError: for no runs, mixed objectives, data sets, fingerprints of data or tokenizers, and within a condition
            for fewer than two activations, a run given twice, other numbers of steps, of tokens per step, of parameters
            or of FLOPs, or other floors.
    """
    done = [result for result in results if result.done]
    if not results:
        raise UserError("the table has no runs: train first.")
    _require_one("objective", done, lambda result: result.objective)
    _require_one("data", done, lambda result: result.data)
    _require_one("tokenizer", done, lambda result: result.tokenizer)
    known = [result for result in done if result.data_fingerprint]
    _require_one("data fingerprint", known, lambda result: result.data_fingerprint)
    varying = {path for path, count in _values(results).items() if len(count) > 1}
    groups: dict[tuple[tuple[str, str], ...], list[Result]] = {}
    for result in results:
        place = tuple((path, value) for path, value in result.axes if path in varying)
        groups.setdefault(place, []).append(result)
    ready = {place: group for place, group in groups.items() if not _is_to_come(group)}
    return [_condition(place, group) for place, group in (ready or groups).items()]


def _is_to_come(group: Iterable[Result]) -> bool:
    done = {result.activation for result in group if result.done}
    return len(done) < 2 and {result.activation for result in group} > done


def _values(results: Iterable[Result]) -> dict[str, set[str]]:
    values: dict[str, set[str]] = collections.defaultdict(set)
    for path, value in (pair for result in results for pair in result.axes):
        values[path].add(value)
    return values


def _condition(axes: tuple[tuple[str, str], ...], group: Sequence[Result]) -> Condition:
    done = [result for result in group if result.done]
    to_come = frozenset(result.activation for result in group if not result.done)
    warnings = []
    if to_come:
        warnings.append(f"{len(group) - len(done)} of {len(group)} runs are not trained to their end and are left out")
    activations = list(dict.fromkeys(result.activation for result in done))
    if len(activations) < 2:
        where = "".join(f" at {path}={value}" for path, value in axes)
        raise UserError(f"only {', '.join(activations) or 'stopped runs'}{where}: a comparison needs two activations.")
    _require_no_run_twice(done)
    _require_one("steps", [result for result in done if result.status == "finished"], lambda result: result.steps)
    started = [result for result in done if result.steps]
    _require_one("tokens per step", started, lambda result: result.tokens / result.steps)
    _require_one("floor", [result for result in done if result.floor is not None], lambda result: result.floor)
    for what, cost in (("parameters", _parameters), ("flops_per_token", _flops)):
        spread = _spread(what, done, cost)
        if spread > _NOTEWORTHY:
            warnings.append(f"{what} differ by {spread:.1%} between activations")
    return Condition(axes, tuple(done), tuple(warnings), to_come)


def _parameters(result: Result) -> float:
    return float(result.parameters)


def _flops(result: Result) -> float:
    return result.flops_per_token


def _require_one(what: str, results: Sequence[Result], value: Callable[[Result], object]) -> None:
    found = {value(result): result for result in reversed(results)}
    if len(found) > 1:
        one, other = list(found)[-1], list(found)[0]
        raise UserError(
            f"the table mixes {what} {one} ({found[one].run}) and {other} ({found[other].run}): "
            "compare runs of one objective, data set, tokenizer and scale."
        )


def _spread(what: str, results: Sequence[Result], cost: Callable[[Result], float]) -> float:
    least, most = min(results, key=cost), max(results, key=cost)
    if cost(least) <= 0:
        raise UserError(f"{what}={cost(least):g} of {least.run} must be positive: correct the table.")
    spread = cost(most) / cost(least) - 1
    if spread > _OTHER_SCALE:
        raise UserError(
            f"the table mixes scales: {what} is {cost(least):,.0f} for {least.run} and {cost(most):,.0f} for "
            f"{most.run}, {spread:.0%} more: compare models of equal size and context."
        )
    return spread


def _require_no_run_twice(results: Iterable[Result]) -> None:
    seen: set[tuple[str, float, int]] = set()
    for result in results:
        place = (result.activation, result.learning_rate, result.seed)
        if place in seen:
            raise UserError(
                f"{result.activation} at learning rate {result.learning_rate:g} with seed {result.seed} comes twice: "
                "remove one of the rows, or give the axis that tells them apart its column."
            )
        seen.add(place)
