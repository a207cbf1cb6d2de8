"""A comparison that trains: stops and budgets change nothing that was found, and its answer is that of its rows."""

import dataclasses
import html.parser
import io
import json
import math
import pathlib
import re
import shlex

import jax.numpy as jnp
import numpy as np
import pytest
from outcomes import results
from rich.console import Console

from actlab import activations, api
from actlab.adaptive import comparison as comparison_lib, judgement, outcomes, page
from actlab.adaptive.answer import Answer, Candidate, Width, _oriented
from actlab.adaptive.comparison import SequentialComparison
from actlab.adaptive.forecast import Forecast
from actlab.adaptive.search import RUNGS, BestRate, Progress, Task
from actlab.analysis import results as results_lib
from actlab.analysis.effects import Verdict
from actlab.config import replace, to_json
from actlab.console import duration
from actlab.errors import UserError
from actlab.report import study
from actlab.sweeps import session, trained
from actlab.training.signals import StopSignal
from actlab.workdir import records

CALIBRATED = SequentialComparison._calibrated


def three_rates(known, start, _n_activations):
    """A short search: three rates for a quarter, the best of them to its end."""
    tasks = [Task(rate, 1) for rate in (start / 4, start, start * 4) if rate not in known]
    best = min(known, key=lambda rate: sum(known[rate].losses), default=start)
    if tasks or known[best].rung < RUNGS:
        return tuple(tasks) or (Task(best, RUNGS),)
    return BestRate(best, "", 0.0)


@pytest.fixture
def config(small_sweep, monkeypatch):
    """Of 12 steps, after which no run is better than predicting from the token before."""
    monkeypatch.setattr("actlab.data.rows.bigram_loss", lambda *_: 50.0)
    monkeypatch.setattr("actlab.adaptive.search.next_tasks", three_rates)
    monkeypatch.setattr("actlab.adaptive.search.EXPECTED_RUNS", 3.0)
    monkeypatch.setattr(SequentialComparison, "_calibrated", lambda *_: 1.0)
    changes = {"seed": 1, "optimizer.learning_rate": 0.01, "model.init": "fan_in", "model.parametrization": "mup"}
    return replace(small_sweep, sweep=(), **changes)


class StopAt(StopSignal):
    """Stops at the call of that number."""

    def __init__(self, number):
        super().__init__()
        self._left = number

    def __call__(self):
        self._left -= 1
        self.received = 2 if self._left < 0 else None
        return self.received is not None


def compare(config, workdir, budget, stop=None, names=("relu", "tanh"), scales=None, console=None):
    """With a clock on which every run that has begun takes a second."""

    def rows():
        return float(sum(len(results(file.parent)) for file in workdir.glob("*/results.csv")))

    comparison = SequentialComparison(
        config, names, workdir, budget, ["test"], console or Console(quiet=True), clock=rows, scales=scales
    )
    return comparison.run(stop or StopSignal())


