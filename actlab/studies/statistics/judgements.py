"""Judgements: the word of a verdict on "the first is lower than the second", over a family of comparisons."""

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import Any

from actlab.errors import UserError
from actlab.studies.statistics.effects import Effect
from actlab.studies.statistics.significance import holm

ALPHA = 0.05
MARGIN = 0.005  # nats; within it two losses count as equal


class Verdict(enum.StrEnum):
    """What the runs say of "the first is lower than the second"."""

    SUPPORTED = "supported"  # lower: the adjusted p is at most ALPHA
    REFUTED = "refuted"  # higher, by the same test
    EQUIVALENT = "equivalent"  # neither, and the difference lies within the margin by TOST
    UNDECIDED = "undecided"


@dataclasses.dataclass(frozen=True)
class Judgement:
    """An effect with its verdict; its p, of each kind, are adjusted by Holm over a family of `family` tests.

    `reason` says why a verdict is undecided, and "" otherwise.
    """

    effect: Effect
    verdict: Verdict
    p: float | None
    p_equivalence: float | None
    family: int
    reason: str
    p_beyond: float | None = None  # of a difference larger than the margin

    def as_dict(self) -> dict[str, Any]:
        """Everything about it, for JSON."""
        effect = self.effect
        return {
            "verdict": str(self.verdict),
            "reason": self.reason,
            "mean_difference": effect.mean,
            "differences": effect.differences,
            "sd": effect.sd,
            "seeds": effect.n,
            "seeds_left_out": effect.left_out,
            "t_interval": effect.interval,
            "bca_interval": effect.bootstrap,
            "p_t": effect.p,
            "p_holm": self.p,
            "family": self.family,
            "p_equivalence_holm": self.p_equivalence,
            "p_permutation": effect.p_permutation,
            "p_sign": effect.p_sign,
        }


def judge(effects: Sequence[Effect], margin: float = MARGIN) -> list[Judgement]:
    """The verdict on each effect of a family. A difference that is found goes before equivalence, however small it is.

    Effects that allow no test are undecided, and no part of the family.

    Raises:
        UserError: for a margin that is not positive.
    """
    if not 0 < margin < math.inf:
        raise UserError(
            f"margin={margin} is no positive number of nats: give the largest difference that counts as none."
        )
    tested = [index for index, effect in enumerate(effects) if not effect.undecidable]
    differ = dict(zip(tested, holm([effects[index].p or 0.0 for index in tested]), strict=True))
    within = [effects[index].p_equivalence(margin) or 0.0 for index in tested]
    equal = dict(zip(tested, holm(within), strict=True))
    outside = [effects[index].p_beyond(margin) or 0.0 for index in tested]
    beyond = dict(zip(tested, holm(outside), strict=True))
    judged = [
        _judge(effect, differ.get(index), equal.get(index), len(tested), margin) for index, effect in enumerate(effects)
    ]
    return [dataclasses.replace(one, p_beyond=beyond.get(index)) for index, one in enumerate(judged)]


def _judge(effect: Effect, p: float | None, p_equivalence: float | None, family: int, margin: float) -> Judgement:
    verdict, reason = Verdict.UNDECIDED, effect.undecidable
    if p is not None and p_equivalence is not None and effect.mean is not None:
        if p <= ALPHA:
            verdict = Verdict.SUPPORTED if effect.mean < 0 else Verdict.REFUTED
        elif p_equivalence <= ALPHA:
            verdict = Verdict.EQUIVALENT
        else:
            reason = f"neither a difference is shown nor that there is none beyond {margin:g}"
    return Judgement(effect, verdict, p, p_equivalence, family, reason)
