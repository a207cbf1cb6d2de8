"""Verdicts of studies: what `experiments/NAME/verdicts.json` says of the claims that wait for an experiment.

The file is {"claims": {"B07": {"verdict": "supported", "evidence": {...}}}}, with the words of `claim.Verdict` and the
evidence that `deciding` writes, or a text.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from actlab.errors import UserError, suggestion
from actlab.studies.claims.claim import Claim, Finding, Verdict
from actlab.studies.deciding.wording import words

FILE = "verdicts.json"
_UNSETTLED = (Verdict.OPEN, Verdict.UNSUPPORTED)
Settled = Mapping[str, tuple[Finding, ...]]


def read(folder: pathlib.Path, claims: tuple[Claim, ...]) -> Settled:
    """What the studies in `folder` say, by claim; nothing where there is no study.

    Raises:
        UserError: for a file that is not of that form, or that judges a claim which names no experiment.
    """
    known = {claim.id: claim for claim in claims}
    settled: dict[str, tuple[Finding, ...]] = {}
    for path in sorted(folder.glob(f"*/{FILE}")):
        for id, entry in _entries(path).items():
            field = f"{path}: claims.{id}"
            if id not in known:
                raise UserError(f"{field} is no claim: use an id that python -m actlab.claims lists.")
            if not known[id].experiments:
                raise UserError(f"{field} is settled without an experiment: remove it.")
            settled[id] = (*settled.get(id, ()), _finding(entry, path.parent.name, field))
    return settled


def settle(finding: Finding, studies: tuple[Finding, ...]) -> Finding:
    """A finding with the studies that bear on it.

    They replace a verdict that is open or unsupported, if they agree; else it is open. A computed one stays.
    """
    if not studies:
        return finding
    evidence = " ".join(
        [finding.evidence, *(f"{study.source}: {study.verdict.words}. {study.evidence}" for study in studies)]
    )
    source = "; ".join([finding.source, *(study.source for study in studies)])
    verdict = finding.verdict
    if verdict in _UNSETTLED:
        verdicts = {study.verdict for study in studies}
        verdict = verdicts.pop() if len(verdicts) == 1 else Verdict.OPEN
    return dataclasses.replace(finding, verdict=verdict, evidence=evidence, source=source)


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
        raise UserError(f"{field}.verdict={entry['verdict']!r} is no verdict: {nearest}")
    return Finding(Verdict(entry["verdict"]), _evidence(entry["evidence"], field), f"experiments/{study}")


def _evidence(evidence: Any, field: str) -> str:
    if isinstance(evidence, dict):
        try:
            return words(evidence)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{field}.evidence is not what actlab.verdict writes ({error}): write it again.") from error
    if not isinstance(evidence, str) or not evidence.strip():
        raise UserError(f"{field}.evidence={evidence!r} is no text: say what was measured.")
    return evidence