def test_a_comparison_stopped_and_taken_up_again_with_more_time_finds_the_same(config, tmp_path, monkeypatch):
    whole = compare(config, tmp_path / "whole", 30.0)
    assert whole.pairs[0].seeds >= judgement.first_look(1)
    rates = json.loads((tmp_path / "whole/comparison.json").read_text())["rates"]
    judged = results(tmp_path / "whole/judgement")
    assert {(row["activation"], float(row["learning_rate"])) for row in judged.values()} == {
        (name, found["rate"]) for name, found in rates.items()
    }
    assert {int(row["seed"]) for row in results(tmp_path / "whole/search").values()} == {1_000_001, 1_000_002}

    for number in (5, 40):
        stopped = compare(config, tmp_path / "parts", 23.0, StopAt(number))
        assert stopped.signal == 2 and not stopped.decided
    # A disk that changes a table, and a kill between the two writes of a sweep that grows.
    judgement_there = records.Workdir(tmp_path / "parts/judgement")
    table = judgement_there.path / "results.csv"
    table.write_text(table.read_text().replace("finished", "finishes", 1))
    judgement_there.write_manifest({**judgement_there.manifest(), "config": "0" * 64})
    then = compare(config, tmp_path / "parts", 30.0)
    assert then.pairs[0].seeds >= judgement.first_look(1) > (stopped.pairs[0].seeds if stopped.pairs else 0)
    assert results(tmp_path / "parts/search") == results(tmp_path / "whole/search")
    again = results(tmp_path / "parts/judgement")
    common = judged.keys() & again.keys()
    assert len(common) >= 14 and all(judged[name] == again[name] for name in common)
    for answer, rows in ((whole, judged), (then, again)):
        losses = {
            name: [float(row["test_loss"]) for row in rows.values() if row["activation"] == name] for name in rates
        }
        one, other = (np.array(values) for values in losses.values())
        assert answer.pairs[0].mean == pytest.approx((one - other).mean()) and answer.pairs[0].seeds == len(one)

    run = next(iter(judged))
    assert trained.load(tmp_path / "whole", run).step == trained.load(tmp_path / "whole/judgement", run).step > 0
    for read in (results_lib.read, study.read):
        with pytest.raises(UserError, match="whole is a comparison"):
            read([tmp_path / "whole"])

    def forecast(budget=31.0):
        console = Console(file=io.StringIO(), width=1000)
        compare(config, tmp_path / "whole", budget, StopAt(0), console=console)
        return console.file.getvalue()

    one, other = (
        np.array(row) for row in outcomes.judged(tmp_path / "whole/judgement", rates, 1, "next_token").losses.values()
    )
    assert f"if their standard deviation stays {(one - other).std(ddof=1):.2g}" in forecast()
    assert "of which" in forecast() and "10s are used up" in forecast(10.0)
    n_rows = len(results(tmp_path / "whole/judgement"))
    compare(config, tmp_path / "whole", 10.0)
    assert len(results(tmp_path / "whole/judgement")) == n_rows, "a budget that is used up trains nothing"
    monkeypatch.setattr(judgement.PairState, "settles", lambda *_: False)
    assert "used up" not in forecast(10.0)
    assert "more seeds would decide nothing further" in forecast() and "then about" not in forecast()

    again = compare(config, tmp_path / "whole", 10.0, names=("tanh", "relu"))
    assert [one.name for one in again.activations] == ["relu", "tanh"], "whatever the order in which they are named"
    with pytest.raises(UserError, match="compares relu, tanh"):
        compare(config, tmp_path / "whole", 90.0, names=("gelu", "relu"))
    with pytest.raises(UserError, match="config.data.batch_size is 4 there and 8 here"):
        compare(replace(config, **{"data.batch_size": 8}), tmp_path / "whole", 90.0)


def test_the_search_knows_how_many_activations_share_the_allowances(config, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "actlab.adaptive.search.next_tasks", lambda *given: asked.append(given) or BestRate(1.0, "", 0.0)
    )
    comparison = SequentialComparison(
        config, ("relu", "tanh", "gelu"), tmp_path / "w", 1.0, ["test"], Console(quiet=True)
    )
    assert comparison._fix_rates() and [n for _, _, n in asked] == [3, 3, 3]


def test_a_search_without_a_rate_leaves_its_reason_in_place_of_an_older_answer(config, tmp_path, monkeypatch):
    compare(config, tmp_path / "w", 20.0, StopAt(5))
    assert "is not over" in (tmp_path / "w/answer.json").read_text()
    with pytest.raises(UserError, match="w is a comparison that has trained no model"):
        trained.load(tmp_path / "w")
    monkeypatch.setattr(
        "actlab.adaptive.search.next_tasks", lambda _, start, n: BestRate(start, "none learned", np.inf)
    )
    with pytest.raises(UserError, match="train longer"), (console := Console()).capture() as told:
        compare(config, tmp_path / "w", 20.0, console=console)
    assert told.get() == "", "no seeds are promised"
    for name in ("answer.json", "index.html"):
        text = (tmp_path / "w" / name).read_text()
        assert "train longer" in text and "is not over" not in text
    (heading,) = re.findall("<h1>(.*)</h1>", text)
    assert "relu" in heading and "train longer" not in heading


