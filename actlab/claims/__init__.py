"""The ledger: the 110 claims of three texts on activations. Each has a check that computes its verdict when called.

Checks are grouped by topic; claims whose verdict is read in a source, not computed, are rows of cited.json. The texts:
A explains GELU, B compares ReLU and GELU on TinyStories, C is about tanh in BERT. What only an experiment can tell is
read from the studies' `experiments/NAME/verdicts.json`, see studies.py.
"""

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Mapping

from actlab.claims import architecture, gelu_approximation, gelu_values, measured, relu_vs_gelu, studies, tanh
from actlab.claims.claim import Arm, Claim, Finding, Reading, Verdict, cited, collect
from actlab.errors import UserError, suggestion

__all__ = ["CLAIMS", "RESULTS", "Arm", "Claim", "Finding", "Reading", "Verdict", "examine", "get", "select"]

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
        ("source", text, {claim.text for claim in CLAIMS}),
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
    settled = studies.settled(results, {claim.id: claim.experiments for claim in CLAIMS})
    return [(claim, _with_readings(claim.check(), _readings(claim.id, settled, results))) for claim in claims]


def _readings(id: str, settled: Mapping[str, tuple[Reading, ...]], results: pathlib.Path) -> tuple[Reading, ...]:
    """Those that are computed from the studies' tables behind those of the studies' own tests."""
    tested = settled.get(id, ())
    found = measured.READINGS[id](results) if id in measured.READINGS else ()
    computed = tuple(dataclasses.replace(reading, afterwards=True) for reading in found)
    if computed and id in measured.DIRECT:
        tested = tuple(dataclasses.replace(reading, decides=False) for reading in tested)
    return (*tested, *computed)


def _with_readings(finding: Finding, readings: tuple[Reading, ...]) -> Finding:
    """Readings replace a verdict that is open or unsupported: by theirs, or by mixed. A computed one stays."""
    verdict, verdicts = finding.verdict, {reading.verdict for reading in readings if reading.decides}
    if verdict in _UNSETTLED and verdicts:
        verdict = verdicts.pop() if len(verdicts) == 1 else Verdict.MIXED
    return dataclasses.replace(finding, verdict=verdict, readings=readings)
