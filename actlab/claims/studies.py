"""What the studies' verdicts.json say of claims: readings, whose arms each have a verdict of their own.

{"claims": {"B07": {"verdict": "refuted", "evidence": {...}}}}, with the words of `claim.Verdict` and the evidence that
analysis/verdicts.py writes, or a text. That evidence holds the test that decided and the others. Its tests of one
quantity are a reading of the claim; within it, the tests at one place of a study's axes are an arm, and so are those of
each folder within the study's, where one thing was changed for all runs.
"""

import collections
import functools
import operator
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from actlab.analysis.comparison import UNRESOLVED
from actlab.analysis.effects import NOT_TRAINED
from actlab.analysis.verdicts import FILE, NOWHERE
from actlab.claims.claim import Arm, Reading, Verdict
from actlab.errors import UserError, suggestion
from actlab.files import read_json

Test = Mapping[str, Any]
_SOMEWHERE = frozenset({"A38"})  # claims that something can be so: no arm refutes them alone


def settled(folder: pathlib.Path, known: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[Reading, ...]]:
    """The readings of the studies in `folder`, by claim; `known` claims have the experiments that can settle them.

    Raises:
        UserError: for a verdicts.json of another form, or one that judges a claim which names no experiment.
    """
    arms: dict[str, dict[str, list[Arm]]] = {}
    for path in sorted([*folder.glob(f"*/{FILE}"), *folder.glob(f"*/*/{FILE}")]):
        study = path.parent.relative_to(folder).as_posix()
        for id, entry in _entries(path).items():
            field = f"{path}: claims.{id}"
            if id not in known:
                raise UserError(f"{field} is not a known claim: use an id that python -m actlab claims lists.")
            if not known[id]:
                raise UserError(f"{field} is settled without an experiment: remove it.")
            for of, arm in _arms(entry, study, field):
                arms.setdefault(id, {}).setdefault(of, []).append(arm)
    ordered = functools.partial(sorted, key=operator.attrgetter("where"))  # a study's own before its folders'
    return {
        id: tuple(Reading(of, tuple(ordered(found)), somewhere=id in _SOMEWHERE) for of, found in by.items())
        for id, by in arms.items()
    }


def _entries(path: pathlib.Path) -> dict[str, Any]:
    content = read_json(path, "write the study's verdicts again")
    if not isinstance(content.get("claims"), dict):
        raise UserError(
            f'{path} has no object "claims": write {{"claims": {{"B07": {{"verdict": ..., "evidence": ...}}}}}}.'
        )
    return content["claims"]


def _arms(entry: Any, study: str, field: str) -> Iterator[tuple[str, Arm]]:
    """Each arm with the quantity that it is about; none where runs are not trained."""
    if not isinstance(entry, dict) or not {"verdict", "evidence"} <= set(entry):
        raise UserError(f'{field} is {entry!r}: give "verdict" and "evidence".')
    if entry["verdict"] not in list(Verdict):
        nearest = suggestion(str(entry["verdict"]), map(str, Verdict))
        raise UserError(f"{field}.verdict={entry['verdict']!r} is unknown: {nearest}")
    verdict, evidence = Verdict(entry["verdict"]), entry["evidence"]
    if isinstance(evidence, str) and evidence.strip():
        yield "", Arm(f"experiments/{study}", verdict, evidence)
        return
    if not isinstance(evidence, dict):
        raise UserError(f"{field}.evidence={evidence!r} is empty or not text: describe what was measured.")
    try:
        tests = (_deciding(verdict, evidence), *evidence["other_tests"])
        groups: dict[tuple[str, str], list[Test]] = {}
        for test in tests:
            if not _waits(test):
                groups.setdefault((_quantity(test["says"]), test["scale"]), []).append(test)
        waiting = {(_quantity(test["says"]), test["scale"]) for test in tests if _waits(test)}
        found = [
            (of, _arm(f"experiments/{study}, {scale}", made, bool(waiting & {(of, scale), (of, NOWHERE)})))
            for (of, scale), made in groups.items()
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{field}.evidence is not what actlab verdict writes ({error}): write it again.") from error
    yield from found


def _deciding(claim: Verdict, evidence: Test) -> Test:
    """The test that decided, with its own verdict, which the file leaves out."""
    # A claim that is undecided since it holds at some places and is level at others is decided by one of the latter.
    own = Verdict.EQUIVALENT if claim == Verdict.UNDECIDED and not evidence["reason"] else claim
    return {"verdict": str(own), **evidence}


def _quantity(says: str) -> str:
    """ "loss" of "loss: (gelu) -(relu) < 0", and of "change of loss from (a) to (b) below 0"."""
    return says.partition(":")[0].removeprefix("change of ").partition(" from ")[0]


def _waits(test: Test) -> bool:
    return test["n_seeds"] == 0 or test["reason"].endswith(NOT_TRAINED)


def _arm(where: str, tests: list[Test], waits: bool) -> Arm:
    """It states all of its tests: refuted by one of them, supported by all, some of which may wait for runs."""
    verdicts = [Verdict(test["verdict"]) for test in tests]
    if Verdict.REFUTED in verdicts:
        verdict = Verdict.REFUTED
    else:
        verdict = verdicts[0] if len(set(verdicts)) == 1 and not waits else Verdict.UNDECIDED
    mine = [test for test, one in zip(tests, verdicts, strict=True) if one == verdict] or tests
    # As in analysis/verdicts.py: the clearest refutation, else the weakest test with the arm's verdict.
    deciding = (min if verdict == Verdict.REFUTED else max)(mine, key=_p)
    counts = ", ".join(f"{count} {word}" for word, count in collections.Counter(verdicts).items())
    several = f"{len(tests)} tests ({counts}), of which " if len(tests) > 1 else ""
    return Arm(where, verdict, several + _in_numbers(deciding) + (" Others wait for runs." if waits else ""))


def _p(test: Test) -> float:
    return 1.0 if test["p_holm"] is None else test["p_holm"]


def _in_numbers(test: Test) -> str:
    numbers = []
    if test["mean"] is not None and test["interval"] is not None:
        low, high = test["interval"]
        numbers.append(f"{test['mean']:+.4f} ({test['confidence']:.0%} interval {low:+.4f} to {high:+.4f})")
    if test["p_holm"] is not None:
        numbers.append(f"p {test['p_holm']:.2g} after Holm over {test['family']}")
    left = f", {test['seeds_left_out']} left out" if test["seeds_left_out"] else ""
    means = [f"{arm['arm']} {arm['mean']:.4f}" for arm in test["row"] if arm["mean"] is not None]
    unresolved = test["rate_not_resolved"]
    notes = filter(None, [test["reason"], unresolved and f"{UNRESOLVED}: {unresolved}"])
    numbers += [f"{test['n_seeds']} seeds{left}", *means, *notes]
    return f"{test['says']}: {'; '.join(numbers)}."