def test_of_searches_that_end_at_their_edge_the_user_is_told_to_begin_elsewhere(config, tmp_path, monkeypatch):
    comparison = SequentialComparison(config, ("relu", "tanh"), tmp_path / "w", 1.0, ["test"], Console(quiet=True))
    found = iter(
        [BestRate(1.0, "1 is the last", math.inf, at_edge=True), BestRate(1.0, "2 of 2 runs failed", math.inf)]
    )
    monkeypatch.setattr("actlab.adaptive.search.next_tasks", lambda *_: next(found))
    with pytest.raises(UserError, match="best learning rates of relu lie beyond .*--config.optimizer.learning_rate"):
        comparison._fix_rates()


def test_what_compiles_does_not_count_as_the_time_of_a_run(config, tmp_path, monkeypatch):
    comparison = SequentialComparison(config, ("relu", "tanh"), tmp_path / "w", 100.0, ["test"], Console(quiet=True))
    comparison._known.run_seconds = {8: 0.5}
    monkeypatch.setattr(comparison, "_save", lambda: None)
    # A session that compiles takes a million seconds; one that goes on takes three, for four runs' worth of steps.
    for step, seconds, expected in ((3, 1e6, 0.5), (6, 3.0, 0.75)):
        ticks = iter((0.0, seconds))
        monkeypatch.setattr(comparison, "_clock", lambda ticks=ticks: next(ticks))
        assert comparison._train("search", 8, {("relu", 0.01): step}, [1, 2], 4.0, StopSignal())
        assert comparison._run_seconds(8) == expected
    # Two seeds for half of a run are done.
    monkeypatch.setattr(comparison, "_clock", lambda: 0.0)
    assert comparison._forecast().search_runs == pytest.approx(2 * comparison_lib.search.EXPECTED_RUNS - 1)
    assert comparison._forecast().allowance == 0, "no rate is fixed yet"
    comparison._known.rates = {
        "relu": BestRate(0.01, "", 0.02),
        "tanh": BestRate(0.02, "2 of 2 runs failed", math.inf),
    }
    assert comparison._forecast().allowance == 0.02, "the largest that is bounded"


def test_the_next_session_counts_with_what_runs_took_and_not_with_a_calibration(config, tmp_path, monkeypatch):
    monkeypatch.setattr(SequentialComparison, "_calibrated", lambda *_: 0.01)
    compare(config, tmp_path / "w", 20.0, StopAt(60))
    known = json.loads((tmp_path / "w/comparison.json").read_text())["run_seconds"]
    assert known.keys() == {"8"} and known["8"] > 0.3, "a second for each run that has begun"


def test_a_comparison_is_not_read_with_an_edited_activation(config, tmp_path, monkeypatch):
    def register(fn):
        record = activations.Activation("bent", activations.elementwise(fn), "f(x)", "ours")
        monkeypatch.setitem(activations.catalogue._records, "bent", record)
        activations.catalogue._get.cache_clear()

    register(jnp.tanh)
    compare(config, tmp_path / "w", 30.0, StopAt(40), names=("relu", "bent"))
    register(jnp.sin)
    with pytest.raises(UserError, match="was begun with another 'bent'"):
        compare(config, tmp_path / "w", 0.001, names=("relu", "bent"))
    activations.catalogue._get.cache_clear()


@pytest.mark.slow
def test_scales_judge_at_the_width_and_its_doublings_with_the_same_rates(config, tmp_path):
    first = compare(config, tmp_path / "w", 28.0)
    assert not first.trends and len(first.widths) == 1
    with pytest.raises(UserError, match="too short for --scales=2"):
        compare(config, tmp_path / "w", 30.0, scales=2)
    answer = compare(config, tmp_path / "w", 46.0, scales=2)
    width = config.model.d_model
    assert [one.width for one in answer.widths] == [width, 2 * width]
    assert answer.pairs[0].low >= first.pairs[0].low and answer.pairs[0].high <= first.pairs[0].high

    trained = json.loads((tmp_path / f"w/judgement-{2 * width}/config.json").read_text())["model"]
    assert (trained["d_model"], trained["n_heads"]) == (2 * width, 2 * config.model.n_heads)
    losses = {}
    for stage in ("judgement", f"judgement-{2 * width}"):
        rows = results(tmp_path / "w" / stage).values()
        losses[stage] = {(row["activation"], row["seed"]): float(row["test_loss"]) for row in rows}
        rates = {(row["activation"], float(row["learning_rate"])) for row in rows}
        assert rates == {(one.name, one.rate) for one in answer.activations}
    seeds = [str(seed) for seed in range(1, answer.trends[0].seeds + 1)]
    assert len(seeds) >= judgement.first_look(2)
    gaps = [np.mean([rows["relu", seed] - rows["tanh", seed] for seed in seeds]) for rows in losses.values()]
    assert answer.trends[0].mean == pytest.approx(gaps[1] - gaps[0])

    assert "--scales" not in str(answer) and f"at width {2 * width}" in str(answer)
    json.dumps(answer.as_dict(), allow_nan=False)
    assert page.render(answer, ()).count("<svg") == 2
    with pytest.raises(UserError, match="has --scales=2, not 3"):
        compare(config, tmp_path / "w", 90.0, scales=3)
    assert compare(config, tmp_path / "w", 46.0).scales == answer.scales


