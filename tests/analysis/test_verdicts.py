"""Decisions on claims from planted tables with known answers, tables that are refused, and verdicts.json."""

import dataclasses
import json
import math

import numpy as np
import pytest

from actlab import claims
from actlab.analysis import protocol, verdicts
from actlab.analysis.comparison import compare
from actlab.analysis.effects import Verdict
from actlab.analysis.protocol import Arm, Contrast, above, falls, gap_grows, level, lower
from actlab.analysis.verdicts import decide, write
from actlab.errors import UserError

RATES, SEEDS = (1e-3, 3e-3), range(6)


def wobble(name, rate, seed):
    """A small noise that differs between runs and is the same in every test."""
    return 0.001 * math.sin(37 * seed + 1e4 * rate + sum(map(ord, name)))


def planted(tables, levels, axes=({},), seeds=SEEDS, **changes):
    """A table in which an arm's loss is its level, a number or {rate: number}, plus seed and noise."""
    rows = []
    for place in axes:
        for name, at in levels.items():
            for rate in RATES:
                for seed in seeds:
                    loss = (at[rate] if isinstance(at, dict) else at) + seed / 50 + wobble(name, rate, seed)
                    rows.append(tables.row(name, rate, seed, loss, **changes) | place)
    return rows


def word(tables, rows, *contrasts):
    return decide({"B07": contrasts}, tables.read(rows))["B07"]


@pytest.mark.parametrize(
    ("relu", "verdict"), [(1.1, "supported"), (0.9, "refuted"), (1.0001, "equivalent"), (1.0, "equivalent")]
)
@pytest.mark.parametrize("at", [1e-3, None])
def test_a_planted_difference_has_its_word(tables, relu, verdict, at):
    decision = word(tables, planted(tables, {"gelu": 1.0, "relu": relu}), lower("gelu", "relu", at=at))
    assert decision.verdict == verdict
    evidence = decision.as_dict()["evidence"]
    assert evidence["n_seeds"] == 6 and evidence["interval"][0] <= 1.0 - relu <= evidence["interval"][1]
    assert "1,000 parameters" in evidence["scale"]
    (gelu, other), n_rates = evidence["row"], 1 if at else 2
    assert len(gelu["runs"]) == 6 * n_rates and other["mean"] - gelu["mean"] == pytest.approx(relu - 1, abs=0.003)


def test_the_mean_of_an_arm_is_over_the_seeds_that_are_compared(tables):
    rows = planted(tables, {"gelu": 1.0, "relu": 1.1}, seeds=range(9))
    fewer = [row for row in rows if row["activation"] == "gelu" or row["seed"] < 6]
    evidence = word(tables, fewer, lower("gelu", "relu", at=1e-3)).as_dict()["evidence"]
    gelu, relu = (row["mean"] for row in evidence["row"])
    assert evidence["n_seeds"] == 6 and gelu - relu == pytest.approx(evidence["mean"], abs=1e-9)


def test_too_few_seeds_are_why_a_level_is_open(tables):
    decision = word(tables, planted(tables, {"gelu": 1.0, "relu": 1.003}, seeds=range(4)), level("gelu", "relu"))
    assert decision.verdict == "undecided" and decision.deciding.reason.startswith("4 seeds show no difference")


@pytest.mark.parametrize("arms", [[], ["relu"]])
def test_a_fall_needs_two_arms(arms):
    with pytest.raises(UserError, match="needs two or more arms"):
        falls(arms)


@pytest.mark.parametrize(("relu", "verdict"), [(1.1, "undecided"), (0.9, "refuted")])
def test_a_control_refutes_and_proves_nothing(tables, relu, verdict):
    control = dataclasses.replace(lower("gelu", "relu", at=1e-3), control=True)
    decision = word(tables, planted(tables, {"gelu": 1.0, "relu": relu}), control)
    assert decision.verdict == verdict
    assert (decision.deciding.reason != "") == (verdict == "undecided")


def test_what_is_too_noisy_is_undecided(tables):
    rows = planted(tables, {"gelu": 1.0, "relu": 1.004})
    for row in rows:
        row["final_loss"] += 0.1 * math.sin(row["seed"] * 7 + sum(map(ord, row["activation"])))
    decision = word(tables, rows, lower("gelu", "relu", at=1e-3))
    assert decision.verdict == "undecided" and "neither a difference" in decision.deciding.reason


