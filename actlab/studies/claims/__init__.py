"""The 110 claims of three texts on activations, each with a check that finds its verdict when it is called."""

import itertools
import pathlib

from actlab.errors import UserError, suggestion
from actlab.studies.claims import (
    text_a_approximation,
    text_a_gradient,
    text_a_practice,
    text_a_values,
    text_b_results,
    text_b_setup,
    text_c_functions,
    text_c_history,
    text_c_snippets,
    verdicts,
)
from actlab.studies.claims.claim import Claim, Finding, Verdict, collect

__all__ = ["CLAIMS", "RESULTS", "Claim", "Finding", "Verdict", "examine", "get", "select"]

RESULTS = pathlib.Path("experiments")
CLAIMS = collect(
    [
        text_a_approximation,
        text_a_gradient,
        text_a_practice,
        text_a_values,
        text_b_results,
        text_b_setup,
        text_c_functions,
        text_c_history,
        text_c_snippets,
    ]
)


def get(id: str) -> Claim:
    """The claim with an id such as A20, in either case; raises UserError for an unknown one."""
    for claim in CLAIMS:
        if claim.id == id.upper():
            return claim
    texts = itertools.groupby((claim.id for claim in CLAIMS), key=lambda id: id[0])
    ranges = ", ".join(f"{first} to {last}" for first, *_, last in (tuple(ids) for _, ids in texts))
    raise UserError(f"--id={id} is no claim: give one of {ranges}.")


def select(*, text: str | None = None, kind: str | None = None) -> tuple[Claim, ...]:
    """The claims of a text (A, B or C) and of a kind, all by default; raises UserError for an unknown one."""
    for flag, wanted, valid in (
        ("text", text, {claim.text for claim in CLAIMS}),
        ("kind", kind, {claim.kind for claim in CLAIMS}),
    ):
        if wanted is not None and wanted not in valid:
            raise UserError(f"--{flag}={wanted} is none: {suggestion(wanted, valid)}")
    return tuple(claim for claim in CLAIMS if text in (None, claim.text) and kind in (None, claim.kind))


def examine(claims: tuple[Claim, ...], results: pathlib.Path = RESULTS) -> list[tuple[Claim, Finding]]:
    """Checks claims, and adds what the studies in the folder `results` have settled."""
    settled = verdicts.read(results, CLAIMS)
    return [(claim, verdicts.settle(claim.check(), settled.get(claim.id, ()))) for claim in claims]