def test_a_wider_model_has_more_heads_of_each_kind_in_the_same_groups(config):
    grouped = replace(config, **{"model.d_model": 64, "model.n_heads": 4, "model.n_kv_heads": 2})
    widened = comparison_lib._widened(grouped, 3)
    assert [(one.model.n_heads, one.model.n_kv_heads) for one in widened.values()] == [(4, 2), (8, 4), (16, 8)]


def test_scales_without_mup_are_refused(config, tmp_path):
    with pytest.raises(UserError, match="takes mup"):
        compare(replace(config, **{"model.parametrization": "standard"}), tmp_path / "w", 90.0, scales=2)


def test_a_seed_above_which_no_search_seeds_are_left_is_refused(config, tmp_path):
    with pytest.raises(UserError, match="config.seed=2147000000 leaves no seeds for the search.* lower it to 2,146,"):
        compare(replace(config, seed=2147000000), tmp_path / "w", 90.0)
    assert not (tmp_path / "w").exists()


def over_widths(leads, failed=(), noise=1e-4):
    """An answer in which `best` has these leads at widths 64, 128, ..."""
    rng = np.random.default_rng(2)
    by_width = [{"best": rng.normal(1, noise, 30), "other": rng.normal(1 + lead, noise, 30)} for lead in leads]
    fates = {name: np.full(30, name in failed) for name in ("best", "other")}
    widths = tuple(
        Width(64 * 2**k, "", judgement.judge(losses, 0.0025, failed=fates), failed) for k, losses in enumerate(by_width)
    )
    trends = judgement.trends(by_width, 0.0025, failed=[fates] * len(leads), n_tests=len(leads))
    return dataclasses.replace(answer_of(by_width[0]), widths=widths, trends=trends)


@pytest.mark.parametrize(
    "leads, expected",
    [
        ((0.1, 0.2, 0.3), "grows"),
        ((0.1, 0.07, 0.05), "shrinks"),
        ((0.1, -0.1, -0.3), "reverses"),
        ((0.1, -0.1, 0.1), "reverses"),
        ((0.1, 0.1), "holds"),
        ((0.0003, 0.01, 0.02), "appears"),
        ((0.0003, -0.01, -0.02), "appears"),
    ],
)
def test_the_answer_says_what_a_lead_does_over_widths(leads, expected):
    answer = over_widths(leads)
    assert answer.scales[-1]["verdict"] == expected
    assert expected in str(answer) and f"{leads[0]:.3f} at width 64" in str(answer).replace("0.0003", "0.000")
    reverses = leads[-1] < 0
    assert ("but not at width 256, where other is lower" in answer.sentences[0]) == reverses


def test_where_widths_have_different_seeds_the_answer_says_how_many():
    answer = over_widths((0.1, 0.2))
    assert "width 64," in str(answer) and "(30 seeds)" not in str(answer)
    rng = np.random.default_rng(3)
    more = judgement.judge({"best": rng.normal(1, 1e-4, 40), "other": rng.normal(1.1, 1e-4, 40)}, 0.0025)
    answer = dataclasses.replace(answer, widths=(dataclasses.replace(answer.widths[0], pairs=more), answer.widths[1]))
    assert "width 64 (40 seeds), 0.200 at width 128 (30 seeds)" in str(answer)
    assert "30 seeds at every width" in str(answer)


