"""Verdicts on claims: what a study's contrasts say of them, and verdicts.json.

A claim states all of its contrasts at every place of the axes that their arms leave open. It is supported if every one
is, refuted if any one is, equivalent if all are, and undecided otherwise. Holm's family is all tests of the claim, also
those that decide nothing yet, since runs of them are not trained.
"""

import collections
import dataclasses
import itertools
import json
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from actlab.analysis.comparison import UNRESOLVED, Comparison
from actlab.analysis.conditions import margin_of, require_one, require_run_once, scale_of, spread, varying_axes
from actlab.analysis.contrasts import Grid, Measured, measure, score
from actlab.analysis.effects import (
    ALPHA,
    CONFIDENCE,
    DIFFERENT,
    Judgement,
    Trend,
    Verdict,
    adjusted,
    jonckheere_terpstra,
    judge,
    nats,
    rank_agreement,
    span,
)
from actlab.analysis.protocol import LOSS, SENSITIVITY, Arm, Claims, Contrast, contrasts_of
from actlab.analysis.results import Result, as_cell
from actlab.errors import UserError
from actlab.files import read_json, write_atomically

FILE = "verdicts.json"
NOWHERE = "no run"  # the place of a contrast without any
Orders = Mapping[str, Mapping[str, float]]  # published losses by source and activation
_DIGITS = 9  # what a sum in another order could change is left out


