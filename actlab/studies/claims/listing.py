"""Claims as a person reads them: a table, one in full, the questions."""

import collections
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from actlab.studies.claims.claim import Claim, Finding, Verdict
from actlab.studies.claims.questions import Question

STYLE = {
    Verdict.TRUE: "green",
    Verdict.FALSE: "red",
    Verdict.IMPRECISE: "yellow",
    Verdict.UNSUPPORTED: "magenta",
    Verdict.OPEN: "cyan",
    Verdict.SUPPORTED: "green",
    Verdict.REFUTED: "red",
    Verdict.EQUIVALENT: "blue",
    Verdict.UNDECIDED: "yellow",
}


def table(rows: Sequence[tuple[Claim, Finding]]) -> RenderableType:
    """A row per claim, and how many there are of each verdict."""
    grid = Table("id", "claim", "kind", "verdict", "evidence", show_lines=True)
    for claim, finding in rows:
        grid.add_row(claim.id, Text(claim.statement), claim.kind, _verdict(claim, finding), Text(_evidence(finding)))
    counts = collections.Counter(finding.verdict for _, finding in rows)
    listed = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    return Group(grid, Text(f"{len(rows)} claims{': ' if listed else ''}{listed}"))


def full(claim: Claim, finding: Finding) -> RenderableType:
    """One claim with everything that is known of it."""
    grid = Table.grid(padding=(0, 2))
    for name, cell in (
        ("claim", Text(f"{claim.id}  {claim.statement}")),
        ("kind", Text(claim.kind)),
        ("verdict", _verdict(claim, finding)),
        ("evidence", Text(_evidence(finding))),
        ("source", Text(finding.source)),
    ):
        grid.add_row(name, cell)
    return grid


def answers(questions: Sequence[Question]) -> RenderableType:
    """Every question with its answer."""
    grid = Table.grid(padding=(0, 2, 1, 0))
    for question in questions:
        grid.add_row(question.id, Group(Text(question.text, style="bold"), Text(question.answer())))
    return grid


def _verdict(claim: Claim, finding: Finding) -> Text:
    waits = f" ({', '.join(claim.experiments)})" if claim.experiments else ""
    return Text(f"{finding.verdict.words}{waits}", style=STYLE[finding.verdict])


def _evidence(finding: Finding) -> str:
    return f"{finding.evidence} [secondary source]" if finding.secondary else finding.evidence
