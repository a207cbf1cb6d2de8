"""The ledger: the 110 claims of three texts on activations. Each has a check that computes its verdict when called.

Checks are grouped by topic; claims whose verdict is read in a source, not computed, are rows of cited.json. The texts:
A explains GELU, B compares ReLU and GELU on TinyStories, C is about tanh in BERT. What only an experiment can tell is
read from the studies' `experiments/NAME/verdicts.json`: {"claims": {"B07": {"verdict": "supported", "evidence": {}}}},
with the words of `claim.Verdict` and the evidence that analysis/verdicts.py writes, or a text.
"""

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from actlab.analysis.verdicts import FILE, words
from actlab.claims import architecture, gelu_approximation, gelu_values, relu_vs_gelu, tanh
from actlab.claims.claim import Claim, Finding, Verdict, cited, collect
from actlab.errors import UserError, suggestion

__all__ = ["CLAIMS", "RESULTS", "Claim", "Finding", "Verdict", "examine", "get", "select"]

RESULTS = pathlib.Path("experiments")
_UNSETTLED = (Verdict.OPEN, Verdict.UNSUPPORTED)  # what a study may settle: computed verdicts stand


def _ledger() -> tuple[Claim, ...]:
    rows = json.loads(pathlib.Path(__file__).with_name("cited.json").read_text(encoding="utf-8"))
    checks = (gelu_values, gelu_approximation, architecture, relu_vs_gelu, tanh)
    return collect([*map(vars, checks), gelu_values.ROWS, {row["id"]: cited(**row) for row in rows}])


CLAIMS = _ledger()


def get(id: str) -> Claim:
    """The claim with an id such as A20, in either case; raises UserError for an unknown one."""
    for claim in CLAIMS:
        if claim.id == id.upper():
            return claim
    texts = itertools.groupby((claim.id for claim in CLAIMS), key=lambda id: id[0])
    ranges = ", ".join(f"{first} to {last}" for first, *_, last in (tuple(ids) for _, ids in texts))
    raise UserError(f"unknown claim --id={id}: the ids are {ranges}.")


def select(*, text: str | None = None, kind: str | None = None) -> tuple[Claim, ...]:
    """The claims of a text (A, B or C) and of a kind, all by default; raises UserError for an unknown one."""
    for flag, wanted, valid in (
        ("text", text, {claim.text for claim in CLAIMS}),
        ("kind", kind, {claim.kind for claim in CLAIMS}),
    ):
        if wanted is not None and wanted not in valid:
            raise UserError(f"unknown --{flag}={wanted}: {suggestion(wanted, valid)}")
    return tuple(claim for claim in CLAIMS if text in (None, claim.text) and kind in (None, claim.kind))


def examine(claims: tuple[Claim, ...], results: pathlib.Path = RESULTS) -> list[tuple[Claim, Finding]]:
    """Checks claims, and adds what the studies in the folder `results` have settled.

    Raises:
        UserError: for a verdicts.json of another form, or one that judges a claim which names no experiment.
    """
    settled = _settled(results)
    return [(claim, _with_studies(claim.check(), settled.get(claim.id, ()))) for claim in claims]


def _settled(folder: pathlib.Path) -> Mapping[str, tuple[Finding, ...]]:
    """The findings of the studies in `folder`, by claim."""
    known = {claim.id: claim for claim in CLAIMS}
    settled: dict[str, tuple[Finding, ...]] = {}
    for path in sorted(folder.glob(f"*/{FILE}")):
        for id, entry in _entries(path).items():
            field = f"{path}: claims.{id}"
            if id not in known:
                raise UserError(f"{field} is not a known claim: use an id that python -m actlab claims lists.")
            if not known[id].experiments:
                raise UserError(f"{field} is settled without an experiment: remove it.")
            settled[id] = (*settled.get(id, ()), _finding(entry, path.parent.name, field))
    return settled


def _with_studies(finding: Finding, studies: tuple[Finding, ...]) -> Finding:
    """Studies replace a verdict that is open or unsupported if they agree; else it is open. A computed one stays."""
    if not studies:
        return finding
    evidence = [finding.evidence, *(f"{study.source}: {study.verdict.words}. {study.evidence}" for study in studies)]
    source = "; ".join([finding.source, *(study.source for study in studies)])
    verdict = finding.verdict
    if verdict in _UNSETTLED:
        verdicts = {study.verdict for study in studies}
        verdict = verdicts.pop() if len(verdicts) == 1 else Verdict.OPEN
    return dataclasses.replace(finding, verdict=verdict, evidence=" ".join(evidence), source=source)


def _entries(path: pathlib.Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not JSON ({error}): write the study's verdicts again.") from error
    if not isinstance(content, dict) or not isinstance(content.get("claims"), dict):
        raise UserError(
            f'{path} has no object "claims": write {{"claims": {{"B07": {{"verdict": ..., "evidence": ...}}}}}}.'
        )
    return content["claims"]


def _finding(entry: Any, study: str, field: str) -> Finding:
    if not isinstance(entry, dict) or not {"verdict", "evidence"} <= set(entry):
        raise UserError(f'{field} is {entry!r}: give "verdict" and "evidence".')
    if entry["verdict"] not in list(Verdict):
        nearest = suggestion(str(entry["verdict"]), map(str, Verdict))
        raise UserError(f"{field}.verdict={entry['verdict']!r} is unknown: {nearest}")
    evidence = entry["evidence"]
    if isinstance(evidence, dict):
        try:
            evidence = words(evidence)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{field}.evidence is not what actlab.verdict writes ({error}): write it again.") from error
    if not isinstance(evidence, str) or not evidence.strip():
        raise UserError(f"{field}.evidence={evidence!r} is empty or not text: describe what was measured.")
    return Finding(Verdict(entry["verdict"]), evidence, f"experiments/{study}")