def test_a_change_is_neither_decided_nor_promised_where_a_run_failed():
    answer = over_widths((0.1, 0.1), failed=("other",))
    assert not answer.decided and "cannot be decided, since runs of other failed" in str(answer)
    assert over_widths((0.1, 0.1)).decided and not over_widths((0.1, 0.1), noise=0.05).decided


def test_widths_of_a_comparison_that_stopped_in_its_search_make_a_page():
    begun = over_widths((0.1,) * 4)
    widths = tuple(dataclasses.replace(one, pairs=()) for one in begun.widths)
    stopped = dataclasses.replace(begun, pairs=(), widths=widths, trends=())
    assert all("nothing of them is decided with fewer than 8 seeds" in page.render(one, ()) for one in (begun, stopped))


def test_a_budget_that_can_show_nothing_is_refused_and_leaves_nothing(config, tmp_path):
    with pytest.raises(UserError, match="too short"):
        compare(config, tmp_path / "w", 1e-3)
    assert not (tmp_path / "w").exists()


def test_an_activation_that_cannot_be_trained_is_refused_before_anything_is_written(config, tmp_path, monkeypatch):
    monkeypatch.setattr(SequentialComparison, "_calibrated", CALIBRATED)
    wild = activations.Activation("wild", activations.elementwise(lambda x: jnp.exp(x * x)), "exp(x^2)", "ours")
    monkeypatch.setitem(activations.catalogue._records, "wild", wild)
    with pytest.raises(
        UserError, match=r"needs E\[f\(z\)\^2\] of 'wild'.*, but activation 'wild' has no moments.*or set .*'gpt2'"
    ):
        compare(config, tmp_path / "w", 30.0, names=("relu", "wild"))
    assert not (tmp_path / "w").exists()


def test_a_folder_of_a_training_is_none_of_a_comparison_nor_the_reverse(config, tmp_path):
    (tmp_path / "w").mkdir()
    (tmp_path / "w/config.json").write_text(to_json(config))
    with pytest.raises(UserError, match="belongs to a training: choose another"):
        compare(config, tmp_path / "w", 30.0)
    (tmp_path / "w/config.json").rename(tmp_path / "w/comparison.json")
    with pytest.raises(UserError, match="belongs to a comparison: choose another"):
        session.run(config, "test", tmp_path / "w", ["test"])
    with pytest.raises(UserError, match=r"comparison.json has no activations: restore the file"):
        compare(config, tmp_path / "w", 30.0)
    assert [file.name for file in (tmp_path / "w").iterdir()] == ["comparison.json"]


@pytest.mark.parametrize(
    "change", [{"rates": {"relu": {"speed": 1}}}, {"rates": [1]}, {"run_seconds": {"wide": 1}}, {"spent": None}]
)
def test_a_damaged_record_is_one_sentence_and_stays(config, tmp_path, change):
    made = SequentialComparison(config, ("relu", "tanh"), tmp_path, 9.0, [], Console(quiet=True))
    made._save()
    file = tmp_path / "comparison.json"
    file.write_text(damaged := json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(UserError, match=r"comparison.json is not as it was written .*: restore the file"):
        compare(config, tmp_path, 30.0)
    assert file.read_text() == damaged


@pytest.mark.parametrize("name", ["index.html", "answer.json", "search"])
def test_files_of_somebody_else_are_not_written_over(config, tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match=f"has {name}, which no comparison wrote"):
        compare(config, tmp_path, 30.0)
    assert (tmp_path / name).read_text() == "mine" and [file.name for file in tmp_path.iterdir()] == [name]


def test_a_second_process_is_refused_and_changes_nothing(config, tmp_path):
    running = SequentialComparison(config, ("relu", "tanh"), tmp_path / "w", 90.0, [], Console(quiet=True))
    running._save()
    before, folder = (tmp_path / "w/comparison.json").read_text(), records.Workdir(tmp_path / "w")
    folder.lock()
    with pytest.raises(UserError, match=r"workdir=[^ ]*/w is in use by another process"):
        compare(config, tmp_path / "w", 3000.0)
    assert (tmp_path / "w/comparison.json").read_text() == before
    folder.close()

    class Watch(StopSignal):
        def __call__(self):
            used.append(folder.is_in_use())
            self.received = 2
            return True

    used: list[bool] = []
    compare(config, tmp_path / "w", 3000.0, Watch())
    assert (tmp_path / "w/comparison.json").read_text() != before
    folder = records.Workdir(tmp_path / "fresh")
    compare(config, tmp_path / "fresh", 3000.0, Watch())
    assert len(used) == 2 and all(used) and not folder.is_in_use()


def test_a_full_disk_is_one_sentence(config, tmp_path, monkeypatch):
    def append(self, _):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records.RowFile, "append", append)
    with pytest.raises(UserError, match="search cannot be written .No space left on device.: make room"):
        compare(config, tmp_path / "w", 30.0)


