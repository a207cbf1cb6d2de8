"""Printed numbers beside computed ones."""

import dataclasses
from collections.abc import Callable, Mapping

from actlab.studies.claims.claim import Claim, Finding, Verdict, graded


@dataclasses.dataclass(frozen=True)
class Cell:
    """A number as a text prints it, and its true value."""

    printed: str
    value: float

    @property
    def unit(self) -> float:
        """One unit of the last printed decimal."""
        return 10.0 ** -len(self.printed.partition(".")[2])

    @property
    def right(self) -> bool:
        """Whether the true value rounds to what is printed; a tie may go either way."""
        return abs(self.value - float(self.printed)) <= 0.5 * self.unit * (1 + 1e-9)

    @property
    def near(self) -> bool:
        """Whether it is off by less than one unit of the last decimal: cut, not rounded."""
        return abs(self.value - float(self.printed)) < self.unit

    def __str__(self) -> str:
        return f"{self.value:.6g} (printed {self.printed}, {'right' if self.right else 'wrong'})"


Row = Mapping[str, Cell]


def judge(row: Row) -> Finding:
    """True if every cell is right, else false, with all cells as evidence."""
    wrong = sum(not cell.right for cell in row.values())
    listed = ", ".join(f"{name} = {cell}" for name, cell in row.items())
    count = f"{wrong} of {len(row)} numbers wrong: " if len(row) > 1 else ""
    return Finding(graded(wrong == 0), f"{count}{listed}.")


def judge_leniently(row: Row) -> Finding:
    """As judge, but imprecise where every wrong number is only cut instead of rounded."""
    finding = judge(row)
    loosely = all(cell.near for cell in row.values())
    return dataclasses.replace(finding, verdict=graded(finding.verdict is Verdict.TRUE, loosely))


def printed(id: str, statement: str, row: Callable[[], Row]) -> Claim:
    """The claim that a row of a table is right."""
    return Claim(id, "table", statement, lambda: judge(row()))
