"""Decisions: the word on a claim, from its contrasts at every place of the axes that they leave open.

A claim says all of its contrasts at every place. It is supported if every one is, refuted if any one is, equivalent if
all are, undecided else. Holm's family is all tests of the claim. A test decides nothing while runs of it are not
trained.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from actlab.errors import UserError
from actlab.protocol import LOSS, SENSITIVITY, Claims, Contrast
from actlab.studies.deciding.arms import Arms, Worth, places
from actlab.studies.deciding.wording import words
from actlab.studies.statistics import ALPHA, CONFIDENCE, MARGIN, Effect, Judgement, Verdict, jonckheere_terpstra, judge
from actlab.studies.statistics.trends import Trend
from actlab.studies.table import Result

_DECIMALS = 12  # as effects.paired


@dataclasses.dataclass(frozen=True)
class Test:
    """A contrast at one place. `effect` is oriented: a negative one is what the claim says."""

    arms: Arms
    worths: tuple[Worth, ...]
    effect: Effect
    trend: Trend | None = None

    @property
    def contrast(self) -> Contrast:
        """What is tested."""
        return self.arms.contrast

    def as_stated(self, oriented: float) -> float:
        """A value of the oriented effect as one of the contrast's sum."""
        return self.contrast.bound + oriented * (-1 if self.contrast.says == "above" else 1)