def test_runs_that_learn_nothing_end_the_search_with_a_reason(config, tmp_path, monkeypatch):
    monkeypatch.setattr("actlab.adaptive.search.next_tasks", lambda *_: BestRate(1.0, "failed", math.inf))
    with pytest.raises(UserError, match="train longer"):
        compare(config, tmp_path / "w", 500.0)


@pytest.mark.parametrize(
    ("losses", "failed", "words"),
    [((2.0, 3.0), (False, True), ["2.5", "1 of 2 failed"]), ((2.0, math.nan), (False, True), ["diverged", "1 of 2"])],
)
def test_a_failed_rate_shows_its_loss_and_how_many_failed(losses, failed, words):
    told = comparison_lib._told(Progress(RUNGS, losses, failed))
    assert all(word in told for word in words) and "nan" not in told


def test_the_seconds_of_a_seed_are_those_of_all_widths_that_are_open(config, tmp_path):
    comparison = SequentialComparison(config, ("relu", "tanh"), tmp_path, 9.0, [], Console(quiet=True), scales=2)
    comparison._known.run_seconds = {8: 1.0, 16: 3.0}
    noisy, apart = np.arange(9.0), {"relu": np.linspace(0.9, 1, 9), "tanh": np.linspace(2, 2.1, 9)}
    is_open, decided = (judgement.judge(losses, 0.0025) for losses in ({"relu": noisy, "tanh": noisy[::-1]}, apart))
    assert comparison._block_seconds({8: is_open, 16: is_open}) == 2 * (1 + 3)
    assert comparison._block_seconds({8: is_open, 16: decided}) == 2 * 1


def answer_of(losses, allowances=None):
    """Of losses by activation."""
    arrays = {name: np.array(row) for name, row in losses.items()}
    parts = [Candidate(name, 3e-3, "", float(row.mean()), len(row), 0) for name, row in arrays.items()]
    states = judgement.judge(arrays, 0.0025, allowances)
    pairs = [(pair.first, pair.second) for pair in states]
    sds = {pair: float((arrays[pair[0]] - arrays[pair[1]]).std(ddof=1)) for pair in pairs}
    return Answer(
        tuple(parts), states, "nats/byte", 0.0025, "a scale", 60.0, 90.0, 2.0, sds, 7, {}, pathlib.Path("w"), 0
    )


@pytest.mark.parametrize("turn", [False, True])
def test_the_answer_names_the_lowest_and_turns_pairs_round(turn):
    rng = np.random.default_rng(0)
    base = rng.normal(1.0, 0.01, 20)
    losses = {"a<b": base + rng.normal(0, 1e-4, 20), "even": base, "worse": base + 0.1 + rng.normal(0, 1e-3, 20)}
    answer = answer_of(dict(reversed(losses.items())) if turn else losses)
    verdicts = {(row["first"], row["second"]): row["verdict"] for row in answer.verdicts}
    assert verdicts["worse", "even"] == "higher" if turn else verdicts["even", "worse"] == "lower"
    assert answer.decided and answer.table[-1]["activation"] == "worse"
    against = _oriented(answer.pairs, "even", "worse")
    assert against.verdict == Verdict.SUPPORTED and against.low <= against.mean <= against.high < 0
    assert "worse" not in answer.sentences[0] and answer.table[0]["activation"] in answer.sentences[0]
    command = ["actlab", "compare", "a<b", "celu(alpha=2)", "--workdir=my runs"]
    text = page.render(answer, command)
    html.parser.HTMLParser().feed(text)
    assert "a&lt;b" in text and "a<b" not in text
    (pasted,) = re.findall("<code>(actlab .*)</code>", text)
    assert shlex.split(html.unescape(pasted)) == command
    assert text.index("<h1>") < text.index("<svg") < text.index("<table")


