"""A session on a sweep: results that do not depend on stops, on division into programs or on neighbours."""

import contextlib
import gc
import io
import itertools
import json
import pathlib
import re
import types

import event_files
import jax
import numpy as np
import pytest
from outcomes import metrics, results
from rich.console import Console

from actlab.analysis import results as results_lib
from actlab.config import load, replace
from actlab.errors import UserError
from actlab.sweeps import announce, plan, session, trained
from actlab.training import checkpoint, loop, program_spec, programs
from actlab.workdir import manifest, records, traces
from actlab.workdir.records import Workdir

pytestmark = pytest.mark.optimized


def run(config, workdir, **options):
    return session.run(config, "sweep", workdir, ["test"], **options)


@pytest.fixture(scope="module")
def finished(small_sweep, tmp_path_factory):
    """A sweep that nobody disturbed."""
    workdir = tmp_path_factory.mktemp("finished") / "w"
    assert run(small_sweep, workdir) == 0
    return workdir


def test_a_sweep_leaves_a_row_per_run_in_the_order_of_its_axes(small_sweep, finished):
    rows = results(finished)
    assert list(rows) == [
        f"{activation}-lr{rate}-seed{seed}"
        for activation in ("relu", "tanh")
        for rate in (0.001, 0.01)
        for seed in (1, 2)
    ]
    assert {row["status"] for row in rows.values()} == {"finished"} and {row["lanes"] for row in rows.values()} == {"4"}
    # A token is a byte of short words, or an end of text.
    assert all(0.5 < float(row["trivial_loss"]) < 2 for row in rows.values())
    assert {round(float(row["bytes_per_token"]), 2) for row in rows.values()} == {0.97}
    tested = program_spec.open_data([small_sweep]).test
    assert {float(row["test_bytes_per_token"]) for row in rows.values()} == {tested.n_bytes / (len(tested.tokens) - 1)}
    last = {row["run"]: row["loss"] for row in metrics(finished) if row["split"] == "validation"}
    assert {name: float(row["final_loss"]) for name, row in rows.items()} == last
    seen = [(row["run"], row["split"], row["step"]) for row in metrics(finished)]
    assert len(seen) == len(set(seen)) == 8 * (6 + 4 + 1)
    tested = {row["run"]: row["loss"] for row in metrics(finished) if row["split"] == "test"}
    assert {name: float(row["test_loss"]) for name, row in rows.items()} == tested
    kept = results_lib.documents(finished)
    assert list(kept) == list(rows)
    losses = {name: float(nats.sum(dtype=np.float64) / targets.sum()) for name, (nats, targets) in kept.items()}
    assert losses == pytest.approx(tested, rel=1e-5)


def test_a_workdir_takes_more_seeds_and_rates_of_its_design(small_sweep, finished, tmp_path, capsys):
    whole = {**dict(small_sweep.sweep), "model.activation": ("relu",)}
    design = replace(small_sweep, sweep=whole)
    first = replace(small_sweep, sweep={**whole, "optimizer.learning_rate": (1e-3,), "seed": (2,)})
    assert run(first, tmp_path / "w") == 0
    with pytest.raises(UserError, match="has 1 of the 4 runs .* --extend"):
        run(design, tmp_path / "w")
    assert run(design, tmp_path / "w", extend=True) == 0
    assert "3 runs in 1 program" in capsys.readouterr().out, "the plan is of those that are added"
    ours = results(tmp_path / "w")
    theirs = {name: row for name, row in results(finished).items() if row["activation"] == "relu"}
    assert list(ours) == list(theirs)
    for column in ("final_loss", "test_loss", "status", "grad_norm_p99"):
        assert [row[column] for row in ours.values()] == [row[column] for row in theirs.values()]
    noted = Workdir(tmp_path / "w").manifest()
    assert [(one["runs"], one["added"]) for one in noted["extensions"]] == [(1, 3)]
    assert sorted(itertools.chain.from_iterable(noted["parts"].values())) == sorted(theirs)
    assert run(design, tmp_path / "w") == 0, "it is this config's workdir now"
    with pytest.raises(UserError, match=r"another config: config.sweep.seed is \(1, 2\) there and \(1, 3\) here"):
        run(replace(small_sweep, sweep={**whole, "seed": (1, 3)}), tmp_path / "w", extend=True)
    with pytest.raises(UserError, match=r"sweep.optimizer.weight_decay is not swept there and \(0.1, 0.2\) here"):
        axes = {**whole, "optimizer.weight_decay": (0.1, 0.2)}
        run(replace(small_sweep, sweep=axes), tmp_path / "w", extend=True)
    with pytest.raises(UserError, match="has the runs of config.sweep in another order"):
        run(replace(small_sweep, sweep=dict(reversed(whole.items()))), tmp_path / "w")