@dataclasses.dataclass(frozen=True)
class Ruling:
    """A test with its word; `p` is what decided, adjusted by Holm over `family` tests."""

    test: Test
    verdict: Verdict
    p: float | None
    family: int
    reason: str

    def __str__(self) -> str:
        """In words, as the ledger of claims prints it."""
        return words(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Everything about it, for JSON."""
        effect, stated = self.test.effect, self.test.as_stated
        interval = None if effect.interval is None else sorted(map(stated, effect.interval))
        bootstrap = None if effect.bootstrap is None else sorted(map(stated, effect.bootstrap))
        trend = self.test.trend
        return {
            "says": str(self.test.contrast),
            "verdict": str(self.verdict),
            "reason": self.reason,
            "mean": None if effect.mean is None else stated(effect.mean),
            "interval": interval,
            "bca_interval": bootstrap,
            "confidence": CONFIDENCE,
            "p_holm": self.p,
            "family": self.family,
            "n_seeds": effect.n,
            "seeds_left_out": effect.left_out,
            "trend": None if trend is None else {"tau": trend.tau, "p": trend.p},
            "scale": self.test.arms.scale,
            "row": [
                _row(arm, worth) for (_, arm), worth in zip(self.test.contrast.terms, self.test.worths, strict=True)
            ],
        }


@dataclasses.dataclass(frozen=True)
class Decision:
    """The word on a claim, with its rulings; `deciding` is the one that it hangs on."""

    verdict: Verdict
    rulings: tuple[Ruling, ...]

    @property
    def deciding(self) -> Ruling:
        """Of a refuted claim the clearest refutation, else the weakest ruling of the claim's word."""
        if self.verdict == Verdict.REFUTED:
            return min((one for one in self.rulings if one.verdict == Verdict.REFUTED), key=_p)
        # What is shown equal at some places and lower at others is undecided by what is shown equal.
        words = (self.verdict, Verdict.EQUIVALENT)
        open_rulings = next(found for word in words if (found := [one for one in self.rulings if one.verdict == word]))
        return max(open_rulings, key=_p)

    def as_dict(self) -> dict[str, Any]:
        """{"verdict", "evidence"}, for JSON."""
        others = [one.as_dict() for one in self.rulings if one is not self.deciding]
        evidence = {name: value for name, value in self.deciding.as_dict().items() if name != "verdict"}
        return {"verdict": str(self.verdict), "evidence": {**evidence, "other_tests": others}}


def decide(claims: Claims, results: Sequence[Result], margin: float = MARGIN) -> dict[str, Decision]:
    """The decisions on claims that a table allows. Losses within `margin`, nats, count as equal.

    Raises:
        UserError: as arms.places, and for a claim without contrasts.
    """
    return {id: _decide(id, contrasts, results, margin) for id, contrasts in claims.items()}


def _decide(id: str, contrasts: Contrast | Sequence[Contrast], results: Sequence[Result], margin: float) -> Decision:
    contrasts = (contrasts,) if isinstance(contrasts, Contrast) else tuple(contrasts)
    if not contrasts:
        raise UserError(f"claim {id} has no contrast: say what decides it.")
    tests = [_test(arms) for contrast in contrasts for arms in places(contrast, results)]
    judged = judge([test.effect for test in tests], margin)
    rulings = tuple(_rule(test, one, margin) for test, one in zip(tests, judged, strict=True))
    return Decision(_word(rulings), rulings)


def _test(arms: Arms) -> Test:
    contrast, worths = arms.contrast, arms.worths()
    seeds = sorted(set.intersection(*(set(worth.chosen) for worth in worths)))
    weights = [weight for weight, _ in contrast.terms]
    one, other = (_oriented(contrast, weights, rows, seeds) for rows in _choices(worths))
    reason = next((worth.reason for worth in worths if worth.reason and not _is_blank_loss(worths, worth)), "")
    if arms.n_open:
        reason = f"{arms.n_open} of its runs are not trained yet"
    effect = Effect(one, len(arms.seeds()) - len(seeds), reason, other if other != one else ())
    trend = None
    if contrast.trend and len(seeds) > 1 and not reason:
        trend = jonckheere_terpstra([np.array([worth.chosen[seed] for seed in seeds]) for worth in worths])
    return Test(arms, tuple(worths), effect, trend)


def _choices(worths: Sequence[Worth]) -> tuple[list[dict[int, float]], list[dict[int, float]]]:
    return [worth.chosen for worth in worths], [worth.also for worth in worths]


def _oriented(
    contrast: Contrast, weights: Sequence[float], values: Sequence[Mapping[int, float]], seeds: Sequence[int]
) -> tuple[float, ...]:
    sign = -1 if contrast.says == "above" else 1
    total = lambda seed: sum(weight * arm[seed] for weight, arm in zip(weights, values, strict=True))  # noqa: E731
    return tuple(round(sign * (total(seed) - contrast.bound), _DECIMALS) for seed in seeds)


def _is_blank_loss(worths: Sequence[Worth], worth: Worth) -> bool:
    """Whether an arm that learned nothing stands beside one that did: its loss at initialisation is a result then."""
    learned = any(not other.reason and other.runs for other in worths)
    return learned and worth.reason.endswith("diverged or learned nothing")


def _rule(test: Test, judgement: Judgement, margin: float) -> Ruling:
    if test.contrast.says == "level":
        return _rule_level(test, judgement, margin)
    verdict, reason = judgement.verdict, judgement.reason
    if verdict in (Verdict.SUPPORTED, Verdict.REFUTED) and not _trend_agrees(test, verdict):
        verdict, reason = Verdict.UNDECIDED, "the test over the ordered arms does not agree"
    if verdict == Verdict.EQUIVALENT and test.contrast.of not in (LOSS, SENSITIVITY):
        verdict, reason = Verdict.UNDECIDED, "no difference is shown, and only of losses is it said what is equal"
    if verdict == Verdict.SUPPORTED and test.contrast.control:
        verdict, reason = Verdict.UNDECIDED, "a control is passed, which refutes nothing and proves nothing"
    p = judgement.p_equivalence if verdict == Verdict.EQUIVALENT else judgement.p
    return Ruling(test, verdict, p, judgement.family, reason)


def _rule_level(test: Test, judgement: Judgement, margin: float) -> Ruling:
    ruled = functools.partial(Ruling, test, family=judgement.family)
    if test.contrast.of not in (LOSS, SENSITIVITY):
        return ruled(verdict=Verdict.UNDECIDED, p=None, reason="only of losses is it said what is equal")
    if judgement.p_equivalence is None:
        return ruled(verdict=Verdict.UNDECIDED, p=None, reason=judgement.reason)
    if judgement.p_equivalence <= ALPHA:
        return ruled(verdict=Verdict.SUPPORTED, p=judgement.p_equivalence, reason="")
    if judgement.p_beyond is not None and judgement.p_beyond <= ALPHA:
        return ruled(verdict=Verdict.REFUTED, p=judgement.p_beyond, reason="")
    reason = f"neither equality within {margin:g} is shown nor a difference beyond it"
    return ruled(verdict=Verdict.UNDECIDED, p=judgement.p_equivalence, reason=reason)


def _trend_agrees(test: Test, verdict: Verdict) -> bool:
    if not test.contrast.trend:
        return True
    if test.trend is None or test.trend.p > ALPHA:
        return False
    falls = test.contrast.says == "below"
    return (test.trend.tau < 0) == (falls == (verdict == Verdict.SUPPORTED))


def _word(rulings: Sequence[Ruling]) -> Verdict:
    verdicts = {one.verdict for one in rulings}
    if len(verdicts) == 1:
        return verdicts.pop()
    return Verdict.REFUTED if Verdict.REFUTED in verdicts else Verdict.UNDECIDED


def _p(ruling: Ruling) -> float:
    return 1.0 if ruling.p is None else ruling.p


def _row(arm: Any, worth: Worth) -> dict[str, Any]:
    mean = float(np.mean(list(worth.chosen.values()))) if worth.chosen else None
    return {"arm": str(arm), "mean": mean, "runs": [run.run for run in worth.runs]}
