"""The page: the same twice, small, complete, true to the numbers, safe against what files hold."""

import csv
import dataclasses
import html
import json
import pathlib
import re
import shlex
import shutil

import commands
import filelock
import pages
import pytest

from actlab import activations, config as config_lib
from actlab.analysis import comparison, results as results_lib
from actlab.cli import report as report_command
from actlab.config import sweep
from actlab.errors import UserError
from actlab.report import charts, ranking, report, runs, verdicts
from actlab.report.page import Records, Side, Table, render
from actlab.report.study import read
from actlab.workdir.records import Workdir

SECTIONS_IN_ORDER = "ranking limits rates training layers distributions curvature cost runs about".split()
FIGURES = "ranking cost rates sensitivity training layers survival gradients activations curvature".split()


@pytest.fixture(scope="module")
def found(study):
    """The study of 120 runs, read back."""
    return read([study])


@pytest.fixture(scope="module")
def built(found):
    """Its page."""
    return report.build(found, n_samples=0)


@pytest.fixture(scope="module")
def page(built):
    """The text of its page."""
    return built.html()


def test_a_study_of_120_runs_is_whole_and_small(page):
    text = page.partition('<script type="module">')[0]
    assert re.findall(r'<section id="([^"]*)">', text) == SECTIONS_IN_ORDER
    assert [name for name in FIGURES if f'<figure id="{name}-figure">' not in text] == []
    assert len(page.encode()) < 3e6
    assert [alt for alt in re.findall(r'aria-label="([^"]*)"', text) if len(alt) < 3] == []


def test_the_page_opens_with_question_answer_and_ranking(built, page):
    text = html.unescape(page)
    assert f"<h1>{built.question}</h1>" in text and built.question.startswith("Which has the lowest loss, relu or gelu")
    assert f'<p class="lead">{built.answer}</p>' in text and "whether the loss of gelu is lower" in built.answer
    places = [text.index(part) for part in ("<h1>", 'class="lead"', 'id="ranking-figure"', 'id="limits"')]
    assert places == sorted(places)


def test_a_page_is_the_same_twice(workdirs, six):
    assert workdirs.page(six) == workdirs.page(six)


def test_page_command_and_table_say_the_same(study, page):
    compared = comparison.compare(results_lib.read([study]))
    text = html.unescape(page).replace("\\u003c", "<")
    for one in compared:
        (sentence,) = one.sentences
        assert sentence[1:] in text and ("nats (" in sentence or "not trained yet" in sentence)
        assert one.answer[1:] in text
        assert all(f"{standing.loss:.4f}" in text for standing in one.main.standings if standing.loss)


def test_the_questions_of_a_study_are_those_of_its_file_unless_others_are_asked(workdirs, tmp_path):
    names = ("relu", "gelu", "tanh")
    axes = {"model.activation": names, "optimizer.learning_rate": (1e-3,), "seed": (1, 2, 3, 4, 5, 6)}
    folder = workdirs.copied(workdirs.write(tmp_path / "w", workdirs.config_of(axes)), tmp_path / "s", "results.csv")

    def asked(**options):
        (one,) = verdicts.compare(read([folder]), **{"questions": (), **options}).comparisons
        return one.baseline, [pair.question for pair in one.main.pairs], one.main.pairs[0].own_best.family

    assert asked() == ("relu", ["gelu < relu", "tanh < relu"], 2), "the first of the table"
    assert asked(baseline="tanh") == ("tanh", ["gelu < tanh", "relu < tanh"], 2)
    (folder / "study.py").write_text('QUESTIONS = ("relu<gelu",)\n')
    assert asked() == ("relu", ["gelu < relu", "tanh < relu"], 2), "what is not named is not run"
    pages = []
    for flag in ("--samples=0", f"--study={folder / 'study.py'}", "--question=relu<gelu"):
        commands.run(report_command.main, folder, "--samples=0", flag, f"--out={tmp_path / 'page.html'}")
        pages.append((tmp_path / "page.html").read_text())
    assert pages[0] != pages[1] == pages[2]
    assert asked(questions=["tanh<relu"]) == ("relu", ["tanh < relu"], 1)
    with pytest.raises(UserError, match="--baseline=silu has no runs here"):
        asked(baseline="silu")
    (one,) = verdicts.compare(read([folder]), ["relu<gelu"]).comparisons
    assert [pair.activations for pair in one.other_pairs()] == [("gelu", "tanh"), ("relu", "tanh")]
    assert {judged.family for judged in one.other_pairs().values()} == {2}