def test_an_activation_that_is_shown_to_be_higher_is_not_called_the_lowest():
    rng = np.random.default_rng(0)
    answer = answer_of({"low": 1.0 + rng.normal(0, 0.01, 20), "other": 1.1 + rng.normal(0, 0.01, 20)})
    (pair,) = answer.pairs
    assert pair.verdict == Verdict.SUPPORTED
    turned = dataclasses.replace(answer, activations=answer.activations[::-1])  # means as after a late bad seed
    low, other = (one.loss for one in answer.activations)
    swapped = [dataclasses.replace(one, loss={low: other, other: low}[one.loss]) for one in turned.activations]
    assert dataclasses.replace(turned, activations=tuple(swapped)).sentences[0].startswith("Take low")


def test_an_open_activation_may_be_lower_than_the_best_where_a_third_is_shown_to_beat_it():
    base = np.linspace(1.0, 1.01, 8)
    answer = answer_of({"beaten": base - 0.02, "best": base, "third": base + 0.5})
    verdicts = dict(zip((("beaten", "best"), ("beaten", "third"), ("best", "third")), answer.pairs, strict=True))
    verdicts["beaten", "best"] = dataclasses.replace(verdicts["beaten", "best"], verdict=Verdict.UNDECIDED)
    verdicts["beaten", "third"] = dataclasses.replace(verdicts["beaten", "third"], verdict=Verdict.REFUTED)
    said = str(dataclasses.replace(answer, pairs=tuple(verdicts.values())))
    assert "So far best is lowest." in said and "beaten is open: 0.020 lower so far" in said


def test_a_bound_near_zero_is_not_rounded_to_it():
    answer = answer_of({"a": np.zeros(8), "b": 0.02 + np.linspace(-0.01, 0.01, 8)})
    (pair,) = answer.pairs
    assert pair.verdict == Verdict.SUPPORTED
    near = dataclasses.replace(answer, pairs=(dataclasses.replace(pair, high=-0.00021),))
    assert f"(0.0002 to {-pair.low:.3f})" in str(near)


def test_an_undecided_answer_says_what_it_would_take():
    rng = np.random.default_rng(1)
    losses = {name: rng.normal(1.0, 0.02, 8) for name in ("one", "other")}
    answer = answer_of(losses)
    assert not answer.decided and "more seeds" in str(answer)
    apart = {"one": np.linspace(1.0, 1.01, 20), "other": np.linspace(2.0, 2.02, 20)}
    unresolved = answer_of(apart, {"one": 0.0, "other": math.inf})
    assert not unresolved.decided and "since its learning rate is not resolved" in str(unresolved)
    assert answer_of(apart, {"one": math.inf, "other": 0.0}).decided
    json.dumps(answer.as_dict(), allow_nan=False)


def test_progress_and_answer_say_where_there_is_no_interval_yet():
    rng = np.random.default_rng(1)
    few, more = (answer_of({name: rng.normal(1.0, 0.02, n) for name in ("a", "b")}) for n in (2, 20))
    lines = ["".join(dataclasses.replace(one, widths=(Width(64, "", one.pairs),)).progress(64)) for one in (few, more)]
    assert "(no interval yet)" in lines[0]
    assert "no interval" not in lines[1] and " to " in lines[1]
    assert "(no interval yet)" in str(few) and "no interval" not in str(more)
    assert "no interval yet</td>" in few._repr_html_() and "no interval" not in more._repr_html_()


def test_a_page_draws_an_end_that_is_not_known_as_an_arrow_and_says_so():
    apart = {"one": np.linspace(1.0, 1.01, 20), "other": np.linspace(2.0, 2.02, 20)}
    bounded, open_ended = answer_of(apart), answer_of(apart, {"one": 0.0, "other": math.inf})
    for answer, arrows in ((bounded, 0), (open_ended, 1)):
        shown = answer._repr_html_()
        assert shown.count("<path") == arrows and ("An arrow is an end that is not known" in shown) == bool(arrows)
    nothing = dataclasses.replace(bounded, pairs=())._repr_html_()
    assert "The band is the margin" not in nothing and "Pairs" not in nothing


