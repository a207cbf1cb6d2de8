"""Folders read back: runs that ended and runs that have not, and every way in which a folder can be broken."""

import json

import pytest

from actlab import config as config_lib
from actlab.errors import UserError
from actlab.report.study import read
from actlab.workdir import manifest
from actlab.workdir.records import Workdir

AXES = {"model.activation": ("relu", "gelu"), "optimizer.learning_rate": (1e-3,), "seed": (1, 2)}


def test_a_sweep_is_read_in_the_order_of_its_axes(study):
    found = read([study])
    assert len(found.runs) == 120 and found.activations == ("relu", "gelu")
    assert found.rates == (1e-4, 3e-4, 1e-3, 3e-3, 1e-2) and found.seeds == (1, 2, 3, 4, 5, 6)
    assert found.conditions == ("warmup_steps=0", "warmup_steps=20")
    assert len(found.cells()) == 20 and {len(runs) for runs in found.cells().values()} == {6}
    statuses = [run.status for run in found.runs]
    assert (statuses.count("diverged"), statuses.count("stopped")) == (6, 4)
    run = found.runs[0]
    assert run.steps is not None and len(run.steps.loss_S) == 2000 and run.censuses is not None
    fields = {"model.activation": "relu", "optimizer.learning_rate": 1e-4, "optimizer.warmup_steps": 0, "seed": 1}
    assert run.config == config_lib.replace(config_lib.load(study / "config.json"), **fields, sweep=())


def test_a_sweep_that_grew_is_warned_of(workdirs, tmp_path):
    path = workdirs.write(tmp_path / "w", workdirs.config_of(AXES, 40))
    manifest.note_extension(Workdir(path), 2, 4)
    assert any("2 runs were added to 2 by --extend" in warning for warning in read([path]).sources[0].warnings)


def test_an_axis_that_does_not_vary_is_no_condition(six):
    assert read([six]).conditions == ("",)


def test_a_run_that_a_table_has_twice_is_refused(workdirs, six, tmp_path):
    table = workdirs.copied(six, tmp_path / "again", "results.csv") / "results.csv"
    table.write_text(table.read_text() + table.read_text().splitlines()[-1] + "\n")
    with pytest.raises(UserError, match="comes twice"):
        read([tmp_path / "again"])


def test_a_run_that_two_folders_have_is_refused(workdirs, six, tmp_path):
    """As two seeds it would make every interval too narrow."""
    again = workdirs.copied(six, tmp_path / "again", "results.csv")
    with pytest.raises(UserError, match="relu-lr0.001-seed1 is in .*six and in .*again: leave out"):
        read([six, again])


def test_a_run_that_another_folder_has_done_is_taken_from_there(workdirs, tmp_path):
    whole = workdirs.config_of(AXES)
    begun = workdirs.write(
        tmp_path / "a", whole, lambda run: "finished" if run.config.model.activation == "relu" else "open"
    )
    other = workdirs.write(tmp_path / "b", workdirs.config_of({**AXES, "model.activation": ("gelu",)}))
    found = read([begun, other])
    assert [(run.activation, run.source.path.name, run.status) for run in found.runs] == [
        *[("relu", "a", "finished")] * 2,
        *[("gelu", "b", "finished")] * 2,
    ]


def test_a_run_that_no_folder_has_done_is_taken_from_the_one_that_came_furthest(workdirs, tmp_path):
    places = [
        workdirs.write(tmp_path / name, workdirs.config_of(AXES), lambda run, status=status: status)
        for name, status in (("a", "waiting"), ("b", "stopped"), ("c", "waiting"))
    ]
    assert [(run.source.path.name, run.status) for run in read(places).runs] == [("b", "stopped")] * 4


def test_a_stage_of_a_comparison_is_refused_as_the_comparison_is(workdirs, tmp_path):
    stage = workdirs.write(tmp_path / "judgement", workdirs.config_of(AXES))
    assert len(read([stage]).runs) == 4
    (tmp_path / "comparison.json").write_text("{}")
    with pytest.raises(UserError, match="is a comparison, which judges its runs itself"):
        read([stage])


def test_a_folder_without_results_must_be_of_the_same_model(workdirs, six, tmp_path):
    config = workdirs.config_of({**AXES, "seed": (7, 8)}, **{"model.d_model": 32})
    begun = workdirs.write(tmp_path / "begun", config, lambda run: "open")
    with pytest.raises(UserError, match="config.model.d_model is 16 in .*six and 32 in .*begun"):
        read([six, begun])
    same = workdirs.write(tmp_path / "same", workdirs.config_of({**AXES, "seed": (7, 8)}), lambda run: "open")
    assert len(read([six, same]).runs) == 10