def test_a_question_is_answered(six):
    compared = verdicts.compare(read([six]), ["gelu<relu"])
    (pair,) = compared.comparisons[0].main.pairs
    assert pair.question.replace(" ", "") == "gelu<relu"
    with pytest.raises(UserError, match="tanh"):
        verdicts.compare(read([six]), ["gelu<tanh"])


def test_rows_of_rankings_and_rates_lead_to_their_runs(page):
    links = {
        name: set(pages.unpacked(pages.content(page, name)["links"]))
        for name in ("ranking-table", "rates-table", "cost-table")
    }
    assert "runs-table activation=gelu learningrate=0.001 at=warmup_steps=0" in links["ranking-table"]
    assert "runs-table activation=relu at=warmup_steps=20" in links["rates-table"] & links["cost-table"]


def test_a_table_follows_the_chosen_condition_where_there_are_several(found, six):
    rows = [["gelu", condition] for condition in found.conditions]
    table = charts.table(found, "t", ("activation",), rows, "", links=["a", "b"])
    place = table.follows["condition"]
    assert table.columns[place] == "at" and tuple(row[place] for row in table.rows) == found.conditions
    assert table.links == ["a", "b"]
    plain = charts.table(read([six]), "t", ("activation",), [["gelu", ""]], "")
    assert (plain.columns, plain.rows, plain.follows) == (("activation",), [["gelu"]], {})


def test_every_table_of_the_ranking_follows_the_chosen_condition(built):
    (section,) = (one for one in built.sections if one.name == "ranking")
    blocks = [inner for block in section.blocks for inner in getattr(block, "blocks", [block])]
    tables = {block.name: block.follows.keys() for block in blocks if isinstance(block, Table)}
    assert {"ranking-table", "views-table"} <= tables.keys()
    assert all(follows == {"condition"} for follows in tables.values()), tables


def test_every_row_of_the_run_table_leads_to_its_run(study, found):
    section = runs.section(found)
    listed, records = section.blocks[:2]
    assert isinstance(listed, Table) and isinstance(records, Records)
    assert listed.links == list(records.rows) and len(listed.rows) == 120
    assert [row[0] for row in listed.rows] == [values[0] for values in records.rows.values()]
    column = listed.columns.index("final loss")
    with (study / "results.csv").open() as file:
        written = {row["run"]: row["final_loss"] for row in csv.DictReader(file)}
    shown = {row[0]: row[column] for row in listed.rows}
    assert sum(cell.text == "-" for cell in shown.values()) == 6
    assert all(cell.order == float(written[name]) for name, cell in shown.items() if cell.text != "-")
    of = dict(zip(records.fields, records.rows["run-18"], strict=True))
    assert of["final_loss"] == written[of["run"]] and of["command that repeats it"].endswith(f"runs/{of['run']}")


def test_the_command_repeats_the_run(workdirs, found):
    """What the command is told is that run and no other, whatever a shell makes of its words."""
    for number in (0, 17, 119):
        run = found.runs[number]
        program, *flags = shlex.split(runs.repeat(run.source, run.name))[2:]
        config, name, workdir = (flag.partition("=")[2] for flag in flags)
        assert program == "actlab.main"
        assert [flag.partition("=")[0] for flag in flags] == ["--config", "--run", "--workdir"]
        again = sweep.find(config_lib.from_json(pathlib.Path(config).read_text()), name).config
        assert config_lib.fingerprint(again) == config_lib.fingerprint(run.config)
        assert again.sweep == () and workdir == f"runs/{run.name}"
    elsewhere = dataclasses.replace(found.sources[0], path=pathlib.Path("my runs"))
    line = shlex.split(runs.repeat(elsewhere, "gelu_scale(s=0.25)-lr0.001-seed1"))
    assert "--config=my runs/config.json" in line and "--run=gelu_scale(s=0.25)-lr0.001-seed1" in line
    assert "--workdir=runs/gelu_scale_s_0.25_-lr0.001-seed1" in line


@pytest.mark.parametrize("given", [["--activations=my own.py"], ["--activations", "my own.py"]])
def test_the_command_names_the_files_of_own_activations(found, given):
    sessions = [{"command": ["python", "-m", "actlab.main", "--config=a.py", *given, "--workdir=w"]}]
    source = dataclasses.replace(found.sources[0], manifest={"sessions": sessions})
    for name in ("", found.runs[0].name):
        assert shlex.split(runs.repeat(source, name))[-1] == "--activations=my own.py"
    (session,) = runs._sessions(source.manifest)
    assert shlex.split(session[-1]) == sessions[0]["command"]