@pytest.mark.parametrize("gap", [1.0, -1.0, 0.0])
def test_what_is_decided_at_a_further_width_alone_is_said(gap):
    rng = np.random.default_rng(0)
    drawn = lambda gap, sd: {"a": rng.normal(1.0, sd, 20), "b": gap + rng.normal(1.0, sd, 20)}
    first, same, further = (answer_of(drawn(*one)) for one in ((0.0, 0.01), (0.0, 0.01), (gap, 0.01 if gap else 1e-4)))
    widths = tuple(Width(width, "", one.pairs) for width, one in ((8, first), (16, same), (32, further)))
    (said,) = [one for one in dataclasses.replace(first, widths=widths).sentences if one.startswith("At width")]
    (pair,) = further.pairs
    low, high = sorted((-pair.high, -pair.low), key=abs)
    wins = f"{'a beats b' if gap > 0 else 'b beats a'} by {abs(pair.mean):.3f} ({abs(low):.3f} to {abs(high):.3f})"
    names = sorted("ab", key=[one["activation"] for one in first.table].index)
    assert said.startswith(f"At width 32 {wins if gap else f'{names[0]} and {names[1]} are equivalent'}")
    alike = dataclasses.replace(further, widths=(Width(8, "", further.pairs), Width(16, "", further.pairs)))
    assert not any(sentence.startswith("At width") for sentence in alike.sentences)


def test_a_page_offers_more_seeds_only_where_they_could_decide():
    apart = {"one": np.linspace(1.0, 1.01, 20), "other": np.linspace(2.0, 2.02, 20)}
    near = {name: np.random.default_rng(len(name)).normal(1.0, 0.02, 8) for name in apart}
    unknown = {"one": math.inf, "other": math.inf}
    open_, at_further_width, lost, decided = (
        answer_of(near),
        dataclasses.replace(answer_of(apart), widths=(Width(64, "", answer_of(apart).pairs), Width(128, "", ()))),
        answer_of(apart, unknown),
        answer_of(apart),
    )
    nothing = dataclasses.replace(open_, pairs=())
    hopeless = dataclasses.replace(nothing, obstacle="every run failed.")
    for answer, offers in (
        (open_, True),
        (at_further_width, True),
        (nothing, True),
        (hopeless, False),
        (lost, False),
        (decided, False),
    ):
        assert ("seeds may be added" in page.render(answer, ["compare"])) == answer.may_grow == offers


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30m", 1800), ("1h", 3600), ("2h30m", 9000), ("1.5h", 5400), ("90s", 90), ("0.13s", 0.13)],
)
def test_budgets_are_times(text, expected):
    assert api.budget_seconds(text) == expected
    assert expected <= api.budget_seconds(duration(float(expected))) < 1.6 * expected


@pytest.mark.parametrize("text", ["", "soon", "0m", "-5m", "30", "20.5", "1h1h", "999999h"])
def test_other_budgets_are_refused_with_the_reason(text):
    fault = {"30": "has no unit", "20.5": "has no unit", "999999h": "is longer than 30 years"}.get(
        text, "is not a time"
    )
    with pytest.raises(UserError, match=f"--budget={text} {fault}"):
        api.budget_seconds(text)


@pytest.mark.parametrize(
    ("allowance", "is_over", "told"), [(0.018, False, True), (0.018, True, False), (0.0, False, False)]
)
def test_a_forecast_says_what_misplaced_rates_hide(allowance, is_over, told):
    forecast = Forecast(
        budget=600.0,
        spent=60.0,
        n_activations=2,
        run_seconds={64: 1.0},
        search_runs=0.0,
        seeds=190,
        first_look=7,
        advised=100.0,
        n_tests=1,
        unit="nats/byte",
        sd=0.04,
        typical=True,
        allowance=allowance,
        is_over=is_over,
    )
    words = "where a rate may be off its best, a difference must be larger, by up to 0.018 nats/byte"
    assert (words in " ".join(forecast.lines())) == told