def test_fields_that_are_swept_together_are_told_by_the_first(workdirs, tmp_path):
    linked = "data.batch_size, optimizer.warmup_steps"
    config = workdirs.config_of({linked: ((4, 20), (8, 10)), **AXES, "model.d_ff": (64, 32)})
    found = read([workdirs.write(tmp_path / "w", config)])
    assert found.conditions == (
        "batch_size=4,d_ff=64",
        "batch_size=4,d_ff=32",
        "batch_size=8,d_ff=64",
        "batch_size=8,d_ff=32",
    )
    assert all(len(run.place) == 3 for run in found.runs)


def test_a_field_that_one_folder_alone_sweeps_places_the_runs_of_all(workdirs, tmp_path):
    several = workdirs.config_of({**AXES, "optimizer.warmup_steps": (0, 20), "model.d_ff": (64, None)})
    swept = workdirs.write(tmp_path / "swept", several)
    fixed = workdirs.config_of({**AXES, "seed": (7,)}, **{"optimizer.warmup_steps": 20, "model.d_ff": None})
    begun = workdirs.write(tmp_path / "begun", fixed, lambda run: "open")
    found = read([swept, begun])
    assert found.conditions == tuple(f"warmup_steps={steps},d_ff={d_ff}" for steps in (0, 20) for d_ff in (64, None))
    assert {run.condition for run in found.runs if run.seed == 7} == {"warmup_steps=20,d_ff=None"}


@pytest.mark.parametrize(
    ("changes", "unit"),
    [
        ({}, "nats/token"),
        ({"data.tokenizer": "bytes"}, "nats/byte"),
        ({"model.kind": "encoder"}, "nats/masked token"),
        (
            {"model.kind": "encoder", "model.n_classes": 2, "finetune.task": "sst2", "data.packing": "padded"},
            "nats/document",
        ),
    ],
)
def test_the_unit_is_known_before_a_run_has_ended(workdirs, tmp_path, changes, unit):
    config = workdirs.config_of(AXES, **{"data.tokenizer": "gpt2", **changes})
    assert read([workdirs.write(tmp_path / "w", config, lambda run: "open")]).unit == unit


def test_a_table_of_runs_to_come_has_a_unit(tables, tmp_path):
    row = tables.row("relu", 1e-3, 1, 1.5) | {"status": "waiting", "final_loss": "", "initial_loss": ""}
    path = tables.write(tmp_path / "s" / "results.csv", [row])
    assert read([path.parent]).unit == "nats/byte"


def test_traces_without_a_step_are_no_curve(workdirs, tmp_path):
    """The census of step 0 is written at once, steps with a checkpoint."""
    path = workdirs.write(tmp_path / "w", workdirs.config_of(AXES), lambda run: "open")
    rows = [line for line in (path / "traces.jsonl").read_text().splitlines() if json.loads(line)["kind"] == "dead"]
    (path / "traces.jsonl").write_text("\n".join(rows) + "\n")
    run = read([path]).runs[0]
    assert run.steps is None and run.censuses is not None


@pytest.mark.parametrize("claims", [[], {"B07": "true"}])
def test_verdicts_of_another_form_are_refused(workdirs, six, tmp_path, claims):
    folder = workdirs.copied(six, tmp_path / "study", "results.csv")
    (folder / "verdicts.json").write_text(json.dumps({"claims": claims}))
    with pytest.raises(UserError, match="verdicts.json is not as actlab verdict writes it"):
        read([folder])


@pytest.mark.parametrize(
    ("text", "question"),
    [
        (b"# Title\nQuestion: is it\nso?\n\nYes.\n", "is it so?"),
        (b"# Title\n\nQuestion: M\xfcller?\n", "M\N{REPLACEMENT CHARACTER}ller?"),
        (b"# Title\n\nA Question: none.\n", ""),
    ],
)
def test_a_question_is_read_of_any_text(workdirs, six, tmp_path, text, question):
    folder = workdirs.copied(six, tmp_path / "study", "results.csv")
    (folder / "README.md").write_bytes(text)
    assert read([folder]).sources[0].question == question


@pytest.mark.parametrize("held", [True, False])
def test_runs_without_a_result_are_in_training_or_not_finished(workdirs, tmp_path, held):
    config = workdirs.config_of(AXES)
    path = workdirs.write(tmp_path / "w", config, lambda run: "open" if run.config.seed == 1 else "waiting")
    holder = Workdir(path)
    if held:
        holder.open(config)
    try:
        found = read([path])
    finally:
        holder.close()
    assert {run.status for run in found.runs} == {"in training" if held else "not finished"}
    assert [run.step for run in found.runs] == [100, 0, 100, 0] and found.results == []


def test_reading_changes_nothing(six):
    before = {path: path.stat().st_mtime_ns for path in six.iterdir()}
    read([six])
    assert before == {path: path.stat().st_mtime_ns for path in six.iterdir()}


