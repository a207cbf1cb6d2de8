"""Whole comparisons: planted effects, sentences, warnings, failures, margins, and that nothing is NaN."""

import json

import numpy as np
import pytest

from actlab import activations
from actlab.analysis import comparison, printing
from actlab.analysis.comparison import compare
from actlab.analysis.effects import Verdict, judge, nats, paired, paired_resolution
from actlab.analysis.protocol import lower
from actlab.console import lines
from actlab.errors import UserError

RATES = (1e-3, 3e-3, 1e-2)


def rows(tables, effects, seed=0, n=8, noise=0.004, **changes):
    """A sweep with a planted effect for each activation; the middle rate is best."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(scale=0.02, size=n)
    return [
        tables.row(name, rate, k, 1.5 + effect + shared[k] + noise * rng.normal() + 0.1 * (rate != 3e-3), **changes)
        for name, effect in effects.items()
        for rate in RATES
        for k in range(n)
    ]


def test_planted_effects_are_found_in_their_order(tables):
    (one,) = compare(tables.read(rows(tables, {"tanh": 0.1, "gelu": 0.0, "relu": 0.03})))
    assert [standing.activation for standing in one.main.standings] == ["gelu", "relu", "tanh"]
    assert [standing.best_rate for standing in one.main.standings] == [3e-3] * 3
    assert one.baseline == "tanh" and [pair.question for pair in one.main.pairs] == ["gelu < tanh", "relu < tanh"]
    first, _ = one.sentences
    assert first.startswith("supported, rate not resolved: the loss of gelu is lower than that of tanh, at this scale")
    assert one.main.pairs[0].own_best.effect.mean == pytest.approx(-0.1, abs=0.01)
    ((pair, judged),) = one.other_pairs().items()
    assert pair.activations == ("gelu", "relu") and judged.family == 1 and judged.verdict == Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("effect", "noise", "verdict", "words"),
    [
        (0.03, 0.004, Verdict.SUPPORTED, "the loss of gelu is lower than that of relu"),
        (-0.03, 0.004, Verdict.REFUTED, "is higher than that of relu"),
        (0.0, 0.0005, Verdict.EQUIVALENT, "equal within the margin"),
        (0.0, 0.02, Verdict.UNDECIDED, "is open"),
    ],
)
def test_a_question_is_answered_in_one_sentence(tables, effect, noise, verdict, words):
    table = tables.read(rows(tables, {"gelu": 0.0, "relu": effect, "tanh": 0.2}, noise=noise, seed=3))
    (one,) = compare(table, [lower("gelu", "relu")])
    (sentence,) = one.sentences
    assert sentence.startswith(f"{verdict}") and words in sentence and "at this scale" in sentence
    # Its rates are a factor of three apart: every verdict says so.
    assert sentence.startswith(f"{verdict}, rate not resolved: ") == (verdict != Verdict.UNDECIDED)
    assert "rate not resolved: gelu: the rates beside 0.003 are a factor 3.33 away" in sentence
    assert "8 seeds" in sentence and ("in 80% of cases" in sentence) == (verdict == Verdict.UNDECIDED)
    assert len(one.main.pairs) == 1 and one.main.pairs[0].own_best.family == 1
    assert one.main.pairs[0].at_rates[1e-2].family == 3


@pytest.mark.parametrize("family", [1, 8])
def test_what_the_seeds_would_find_allows_for_holm(family):
    noise = np.random.default_rng(4).normal(size=(family, 5))
    effects = [paired(dict(enumerate(0.01 * row)), dict.fromkeys(range(5), 0.0)) for row in noise]
    judged = judge(effects, 0.005)
    undecided = next(one for one in judged if one.verdict == Verdict.UNDECIDED)
    found = nats(paired_resolution(5, alpha=0.05 / family) * undecided.effect.sd)
    end = " at Holm's strictest level." if family > 1 else "."
    assert comparison.in_numbers(undecided).endswith(f"; a t test of 5 seeds finds {found} in 80% of cases{end}")


def test_of_few_seeds_a_sentence_says_how_many_it_takes(tables):
    for n, words in ((5, "one test takes 6 or more"), (7, "8 or more find as much"), (8, "")):
        table = tables.read(rows(tables, {"gelu": 0.0, "relu": 0.3}, n=n))
        (one,) = compare(table, [lower("gelu", "relu")])
        told = [warning for warning in one.warnings if "seeds" in warning]
        assert [words in warning for warning in told] == ([True] if words else [])
        assert (one.main.pairs[0].own_best.verdict == Verdict.SUPPORTED) == (n > 5)
        assert ("takes 6 or more" in one.sentences[0]) == (n == 5)
        assert one.main.pairs[0].at_rates[3e-3].verdict == Verdict.SUPPORTED, "nothing is chosen at a given rate"
    many = {name: 0.1 * place for place, name in enumerate(activations.names()[:15])}
    (one,) = compare(tables.read(rows(tables, many)))
    assert any("a family of 14 tests takes 10 or more" in warning for warning in one.warnings)
    assert one.answer.endswith(
        "8 seeds show no difference at own best rates, whatever it is: a family of 14 tests takes 10 or more."
    )


def test_questions_that_wait_for_their_runs_are_part_of_the_family(tables):
    waiting = [row | {"status": "waiting"} for row in rows(tables, {"tanh": 0.0, "elu": 0.0})]
    table = tables.read(rows(tables, {"gelu": 0.0, "relu": 0.3}) + waiting)
    (one,) = compare(table, [lower("gelu", name) for name in ("relu", "tanh", "elu")])
    (pair,) = one.main.pairs
    assert (pair.own_best.family, pair.at_rates[3e-3].family) == (3, 9)
    begun = [row | {"status": "finished"} if row["seed"] == 0 else row for row in waiting]
    (one,) = compare(
        tables.read(rows(tables, {"gelu": 0.0, "relu": 0.3}) + begun),
        [lower("gelu", name) for name in ("relu", "tanh")],
    )
    assert [pair.own_best.family for pair in one.main.pairs] == [2, 2], "one seed of tanh is no test yet"
    (against,) = compare(table, baseline="gelu")
    assert [pair.own_best.family for pair in against.main.pairs] == [3]


def test_a_rate_is_resolved_by_near_neighbours(tables):
    table = [
        row | {"learning_rate": {1e-3: 2e-3, 1e-2: 5e-3}.get(row["learning_rate"], 3e-3)}
        for row in rows(tables, {"gelu": 0.0, "relu": 0.03})
    ]
    table = [row | {"run": f"{row['run']}-{row['learning_rate']}"} for row in table]
    (one,) = compare(tables.read(table), [lower("gelu", "relu")])
    assert one.sentences[0].startswith("supported: ") and "resolved" not in one.sentences[0]
    assert one.as_dict()["views"]["parameters"]["pairs"][0]["own_best"]["rate_not_resolved"] == ""


@pytest.mark.parametrize(("effect", "noise", "within"), [(0.001, 0.0001, True), (0.03, 0.004, False)])
def test_a_difference_within_the_margin_is_equivalence(tables, effect, noise, within):
    (one,) = compare(tables.read(rows(tables, {"relu": effect, "gelu": 0.0}, noise=noise)))
    (pair,) = one.main.pairs
    assert pair.own_best.p <= 0.05 and pair.question == "gelu < relu"
    assert pair.own_best.verdict == (Verdict.EQUIVALENT if within else Verdict.SUPPORTED)
    assert one.sentences[0].endswith("; a difference is shown, and it lies within the margin.") == within


def test_the_answer_groups_what_is_lower_higher_equal_and_open(tables):
    effects = {"gelu": 0.0, "relu": 0.05, "silu": -0.05, "tanh": 0.0}
    (one,) = compare(tables.read(rows(tables, effects, noise=0.0002)))
    assert (
        one.answer.startswith("Lower loss than gelu: silu by 0.05") and "; higher than gelu: relu by 0.0" in one.answer
    )
    assert "; equal to gelu within 0.0025: tanh (nats/byte, 8 seeds)." in one.answer
    (one,) = compare(tables.read(rows(tables, effects, noise=0.0002)), baseline="relu")
    assert one.answer.startswith("Lower loss than relu: silu by 0.1") and "gelu by 0.05" in one.answer
    (two,) = compare(tables.read(rows(tables, {"gelu": 0.0, "relu": 0.05})))
    assert (
        two.answer.startswith("The loss of relu is higher than that of gelu by 0.0")
        and "95% interval 0.0" in two.answer
    )
    (none,) = compare(tables.read(rows(tables, {"gelu": 0.0, "relu": 0.0}, noise=0.02)))
    assert none.answer.startswith("Open: whether the loss of relu is lower than that of gelu; difference ")
    with pytest.raises(UserError, match="--baseline=gelu asks about every activation"):
        compare(tables.read(rows(tables, effects)), [lower("gelu", "relu")], baseline="gelu")
    with pytest.raises(UserError, match="--baseline=elu has no runs that can be compared"):
        compare(tables.read(rows(tables, effects)), baseline="elu")


def test_the_edge_of_a_grid_of_two_rates_is_warned_of(tables):
    both = [row for row in rows(tables, {"gelu": 0.0, "relu": 0.1}) if row["learning_rate"] != 1e-2]
    (one,) = compare(tables.read(both))
    assert "rate not resolved of gelu, relu: 0.003 is at the edge of the grid" in one.warnings


def test_no_interval_of_a_loss_goes_below_0(tables):
    wide = [row | {"final_loss": 0.001 + 0.3 * (row["seed"] == 0)} for row in rows(tables, {"gelu": 0.0, "relu": 0.0})]
    (one,) = compare(tables.read(wide))
    assert all(standing.interval.low == 0 for standing in one.main.standings)


def test_the_answer_names_a_pair_without_a_shared_seed_as_open_and_does_not_count_it(tables):
    table = rows(tables, {"relu": 0.0, "gelu": -0.05})
    late = [row | {"seed": row["seed"] + 50, "run": f"{row['run']}-late"} for row in rows(tables, {"tanh": 0.0})]
    (one,) = compare(tables.read(table + late), baseline="relu")
    assert one.answer.startswith("Lower loss than relu: gelu by 0.04")
    assert one.answer.endswith("; open: tanh (nats/byte, 8 seeds).")


def test_one_seed_decides_nothing_and_equal_losses_are_told_as_such(tables):
    (one,) = compare(tables.read(rows(tables, {"gelu": 0.0, "relu": 0.5}, n=1)))
    assert one.sentences[0].startswith("undecided") and one.sentences[0].endswith("one seed has no spread.")
    assert {pair.own_best.verdict for pair in one.main.pairs} == {Verdict.UNDECIDED}
    (three,) = compare(tables.read(rows(tables, {"gelu": 0.0, "relu": 0.5, "tanh": 0.9}, n=1)))
    assert "1 seed" in three.answer and {pair.own_best.verdict for pair in three.main.pairs} == {Verdict.UNDECIDED}
    (one,) = compare(tables.read(rows(tables, {"gelu": 0.0, "relu": 0.0}, noise=0.0)), [lower("gelu", "relu")])
    assert one.sentences[0].startswith("equivalent") and "the same with every seed" in one.sentences[0]


def test_gaps_and_edges_are_warned_of(tables):
    table = rows(tables, {"gelu": 0.0, "relu": 0.03})
    missing = [
        row for row in table if not (row["activation"] == "gelu" and row["seed"] == 4 and row["learning_rate"] == 1e-2)
    ]
    more = tables.row("relu", 0.1, 0, 3.0)
    (one,) = compare(tables.read([*missing, more]))
    assert "gelu: 1 seed lacks a run and is left out of pairs; at 0.01 7 of 8 seeds are there" in one.warnings
    assert "relu: learning rates 0.1 are not shared by all and stay out of the ranking" in one.warnings
    assert one.main.pairs[0].own_best.effect.left_out == 1
    edge = [row | {"final_loss": row["final_loss"] + 100 * row["learning_rate"]} for row in table]
    (one,) = compare(tables.read(edge))
    assert "rate not resolved of gelu, relu: 0.001 is at the edge of the grid" in one.warnings


def test_diverged_runs_are_counted_and_told(tables):
    table = rows(tables, {"gelu": 0.0, "relu": 0.0})
    wild = [row for row in table if row["activation"] == "relu" and row["learning_rate"] == 1e-2]
    for row in wild:
        row |= {
            "status": "diverged",
            "final_loss": float("nan"),
            "best_loss": float("nan"),
            "steps": 40,
            "tokens": 2560,
        }
    (one,) = compare(tables.read(table), [lower("gelu", "relu")])
    assert "48 runs: collapse is not known, for lack of a column trivial_loss, 8 diverged" in one.warnings
    assert one.as_dict()["failed"] == {"diverged": 8}
    assert one.main.pairs[0].at_rates[1e-2].effect.mean == pytest.approx(1.6 - 7.0, abs=0.05)
    assert one.main.pairs[0].sensitivity.verdict == Verdict.SUPPORTED


def test_collapsed_runs_are_counted_and_their_rates_leave_the_sensitivity(tables):
    table = rows(tables, {"gelu": 0.0, "relu": 0.0}, trivial_loss=2.25)
    sound = [row for row in table if row["learning_rate"] != 1e-2]
    (one,) = compare(tables.read(sound), [lower("gelu", "relu")])
    assert not any(" runs: " in warning for warning in one.warnings) and not one.as_dict()["failed"]
    fallen = [row | {"final_loss": 2.3} if row["learning_rate"] == 1e-2 else row for row in table]
    (one,) = compare(tables.read(fallen), [lower("gelu", "relu")])
    assert "48 runs: 16 collapsed, 0 diverged" in one.warnings
    assert "LR sensitivity leaves out 0.01, where every run failed" in one.warnings
    assert one.main.standings[0].failed == {"collapsed": 8}
    view = one.as_dict()["views"]["parameters"]
    assert view["lr_sensitivity_rates"] == view["pairs"][0]["lr_sensitivity"]["rates"] == (1e-3, 3e-3)
    assert one.main.pairs[0].at_rates[1e-2].verdict == Verdict.EQUIVALENT
    (one,) = compare(tables.read([row | {"final_loss": 2.3} for row in table]), [lower("gelu", "relu")])
    assert one.main.pairs[0].own_best.verdict == Verdict.UNDECIDED
    told = "every run diverged, collapsed or learned nothing; train longer, or at other learning rates"
    assert one.answer == f"Open: whether the loss of gelu is lower than that of relu; {told}."
    three = rows(tables, {"gelu": 0.0, "relu": 0.03, "tanh": 0.1}, trivial_loss=2.25)
    (one,) = compare(tables.read([row | {"final_loss": 2.3} for row in three]))
    assert one.answer == f"Open: {told}."


def test_a_pair_is_asked_about_once(tables):
    for second in (lower("gelu", "relu"), lower("relu", "gelu")):
        with pytest.raises(UserError, match="two questions ask about gelu and relu: ask once about each pair"):
            compare(tables.read(rows(tables, {"gelu": 0.0, "relu": 0.03})), [lower("gelu", "relu"), second])


def test_losses_are_equal_within_a_margin_per_byte_of_text(tables):
    table = rows(tables, {"gelu": 0.0, "relu": 0.0}, noise=0.003)
    (of_bytes,) = compare(tables.read(table), [lower("gelu", "relu")])
    four = [row | {"tokenizer": "bpe:512", "bytes_per_token": 4.0} for row in table]
    (of_tokens,) = compare(tables.read(four), [lower("gelu", "relu")])
    assert (of_bytes.margin, of_bytes.unit) == (0.0025, "nats/byte")
    assert (of_tokens.margin, of_tokens.unit) == (0.01, "nats/token")
    # Of the text that is read: that of the test set, where every run has a test loss.
    shorter = [row | {"test_bytes_per_token": 2.0} for row in four]
    tested = [row | {"test_loss": row["final_loss"]} for row in shorter]
    found = [
        compare(tables.read(rows), [lower("gelu", "relu")])[0] for rows in (shorter, tested, tested[:-1] + four[-1:])
    ]
    assert [(one.margin, one.main.grid.read_on) for one in found] == [
        (0.01, "validation"),
        (0.005, "test"),
        (0.01, "validation"),
    ]
    mixed = [*tested[:-1], tested[-1] | {"test_bytes_per_token": ""}]
    assert compare(tables.read(mixed), [lower("gelu", "relu")])[0].margin == 0.005, "a row of an older version"
    (masked,) = compare(tables.read([row | {"objective": "masked_token"} for row in four]))
    assert (masked.margin, masked.unit) == (0.005, "nats/masked token")
    with pytest.raises(UserError, match="no column bytes_per_token.*--margin=NUMBER, in nats/token"):
        compare(tables.read([row | {"tokenizer": "bpe:512"} for row in table]))
    (given,) = compare(tables.read([row | {"tokenizer": "bpe:512"} for row in table]), margin=0.02)
    assert given.margin == 0.02


def test_a_question_is_asked_where_its_activations_have_runs(tables):
    table = rows(tables, {"gelu": 0.0, "relu": 0.03}) + rows(tables, {"tanh": 0.1, "relu": 0.0}, weight_decay=0.0)
    (one,) = compare(tables.read(table), [lower("gelu", "relu")])
    assert one.condition.axes == (("weight_decay", "0.1"),) and [pair.question for pair in one.main.pairs] == [
        "gelu < relu"
    ]
    (left_out,) = [warning for warning in one.warnings if warning.startswith("left out: ")]
    assert "weight_decay=0.0, for lack of runs of gelu" in left_out
    first, second = compare(tables.read(table), [lower("gelu", "relu"), lower("tanh", "relu")])
    for of, asked, other in ((first, "gelu < relu", "tanh"), (second, "tanh < relu", "gelu")):
        assert [pair.question for pair in of.main.pairs] == [asked] and of.main.pairs[0].own_best.family == 1
        assert f"not asked here, for lack of runs: {other} and relu" in of.warnings
    (second,) = compare(tables.read(table), baseline="tanh")
    assert second.baseline == "tanh" and any("for lack of runs of tanh" in warning for warning in second.warnings)
    with pytest.raises(UserError, match="silu has no runs that can be compared: choose one of gelu, relu, tanh"):
        compare(tables.read(table), [lower("silu", "relu")])
    with pytest.raises(UserError, match="gelu and tanh were not trained under the same condition"):
        compare(tables.read(table), [lower("gelu", "tanh")])


def test_a_pair_at_rates_that_the_ranking_leaves_out_says_so(tables, capsys):
    table = rows(tables, {"gelu": 0.0, "relu": 0.03, "silu": 0.1})
    fewer = [row for row in table if not (row["activation"] == "silu" and row["learning_rate"] == 3e-3)]
    (one,) = compare(tables.read(fewer), [lower("gelu", "relu"), lower("silu", "relu")])
    told = [warning for warning in one.warnings if "ranking leaves out" in warning]
    assert told == ["gelu < relu is at rates that the ranking leaves out: gelu at 0.003, relu at 0.003"]
    lines().print(printing.show(one))
    assert "LR sensitivity over 0.001, 0.003, 0.01" in capsys.readouterr().out


def test_pairs_of_more_seeds_leave_the_family_before_those_of_fewer(tables):
    many = {name: -0.1 * (name != "relu") for name in ("gelu", "silu", "tanh", "elu", "selu", "mish", "relu2", "relu")}
    table = rows(tables, many, n=16)
    fewer = [row for row in table if row["activation"] != "mish" or row["seed"] < 6]
    (one,) = compare(tables.read(fewer), baseline="relu")
    verdicts = {pair.contrast.activations[0]: pair.own_best.verdict for pair in one.main.pairs}
    assert verdicts["mish"] == Verdict.SUPPORTED and not any("show no difference" in told for told in one.warnings)
    level = [row | {"final_loss": row["final_loss"] + 0.1} if row["activation"] == "mish" else row for row in fewer]
    (one,) = compare(tables.read(level), baseline="relu")
    (mish,) = [pair.own_best for pair in one.main.pairs if pair.contrast.activations[0] == "mish"]
    assert mish.verdict == Verdict.UNDECIDED and mish.reason.startswith("neither a difference nor equivalence")
    few = [row for row in table if row["activation"] not in ("mish", "selu") or row["seed"] < 6]
    (one,) = compare(tables.read(few), baseline="relu")
    told = "6 seeds show no difference at own best rates, whatever it is: a family of 2 tests takes 7 or more"
    assert told in one.warnings and told in one.answer


def test_a_pair_that_nobody_asked_about_waits_for_its_runs_too(tables):
    table = rows(tables, {"relu": 0.0, "gelu": -0.1, "silu": 0.0})
    stopped = [
        row | {"status": "stopped"} if row["activation"] == "gelu" and row["seed"] == 2 else row for row in table
    ]
    (one,) = compare(tables.read(stopped), [lower("silu", "relu")])
    found = {pair.activations: judged for pair, judged in one.other_pairs().items()}
    assert all(
        judged.verdict == Verdict.UNDECIDED and judged.reason.startswith("3 of its runs") for judged in found.values()
    )
    assert len(found) == 2


def test_seeds_of_which_none_has_every_rate_are_the_reason(tables):
    table = rows(tables, {"gelu": 0.0, "relu": 0.0, "tanh": 0.0}, n=3)
    holes = [row for row in table if row["activation"] == "relu" or RATES.index(row["learning_rate"]) != row["seed"]]
    (one,) = compare(tables.read(holes), baseline="relu")
    assert one.answer == "Open: no seed has a run of every arm at every rate."


def test_what_nobody_asked_about_does_not_answer_a_question_that_waits(tables):
    waiting = [row | {"status": "stopped"} for row in rows(tables, {"silu": 0.0})]
    (one,) = compare(tables.read(rows(tables, {"gelu": 0.0, "relu": 0.05}) + waiting), [lower("silu", "relu")])
    assert one.main.pairs == () and one.answer == "Open: what is asked about is not trained yet."
    assert [standing.activation for standing in one.main.standings] == ["gelu", "relu"]


def test_whatever_the_table_no_verdict_holds_nan(tables):
    tied = rows(tables, {"gelu": 0.0, "relu": 0.0}, noise=0.0)
    wild = [row | {"status": "diverged", "final_loss": float("nan")} for row in tied]
    half = [row | ({"status": "diverged", "final_loss": float("nan")} if row["seed"] else {}) for row in tied]
    for table in (
        tied,
        wild,
        half,
        rows(tables, {"gelu": 0.0, "relu": 0.1}, n=1),
        rows(tables, {"a": 0.0, "b": 0.1}, n=2),
    ):
        for one in compare(tables.read(table)):
            json.dumps(one.as_dict(), allow_nan=False)
            for pair in one.main.pairs:
                for judgement in (pair.own_best, pair.sensitivity, *pair.at_rates.values()):
                    assert judgement.verdict in list(Verdict)
                    assert judgement.verdict != Verdict.UNDECIDED or judgement.reason


def test_the_answer_says_where_a_rate_is_not_resolved(tables, monkeypatch):
    for rates, told in ((RATES, "seeds, rate not resolved)"), ((1.8e-3, 3e-3, 5e-3), "")):
        monkeypatch.setattr(f"{__name__}.RATES", rates)
        (one,) = compare(tables.read(rows(tables, {"gelu": 0.0, "relu": 0.05})), [lower("gelu", "relu")])
        assert one.main.pairs[0].own_best.verdict == Verdict.SUPPORTED
        assert told in one.answer and ("rate not resolved" in one.answer) == bool(told)


def test_runs_that_end_above_their_beginning_have_learned_nothing_and_decide_nothing(tables):
    table = [
        row
        | {
            "final_loss": 8.0 + row["seed"] / 10,
            "initial_loss": 5.8 + (row["activation"] == "relu"),
            "trivial_loss": 2.3,
        }
        for row in rows(tables, {"gelu": 0.0, "relu": 0.0})
    ]
    results = tables.read(table)
    assert {result.failed for result in results} == {"learned nothing"}
    (one,) = compare(results, [lower("gelu", "relu")])
    assert one.main.pairs[0].own_best.verdict == Verdict.UNDECIDED
