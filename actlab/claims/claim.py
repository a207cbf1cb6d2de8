"""Claims: a statement, the check that finds a verdict with its evidence, and both as a person reads them."""

import collections
import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from actlab.analysis import printing
from actlab.console import counted


class Verdict(enum.StrEnum):
    """How a statement fares."""

    TRUE = "true"
    FALSE = "false"
    IMPRECISE = "imprecise"  # right in a nearby reading, not as stated
    UNSUPPORTED = "unsupported"  # an opinion without evidence
    OPEN = "open"  # only an experiment can tell
    # Verdicts of experiments, which hold at their scale only.
    SUPPORTED = "supported"
    REFUTED = "refuted"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"
    MIXED = "mixed"  # arms or readings that do not agree

    @property
    def words(self) -> str:
        """The verdict with its reach."""
        return f"{self} at this scale" if self is Verdict.MIXED or self in printing.STYLE else str(self)


_HOLDS = {Verdict.TRUE, Verdict.SUPPORTED}
_FAILS = {Verdict.FALSE, Verdict.REFUTED}
STYLE: Mapping[str, str] = {
    Verdict.TRUE: "green",
    Verdict.FALSE: "red",
    Verdict.IMPRECISE: "yellow",
    Verdict.UNSUPPORTED: "magenta",
    Verdict.OPEN: "cyan",
    **printing.STYLE,
    Verdict.MIXED: "bright_yellow",
}


@dataclasses.dataclass(frozen=True)
class Arm:
    """What the runs of a study at one place say of a statement: a verdict, and the `numbers` behind it in words."""

    where: str
    verdict: Verdict
    numbers: str


@dataclasses.dataclass(frozen=True)
class Reading:
    """A statement that a claim may be read as, `of` some quantity, with each arm that tests it.

    One that does not decide is printed beside those that do. With `somewhere` the statement says that something can
    happen, and one arm in which it does is enough. `afterwards` says that it was chosen after the runs were seen.
    """

    of: str
    arms: tuple[Arm, ...]
    decides: bool = True
    somewhere: bool = False
    afterwards: bool = False

    @property
    def verdict(self) -> Verdict:
        """The arms' verdict if they have the same, mixed if the statement holds in one and fails in another.

        Otherwise one refuting arm refutes it, since it is about all arms; without one it is undecided. An arm in which
        the two are equal counts as failing beside one in which they differ. With `somewhere` one arm supports the
        statement, and only all arms together refute it.
        """
        found = {arm.verdict for arm in self.arms}
        if len(found) == 1:
            return found.pop()
        if self.somewhere:
            return Verdict.SUPPORTED if found & _HOLDS else Verdict.UNDECIDED
        if Verdict.MIXED in found or (found & _HOLDS and found & {*_FAILS, Verdict.EQUIVALENT}):
            return Verdict.MIXED
        return Verdict.REFUTED if found & _FAILS else Verdict.UNDECIDED


@dataclasses.dataclass(frozen=True)
class Finding:
    """A verdict with its evidence. `secondary`: part of it is quoted from another source than the original.

    `readings` are what studies say, in the order in which they are printed.
    """

    verdict: Verdict
    evidence: str
    source: str = "computed"
    secondary: bool = False
    readings: tuple[Reading, ...] = ()