@pytest.mark.parametrize("heading", ["Question:", "**Question.**"])
def test_a_study_folder_needs_no_config(workdirs, six, tmp_path, heading):
    folder = workdirs.copied(six, tmp_path / "study", "results.csv")
    (folder / "README.md").write_text(f"# A study\n\n{heading} is gelu\nbetter?\n\nProtocol: none.\n")
    (folder / "verdicts.json").write_text(json.dumps({"claims": {"B07": {"verdict": "true", "evidence": "seen"}}}))
    found = read([folder])
    assert len(found.runs) == 6 and found.runs[0].config is None and found.runs[0].metrics == ()
    assert found.sources[0].question == "is gelu better?" and found.sources[0].claims["B07"]["evidence"] == "seen"


def test_a_line_cut_short_is_left_out_and_told(workdirs, six, tmp_path):
    folder = workdirs.copied(six, tmp_path / "w", "config.json", "results.csv", "metrics.jsonl")
    whole = read([folder])
    (folder / "metrics.jsonl").write_text((folder / "metrics.jsonl").read_text() + '{"run": "relu-l')
    cut = read([folder])
    assert [run.metrics for run in cut.runs] == [run.metrics for run in whole.runs]
    (told,) = set(cut.sources[0].warnings) - set(whole.sources[0].warnings)
    assert "metrics.jsonl: the last line is incomplete" in told


def test_tables_without_their_manifest_are_a_warning_unless_jobs_are_still_to_come(workdirs, six, tmp_path):
    folder = workdirs.copied(six, tmp_path / "w", "config.json", "results.csv", "metrics.jsonl")
    (told,) = read([folder]).sources[0].warnings
    assert "manifest.json is missing" in told
    (folder / "jobs").mkdir()
    assert read([folder]).sources[0].warnings == (told,)
    lines = (folder / "results.csv").read_text().splitlines(keepends=True)
    (folder / "results.csv").write_text("".join(lines[:-1]))
    assert read([folder]).sources[0].warnings == ()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("metrics.jsonl", '{"run": "a", "step": 1, "split": "train"}\nhello\n', "metrics.jsonl line 2"),
        ("metrics.jsonl", '{"epoch": 3, "loss": 1.0}\n', "metrics.jsonl.*run"),
        ("metrics.jsonl", '{"run": "a", "step": "x", "split": "train"}\n', "step='x'"),
        ("traces.jsonl", '{"run": "a", "step": 1}\n', "traces.jsonl.*kind"),
        ("manifest.json", "{", "manifest.json"),
        ("verdicts.json", "[]", "verdicts.json"),
        ("config.json", "{}", "config"),
        ("results.csv", "run,loss\na,1\n", "no column activation"),
    ],
)
def test_a_broken_file_is_named(workdirs, six, tmp_path, name, content, words):
    folder = workdirs.copied(six, tmp_path / "w", "config.json", "results.csv", "metrics.jsonl")
    (folder / name).write_text(content)
    with pytest.raises(UserError, match=words):
        read([folder])


def test_a_folder_that_is_empty_or_named_twice_is_refused(six, tmp_path):
    with pytest.raises(UserError, match="twice"):
        read([six, six.parent / "." / six.name])
    with pytest.raises(UserError, match="config.json"):
        read([tmp_path])


@pytest.mark.parametrize(("tokenizer", "unit"), [("bytes", "nats/byte"), ("gpt2", "nats/token")])
def test_losses_are_of_bytes_or_tokens(workdirs, tmp_path, tokenizer, unit):
    path = workdirs.write(tmp_path / "w", workdirs.config_of(AXES, **{"data.tokenizer": tokenizer}))
    assert read([path]).unit == unit


@pytest.mark.parametrize(("field", "what"), [("data.name", "data"), ("data.tokenizer", "tokenizer")])
def test_mixed_texts_are_refused(workdirs, six, tmp_path, field, what):
    other = workdirs.write(tmp_path / "other", workdirs.config_of(AXES, **{field: "gpt2"}))
    for paths in (
        [six, other],
        [workdirs.copied(path, tmp_path / path.name / "s", "results.csv") for path in (six, other)],
    ):
        with pytest.raises(UserError, match=f"{what}.*gpt2"):
            read(paths)


def test_two_workdirs_stand_on_one_page(workdirs, six, tmp_path):
    axes = {**AXES, "model.activation": ("tanh",), "seed": (1, 2, 3)}
    more = workdirs.write(tmp_path / "more", workdirs.config_of(axes))
    found = read([six, more])
    assert found.activations == ("relu", "gelu", "tanh") and len({run.key for run in found.runs}) == 9


def test_a_place_is_one_condition_whether_its_runs_have_ended_or_not(workdirs, tmp_path):
    axes = {"model.init": ("gpt2", "fan_in"), "optimizer.weight_decay": (0.0, 0.1), **AXES}
    path = workdirs.write(
        tmp_path / "w",
        workdirs.config_of(axes),
        lambda run: "finished" if run.config.seed == 1 and run.config.model.init == "gpt2" else "waiting",
    )
    assert len(read([path]).conditions) == 4
