"""What decides a claim: contrasts of arms, as a study.py writes them. Plain data; studies/deciding computes them.

CLAIMS = {
    "B07": protocol.lower("gelu", "relu", at=1e-3),
    "B12": protocol.lower("gelu", "relu", of="lr_sensitivity"),
}
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

LOSS, SENSITIVITY = "loss", "lr_sensitivity"


@dataclasses.dataclass(frozen=True)
class Arm:
    """Runs of one activation at places of further axes, `where`, and at one learning rate.

    Without a rate: at its own best of the rates that the arms of a contrast share; a sensitivity is over all of those.
    """

    activation: str
    at: float | None = None
    where: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        places = [f"{path}={value}" for path, value in self.where.items()]
        return ", ".join([self.activation, *([] if self.at is None else [f"learning rate {self.at:g}"]), *places])


@dataclasses.dataclass(frozen=True)
class Contrast:
    """That the sum of weights times arms is below, above or level with a bound, at every place of the other axes.

    What an arm is worth is its final validation loss, its learning-rate sensitivity (both nats), or else a column of
    results.csv at its rate, the logarithm to base 10 of it if `log`. A `trend` must also be one by Jonckheere and
    Terpstra's test over the arms in the order of their weights. A `control` can
    refute a claim, but to pass it proves nothing.
    """

    terms: tuple[tuple[float, Arm], ...]
    of: str = LOSS
    says: Literal["below", "above", "level"] = "below"
    bound: float = 0.0
    log: bool = False
    trend: bool = False
    control: bool = False

    def __str__(self) -> str:
        name = f"log10 {self.of}" if self.log else self.of
        if self.trend:
            order = " to ".join(f"({arm})" for _, arm in (self.terms[0], self.terms[-1]))
            return f"slope of {name} from {order} {self.says} {self.bound:g}"
        sum_of = " ".join(f"{_sign(weight, index)}({arm})" for index, (weight, arm) in enumerate(self.terms))
        word = {"below": "<", "above": ">", "level": "="}[self.says]
        return f"{name}: {sum_of} {word} {self.bound:g}"


Claims = Mapping[str, Contrast | Sequence[Contrast]]


def lower(first: str | Arm, second: str | Arm, *, of: str = LOSS, at: float | None = None) -> Contrast:
    """That `first` has less of it than `second`."""
    return Contrast(((1.0, _arm(first, at)), (-1.0, _arm(second, at))), of)


def level(first: str | Arm, second: str | Arm, *, of: str = LOSS, at: float | None = None) -> Contrast:
    """That two arms are equal within the margin of equivalence."""
    return dataclasses.replace(lower(first, second, of=of, at=at), says="level")


def above(arm: str | Arm, bound: float, *, of: str, at: float | None = None) -> Contrast:
    """That an arm has more of it than a number."""
    return Contrast(((1.0, _arm(arm, at)),), of, "above", bound)


def gap_grows(small: tuple[Arm, Arm], large: tuple[Arm, Arm], *, of: str = LOSS) -> Contrast:
    """That first minus second is greater in `large` than in `small`."""
    (a, b), (c, d) = large, small
    return Contrast(((1.0, a), (-1.0, b), (-1.0, c), (1.0, d)), of, "above")


def falls(arms: Sequence[str | Arm], *, of: str = LOSS) -> Contrast:
    """That it falls along the arms: the mean slope per place, least squares, and the trend test."""
    middle = (len(arms) - 1) / 2
    square = sum((place - middle) ** 2 for place in range(len(arms)))
    weighted = tuple(((place - middle) / square, _arm(arm, None)) for place, arm in enumerate(arms))
    return Contrast(weighted, of, trend=True)


def _arm(arm: str | Arm, at: float | None) -> Arm:
    if isinstance(arm, str):
        return Arm(arm, at)
    return arm if at is None else dataclasses.replace(arm, at=at)


def _sign(weight: float, index: int) -> str:
    size = "" if abs(weight) == 1 else f"{abs(weight):g} "
    return ("-" if weight < 0 else "" if index == 0 else "+") + size