@dataclasses.dataclass(frozen=True)
class Claim:
    """A checkable statement of one of the three texts; `experiments` are those that can settle it."""

    id: str
    kind: str
    statement: str
    check: Callable[[], Finding]
    experiments: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Letter of the text that makes the claim: A, B or C."""
        return self.id[0]


def claim(
    id: str, kind: str, statement: str, *, experiments: tuple[str, ...] = ()
) -> Callable[[Callable[[], Finding]], Claim]:
    """Turns the function that checks a statement into a claim."""
    return lambda check: Claim(id, kind, statement, check, experiments)


def cited(
    id: str,
    kind: str,
    statement: str,
    verdict: str,
    evidence: str,
    *,
    source: str,
    secondary: bool = False,
    experiments: Sequence[str] = (),
) -> Claim:
    """A claim whose verdict is read in a source, not computed: a row of cited.json."""
    finding = Finding(Verdict(verdict), evidence, source, secondary)
    return Claim(id, kind, statement, lambda: finding, tuple(experiments))


def graded(exactly: bool | np.bool_, loosely: bool | np.bool_ = False) -> Verdict:
    """True if the statement holds exactly, imprecise if it holds loosely, else false."""
    if exactly:
        return Verdict.TRUE
    return Verdict.IMPRECISE if loosely else Verdict.FALSE


def collect(namespaces: Iterable[Mapping[str, Any]]) -> tuple[Claim, ...]:
    """The claims among the values of namespaces, in the order of their ids; raises ValueError if an id is repeated."""
    found = (value for names in namespaces for value in names.values() if isinstance(value, Claim))
    claims = sorted(found, key=lambda claim: claim.id)
    for first, second in zip(claims, claims[1:], strict=False):
        if first.id == second.id:
            raise ValueError(f"claim {first.id} is defined twice.")
    return tuple(claims)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A number as printed in a text, and its true value."""

    printed: str
    value: float

    @property
    def unit(self) -> float:
        """One unit of the last printed decimal."""
        return 10.0 ** -len(self.printed.partition(".")[2])

    @property
    def right(self) -> bool:
        """Whether the true value rounds to the printed one; a tie may go either way."""
        return abs(self.value - float(self.printed)) <= 0.5 * self.unit * (1 + 1e-9)

    @property
    def near(self) -> bool:
        """Whether the error is less than one unit of the last decimal: truncated, not rounded."""
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
    """As judge, but imprecise if every wrong number is only truncated instead of rounded."""
    finding = judge(row)
    loosely = all(cell.near for cell in row.values())
    return dataclasses.replace(finding, verdict=graded(finding.verdict is Verdict.TRUE, loosely))


def printed(id: str, statement: str, row: Callable[[], Row]) -> Claim:
    """The claim that a row of a table is correct."""
    return Claim(id, "table", statement, lambda: judge(row()))


def table(rows: Sequence[tuple[Claim, Finding]]) -> RenderableType:
    """A row per claim, and how many there are of each verdict."""
    grid = Table("id", "claim", "kind", "verdict", "evidence", show_lines=True)
    for claim, finding in rows:
        grid.add_row(claim.id, Text(claim.statement), claim.kind, _verdict(claim, finding), Text(_evidence(finding)))
    counts = collections.Counter(finding.verdict for _, finding in rows)
    listed = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    return Group(grid, Text(f"{counted(len(rows), 'claim')}{': ' if listed else ''}{listed}"))


def full(claim: Claim, finding: Finding) -> RenderableType:
    """One claim with everything that is known of it."""
    grid = Table.grid(padding=(0, 2))
    grid.add_row("claim", Text(f"{claim.id}  {claim.statement}"))
    grid.add_row("kind", Text(claim.kind))
    grid.add_row("verdict", _verdict(claim, finding))
    grid.add_row("evidence", Text(_evidence(finding)))
    grid.add_row("source", Text(finding.source))
    return grid


def _verdict(claim: Claim, finding: Finding) -> Text:
    waits = f" ({', '.join(claim.experiments)})" if claim.experiments else ""
    deciding = [reading for reading in finding.readings if reading.decides]
    before = {reading.verdict for reading in deciding if not reading.afterwards}
    rests = any(one.afterwards for one in deciding) and len(before) < 2 and finding.verdict not in before
    later = ", by a reading chosen after the runs" if rests else ""
    return Text(f"{finding.verdict.words}{waits}{later}", style=STYLE[finding.verdict])


def _evidence(finding: Finding) -> str:
    own = f"{finding.evidence} [secondary source]" if finding.secondary else finding.evidence
    return "\n".join([own, *(line for reading in finding.readings for line in _lines(reading))])


def _lines(reading: Reading) -> Iterator[str]:
    notes = ["chosen after the runs"] * reading.afterwards + ["which does not decide"] * (not reading.decides)
    yield ", ".join([f"{reading.of or 'Studies'}: {reading.verdict.words}", *notes])
    for arm in reading.arms:
        yield f"- {arm.where}: {arm.verdict}. {arm.numbers}"