def test_a_claim_holds_at_every_place_or_not_at_all(tables):
    warm, cold = ({"optimizer.warmup_steps": steps} for steps in (32, 0))
    rows = [*planted(tables, {"gelu": 1.0, "relu": 1.1}, [warm]), *planted(tables, {"gelu": 1.0, "relu": 0.9}, [cold])]
    decision = word(tables, rows, lower("gelu", "relu", at=1e-3))
    assert decision.verdict == "refuted" and len(decision.rulings) == 2
    assert "optimizer.warmup_steps=0" in decision.deciding.scale
    assert decision.deciding.family == 2
    held = word(tables, rows, lower(Arm("gelu", 1e-3, warm), Arm("relu", 1e-3, warm)))
    assert held.verdict == "supported" and len(held.rulings) == 1


def test_arms_may_differ_in_another_axis(tables):
    with_norm, without = ({"model.activation_norm": kind} for kind in ("rmsnorm", "none"))
    rows = [*planted(tables, {"gelu": 0.9}, [with_norm]), *planted(tables, {"gelu": 1.0}, [without])]
    contrast = lower(Arm("gelu", where=with_norm), Arm("gelu", where=without))
    assert word(tables, rows, contrast).verdict == "supported"


def test_sensitivity_and_a_gap_that_grows(tables):
    rows = planted(tables, {"gelu": {1e-3: 1.0, 3e-3: 1.1}, "relu": {1e-3: 1.0, 3e-3: 1.6}})
    assert word(tables, rows, lower("gelu", "relu", of=protocol.SENSITIVITY)).verdict == "supported"
    assert word(tables, rows, lower("relu", "gelu", of=protocol.SENSITIVITY)).verdict == "refuted"
    grows = gap_grows((Arm("relu", 1e-3), Arm("gelu", 1e-3)), (Arm("relu", 3e-3), Arm("gelu", 3e-3)))
    decision = word(tables, rows, grows)
    assert decision.verdict == "supported"
    assert decision.as_dict()["evidence"]["mean"] == pytest.approx(0.5, abs=0.01)


def test_level_is_supported_by_equality_refuted_beyond_the_margin_and_open_between(tables):
    for relu, verdict in ((1.0, "supported"), (1.1, "refuted"), (1.0025, "undecided")):
        rows = planted(tables, {"gelu": 1.0, "relu": relu})
        assert word(tables, rows, level("gelu", "relu", at=1e-3)).verdict == verdict, relu


@pytest.mark.parametrize(("slope", "verdict"), [(-0.2, "supported"), (0.2, "refuted")])
def test_a_trend_over_ordered_arms(tables, slope, verdict):
    names = ("relu", "gelu", "silu", "tanh")
    levels = {name: {1e-3: 1.0, 3e-3: 2.0 + slope * place} for place, name in enumerate(names)}
    decision = word(tables, planted(tables, levels), falls(names, of=protocol.SENSITIVITY))
    assert decision.verdict == verdict
    evidence = decision.as_dict()["evidence"]
    assert evidence["mean"] == pytest.approx(1.5 * slope, abs=0.01) and evidence["trend"]["p"] < 0.001


def test_a_slope_without_order_is_no_trend(tables):
    levels = {"relu": 1.0, "gelu": 1.5, "silu": 0.5, "tanh": 0.9}
    decision = word(tables, planted(tables, levels), falls(tuple(levels)))
    assert decision.verdict == "undecided" and "ordered arms" in decision.deciding.reason


def test_columns_bounds_and_logarithms(tables):
    rows = planted(tables, {"gelu": 1.0, "relu": 1.0})
    for row in rows:
        row["negative_fraction"] = 0.9 + row["seed"] / 1000
        row["grad_norm_p99"] = (100 if row["activation"] == "relu" else 3) * (1 + row["seed"] / 100)
    assert word(tables, rows, above("relu", 0.8, of="negative_fraction", at=1e-3)).verdict == "supported"
    assert word(tables, rows, above("relu", 0.95, of="negative_fraction", at=1e-3)).verdict == "refuted"
    tenfold = Contrast(
        ((1.0, Arm("relu", 1e-3)), (-1.0, Arm("gelu", 1e-3))), "grad_norm_p99", "above", bound=1.0, log=True
    )
    decision = word(tables, rows, tenfold)
    assert decision.verdict == "supported"
    assert decision.as_dict()["evidence"]["mean"] == pytest.approx(math.log10(100 / 3))
    same = word(tables, rows, lower("relu", "gelu", of="negative_fraction", at=1e-3))
    equal = word(tables, rows, level("relu", "gelu", of="negative_fraction", at=1e-3))
    for one in (same, equal):
        assert one.verdict == "undecided" and "only of losses" in one.deciding.reason