def test_the_limits_name_the_commits_that_folders_come_from(six):
    study = read([six])
    (session,) = study.sources[0].manifest["sessions"]
    later = {"sessions": [session | {"commit": "1" * 40}]}
    both = (*study.sources, dataclasses.replace(study.sources[0], manifest=later))
    for sources, told in ((study.sources, False), (both, True)):
        page = report.build(dataclasses.replace(study, sources=sources), n_samples=0).html()
        assert ("Note: the rows were made by several commits (0000000, 1111111), and may" in page) == told


HOSTILE = "</script><img src=x onerror=alert(1)>"


def test_what_files_say_is_text(workdirs, six, tmp_path):
    folder = workdirs.copied(six, tmp_path / "w<b>", "results.csv")
    (folder / "README.md").write_text(f"Question: {HOSTILE}\n")
    rows = (folder / "results.csv").read_text().replace("relu-lr", f"{HOSTILE}-lr").replace("gelu", "gelu<i>")
    (folder / "results.csv").write_text(rows)
    text = workdirs.text(folder)
    assert HOSTILE not in text and "<i>" not in text and "<b>" not in text
    assert html.escape(HOSTILE) in text and HOSTILE.replace("<", "\\u003c").replace(">", "\\u003e") in text


def test_a_study_folder_shows_what_it_has(workdirs, study, tmp_path):
    folder = workdirs.copied(study, tmp_path / "s", "results.csv")
    text = workdirs.text(folder)
    assert re.findall(r'<section id="([^"]*)">', text) == ["ranking", "limits", "rates", "cost", "runs", "about"]
    assert '<figure id="rates-figure">' in text


def test_one_run_has_no_verdict_and_says_why(workdirs, tmp_path):
    axes = {"model.activation": ("gelu",), "seed": (1,)}
    path = workdirs.write(tmp_path / "one", workdirs.config_of(axes))
    text = html.unescape(workdirs.text(path))
    assert "No verdict" in text and "Which validation loss does gelu reach at a learning rate of 0.001?" in text
    several = workdirs.write(tmp_path / "several", workdirs.config_of({**axes, "seed": (1, 2, 3)}))
    rows = results_lib.read([several])
    least = min(rows, key=lambda run: run.final_loss)
    assert len({run.final_loss for run in rows}) == 3
    assert f"The lowest loss is {least.final_loss:.4f}" in html.unescape(workdirs.text(several))
    assert '<figure id="training-figure">' in text and '<figure id="rates-figure">' not in text


@pytest.mark.parametrize("status", ["open", "waiting"])
def test_runs_in_training_are_reported_as_such(workdirs, tmp_path, status):
    axes = {"model.activation": ("relu", "gelu"), "seed": (1, 2)}
    path = workdirs.write(tmp_path / "w", workdirs.config_of(axes), lambda run: status)
    text = workdirs.text(path)
    assert "Not finished: 4 not finished" in text and "No verdict yet" in text
    assert ('<figure id="training-figure">' in text) == (status == "open")
    assert 'id="cost-table"' not in text


def test_a_stopped_sweep_is_not_finished_and_trains_again_with_its_job(workdirs, tmp_path):
    axes = {"model.activation": ("relu", "gelu"), "seed": (1, 2)}
    path = workdirs.write(tmp_path / "w", workdirs.config_of(axes), lambda run: "stopped")
    text = workdirs.text(path)
    assert "Not finished: 4 stopped" in text and "no process is training" in text
    for folder in (path, path / "jobs/0"):
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / ".lock"):
            assert "Still in training: 4 in training" in workdirs.text(path)
    (path / "verdicts.json").write_text('{"claims": {"B07": {"evidence": {"says": "x", "reason": "", "mean": 0.1}}}}')
    with pytest.raises(UserError, match="verdicts.json is not as actlab verdict writes it"):
        read([path])
    with pytest.raises(UserError, match=r"config.json is a file: name its folder"):
        read([path / "config.json"])