def test_the_tail_of_gradient_norms_is_that_of_every_step(finished):
    row, metric_rows = results(finished)["tanh-lr0.01-seed2"], metrics(finished)
    _, grad_norm = traces.read_steps(Workdir(finished).traces(), "tanh-lr0.01-seed2")
    logged = {one["step"]: one["grad_norm"] for one in metric_rows if one["run"] == row["run"] and "grad_norm" in one}
    assert len(grad_norm) == 12 and all(grad_norm[step - 1] == value for step, value in logged.items())
    assert float(row["grad_norm_p50"]) == np.quantile(grad_norm[9:], 0.5) and row["spikes"] == "0"
    assert row["dead_fraction"] == "nan", "without probes"


def test_within_a_seed_activations_share_what_they_start_from(small_sweep, finished):
    starts = {row["run"]: row["loss"] for row in metrics(finished) if row["split"] == "validation" and row["step"] == 0}
    assert starts["relu-lr0.001-seed1"] == starts["relu-lr0.01-seed1"] != starts["relu-lr0.001-seed2"]
    # The activations differ, their other weights do not: a small model starts nearly alike.
    assert starts["relu-lr0.001-seed1"] == pytest.approx(starts["tanh-lr0.001-seed1"], abs=1e-2)


@pytest.mark.parametrize("stop_at", [[("0", 6)], [("0", 12), ("1", 2)], [("1", 4), ("1", 2)]])
def test_a_sweep_stopped_in_the_middle_gives_the_same_results(small_sweep, finished, tmp_path, monkeypatch, stop_at):
    whole = session.Session._train
    for part_to_stop, step_to_stop in stop_at:

        def train(self, part, *rest, where=(part_to_stop, step_to_stop)):
            questions = itertools.count()

            def asked(self):
                # A call has two steps, and a question comes before each: steps since the session began.
                self.received = 15 if (part, 2 * next(questions)) >= where else None
                return self.received is not None

            monkeypatch.setattr(session.StopSignal, "__call__", asked)
            return whole(self, part, *rest)

        monkeypatch.setattr(session.Session, "_train", train)
        assert run(small_sweep, tmp_path / "w") == 143
    monkeypatch.undo()
    assert run(small_sweep, tmp_path / "w") == 0
    assert results(tmp_path / "w") == results(finished)
    assert metrics(tmp_path / "w") == metrics(finished)
    assert documents_of(tmp_path / "w") == documents_of(finished)


def test_runs_paused_at_a_step_go_on_as_if_they_had_not_been(small_sweep, finished, tmp_path):
    prepared = session.prepare(Console(quiet=True), small_sweep)
    workdir, names = Workdir(tmp_path / "w"), [run.name for run in prepared.runs]
    with contextlib.closing(workdir):
        workdir.open(prepared.config)
        manifest.begin(
            workdir, prepared.config, session.description(prepared.tokens), ["test"], [names[:4], names[4:]], {}
        )
        for goals in ({names[0]: 6}, dict.fromkeys(names, 12)):
            one = session.Session(prepared, workdir, Console(quiet=True))
            with session.StopSignal() as stop, session.Display(Console(quiet=True), 1.0, True) as display:
                assert one.train(goals, stop, display)[1] is False
            reached = [row["steps"] for row in results(tmp_path / "w").values()]
            assert reached == (["6"] * 4 if goals[names[0]] == 6 else ["12"] * 8)
    assert results(tmp_path / "w") == results(finished) and metrics(tmp_path / "w") == metrics(finished)


def test_a_workdir_that_another_command_begins_while_this_one_plans_is_left_to_it(small_sweep, tmp_path, monkeypatch):
    opened = Workdir.open

    def late(workdir, config, extend=False):
        opened(workdir, config, extend)
        workdir.write_manifest({"parts": {"0": ["another's"]}})

    monkeypatch.setattr(Workdir, "open", late)
    with pytest.raises(UserError, match="was begun by another command meanwhile"):
        run(small_sweep, tmp_path / "w")
    assert manifest.parts(Workdir(tmp_path / "w")) == {"0": ["another's"]}


def documents_of(workdir):
    return (workdir / "test_documents.npz").read_bytes()