def test_what_a_run_lacks_leaves_the_claim_undecided(tables):
    rows = planted(tables, {"gelu": 1.0, "relu": 1.1})
    for row in rows:
        row["dead_fraction"] = "nan" if row["seed"] == 2 else 0.5 + row["seed"] / 100
    decision = word(tables, rows, above("relu", 0.1, of="dead_fraction", at=1e-3))
    assert decision.verdict == "undecided" and "seed2 has no dead_fraction" in decision.deciding.reason
    absent = word(tables, rows, lower("gelu", "tanh", at=1e-3))
    assert absent.verdict == "undecided" and "no run of tanh" in absent.deciding.reason
    one_seed = word(tables, planted(tables, {"gelu": 1.0, "relu": 1.1}, seeds=[3]), lower("gelu", "relu", at=1e-3))
    assert one_seed.verdict == "undecided" and "one seed" in one_seed.deciding.reason


def test_missing_seeds_are_left_out_and_counted(tables):
    rows = planted(tables, {"gelu": 1.0, "relu": 1.1})
    rows = [row for row in rows if not (row["activation"] == "gelu" and row["seed"] == 5)]
    for at in (1e-3, None):
        evidence = word(tables, rows, lower("gelu", "relu", at=at)).as_dict()["evidence"]
        assert (evidence["n_seeds"], evidence["seeds_left_out"]) == (5, 1)


def test_diverged_runs_count_with_their_initial_loss(tables):
    rows = planted(tables, {"gelu": 1.0, "relu": 1.0})
    for row in rows:
        if row["activation"] == "relu" and row["learning_rate"] == 3e-3:
            row |= {"status": "diverged", "final_loss": "nan", "initial_loss": 7.0 + row["seed"] / 50, "steps": 40}
    decision = word(tables, rows, lower("gelu", "relu", at=3e-3))
    assert decision.verdict == "supported"
    assert decision.as_dict()["evidence"]["mean"] == pytest.approx(-6, abs=0.01)
    for row in rows:
        row |= {"status": "diverged", "final_loss": "nan", "initial_loss": 7.0}
    nothing = word(tables, rows, lower("gelu", "relu", at=3e-3))
    assert nothing.verdict == "undecided" and "learned nothing" in nothing.deciding.reason


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": "tiny_stories"}, "mixes data"),
        ({"tokenizer": "bpe:512"}, "mixes tokenizer"),
        ({"tokens": 12_800}, "mixes tokens"),
        ({"parameters": 1100}, "mixes scales"),
    ],
)
def test_arms_that_cannot_be_compared_are_refused(tables, change, words):
    rows = planted(tables, {"gelu": 1.0, "relu": 1.1})
    rows = [row | (change if row["activation"] == "relu" else {}) for row in rows]
    with pytest.raises(UserError, match=words):
        word(tables, rows, lower("gelu", "relu", at=1e-3))


def test_a_gap_is_compared_between_widths_and_models_are_of_one_size_within_each(tables):
    rows = [
        row | {"parameters": 10 * width, "model.d_model": width}
        for width, gap in ((32, 0.1), (64, 0.3))
        for row in planted(tables, {"gelu": 1.0, "relu": 1.0 + gap})
    ]
    at = lambda name, width: Arm(name, 1e-3, {"model.d_model": width})
    grows = gap_grows(*((at("relu", width), at("gelu", width)) for width in (32, 64)))
    decision = word(tables, rows, grows)
    assert decision.verdict == "supported"
    assert decision.as_dict()["evidence"]["mean"] == pytest.approx(0.2, abs=0.01)
    larger = [
        row | {"parameters": 1000} if (row["activation"], row["model.d_model"]) == ("relu", 64) else row for row in rows
    ]
    with pytest.raises(UserError, match="mixes scales"):
        word(tables, larger, grows)
    with pytest.raises(UserError, match="mixes scales"):
        word(tables, rows, lower(at("gelu", 64), at("gelu", 32)))