def test_a_stopped_run_is_no_loss_of_its_cell_while_it_trains_again(workdirs, tmp_path):
    axes = {"model.activation": ("relu", "gelu"), "optimizer.learning_rate": (1e-3, 3e-3), "seed": (1, 2)}

    def status(run):
        late = run.config.model.activation == "gelu" or run.config.seed == 2
        return "stopped" if late else "finished"

    path = workdirs.write(tmp_path / "w", workdirs.config_of(axes), status)
    free = read([path])
    with filelock.FileLock(path / ".lock"):
        locked = read([path])
    assert [run.status for run in locked.runs].count("in training") == 6
    assert ranking.rate_rows(locked) == ranking.rate_rows(free)
    assert [(row[1], row[7]) for row in ranking.rate_rows(locked) if row[6] == "mean"] == [("relu", "1 seed")] * 2
    for found in (free, locked):
        assert verdicts.compare(found, ()).reason.startswith("a comparison needs two activations trained to the end")


def test_conditions_that_are_ready_are_compared_while_others_train(workdirs, tmp_path):
    axes = {
        "optimizer.warmup_steps": (0, 20),
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": (1e-3,),
        "seed": (1, 2, 3),
    }

    def status(run):
        late = run.config.optimizer.warmup_steps == 20 and run.config.model.activation == "gelu"
        return "waiting" if late else "finished"

    found = read([workdirs.write(tmp_path / "w", workdirs.config_of(axes), status)])
    compared = verdicts.compare(found, ())
    assert list(compared.by_condition(found)) == ["warmup_steps=0"]


def test_each_condition_of_a_figure_is_described_by_its_own_numbers(built, found):
    rows = [["warmup_steps=20", "relu", 2.0], ["warmup_steps=0", "relu", 1.0], ["warmup_steps=0", "gelu", 3.0]]
    words = charts.told(found, "Dots", rows, lambda row: f"{row[1]} {row[2]:g}")
    assert list(words.items()) == [("warmup_steps=0", "Dots: relu 1; gelu 3."), ("warmup_steps=20", "Dots: relu 2.")]
    many = [["warmup_steps=0", index] for index in range(15)]
    assert charts.told(found, "Dots", many, lambda row: str(row[1]))["warmup_steps=0"].endswith("10; 11; 3 more.")
    several = [figure for figure in render.figures(built.sections) if not isinstance(figure.alt, str)]
    names = {figure.name for figure in several}
    assert names >= {"ranking-figure", "rates-figure", "layers-figure", "survival-figure", "gradients-figure"}
    for figure in several:
        assert list(figure.alt) == list(found.conditions) and figure.words() == figure.alt[found.conditions[0]]
        distinct = dataclasses.replace(figure, alt={name: f"of {name}: {told}" for name, told in figure.alt.items()})
        for condition in found.conditions:
            assert f"<desc>of {condition}: " in render.to_svg(distinct, condition=condition), figure.name


def test_the_best_runs_are_those_of_the_lowest_loss_of_each_activation(found):
    losses = {name: [] for name in found.activations}
    for run in found.runs:
        if run.status == "finished":
            losses[run.activation].append(run.result.final_loss)
    best = [(run.activation, run.result.final_loss) for run in runs.best(found)]
    assert best == sorted(((name, min(of)) for name, of in losses.items()), key=lambda one: one[1])


def test_samples_come_from_checkpoints_and_are_the_same_twice(trained):
    found = read([trained])
    (section,) = runs.samples(found, 4)
    (side,) = [block for block in section.blocks if isinstance(block, Side)]
    ((name, code),) = side.parts
    assert name == runs.best(found)[0].name and len(code.text) > 10
    assert runs.samples(found, 4) == [section] and runs.samples(found, 0) == []


def test_a_run_that_writes_no_text_says_why_and_with_its_activation_registered_it_writes(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "w")
    for path in (path for path in (tmp_path / "w").glob("*.*") if path.suffix != ".npz"):
        path.write_text(path.read_text().replace("relu", "bent_in_report"))
    changed = json.loads((tmp_path / "w" / "manifest.json").read_text())
    Workdir(tmp_path / "w").write_manifest({name: changed[name] for name in ("data", "parts", "activations")})
    (told,) = [block.words for block in runs.samples(read([tmp_path / "w"]), 4)[0].blocks]
    assert "bent_in_report" in told and "--activations=FILE" in told
    relu = activations.get("relu")
    activations.register(dataclasses.replace(relu, name="bent_in_report", aliases=()))
    ours, theirs = (runs.samples(read([folder]), 4)[0].blocks[1].parts[0][1] for folder in (tmp_path / "w", trained))
    assert ours == theirs