def test_a_sweep_that_another_commit_resumes_says_so(small_sweep, stopped_early, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(manifest, "_commit", lambda: "a" * 40)
    with stopped_early():
        assert run(small_sweep, tmp_path / "w") == 143
    assert "the rows were" not in capsys.readouterr().out
    monkeypatch.setattr(manifest, "_commit", lambda: "b" * 40)
    assert run(small_sweep, tmp_path / "w") == 0
    assert capsys.readouterr().out.count("warning     the rows were made by several commits (aaaaaaa, bbbbbbb)") == 1


def test_a_finished_sweep_is_not_trained_again(small_sweep, finished, capsys):
    before = (finished / "metrics.jsonl").stat().st_mtime_ns
    assert run(small_sweep, finished) == 0
    assert "8: already finished; nothing to do" in capsys.readouterr().out
    assert (finished / "metrics.jsonl").stat().st_mtime_ns == before


@pytest.mark.slow  # test_programs.py has lanes beside solo runs
def test_how_lanes_are_dealt_into_programs_changes_no_bit(small_sweep, finished, tmp_path):
    assert run(replace(small_sweep, **{"devices.max_lanes": 3}), tmp_path / "w") == 0
    parts = json.loads((tmp_path / "w" / "manifest.json").read_text())["parts"]
    # In rounds, so that what is done at any time is balanced over the programs.
    cells = [[name.rpartition("-")[0] for name in runs] for runs in parts.values()]
    assert cells == [[f"{act}-lr{rate}"] * 2 for rate in (1e-3, 1e-2) for act in ("relu", "tanh")]
    without = lambda rows: {name: {**row, "lanes": ""} for name, row in rows.items()}
    assert without(results(tmp_path / "w")) == without(results(finished))


def test_a_lane_that_diverges_is_a_row_and_the_others_do_not_change_by_a_bit(small_sweep, finished, tmp_path):
    sweep = {"model.activation": ("relu",), "optimizer.learning_rate": (1e-3, 1e30), "seed": (1, 2)}
    assert run(replace(small_sweep, sweep=sweep), tmp_path / "w") == 0
    rows = results(tmp_path / "w")
    wild = rows.pop("relu-lr1e+30-seed1"), rows.pop("relu-lr1e+30-seed2")
    assert [row["status"] for row in wild] == ["diverged"] * 2 and wild[0]["final_loss"] == "nan"
    assert 0 < int(wild[0]["steps"]) < 12 and float(wild[0]["initial_loss"]) > 5
    assert list(rows) == ["relu-lr0.001-seed1", "relu-lr0.001-seed2"]
    assert all(row == results(finished)[name] for name, row in rows.items())
    with pytest.raises(UserError, match=r"relu-lr1e\+30-seed1 in .* diverged and left no model"):
        trained.load(tmp_path / "w", "relu-lr1e+30-seed1")
    assert trained.load(tmp_path / "w", "relu-lr0.001-seed1").step == 12


def test_what_several_devices_trained_is_read_on_one(finished, monkeypatch):
    here = trained.load(finished, "relu-lr0.001-seed1").params
    config, *rest = trained.find(finished, "relu-lr0.001-seed1")
    there = replace(config, **{"devices.lane": 1, "devices.data": 2, "devices.fsdp": 2})
    monkeypatch.setattr(trained, "find", lambda *_: (there, *rest))
    jax.tree.map(np.testing.assert_array_equal, trained.load(finished, "relu-lr0.001-seed1").params, here)


def test_a_run_that_diverged_alone_is_not_read_from_the_checkpoint_before(small_sweep, tmp_path):
    often = {"train.eval_every": 1, "train.checkpoint_every": 1}
    alone = replace(small_sweep, sweep=(), **often, **{"optimizer.learning_rate": 1e36, "model.activation": "relu"})
    assert run(alone, tmp_path / "w") == 0
    (row,) = results(tmp_path / "w").values()
    assert row["status"] == "diverged" and list((tmp_path / "w/checkpoints/0").glob("[1-9]*"))
    with pytest.raises(UserError, match="diverged and left no model"):
        trained.load(tmp_path / "w")


@pytest.fixture
def refusing(monkeypatch):
    """A context in which the device refuses programs of more than `most` lanes; those of a plan have one."""

    @contextlib.contextmanager
    def context(most, error="RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes."):
        whole = programs.Program.compile

        def compile(self):
            if self.n_lanes > most:
                raise jax.errors.JaxRuntimeError(error)
            return whole(self)

        with monkeypatch.context() as patch:
            patch.setattr(programs.Program, "compile", compile)
            yield

    return context


def test_what_does_not_fit_into_memory_is_halved(small_sweep, finished, tmp_path, refusing, capsys):
    with refusing(most=1):
        assert run(small_sweep, tmp_path / "w") == 0
    assert "4 lanes do not fit into memory: split in two" in capsys.readouterr().out
    parts = json.loads((tmp_path / "w" / "manifest.json").read_text())["parts"]
    assert list(parts) == ["0aa", "0ab", "0ba", "0bb", "1aa", "1ab", "1ba", "1bb"]
    ours = results(tmp_path / "w")
    assert {name: row["final_loss"] for name, row in ours.items()} == {
        name: row["final_loss"] for name, row in results(finished).items()
    }


def test_what_was_trained_is_not_thrown_away_where_it_fits_no_longer(
    small_sweep, finished, stopped_early, tmp_path, refusing
):
    with stopped_early():
        assert run(small_sweep, tmp_path / "w") == 143
    before = sorted(path.name for path in (tmp_path / "w/checkpoints/0").iterdir())
    with refusing(most=1), pytest.raises(UserError, match="part 0, trained to step 6"):
        run(small_sweep, tmp_path / "w")
    assert "6" in before and sorted(path.name for path in (tmp_path / "w/checkpoints/0").iterdir()) == before
    assert run(small_sweep, tmp_path / "w") == 0
    assert results(tmp_path / "w") == results(finished)


def test_a_signal_before_step_0_leaves_nothing_to_throw_away(small_sweep, finished, stopped_early, tmp_path):
    with stopped_early(calls=-1):
        assert run(small_sweep, tmp_path / "w") == 143
    assert not metrics(tmp_path / "w") and results(tmp_path / "w") == {}
    assert run(small_sweep, tmp_path / "w") == 0
    assert results(tmp_path / "w") == results(finished)


def test_a_workdir_that_has_its_parts_is_not_planned_again(small_sweep, stopped_early, tmp_path, monkeypatch):
    with stopped_early():
        assert run(small_sweep, tmp_path / "w") == 143
    monkeypatch.setattr(plan, "make", None)  # which a call would find out
    assert run(small_sweep, tmp_path / "w") == 0


@pytest.mark.slow
def test_the_state_of_the_part_before_is_gone_when_the_next_is_trained(small_sweep, tmp_path, monkeypatch):
    train, held = session.Session._train, []

    def watched(self, *arguments):
        gc.collect()
        held.append(sum(array.nbytes for array in jax.live_arrays()))
        return train(self, *arguments)

    monkeypatch.setattr(session.Session, "_train", watched)
    axes = {"model.activation": ("relu",), "optimizer.learning_rate": (1e-3,), "seed": (1, 2, 3)}
    assert run(replace(small_sweep, sweep=axes, **{"devices.max_lanes": 1}), tmp_path / "w") == 0
    size = max(array.nbytes for array in jax.tree.leaves(trained.load(tmp_path / "w", "relu-lr0.001-seed1").params))
    assert len(held) == 3 and max(held) < held[0] + size


@pytest.mark.slow
@pytest.mark.parametrize("ended", [False, True])
def test_the_speed_of_two_calls_logged_at_once_is_that_of_both(small_sweep, tmp_path, monkeypatch, ended):
    # Whether a call has ended when the next begins: on a GPU it has.
    monkeypatch.setattr(loop, "has_ended", lambda call: ended)
    clock = itertools.count()
    monkeypatch.setattr(loop, "time", types.SimpleNamespace(perf_counter=lambda: float(next(clock))))
    save = checkpoint.Checkpoints.save
    # Ten seconds each, which are no time of the steps that follow.
    monkeypatch.setattr(checkpoint.Checkpoints, "save", lambda *given: (save(*given), [next(clock) for _ in range(10)]))
    one = replace(small_sweep, sweep=(), **{"train.steps_per_call": 1, "train.log_every": 1, "train.eval_every": 4})
    assert run(one, tmp_path / "w") == 0
    rows = [row for row in Workdir(tmp_path / "w").metrics() if row["split"] == "train"]
    speeds = {row["step"]: row["tokens_per_second"] for row in rows}
    per_step = one.data.batch_size * one.model.context
    # A second passes from each look at the clock to the next, whatever happens between.
    both = per_step if ended else 2 * per_step  # in the one second until both are known, or in one each
    assert speeds[1] == speeds[2] == per_step and speeds[3] == speeds[4] == both
    assert speeds[5] == per_step, "after a checkpoint"


def test_devices_that_nothing_falls_to_are_printed(small_sweep, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        session.devices, "idle_devices", lambda mesh, n_lanes, batch_size: f"{n_lanes} lanes, rows {batch_size}"
    )
    assert run(replace(small_sweep, sweep=(), **{"model.activation": "relu"}), tmp_path / "w") == 0
    assert "warning     1 lanes, rows 4" in capsys.readouterr().out


@pytest.mark.parametrize("swept", [False, True])
def test_one_lane_that_does_not_fit_is_the_users_to_mend(small_sweep, tmp_path, refusing, swept):
    with refusing(most=0), pytest.raises(UserError, match="config.data.batch_size=4 does not fit"):
        run(small_sweep if swept else replace(small_sweep, sweep=()), tmp_path / "w")


def test_a_plan_is_measured_on_the_devices_that_a_lane_takes(small_sweep, tmp_path, monkeypatch):
    class Asked(Exception):
        pass

    def refuse(model, config, *_):
        raise Asked(config.devices)

    monkeypatch.setattr(jax, "device_count", lambda: 8)
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices() * 8)
    monkeypatch.setattr(plan.programs, "build", refuse)
    with pytest.raises(Asked) as asked:
        run(replace(small_sweep, **{"devices.data": 2, "devices.fsdp": 2}), tmp_path / "w")
    devices = asked.value.args[0]
    assert (devices.lane, devices.data, devices.fsdp) == (1, 2, 2)
    # As many as training will take where the config leaves that open: four for each of two lanes.
    with pytest.raises(Asked) as asked:
        run(replace(small_sweep, sweep={"seed": (1, 2)}, **{"devices.lane": 2}), tmp_path / "w")
    assert (asked.value.args[0].lane, asked.value.args[0].data) == (1, 4)