def test_a_run_given_twice_and_a_claim_without_contrasts_are_refused(tables):
    rows = planted(tables, {"gelu": 1.0, "relu": 1.1})
    with pytest.raises(UserError, match="comes twice"):
        word(tables, [*rows, rows[0]], lower("gelu", "relu", at=1e-3))
    with pytest.raises(UserError, match="B07 has no contrast"):
        word(tables, rows)


def test_lower_at_one_place_and_equal_at_another_is_undecided_by_the_latter(tables):
    rows = planted(tables, {"gelu": {1e-3: 1.0, 3e-3: 1.0}, "relu": {1e-3: 1.1, 3e-3: 1.0}})
    decision = word(tables, rows, *(lower("gelu", "relu", at=rate) for rate in RATES))
    assert [one.verdict for one in decision.rulings] == [Verdict.SUPPORTED, Verdict.EQUIVALENT]
    assert decision.verdict == "undecided" and decision.deciding.verdict == Verdict.EQUIVALENT
    assert decision.as_dict()["evidence"]["mean"] == pytest.approx(0, abs=0.003)


def test_arms_that_were_trained_at_other_settings_are_not_compared(tables):
    rows = []
    for name, warmups in (("relu", (0,)), ("gelu", (32,)), ("silu", (0, 32))):
        rows += planted(tables, {name: 1.0}, axes=[{"optimizer.warmup_steps": warmup} for warmup in warmups])
    decision = word(tables, rows, lower("gelu", "relu", at=1e-3))
    assert decision.verdict == "undecided" and len(decision.rulings) == 2
    assert {one.reason for one in decision.rulings} == {
        "no run of gelu, learning rate 0.001",
        "no run of relu, learning rate 0.001",
    }


def test_what_is_equal_so_far_is_open_while_runs_are_to_come(tables):
    rows = planted(tables, {"gelu": 1.0, "relu": 1.0}, axes=[{"optimizer.warmup_steps": warmup} for warmup in (0, 32)])
    contrast = lower("gelu", "relu", at=1e-3)
    assert word(tables, rows, contrast).verdict == "equivalent"
    to_come = [row | {"status": "waiting"} if row["optimizer.warmup_steps"] else row for row in rows]
    assert word(tables, to_come, contrast).verdict == "undecided"
    assert word(tables, to_come, lower("gelu", "relu")).verdict == "undecided"


def test_of_many_places_one_that_is_beyond_the_margin_by_chance_refutes_no_equality(tables):
    rng = np.random.default_rng(0)
    rows = [
        {**tables.row(name, 1e-3, seed, 1 + 0.0025 * (name == "relu")), "data.batch_size": k}
        for k in range(10)
        for name in ("gelu", "relu")
        for seed in SEEDS
    ]
    runs = tables.read(rows)

    def refuted():
        noisy = [dataclasses.replace(run, final_loss=run.loss + rng.normal(scale=0.0005)) for run in runs]
        return decide({"B13": level("gelu", "relu", at=1e-3)}, noisy)["B13"].verdict == Verdict.REFUTED

    # With differences of just the margin at ten places: uncorrected, every fifth claim would be refuted.
    assert sum(refuted() for _ in range(60)) <= 6


def test_a_claim_at_own_best_rates_says_where_one_is_not_resolved(tables):
    rows = planted(tables, {"gelu": 1.0, "relu": 1.1})
    decision = word(tables, rows, lower("gelu", "relu"))
    evidence = decision.as_dict()["evidence"]
    assert decision.verdict == "supported" and evidence["read_on"] == "validation"
    assert evidence["rate_not_resolved"].startswith("gelu: 0.00") and "relu: 0.00" in evidence["rate_not_resolved"]
    assert "; rate not resolved: gelu" in str(decision.deciding)
    # The note is not lost where a test at a given rate decides.
    both = word(tables, rows, lower("gelu", "relu"), lower("gelu", "relu", at=1e-3))
    assert both.as_dict()["evidence"]["rate_not_resolved"] == evidence["rate_not_resolved"]
    assert word(tables, rows, lower("gelu", "relu", at=1e-3)).as_dict()["evidence"]["rate_not_resolved"] == ""