def test_a_trained_workdir_has_every_section(workdirs, trained):
    text = workdirs.text(trained)
    assert re.findall(r'<section id="([^"]*)">', text) == [
        "training",
        "limits",
        "distributions",
        "cost",
        "runs",
        "about",
    ]


def test_an_activation_of_one_s_own_is_drawn(workdirs, six, tmp_path):
    folder = workdirs.copied(six, tmp_path / "s", "results.csv")
    (folder / "results.csv").write_text((folder / "results.csv").read_text().replace("gelu", "bent"))
    assert "bent" in workdirs.text(folder)


def test_runs_to_come_are_part_of_the_family_of_the_page_and_of_the_command(workdirs, tmp_path):
    axes = {"model.activation": ("relu", "gelu", "tanh", "swiglu"), "seed": tuple(range(1, 9))}
    late = ("tanh", "swiglu")
    path = workdirs.write(
        tmp_path / "w",
        workdirs.config_of(axes),
        lambda run: "waiting" if run.config.model.activation in late else "finished",
    )
    study = read([path])
    (on_page,) = verdicts.compare(study, ()).comparisons
    (by_command,) = comparison.compare(results_lib.read([path]))
    families = [[pair.own_best.family for pair in one.main.pairs] for one in (on_page, by_command)]
    assert families == [[3], [3]]
    asked = verdicts.compare(study, ("gelu<relu", "tanh<relu"))
    assert [pair.own_best.family for pair in asked.comparisons[0].main.pairs] == [2]


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(None, "-"), (2.998, "3.00"), (12.345, "12.3"), (999.6, "1,000"), (1234.5, "1,234")]
)
def test_the_time_of_a_step_in_digits(found, milliseconds, text):
    assert ranking._cost_row(found.results[0], milliseconds, None)[2].text == text


def test_the_cost_is_that_of_each_condition(workdirs, tmp_path):
    axes = {"data.batch_size": (4, 8), "model.activation": ("relu", "gelu"), "seed": (1,)}
    text = workdirs.text(workdirs.write(tmp_path / "w", workdirs.config_of(axes, 40)))
    table = pages.cells(text, "cost-table")
    assert len(table) == 4 and [texts[-1] for texts, _ in table] == ["batch_size=4"] * 2 + ["batch_size=8"] * 2
    speeds = [float(texts[-2].replace(",", "")) for texts, _ in table]
    assert speeds[2] == pytest.approx(2 * speeds[0], rel=0.01)


@pytest.mark.parametrize(
    ("tested", "told"),
    [
        ((None, None), "interval: of validation loss."),
        ((1.5, 1.5), "interval: of test loss, of validation loss where a view ends runs early."),
        ((1.5, None), "interval: of test loss, of validation loss where the table has no other."),
    ],
)
def test_the_ranking_says_which_loss_it_shows(workdirs, tables, tmp_path, tested, told):
    rows = [
        tables.row(
            name,
            1e-3,
            seed,
            1.5 + seed / 100,
            run=f"{name}{seed}-{size}",
            **{"data.batch_size": size, "test_loss": loss or ""},
        )
        for size, loss in zip((4, 8), tested, strict=True)
        for name in ("relu", "gelu")
        for seed in (1, 2)
    ]
    assert told in workdirs.text(tables.write(tmp_path / "s" / "results.csv", rows).parent)


def test_views_and_differences_that_are_read_elsewhere_say_so(workdirs, tables, tmp_path):
    loss = {"relu": 1.5, "gelu": 1.4, "silu": 1.6}
    rows = [
        tables.row(
            name,
            rate,
            seed,
            loss[name] + seed / 100 + 0.1 * (rate != 3e-3),
            run=f"{name}-{rate}-{seed}",
            test_loss=loss[name],
            seconds=16.0 if name == "gelu" else 8.0,
            curve="50:1.9",
        )
        for name in loss
        for rate in (1e-3, 3e-3, 1e-2)
        for seed in range(1, 9)
        if (name, rate) != ("silu", 3e-3)
    ]
    text = workdirs.text(tables.write(tmp_path / "s" / "results.csv", rows).parent)
    views = {row[0]: row[-1] for row, _ in pages.cells(text, "views-table")}
    assert views["seconds"].endswith("(on validation)") and "(on " not in views["parameters"]
    ranked = {row[0]: row for row, _ in pages.cells(text, "ranking-table")}
    assert any(cell.endswith(" (gelu at 0.003, relu at 0.003)") for cell in ranked["gelu"])
    assert not any("at 0.003" in cell for cell in ranked["silu"])
