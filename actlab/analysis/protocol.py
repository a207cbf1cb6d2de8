"""Contrasts as a study.py writes them: what decides a claim, or answers a question. Plain data that needs no numpy.

  CLAIMS = {
      "B07": protocol.lower("gelu", "relu", at=1e-3),
      "B12": protocol.lower("gelu", "relu", of=protocol.SENSITIVITY),
  }
  QUESTIONS = ("gelu<relu",)

analysis/contrasts.py measures them on a table of results, analysis/verdicts.py says what follows.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from actlab.errors import UserError, suggestion

LOSS, SENSITIVITY = "loss", "lr_sensitivity"


@dataclasses.dataclass(frozen=True)
class Arm:
    """Runs of one activation, at places of further axes (`where`) and at one learning rate (`at`).

    Without a rate, the arm is taken at its own best of the rates that the arms of a contrast share. A sensitivity is
    over all of those rates.
    """

    activation: str
    at: float | None = None
    where: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)  # a dict has no hash

    @property
    def place(self) -> str:
        """The arm in words, without its learning rate: arms of equal places choose among the same runs."""
        return ", ".join([self.activation, *(f"{path}={value}" for path, value in self.where.items())])

    def __str__(self) -> str:
        places = [f"{path}={value}" for path, value in self.where.items()]
        return ", ".join([self.activation, *([] if self.at is None else [f"learning rate {self.at:g}"]), *places])


@dataclasses.dataclass(frozen=True)
class Contrast:
    """States that the sum of weights times arms is below, above or level with a bound, at every place of other axes.

    An arm's worth is its test loss (its final validation loss where runs have none), its learning-rate sensitivity
    (both nats), or else a column of results.csv at its rate; with `log`, the base-10 logarithm of that. A `trend` must
    also show in the test of Jonckheere and Terpstra over the arms in the order of the terms. A `control` can refute a
    claim; that it passes proves nothing.
    """

    terms: tuple[tuple[float, Arm], ...]
    of: str = LOSS
    says: Literal["below", "above", "level"] = "below"
    bound: float = 0.0
    log: bool = False
    trend: bool = False
    control: bool = False

    def __post_init__(self) -> None:
        if self.log and self.of in (LOSS, SENSITIVITY):
            raise UserError(f"log=True of {self.of} mixes units: a contrast of logarithms is one of a column.")

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms, in the order of the terms."""
        return tuple(arm for _, arm in self.terms)

    @property
    def activations(self) -> tuple[str, ...]:
        """The activations of the arms, in the order of the terms."""
        return tuple(arm.activation for arm in self.arms)

    def at(self, rate: float) -> "Contrast":
        """The same contrast with every arm at one learning rate."""
        terms = tuple((weight, dataclasses.replace(arm, at=rate)) for weight, arm in self.terms)
        return dataclasses.replace(self, terms=terms)

    def __str__(self) -> str:
        name = f"log10 {self.of}" if self.log else self.of
        if self.trend:
            order = " to ".join(f"({arm})" for arm in (self.arms[0], self.arms[-1]))
            return f"change of {name} from {order} {self.says} {self.bound:g}"
        sum_of = " ".join(f"{_sign(weight, index)}({arm})" for index, (weight, arm) in enumerate(self.terms))
        word = {"below": "<", "above": ">", "level": "="}[self.says]
        return f"{name}: {sum_of} {word} {self.bound:g}"


Claims = Mapping[str, Contrast | Sequence[Contrast]]


def contrasts_of(entry: Any) -> tuple[Any, ...]:
    """The contrasts of an entry of CLAIMS, which is one or a list of them. `study.load` checks that they are."""
    return tuple(entry) if isinstance(entry, list | tuple) else (entry,)


def lower(first: str | Arm, second: str | Arm, *, of: str = LOSS, at: float | None = None) -> Contrast:
    """`first` is lower than `second`."""
    return Contrast(((1.0, _arm(first, at)), (-1.0, _arm(second, at))), of)


def level(first: str | Arm, second: str | Arm, *, of: str = LOSS, at: float | None = None) -> Contrast:
    """Two arms are equal within the margin of equivalence."""
    return dataclasses.replace(lower(first, second, of=of, at=at), says="level")


def above(arm: str | Arm, bound: float, *, of: str, at: float | None = None) -> Contrast:
    """An arm is above a number."""
    return Contrast(((1.0, _arm(arm, at)),), of, "above", bound)


def gap_grows(small: tuple[Arm, Arm], large: tuple[Arm, Arm], *, of: str = LOSS) -> Contrast:
    """The difference first minus second is greater in `large` than in `small`."""
    (a, b), (c, d) = large, small
    return Contrast(((1.0, a), (-1.0, b), (-1.0, c), (1.0, d)), of, "above")


def falls(arms: Sequence[str | Arm], *, of: str = LOSS) -> Contrast:
    """It falls from arm to arm: the change along the least-squares line from first to last arm, and the trend test.

    Raises:
        UserError: for fewer than two arms.
    """
    if len(arms) < 2:
        raise UserError(f"falls({list(map(str, arms))}) needs two or more arms: name them in falling order.")
    # The slope of y over places x is the sum of (x - mean x) y over that of (x - mean x)^2.
    steps = len(arms) - 1
    square = sum((place - steps / 2) ** 2 for place in range(len(arms)))
    weighted = tuple((steps * (place - steps / 2) / square, _arm(arm, None)) for place, arm in enumerate(arms))
    return Contrast(weighted, of, trend=True)


def names_in(question: str) -> list[str]:
    """The activations that a text such as "gelu<relu" names."""
    return [name.strip() for name in question.split("<")]


def parse_question(text: str, activations: Iterable[str]) -> Contrast:
    """The contrast that a question such as "gelu<relu" asks about: two arms at their own best rates.

    Raises:
        UserError: for another form, or an activation that the table does not have.
    """
    names = names_in(text)
    if len(names) != 2 or not all(names):
        raise UserError(f"--question={text!r}: write --question='gelu<relu', the lower loss first.")
    for name in names:
        if name not in activations:
            raise UserError(f"--question={text!r}: {name} is not in the table: {suggestion(name, activations)}")
    if names[0] == names[1]:
        raise UserError(f"--question={text!r} compares {names[0]} with itself: name two activations.")
    return lower(*names)


def _arm(arm: str | Arm, at: float | None) -> Arm:
    if isinstance(arm, str):
        return Arm(arm, at)
    return arm if at is None else dataclasses.replace(arm, at=at)


def _sign(weight: float, index: int) -> str:
    size = "" if abs(weight) == 1 else f"{abs(weight):g} "
    return ("-" if weight < 0 else "" if index == 0 else "+") + size