def test_other_errors_of_the_device_are_not_taken_for_memory(small_sweep, tmp_path, refusing):
    with refusing(0, "INTERNAL: something else"), pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        run(replace(small_sweep, sweep=()), tmp_path / "w")


def test_the_header_says_how_often_the_text_is_read_and_warns_of_a_small_test_set(
    small_sweep, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(plan, "make", lambda *_: [])  # which measures

    def said(**changes):
        run(replace(small_sweep, sweep=(), **{"model.activation": "relu", **changes}), tmp_path / "w", dry_run=True)
        return capsys.readouterr().out

    out = said()
    n_text = int(re.search(r"training documents, ([\d,]+) tokens", out)[1].replace(",", ""))
    n_steps, per_step, share = re.search(r"training +(\d+) steps of (\d+) tokens, .* in all: (\S+) epoch", out).groups()
    assert float(share) == pytest.approx(int(n_steps) * int(per_step) / n_text, rel=0.01)
    often = 5 * n_text // int(per_step)
    assert "is read about 5 times" in said(**{"train.n_steps": often}) and "is read about" not in out
    assert "training  " not in said(**{"train.n_steps": often, "data.corruption": "random"})
    monkeypatch.setattr(announce, "_FEW", 10**6)
    told = [said(**{"train.eval_tokens": n}) for n in (1, 10**6)]
    few, all_of_them = (
        int(re.search(r"test loss is that of only ([\d,]+) document", out)[1].replace(",", "")) for out in told
    )
    assert 0 < few < all_of_them <= program_spec.open_data([small_sweep]).meta.n_documents["test"]
    monkeypatch.setattr(announce, "_FEW", few)
    assert "that of only" not in said(**{"train.eval_tokens": 1})


def test_a_width_that_is_swept_leaves_the_feed_forward_open(small_sweep, tmp_path):
    """Otherwise a job of one width, or a second call, reads a base config whose d_ff is another width's."""
    one = replace(small_sweep, sweep={"model.d_model": (8,)}, **{"model.activation": "relu"})
    for _ in range(2):
        assert run(one, tmp_path / "w") == 0
    assert load(tmp_path / "w/config.json").model.d_ff is None


def test_a_dry_run_prints_the_plan_and_makes_no_workdir(small_sweep, tmp_path, capsys):
    config = replace(small_sweep, **{"devices.max_lanes": 2})
    assert run(config, tmp_path / "w", dry_run=True) == 0
    assert run(replace(small_sweep, sweep=(), **{"model.activation": "relu"}), tmp_path / "w", dry_run=True) == 0
    assert not (tmp_path / "w").exists()
    out = capsys.readouterr().out
    rows = [line.split()[:5] for line in out.splitlines() if line.startswith(("relu", "tanh"))]
    assert rows[:2] == [["relu", "2", "+", "2", "1"], ["tanh", "2", "+", "2", "1"]]
    assert rows[2][:3] == ["relu", "1", "1"]
    assert "8 runs in 2 programs in 4 parts, about" in out and "1 run in 1 program, about" in out


def test_runs_of_a_sweep_are_read_back_by_name(small_sweep, finished):
    one = trained.load(finished, "tanh-lr0.01-seed2")
    assert (one.config.model.activation, one.config.optimizer.learning_rate, one.config.seed) == ("tanh", 1e-2, 2)
    other = trained.load(finished, "tanh-lr0.01-seed1")
    assert not np.array_equal(one.params["token_embedding"]["embedding"], other.params["token_embedding"]["embedding"])
    with pytest.raises(UserError, match="--run is missing.*8 runs"):
        trained.load(finished)
    with pytest.raises(UserError, match="did you mean 'tanh-lr0.01-seed[12]'"):
        trained.load(finished, "tanh-lr0.01-seed3")


def test_a_solo_run_is_its_lane_to_the_bit(small_sweep, finished, tmp_path):
    solo = replace(small_sweep, sweep=(), seed=2, **{"model.activation": "tanh", "optimizer.learning_rate": 1e-2})
    assert run(solo, tmp_path / "w") == 0
    name = "tanh-lr0.01-seed2"
    assert [row for row in metrics(finished) if row["run"] == name] == metrics(tmp_path / "w")
    lane, alone = trained.load(finished, name), trained.load(tmp_path / "w")
    jax.tree.map(np.testing.assert_array_equal, lane.params, alone.params)


def test_axes_that_have_no_column_get_one(small_sweep, tmp_path):
    sweep = {"train.eval_every, train.n_steps": ((2, 12), (4, 6))}
    assert run(replace(small_sweep, sweep=sweep, **{"model.activation": "relu"}), tmp_path / "w") == 0
    rows = results(tmp_path / "w")
    assert [(row["train.eval_every"], row["train.n_steps"], row["steps"]) for row in rows.values()] == [
        ("2", "12", "12"),
        ("4", "6", "6"),
    ]


def test_a_sweep_that_is_watched_has_event_files_of_every_run_and_the_same_results(small_sweep, finished, tmp_path):
    assert run(replace(small_sweep, **{"log.tensorboard": True}), tmp_path / "w") == 0
    assert results(tmp_path / "w") == results(finished)
    rows = Workdir(tmp_path / "w").metrics()
    folders = list((tmp_path / "w" / "tensorboard").iterdir())
    assert {folder.name for folder in folders} == set(results(finished))
    for folder in folders:
        assert event_files.found(folder) == event_files.expected(rows, folder.name)


def test_the_default_folder_is_named_after_config_and_fingerprint(small_sweep, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = replace(small_sweep, sweep=(), **{"model.activation": "relu"})
    assert session.run(config, "mine", None, ["test"]) == 0
    (folder,) = pathlib.Path("runs").iterdir()
    assert folder.name.startswith("mine-") and (folder / "results.csv").is_file()


def test_a_workdir_of_a_launch_is_refused(small_sweep, tmp_path):
    (tmp_path / "w" / "jobs").mkdir(parents=True)
    with pytest.raises(UserError, match="--workdir=.*begun by actlab launch"):
        run(small_sweep, tmp_path / "w")
    assert [path.name for path in (tmp_path / "w").iterdir()] == ["jobs"]
    (tmp_path / "w" / "jobs").rmdir()  # as of a launch that is done
    Workdir(tmp_path / "w").write_manifest({"launched": ["actlab", "launch"], "parts": {"0-0": []}})
    with pytest.raises(UserError, match="--workdir=.*begun by actlab launch"):
        run(small_sweep, tmp_path / "w")


def test_a_disk_that_is_full_to_the_end_is_one_sentence_and_lets_others_in(small_sweep, tmp_path, monkeypatch):
    class Full(io.StringIO):
        """A file that takes nothing, nor when it is closed."""

        def flush(self):
            raise OSError(28, "No space left on device")

        close = flush

    def append(self, _):
        self._file.close()
        self._file = Full()
        self._file.flush()

    monkeypatch.setattr(records.RowFile, "append", append)
    with pytest.raises(UserError, match="cannot be written .No space left on device.: make room"):
        run(small_sweep, tmp_path / "w")
    assert not Workdir(tmp_path / "w").is_in_use()
