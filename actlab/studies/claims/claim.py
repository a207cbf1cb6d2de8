"""What a claim is: a statement, and the check that finds a verdict with its evidence."""

import dataclasses
import enum
import types
from collections.abc import Callable, Iterable

import numpy as np


class Verdict(enum.StrEnum):
    """What is known of a statement."""

    TRUE = "true"
    FALSE = "false"
    IMPRECISE = "imprecise"  # right in a nearby reading, not as it is put
    UNSUPPORTED = "unsupported"  # an opinion for which nothing is offered
    OPEN = "open"  # only an experiment can tell
    # What an experiment told, at its scale and no other.
    SUPPORTED = "supported"
    REFUTED = "refuted"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"

    @property
    def words(self) -> str:
        """The verdict with how far it reaches."""
        measured = (Verdict.SUPPORTED, Verdict.REFUTED, Verdict.EQUIVALENT, Verdict.UNDECIDED)
        return f"{self} at this scale" if self in measured else str(self)


@dataclasses.dataclass(frozen=True)
class Finding:
    """A verdict with what it rests on. `secondary`: some of it was read in another's account, not in the original."""

    verdict: Verdict
    evidence: str
    source: str = "computed"
    secondary: bool = False


@dataclasses.dataclass(frozen=True)
class Claim:
    """A checkable statement of one of the three texts; `experiments` are those that bear on it."""

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
    """Makes a claim of the function that checks it."""
    return lambda check: Claim(id, kind, statement, check, experiments)


def cited(
    id: str,
    kind: str,
    statement: str,
    verdict: Verdict,
    evidence: str,
    *,
    source: str,
    secondary: bool = False,
    experiments: tuple[str, ...] = (),
) -> Claim:
    """A claim whose verdict is read in a source, not computed."""
    return Claim(id, kind, statement, lambda: Finding(verdict, evidence, source, secondary), experiments)


def graded(exactly: bool | np.bool_, loosely: bool | np.bool_ = False) -> Verdict:
    """True if the statement holds as it is put, imprecise if a nearby reading does, else false."""
    if exactly:
        return Verdict.TRUE
    return Verdict.IMPRECISE if loosely else Verdict.FALSE


def collect(modules: Iterable[types.ModuleType]) -> tuple[Claim, ...]:
    """The claims that modules define, in the order of their ids; raises ValueError if an id is there twice."""
    found = (value for module in modules for value in vars(module).values() if isinstance(value, Claim))
    claims = sorted(found, key=lambda claim: claim.id)
    for first, second in zip(claims, claims[1:], strict=False):
        if first.id == second.id:
            raise ValueError(f"claim {first.id} is defined twice.")
    return tuple(claims)