@dataclasses.dataclass(frozen=True)
class Ruling:
    """The verdict on a contrast at one place. `p` is what decided, adjusted by Holm over `family` tests.

    The effect in `measured` is oriented: a negative one is what the contrast states.
    """

    contrast: Contrast
    scale: str
    measured: Measured
    trend: Trend | None
    verdict: Verdict
    p: float | None
    family: int
    reason: str

    def __str__(self) -> str:
        """In words, as the ledger of claims prints it."""
        return words(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        effect, trend = self.measured.effect, self.trend
        return {
            "says": str(self.contrast),
            "verdict": str(self.verdict),
            "reason": self.reason,
            "mean": None if effect.mean is None else self._stated(effect.mean),
            # Stating an "above" turns the sign, and with it the order of an interval's ends.
            "interval": None if effect.interval is None else sorted(map(self._stated, effect.interval)),
            "sd": effect.sd,
            "bca_interval": None if effect.bootstrap is None else sorted(map(self._stated, effect.bootstrap)),
            "confidence": CONFIDENCE,
            "p_holm": self.p,
            "family": self.family,
            "rates": self.measured.rates,
            "rate_not_resolved": effect.unresolved,
            "read_on": self.measured.read_on,
            "n_seeds": effect.n,
            "seeds_left_out": effect.left_out,
            "trend": None if trend is None else {"tau": trend.tau, "p": trend.p},
            "scale": self.scale,
            "row": [
                {
                    "arm": str(arm),
                    "mean": float(np.mean(list(worth.chosen.values()))) if worth.chosen else None,
                    "runs": list(worth.runs),
                }
                for arm, worth in zip(self.contrast.arms, self.measured.worths, strict=True)
            ],
        }

    def _stated(self, oriented: float) -> float:
        """A value of the oriented effect as one of the contrast's sum."""
        return self.contrast.bound + oriented * (-1 if self.contrast.says == "above" else 1)


@dataclasses.dataclass(frozen=True)
class Decision:
    """The verdict on a claim, with its rulings; `deciding` is the one that it depends on."""

    verdict: Verdict
    rulings: tuple[Ruling, ...]

    @property
    def deciding(self) -> Ruling:
        """For a refuted claim the clearest refutation, else the weakest ruling with the claim's verdict."""
        if self.verdict == Verdict.REFUTED:
            return min((one for one in self.rulings if one.verdict == Verdict.REFUTED), key=_p)
        # A claim that holds at some places and is level at others is undecided because of the latter.
        order = (self.verdict, Verdict.EQUIVALENT)
        candidates = next(found for word in order if (found := [one for one in self.rulings if one.verdict == word]))
        return max(candidates, key=_p)

    def as_dict(self) -> dict[str, Any]:
        """{"verdict", "evidence"}, for JSON."""
        others = [one.as_dict() for one in self.rulings if one is not self.deciding]
        evidence = {name: value for name, value in self.deciding.as_dict().items() if name != "verdict"}
        # All of its tests count, whichever of them decides.
        notes = dict.fromkeys(one.measured.effect.unresolved for one in (self.deciding, *self.rulings))
        evidence["rate_not_resolved"] = "; ".join(filter(None, notes))
        return {"verdict": str(self.verdict), "evidence": {**evidence, "other_tests": others}}


def _p(ruling: Ruling) -> float:
    return 1.0 if ruling.p is None else ruling.p


def decide(claims: Claims, results: Sequence[Result], margin: float | None = None) -> dict[str, Decision]:
    """The decisions on claims that a table allows. Losses within `margin` count as equal, see `margin_of`.

    Raises:
        UserError: as `margin_of`; for a claim without contrasts, and for arms that mix data, tokenizers, model sizes or
            numbers of tokens, or hold a run twice.
    """
    if not claims:
        return {}
    margin = margin_of(results) if margin is None else margin
    return {id: _decide(id, contrasts, results, margin) for id, contrasts in claims.items()}


def _decide(id: str, contrasts: Contrast | Sequence[Contrast], results: Sequence[Result], margin: float) -> Decision:
    tests = [test for contrast in contrasts_of(contrasts) for test in _tests(contrast, results)]
    if not tests:
        raise UserError(f"claim {id} has no contrast: say what decides it.")
    effects = [measured.effect for _, _, measured in tests]
    beyond = adjusted([effect.p_beyond(margin) for effect in effects], sum(effect.waits for effect in effects))
    judged = zip(tests, judge(effects, margin), beyond, strict=True)
    rulings = tuple(_rule(*test, one, p_beyond, margin) for test, one, p_beyond in judged)
    verdicts = {one.verdict for one in rulings}
    if len(verdicts) == 1:
        return Decision(verdicts.pop(), rulings)
    return Decision(Verdict.REFUTED if Verdict.REFUTED in verdicts else Verdict.UNDECIDED, rulings)


def _tests(contrast: Contrast, results: Sequence[Result]) -> Iterator[tuple[Contrast, str, Measured]]:
    """The contrast measured at every place of the axes that its arms leave open, in the order of the table."""
    around = [[run for run in results if _lies_at(arm, run)] for arm in contrast.arms]
    matching = [
        [run for run in runs if run.activation == arm.activation and arm.at in (None, run.learning_rate)]
        for arm, runs in zip(contrast.arms, around, strict=True)
    ]
    held = {path for arm in contrast.arms for path in arm.where}
    # Varying among all activations: an arm whose runs happen to share a place is still an arm at that place only.
    varying = {path for runs in around for path in varying_axes(runs)} - held
    for place in dict.fromkeys(run.axes_among(varying) for runs in matching for run in runs) or {(): None}:
        here = [[run for run in runs if run.axes_among(varying) == place] for runs in matching]
        done = [[run for run in runs if run.done] for runs in here]
        _require_comparable(contrast, done)
        measured = measure(contrast, _grid(contrast, done))
        n_open = len({run.run for runs in here for run in runs if not run.done})
        measured = dataclasses.replace(measured, effect=measured.effect.waiting_for(n_open))
        every = list(itertools.chain(*done))
        yield contrast, scale_of(every, place) if every else NOWHERE, measured


def _lies_at(arm: Arm, run: Result) -> bool:
    axes = {"optimizer.weight_decay" if path == "weight_decay" else path: value for path, value in run.axes}
    # A study.py may write 1e-3 where the table has "0.001".
    return all(path in axes and _value(axes[path]) == _value(value) for path, value in arm.where.items())


def _value(value: object) -> float | str:
    try:
        return float(as_cell(value))
    except ValueError:
        return as_cell(value)


def _require_comparable(contrast: Contrast, trained: Sequence[Sequence[Result]]) -> None:
    for runs in trained:
        require_run_once(runs)
    every = list(itertools.chain(*trained))
    for what in ("data", "tokenizer"):
        require_one(what, every)
    require_one("tokens", [run for run in every if run.status == "finished"])
    # Differences of loss may be compared between widths: then models are of one size within each difference. Losses of
    # two widths may not; what else is measured may, where size is the question.
    weights: dict[Any, float] = collections.defaultdict(float)
    places: dict[Any, list[Result]] = collections.defaultdict(list)
    for (weight, arm), runs in zip(contrast.terms, trained, strict=True):
        place = tuple(sorted((path, _value(value)) for path, value in arm.where.items()))
        weights[place] += weight
        places[place] += runs
    are_differences = all(math.isclose(weight, 0, abs_tol=1e-9) for weight in weights.values())
    for runs in filter(None, places.values() if are_differences or contrast.of != LOSS else [every]):
        spread("parameters", runs)


def _grid(contrast: Contrast, arms: Sequence[Sequence[Result]]) -> Grid:
    pairs = zip(contrast.arms, arms, strict=True)
    runs = ((arm.place, run) for arm, runs in pairs for run in runs)
    return Grid.of((place, run.learning_rate, run.seed, score(run, contrast.of)) for place, run in runs)


def _rule(
    contrast: Contrast, scale: str, measured: Measured, judgement: Judgement, p_beyond: float | None, margin: float
) -> Ruling:
    trend = None
    if contrast.trend and not measured.effect.undecidable:
        trend = jonckheere_terpstra([np.array(list(worth.chosen.values())) for worth in measured.worths])
    if contrast.says == "level":
        verdict, p, reason = _of_level(contrast, judgement, p_beyond, margin)
    else:
        verdict, p, reason = _of_difference(contrast, judgement, trend)
    return Ruling(contrast, scale, measured, trend, verdict, p, judgement.family, reason)


def _of_difference(contrast: Contrast, judgement: Judgement, trend: Trend | None) -> tuple[Verdict, float | None, str]:
    """Verdict, p and reason of a statement that an arm is below or above."""
    verdict, p, reason = judgement.verdict, judgement.p, judgement.reason
    of_loss = contrast.of in (LOSS, SENSITIVITY)
    if not of_loss and judgement.inconclusive:  # the margin is one of losses
        reason = "no difference is shown"
    if verdict == Verdict.EQUIVALENT and not of_loss and p is not None and p <= ALPHA and judgement.effect.mean:
        verdict = Verdict.SUPPORTED if judgement.effect.mean < 0 else Verdict.REFUTED  # the margin is one of losses
    if verdict in DIFFERENT and contrast.trend and not _agrees(trend, contrast, verdict):
        return Verdict.UNDECIDED, p, "the test over the ordered arms does not agree"
    if verdict == Verdict.SUPPORTED and contrast.control:
        return Verdict.UNDECIDED, p, "a control is passed, which refutes nothing and proves nothing"
    if verdict == Verdict.EQUIVALENT:
        if not of_loss:
            return Verdict.UNDECIDED, p, "no difference is shown, and only of losses is it said what is equal"
        p = judgement.p_equivalence
    return verdict, p, reason


def _of_level(
    contrast: Contrast, judgement: Judgement, p_beyond: float | None, margin: float
) -> tuple[Verdict, float | None, str]:
    """Verdict, p and reason of a statement that two arms are equal: here equivalence supports it."""
    p_equal = judgement.p_equivalence
    if contrast.of not in (LOSS, SENSITIVITY):
        return Verdict.UNDECIDED, None, "only of losses is it said what is equal"
    if p_equal is None or p_beyond is None:
        return Verdict.UNDECIDED, None, judgement.reason
    if p_equal <= ALPHA:
        return Verdict.SUPPORTED, p_equal, ""
    if p_beyond <= ALPHA:
        return Verdict.REFUTED, p_beyond, ""
    if judgement.reason and not judgement.inconclusive:  # too few seeds
        return Verdict.UNDECIDED, p_equal, judgement.reason
    return Verdict.UNDECIDED, p_equal, f"neither equality within {margin:g} is shown nor a difference beyond it"


def _agrees(trend: Trend | None, contrast: Contrast, verdict: Verdict) -> bool:
    if trend is None or trend.p > ALPHA:
        return False
    falls = contrast.says == "below"
    return (trend.tau < 0) == (falls == (verdict == Verdict.SUPPORTED))


def agreements(orders: Orders, comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Kendall's tau between our losses at own best rates and each table of published losses, for each comparison.

    Only activations that both have count. A table that does not order those is left out, as may happen while a study is
    trained.
    """
    found = []
    for comparison in comparisons:
        ours = {one.activation: one.loss for one in comparison.main.standings if one.loss is not None}
        for source, theirs in orders.items():
            if (agreement := rank_agreement(ours, theirs)) is not None:
                names = sorted(ours.keys() & theirs.keys(), key=ours.__getitem__)
                scale = comparison.condition.scale
                found.append({"scale": scale, "with": source, **agreement._asdict(), "our_order": names})
    return found


def words(evidence: Mapping[str, Any] | str) -> str:
    """The evidence of a decision, as verdicts.json holds it, in words; a text stays as it is."""
    if isinstance(evidence, str):
        return evidence
    numbers = evidence["reason"] or "decided"
    if evidence["mean"] is not None and evidence["p_holm"] is not None:
        spans = []
        if evidence["interval"] is not None:
            spans.append(f"{evidence['confidence']:.0%} interval {span(evidence['interval'], '+')}")
        elif evidence["sd"]:
            spans.append(f"sd {nats(evidence['sd'])}")
        spans.append(f"p {evidence['p_holm']:.2g} after Holm over {evidence['family']}")
        numbers = "; ".join(filter(None, [f"{nats(evidence['mean'], '+')} ({', '.join(spans)})", evidence["reason"]]))
    if evidence["rate_not_resolved"]:
        numbers += f"; {UNRESOLVED}: {evidence['rate_not_resolved']}"
    seeds = f"{evidence['n_seeds']} seeds"
    if evidence["seeds_left_out"]:
        seeds += f", {evidence['seeds_left_out']} left out"
    arms = "; ".join(_arm_in_words(arm) for arm in evidence["row"])
    return f"{evidence['says']}: {numbers}, {seeds}, at this scale ({evidence['scale']}). Rows: {arms}."


def _arm_in_words(arm: Mapping[str, Any]) -> str:
    if not arm["runs"]:
        return f"{arm['arm']}: none"
    first, *rest = arm["runs"]
    more = f" and {len(rest)} more" if rest else ""
    mean = "" if arm["mean"] is None else f", mean {nats(arm['mean'])}"
    return f"{arm['arm']}: {first}{more}{mean}"


def write(
    path: pathlib.Path,
    comparisons: Sequence[Comparison],
    decisions: Mapping[str, Decision] | None = None,
    agreements: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Writes {"claims": {...}, "comparisons": [...]}, with agreements if there are any. Equal tables give equal bytes.

    Without decisions, the claims in an existing file stay.

    Raises:
        UserError: for an existing file of another form.
        OSError: if the file cannot be written.
    """
    claims = _existing_claims(path)
    if decisions is not None:
        claims = _rounded({id: decision.as_dict() for id, decision in decisions.items()})
    content = {"claims": claims, "comparisons": _rounded([one.as_dict() for one in comparisons])}
    if agreements:
        content["agreements"] = _rounded(list(agreements))
    write_atomically(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def _existing_claims(path: pathlib.Path) -> Any:
    if not path.is_file():
        return {}
    content = read_json(path, "remove it, or choose another file")
    if not isinstance(content.get("claims", {}), dict):
        raise UserError(f'{path} exists and is not an object with "claims": remove it, or choose another file.')
    return content.get("claims", {})


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, list | tuple) else value