def test_five_seeds_decide_nothing_at_own_best_rates_and_say_so(tables):
    rows = planted(tables, {"gelu": 1.0, "relu": 1.5}, seeds=range(5))
    decision = word(tables, rows, lower("gelu", "relu"))
    assert decision.verdict == "undecided" and "takes 6 or more" in str(decision.deciding)
    assert "95% interval" not in str(decision.deciding)


def test_one_learning_rate_has_no_sensitivity_not_one_of_0(tables):
    rows = [row for row in planted(tables, {"gelu": 1.0, "relu": 1.1}) if row["learning_rate"] == 1e-3]
    evidence = word(tables, rows, lower("gelu", "relu", of=protocol.SENSITIVITY)).as_dict()["evidence"]
    assert (evidence["mean"], evidence["interval"], evidence["p_holm"]) == (None, None, None)
    assert evidence["reason"] == "one learning rate has no sensitivity"


def test_a_field_that_was_left_open_is_an_arm_too(tables):
    axes = [{"model.d_hidden": ""}, {"model.d_hidden": 32}]
    rows = planted(tables, {"gelu": 1.0}, [axes[0]]) + planted(tables, {"gelu": 1.1}, [axes[1]])
    free, fixed = (Arm("gelu", 1e-3, {"model.d_hidden": value}) for value in (None, 32))
    assert word(tables, rows, lower(free, fixed)).verdict == "supported"


@pytest.fixture
def compared(tables):
    rows = [
        tables.row(name, rate, seed, 1.0 + seed / 97 + (name == "relu") * seed / 10, seconds=6.0 + (name == "relu"))
        for name in ("gelu", "relu")
        for rate in (1e-3, 1e-2)
        for seed in (1, 2, 3)
    ]
    return compare(tables.read(rows))


def test_equal_tables_give_equal_bytes(compared, tmp_path):
    write(tmp_path / "a.json", compared)
    write(tmp_path / "b.json", compared)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    content = json.loads((tmp_path / "a.json").read_text())
    view = content["comparisons"][0]["views"]["parameters"]
    assert view["ranking"][0]["activation"] == "gelu" and view["pairs"][0]["own_best"]["seeds"] == 3
    assert content["claims"] == {}
    p = view["pairs"][0]["own_best"]["p_t"]
    assert 0 < p < 1 and p == float(f"{p:.9g}") != compared[0].main.pairs[0].own_best.effect.p


def test_claims_stay_and_are_still_read_by_the_ledger(compared, tmp_path):
    path = tmp_path / "seeds" / "verdicts.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"claims": {"B07": {"verdict": "true", "evidence": "six seeds."}}}))
    write(path, compared)
    ((_, finding),) = claims.examine((claims.get("B07"),), tmp_path)
    assert finding.verdict == "true"
    assert json.loads(path.read_text())["comparisons"]


@pytest.mark.parametrize("text", ["not json", "[]", '{"claims": []}'])
def test_a_file_of_another_kind_is_not_overwritten(compared, tmp_path, text):
    path = tmp_path / "verdicts.json"
    path.write_text(text)
    with pytest.raises(UserError, match="remove it, or choose"):
        write(path, compared)
    assert path.read_text() == text
    with pytest.raises(OSError, match="nowhere/verdicts.json"):
        write(tmp_path / "nowhere" / "verdicts.json", compared)


def test_a_refuted_claim_is_told_by_its_clearest_refutation_and_another_by_its_weakest_support():
    def ruling(verdict, p):
        return verdicts.Ruling(lower("gelu", "relu"), "", None, None, verdict, p, 2, "")

    refuted = [ruling(Verdict.SUPPORTED, 1e-9), ruling(Verdict.REFUTED, 0.04), ruling(Verdict.REFUTED, 0.001)]
    assert verdicts.Decision(Verdict.REFUTED, tuple(refuted)).deciding is refuted[2]
    supported = [ruling(Verdict.SUPPORTED, 0.001), ruling(Verdict.SUPPORTED, 0.04)]
    assert verdicts.Decision(Verdict.SUPPORTED, tuple(supported)).deciding is supported[1]
