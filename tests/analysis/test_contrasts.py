"""What is read off a grid by hand: own best rates, sensitivities, missing seeds, diverged runs."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from actlab.analysis.best_rates import signs
from actlab.analysis.contrasts import Grid, Score, judge_pairs, losses_at_best, lr_sensitivity, measure, score
from actlab.analysis.effects import Verdict, judge
from actlab.analysis.protocol import Arm, Contrast, gap_grows, lower, parse_question
from actlab.errors import UserError

PAIR = lower("gelu", "relu")


def grid(**losses):
    """Rows of losses by rate, {1e-3: (seed 0, seed 1, ...)}; None is a missing run, 7 the loss at initialisation."""
    return Grid.of(
        (name, rate, seed, Score(float(loss), "diverged" if loss >= 7 else ""))
        for name, rows in losses.items()
        for rate, row in rows.items()
        for seed, loss in enumerate(row)
        if loss is not None
    )


def judged(one):
    (pair,) = judge_pairs(one, [PAIR], 0.005)
    return pair


def test_each_activation_is_taken_at_its_own_best_rate():
    one = grid(
        gelu={1e-3: (2.00, 2.01, 2.02, 2.03, 2.01, 2.02), 1e-2: (3,) * 6},
        relu={1e-3: (3,) * 6, 1e-2: (2.11, 2.10, 2.12, 2.15, 2.13, 2.11)},
    )
    assert measure(PAIR, one).effect.differences == pytest.approx((-0.11, -0.09, -0.10, -0.12, -0.12, -0.09))
    pair = judged(one)
    assert pair.own_best.verdict == Verdict.SUPPORTED and pair.own_best.p == 2 / 2**6
    assert pair.at_rates[1e-3].effect.mean == pytest.approx(2.015 - 3) and pair.at_rates[1e-3].verdict == "supported"
    assert pair.at_rates[1e-2].verdict == Verdict.REFUTED and pair.at_rates[1e-2].family == 2


def test_what_waits_for_runs_is_undecided_and_part_of_its_family():
    rows = {"gelu": (2.00, 2.01, 2.02, 2.03, 2.01, 2.02), "relu": (2.11, 2.10, 2.12, 2.15, 2.13, 2.11)}
    one = grid(**{name: {1e-3: losses} for name, losses in rows.items()})
    assert judged(one).own_best.verdict == judged(one).at_rates[1e-3].verdict == Verdict.SUPPORTED
    (pair,) = judge_pairs(one, [PAIR], 0.005, waiting=[("relu", 1e-2), ("gelu", 1e-2), ("tanh", 1e-1)])
    assert pair.own_best.verdict == Verdict.UNDECIDED and "2 of its runs are not trained yet" in pair.own_best.reason
    assert pair.at_rates[1e-3].verdict == Verdict.SUPPORTED and pair.at_rates[1e-3].family == 2
    (pair,) = judge_pairs(one, [PAIR], 0.005, waiting=[("relu", 1e-3)])
    assert pair.at_rates[1e-3].verdict == Verdict.UNDECIDED and pair.at_rates[1e-3].family == 1


def test_arms_without_a_common_rate_have_not_failed():
    assert (
        measure(PAIR, grid(gelu={1e-3: (1, 2)}, relu={1e-2: (1, 2)})).effect.reason == "its arms share no learning rate"
    )
    assert measure(PAIR, grid(gelu={1e-3: (1, 2)})).effect.reason == "no run of relu"


def test_a_rate_is_chosen_on_all_seeds_and_on_the_others():
    # On the mean of all seeds 1e-2 is best; without seed 0, which makes it so, 1e-3 is.
    one = grid(gelu={1e-3: (2.0, 2.0, 2.0), 1e-2: (1.0, 2.1, 2.1)}, relu={1e-3: (2, 2, 2), 1e-2: (3, 3, 3)})
    effect = measure(PAIR, one).effect
    assert (
        effect.differences == pytest.approx((-1.0, 0.1, 0.1)) and effect.also == (pytest.approx((0.0, 0.1, 0.1)),) * 2
    )


def test_rates_are_chosen_on_validation_and_differences_read_on_test():
    def of(tests):
        losses = {"gelu": {1e-3: 1.0, 1e-2: 1.1}, "relu": {1e-3: 1.3, 1e-2: 1.2}}
        return Grid.of(
            (name, rate, seed, Score(loss, test=tests[name][rate]))
            for name, row in losses.items()
            for rate, loss in row.items()
            for seed in range(3)
        )

    tests = {"gelu": {1e-3: 1.5, 1e-2: 1.4}, "relu": {1e-3: 2.0, 1e-2: 2.1}}
    measured = measure(PAIR, of(tests))
    assert measured.read_on == "test" and measured.effect.differences == pytest.approx((1.5 - 2.1,) * 3)
    # Where one run lacks it, no difference compares a test loss with a validation loss.
    lacking = measure(PAIR, of(tests | {"relu": {1e-3: None, 1e-2: 2.1}}))
    assert lacking.read_on == "validation" and lacking.effect.differences == pytest.approx((-0.2,) * 3)


def test_rows_give_the_test_losses_at_the_rate_that_validation_chooses(tables):
    def table(**changes):
        # Validation prefers 1e-2 for GELU and 1e-3 for ReLU, test the other way round.
        losses = {("gelu", 1e-3): (2.0, 0.5), ("gelu", 1e-2): (1.0, 1.5), ("relu", 1e-3): (1.0, 1.7)}
        losses[("relu", 1e-2)] = (2.0, 0.6)
        written = [
            tables.row(name, rate, seed, validation, test_loss=test + seed / 10)
            for (name, rate), (validation, test) in losses.items()
            for seed in (1, 2)
        ]
        return tables.read([*written[:-1], written[-1] | changes])

    found = losses_at_best(table())
    assert {name: losses.tolist() for name, losses in found.items()} == {"gelu": [1.6, 1.7], "relu": [1.8, 1.9]}
    for changes in ({"test_loss": ""}, {"status": "stopped"}):
        with pytest.raises(UserError, match="relu-lr0.01-seed2 has no test loss"):
            losses_at_best(table(**changes))


def test_a_best_rate_that_is_not_resolved_is_told_with_its_arm():
    fine = {
        rate: tuple(2 + (step - 1) ** 2 / 10 + seed / 99 for seed in range(6))
        for step, rate in enumerate((1.0, 1.7, 2.9))
    }
    assert measure(PAIR, grid(gelu=fine, relu=fine)).effect.unresolved == ""
    fell = fine | {2.9: (*fine[2.9][:5], 7)}
    found = measure(PAIR, grid(gelu=fine, relu=fell)).effect.unresolved
    assert found.startswith("relu: ") and "1 of 6 runs failed" in found
    assert measure(PAIR.at(1.7), grid(gelu=fine, relu=fell)).effect.unresolved == ""


def test_an_interaction_at_own_best_rates_swaps_pairs():
    rng = np.random.default_rng(0)
    one = Grid.of(
        (
            f"{name}, data.batch_size={size}",
            rate,
            seed,
            Score(1 + rng.normal(scale=0.01) + 0.3 * (name + str(size) == "gelu64")),
        )
        for name in ("gelu", "relu")
        for size in (16, 64)
        for rate in (1e-3, 1e-2)
        for seed in range(7)
    )
    arms = [[Arm(name, where={"data.batch_size": size}) for name in ("gelu", "relu")] for size in (16, 64)]
    effect = measure(gap_grows(*(tuple(pair) for pair in arms)), one).effect
    assert effect.mean == pytest.approx(-0.3, abs=0.02) and effect.swaps.p() == 2 / 2**7
    # One against the mean of two others has no arm to be swapped with; one at a rate of its own has no curve.
    one_to_two = Contrast(((1.0, Arm("gelu")), (-0.5, Arm("relu")), (-0.5, Arm("silu"))))
    # At their own best rates GELU's curve is the worse one, and at 1e-2 for ReLU nothing differs.
    noisy = lambda level: tuple(level + rng.normal(scale=0.1, size=7))
    rows = {"gelu": {1e-3: noisy(2), 1e-2: noisy(4)}, "relu": {1e-3: noisy(1), 1e-2: noisy(2)}}
    one = grid(**rows, silu={1e-3: noisy(3), 1e-2: noisy(4)})
    assert measure(PAIR, one).effect.swaps.p() == 2 / 2**7
    for contrast in (one_to_two, lower("gelu", Arm("relu", 1e-2))):
        found = measure(contrast, one).effect
        assert found.swaps.p() == signs(np.array(found.differences)).p() > 2 / 2**7


def test_one_diverged_run_leaves_the_differences_on_test(tables):
    diverged = {"status": "diverged", "final_loss": "nan", "test_loss": ""}
    rows = [
        tables.row(name, 1e-3, seed, 1.0, **({"test_loss": 2.0} if (name, seed) != ("relu", 3) else diverged))
        for name in ("gelu", "relu")
        for seed in (1, 2, 3)
    ]
    runs = tables.read(rows)
    found = measure(PAIR, Grid.of((run.activation, run.learning_rate, run.seed, score(run)) for run in runs))
    began = runs[-1].initial_loss
    assert found.read_on == "test" and found.effect.differences == pytest.approx((0, 0, 2.0 - began))


def test_a_bound_shifts_the_swapped_curves_too():
    rng = np.random.default_rng(0)
    rows = {
        name: {rate: tuple(2 + rng.normal(scale=0.1, size=7)) for rate in (1e-3, 1e-2)} for name in ("gelu", "relu")
    }
    less = {rate: tuple(np.array(losses) - 1.0) for rate, losses in rows["gelu"].items()}
    for says in ("below", "above"):
        terms = ((1.0, Arm("gelu")), (-1.0, Arm("relu")))
        bounded = measure(Contrast(terms, says=says, bound=-1.0), grid(gelu=less, relu=rows["relu"])).effect
        plain = measure(Contrast(terms, says=says), grid(**rows)).effect
        assert bounded.differences == pytest.approx(plain.differences)
        for margin in (0.0, 0.05, -0.05):
            assert bounded.swaps.p(margin, "less") == plain.swaps.p(margin, "less")


def test_a_column_of_0_has_no_logarithm_and_counts_as_missing():
    norms = {"gelu": (1.0, 2.0), "relu": (3.0, 0.0)}
    one = Grid.of(
        (name, 1e-3, seed, Score(1.0, run=f"{name}{seed}", column=value))
        for name, values in norms.items()
        for seed, value in enumerate(values)
    )
    terms = ((1.0, Arm("relu", 1e-3)), (-1.0, Arm("gelu", 1e-3)))
    found = measure(Contrast(terms, "grad_norm_p99", "above", bound=1.0, log=True), one)
    assert "relu1 has no grad_norm_p99" in found.effect.reason


def test_only_rates_of_both_and_seeds_with_all_of_them_count_at_own_best():
    one = grid(
        gelu={1e-4: (1, 1, 1, 1), 1e-3: (2.0, 2.0, 2.0, 2.0), 1e-2: (3, 3, 3, None)},
        relu={1e-3: (2.1, 2.2, None, 2.1), 1e-2: (3, 3, 3, 3), 1e-1: (0, 0, 0, 0)},
    )
    pair = judged(one)
    assert pair.own_best.effect.differences == pytest.approx((-0.1, -0.2)) and pair.own_best.effect.left_out == 2
    assert list(pair.at_rates) == [1e-3, 1e-2]
    assert pair.at_rates[1e-3].effect.n == 3 and pair.at_rates[1e-3].effect.left_out == 1


def test_text_bs_three_points_have_their_published_sensitivities():
    # One seed: the numbers are there, and nothing can be decided with them.
    rates = (1e-4, 1e-3, 1e-2)
    relu, gelu = (1.12, 0.87, 1.68), (1.13, 0.85, 1.09)
    rows = [{rate: (loss,) for rate, loss in zip(rates, losses, strict=True)} for losses in (gelu, relu)]
    one = grid(gelu=rows[0], relu=rows[1])
    assert one.sensitivities("relu", rates, [0])[0] == pytest.approx(0.3533, abs=5e-5)
    assert one.sensitivities("gelu", rates, [0])[0] == pytest.approx(0.1733, abs=5e-5)
    pair = judged(one)
    assert pair.sensitivity.effect.mean == pytest.approx(-0.18) and pair.sensitivity.verdict == Verdict.UNDECIDED
    assert pair.own_best.effect.mean == pytest.approx(-0.02) and "one seed" in pair.own_best.reason


def test_sensitivities_are_paired_by_seed():
    one = grid(
        gelu={1e-3: (2.0, 2.1, 2.2), 1e-2: (2.2, 2.3, 2.4)},
        relu={1e-3: (2.0, 2.1, 2.2), 1e-2: (2.6, 2.68, 2.8)},
    )
    pair = judged(one)
    assert pair.sensitivity.effect.differences == pytest.approx((-0.2, -0.19, -0.2))
    assert pair.sensitivity.verdict == Verdict.SUPPORTED and pair.own_best.effect.mean == 0


def test_ties_are_equivalent():
    rows = {1e-3: (2.0, 2.1, 2.2, 2.3, 2.0), 1e-2: (2.5, 2.4, 2.6, 2.7, 2.4)}
    pair = judged(grid(gelu=rows, relu=rows))
    assert {pair.own_best.verdict, pair.sensitivity.verdict, *(one.verdict for one in pair.at_rates.values())} == {
        Verdict.EQUIVALENT
    }


def test_an_activation_that_always_diverged_is_worse_than_one_that_did_not():
    learned = {1e-3: (2.0, 2.1, 2.2, 2.0, 2.1, 2.2), 1e-2: (3.0, 3.1, 3.2, 3.0, 3.1, 3.2)}
    pair = judged(grid(gelu=learned, relu={1e-3: (7,) * 6, 1e-2: (7,) * 6}))
    assert pair.own_best.verdict == Verdict.SUPPORTED
    assert pair.sensitivity.verdict == Verdict.UNDECIDED
    assert pair.sensitivity.reason == "relu with seed 0 failed at every rate, where a sensitivity says nothing"


def test_where_every_run_diverged_nothing_is_decided():
    # Losses at initialisation differ between activations, which says nothing of what they learn.
    scores = {rate: {seed: Score(6.9 + seed, "diverged") for seed in range(6)} for rate in (1e-3, 1e-2)}
    other = {rate: {seed: Score(7.0 + seed, "learned nothing") for seed in range(6)} for rate in (1e-3, 1e-2)}
    pair = judged(Grid({"gelu": scores, "relu": other}))
    for one in (pair.own_best, pair.sensitivity, *pair.at_rates.values()):
        assert one.verdict == Verdict.UNDECIDED and one.p is None and "every run" in one.reason


def test_collapsed_runs_have_losses_of_their_own_and_are_compared_at_a_rate():
    def fallen(level):
        return {1e-3: {seed: Score(level + seed / 100, "collapsed") for seed in range(6)}}

    pair = judged(Grid({"gelu": fallen(2.5), "relu": fallen(2.7)}))
    assert pair.at_rates[1e-3].verdict == Verdict.SUPPORTED and "failed" in pair.sensitivity.reason
    assert pair.own_best.effect.unresolved


def test_a_sensitivity_leaves_out_rates_at_which_every_run_of_its_arms_failed():
    both = {1e-3: (2.0, 2.1), 1e-2: (2.2, 2.3), 1e-1: (7, 7)}
    other = both | {1e-1: (7, 3.0)}
    assert judged(grid(gelu=both, relu=both)).sensitivity_rates == (1e-3, 1e-2)
    pair = judged(grid(gelu=both, relu=other))
    assert pair.sensitivity_rates == (1e-3, 1e-2, 1e-1)
    means = (np.mean([2.0, 2.2, 7]) - 2.0, np.mean([2.1, 2.3, 7]) - 2.1, np.mean([2.1, 2.3, 3.0]) - 2.1)
    assert pair.sensitivity.effect.differences == pytest.approx((0.0, means[1] - means[2]))
    assert pair.as_dict()["lr_sensitivity"]["rates"] == (1e-3, 1e-2, 1e-1)


def test_no_common_seed_is_undecided():
    pair = judged(grid(gelu={1e-3: (1.0, 1.1, None, None)}, relu={1e-3: (None, None, 2.0, 2.1)}))
    assert pair.own_best.effect.n == 0 and pair.own_best.effect.left_out == 4
    assert "no seed has a run of every arm" in pair.own_best.reason and pair.own_best.verdict == Verdict.UNDECIDED


@settings(max_examples=25)
@given(st.integers(0, 2**31), st.permutations(range(6)), st.floats(-0.3, 0.3))
def test_order_of_seeds_and_a_constant_change_nothing_and_turning_the_question_turns_the_verdict(seed, order, shift):
    losses = np.random.default_rng(seed).uniform(1, 3, (2, 3, 6))
    losses[0] += losses[1, 0] - np.random.default_rng(seed + 1).choice([0.0, 2.0])

    def pair(losses, question=PAIR):
        rows = [dict(zip((1e-4, 1e-3, 1e-2), map(tuple, arm.tolist()), strict=True)) for arm in losses]
        (one,) = judge_pairs(grid(gelu=rows[0], relu=rows[1]), [question], 0.005)
        return [one.own_best, *one.at_rates.values(), one.sensitivity]

    turned = {"supported": "refuted", "refuted": "supported"}
    ours = pair(losses)
    for one, shuffled, moved, other in zip(
        ours,
        pair(losses[:, :, order]),
        pair(losses + shift),
        pair(losses, lower("relu", "gelu")),
        strict=True,
    ):
        assert one.verdict == shuffled.verdict == moved.verdict == turned.get(other.verdict, other.verdict)
        assert one.effect.mean == pytest.approx(-other.effect.mean) == pytest.approx(shuffled.effect.mean)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gelu", "--question="),
        ("gelu<relu<tanh", "--question="),
        ("gelu<", "--question="),
        ("gleu<relu", "did you mean 'gelu'"),
        ("gelu<gelu", "with itself"),
    ],
)
def test_what_is_no_question(text, words):
    with pytest.raises(UserError, match=words):
        parse_question(text, ("gelu", "relu", "tanh"))


def test_questions_may_name_activations_with_parameters():
    name = "gelu_scale(s=0.25)"
    assert parse_question(f"{name} < relu", (name, "relu")) == lower(name, "relu")


LOSSES = st.lists(st.floats(0.1, 20), min_size=1, max_size=9)


@pytest.mark.parametrize(("row", "expected"), [((1.12, 0.87, 1.68), 0.3533), ((1.13, 0.85, 1.09), 0.1733)])
def test_three_published_points(row, expected):
    assert lr_sensitivity(row, math.log(50_304)) == pytest.approx(expected, abs=5e-5)


def test_losses_above_the_initial_one_count_as_it():
    assert lr_sensitivity([2.0, 3.0, 50.0], 4.0) == pytest.approx(1.0)


@pytest.mark.parametrize("diverged", [math.nan, math.inf])
def test_a_diverged_run_counts_as_the_initial_loss(diverged):
    assert lr_sensitivity([2.0, diverged], 4.0) == lr_sensitivity([2.0, 4.0], 4.0) == 1.0


def test_no_run_below_the_initial_loss_is_no_sensitivity():
    assert lr_sensitivity([math.nan, 9.0], 4.0) == 0.0


@given(LOSSES, st.floats(0.1, 20), st.randoms())
def test_it_is_at_least_zero_whatever_the_order_and_shifts_with_nothing(row, initial, random):
    value = lr_sensitivity(row, initial)
    shuffled = random.sample(row, len(row))
    assert value >= -1e-12
    assert lr_sensitivity(shuffled, initial) == pytest.approx(value, abs=1e-9)
    assert lr_sensitivity([loss + 3 for loss in row], initial + 3) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(
    ("row", "initial", "words"),
    [
        ([], 4.0, "shape"),
        ([[1.0, 2.0]], 4.0, "shape"),
        (3.0, 4.0, "shape"),
        ([-math.inf, 1.0], 4.0, "-inf"),
        ([1.0], math.nan, "initial_loss"),
        ([1.0], math.inf, "initial_loss"),
    ],
)
def test_what_is_not_a_row_of_losses(row, initial, words):
    with pytest.raises(ValueError, match=words):
        lr_sensitivity(np.asarray(row), initial)


def test_a_contrast_of_logarithms_is_one_of_a_column():
    with pytest.raises(UserError, match="log=True of"):
        dataclasses.replace(lower("gelu", "relu"), log=True)


def test_how_many_seeds_could_decide_counts_the_questions_that_are_still_to_come():
    rng = np.random.default_rng(0)
    row = lambda: {rate: tuple(2 + rng.normal(scale=0.1, size=7)) for rate in (1e-3, 1e-2)}
    effect = measure(PAIR, grid(gelu=row(), relu=row())).effect
    reasons = [judge([effect], 1e-6, to_come)[0].reason for to_come in (0, 4)]
    assert "seeds show" not in reasons[0] and "a family of 5 tests takes 8 or more" in reasons[1]
