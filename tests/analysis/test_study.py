"""A study's folder: what study.py says, the table that is collected into it, and that it alone gives the verdicts."""

import csv
import json
import shutil

import commands
import numpy as np
import pytest

from actlab import claims, config as config_lib
from actlab.analysis import results as results_lib, study as studies
from actlab.analysis.verdicts import words
from actlab.cli import verdict
from actlab.config import Config
from actlab.errors import UserError
from actlab.files import signed
from actlab.workdir import documents
from actlab.workdir.traces import dead_row

STUDY = """
from actlab.analysis.protocol import above, lower

CLAIMS = {
    "B07": lower("gelu", "relu", at=1e-3),
    "A54": lower("gelu", "relu", of="down_common", at=1e-3),
    "A38": above("relu", 0.1, of="permanently_dead_fraction", at=1e-3),
}
QUESTIONS = ("gelu<relu",)
ORDERS = {"somebody": {"relu": 2.0, "gelu": 1.9, "silu": 1.8}}
"""
DEAD = np.array([[[1, 1, 1, 0]], [[1, 1, 1, 0]], [[1, 0, 1, 0]]], bool)  # at 0, 50 and 100: of three, one revives


@pytest.fixture
def folders(tables, tmp_path):
    """A workdir with what a sweep leaves behind, and a study's folder."""
    workdir, study = tmp_path / "runs/one", tmp_path / "experiments/one"
    study.mkdir(parents=True)
    (study / "study.py").write_text(STUDY)
    rows = [
        tables.row(name, rate, seed, level + seed / 50 + 0.002 * np.sin(9 * seed + len(name) * rate * 1e3))
        for name, level in (("gelu", 1.0), ("relu", 1.1))
        for rate in (1e-3, 3e-3)
        for seed in range(5)
    ]
    tables.write(workdir / "results.csv", rows)
    metrics, traces = [], []
    for row in rows:
        curve = [(0, 7.0), (50, 2.0), (100, row["final_loss"])]
        metrics += [{"run": row["run"], "step": step, "split": "validation", "loss": loss} for step, loss in curve]
        drift = {"layer_0/down_common": -0.1 - row["seed"] / 100, "layer_1/down_common": -0.3}
        metrics.append({"run": row["run"], "step": 100, "split": "probe", "loss": 1.0, **drift})
        traces += [dead_row(row["run"], step, DEAD[index]) for index, step in enumerate((0, 50, 100))]
    for name, lines in (("metrics", metrics), ("traces", traces)):
        (workdir / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    parts = {"0": [row["run"] for row in rows]}
    content = {"data": {"fingerprint": "0123456789abcdef"}, "sessions": [], "parts": parts}
    (workdir / "manifest.json").write_text(json.dumps(signed(content)))
    return workdir, study


def run(*paths, **values):
    return commands.run(verdict.main, *paths, *(f"--{name}={value}" for name, value in values.items()))


def rows_of(folder):
    return list(csv.DictReader((folder / "results.csv").read_text().splitlines()))


def claim_in(folder):
    return json.loads((folder / "verdicts.json").read_text())["claims"]["B07"]


def test_the_collected_table_holds_what_the_other_files_say(folders, tables):
    workdir, study = folders
    path = tables.write(study / "collected.csv", studies.collect(workdir, studies.load(study / "study.py")))
    row = list(csv.DictReader(path.read_text().splitlines()))[1]
    assert row["data_fingerprint"] == "0123456789ab"
    assert row["curve"].startswith("0:7 50:2 100:1.0") and len(row["curve"].split()) == 3
    assert float(row["down_common"]) == pytest.approx((-0.1 - 0.01 - 0.3) / 2)
    assert float(row["permanently_dead_fraction"]) == 0.5 and float(row["revival_rate"]) == pytest.approx(1 / 3)
    assert results_lib.read([path])[1].curve[1] == (50, 2.0)


def test_claims_are_decided_written_and_settled_in_the_ledger(folders):
    workdir, study = folders
    out = run(workdir, study=study / "study.py", verdicts=study / "verdicts.json")
    assert "claim       B07 supported at this scale: loss: (gelu, learning rate 0.001) -(relu" in out
    assert "order       tau +1.00" in out
    entry = claim_in(study)
    assert entry["verdict"] == "supported"
    assert set(entry["evidence"]) >= {"interval", "n_seeds", "scale", "row"} and entry["evidence"]["n_seeds"] == 5
    ((_, finding), (_, open_still)) = claims.examine((claims.get("B07"), claims.get("B08")), study.parent)
    assert finding.verdict is claims.Verdict.SUPPORTED and finding.verdict.words == "supported at this scale"
    ((arm,),) = (reading.arms for reading in finding.readings)
    for text in ("5 seeds", "1,000 parameters", "95% interval", "experiments/one"):
        assert text in f"{arm.where} {arm.numbers}"
    assert "gelu-lr0.001-seed0 and 4 more" in words(entry["evidence"]) and words("seen") == "seen"
    assert open_still.verdict is claims.Verdict.OPEN


def sweep_of(workdir, rates, seeds=(0, 1, 2, 3, 4), **changes):
    """The workdir's config.json: a sweep, which may have more runs than it has rows."""
    axes = {"model.activation": ("gelu", "relu"), "optimizer.learning_rate": rates, "seed": seeds}
    config = config_lib.replace(Config(), sweep=axes, **changes)
    (workdir / "config.json").write_text(config_lib.to_json(config))


def test_runs_that_are_to_come_are_rows_and_leave_claims_open(folders):
    workdir, study = folders
    # B07 is at 1e-3, and one seed of GELU is missing there.
    sweep_of(workdir, (1e-3, 3e-3), seeds=(0, 1, 2, 3, 4, 5))
    out = run(workdir, study=study / "study.py", verdicts=study / "verdicts.json")
    rows = rows_of(study)
    waiting = [row for row in rows if row["status"] == "waiting"]
    assert [row["run"] for row in waiting] == [f"{n}-lr{r}-seed5" for n in ("gelu", "relu") for r in (0.001, 0.003)]
    assert len(rows) == 24 and {row["final_loss"] for row in waiting} == {""}
    entry = claim_in(study)
    assert entry["verdict"] == "undecided" and entry["evidence"]["reason"] == "2 of its runs are not trained yet"
    assert "4 of 24 runs are not trained to their end" in out
    again = run(study=study / "study.py")
    assert claim_in(study) == entry and "claim       B07" in again
    # At a rate that is whole a claim is decided while other rates are to come.
    sweep_of(workdir, (1e-3, 3e-3, 1e-2))
    run(workdir, study=study / "study.py", verdicts=study / "verdicts.json")
    assert claim_in(study)["verdict"] == "supported"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": "other"}, "the table mixes data"),
        ({"run": "other"}, "lacks 1, the first relu-lr0.003-seed4 .*/mine/verdicts.json"),
        ({"parameters": "9"}, "lacks 1, "),
        ({"tokens": "9"}, "lacks 1, "),
        ({"status": "stopped"}, "lacks 1, "),
    ],
)
def test_a_table_is_replaced_only_by_one_that_has_its_runs_and_could_be_decided_on(folders, tables, change, words):
    workdir, study = folders
    run(workdir, study=study / "study.py", verdicts=study / "verdicts.json")
    kept = {path.name: path.read_bytes() for path in study.iterdir()}
    *rows, last = rows_of(workdir)
    tables.write(workdir / "results.csv", [*rows, {**last, **change}])
    with pytest.raises(UserError, match=words):
        run(workdir, study=study / "study.py", verdicts=study / "verdicts.json")
    assert {path.name: path.read_bytes() for path in study.iterdir()} == kept


def test_the_documents_of_the_test_set_go_along_and_never_stay_beside_another_table(folders):
    workdir, study = folders
    row = documents.row("gelu-lr0.001-seed0", 100, np.ones(3), np.ones(3, np.int32))
    (workdir / documents.FILE).write_bytes(documents.made([row], [row["run"]])[documents.FILE])
    run(workdir, study=study / "study.py", verdicts=study / "verdicts.json")
    assert (study / documents.FILE).read_bytes() == (workdir / documents.FILE).read_bytes()
    (workdir / documents.FILE).unlink()
    run(workdir, study=study / "study.py", verdicts=study / "verdicts.json")
    assert not (study / documents.FILE).exists()


def test_a_diverged_run_is_one_that_a_table_has_wherever_it_diverged(folders, tables):
    workdir, study = folders
    *rows, last = rows_of(workdir)
    blown = {**last, "status": "diverged", "final_loss": "nan", "steps": "40", "tokens": "2560"}
    for ending in (blown, {**blown, "steps": "41", "tokens": "2624"}):
        tables.write(workdir / "results.csv", [*rows, ending])
        run(workdir, study=study / "study.py", verdicts=study / "verdicts.json")
    tables.write(workdir / "results.csv", rows)
    with pytest.raises(UserError, match=f"lacks 1, the first {last['run']} "):
        run(workdir, study=study / "study.py", verdicts=study / "verdicts.json")


def test_runs_on_other_data_do_not_replace_a_study_and_have_a_folder_of_their_own(folders):
    workdir, study = folders
    run(workdir, study=study / "study.py", verdicts=study / "verdicts.json")
    manifest = json.loads((workdir / "manifest.json").read_text())
    (workdir / "manifest.json").write_text(json.dumps(signed(manifest | {"data": {"fingerprint": "another"}})))
    with pytest.raises(UserError, match=r"lacks 20, .* \(data 0123456789ab, 1000 parameters, 6400 tokens\)"):
        run(workdir, study=study / "study.py", verdicts=study / "verdicts.json")
    run(workdir, study=study / "study.py", verdicts=study / "mine/verdicts.json")
    assert claim_in(study / "mine")["verdict"] == "supported"


def test_a_study_has_one_table_and_a_name_for_it(folders):
    workdir, study = folders
    (study / "part.csv").write_text((workdir / "results.csv").read_text())
    with pytest.raises(UserError, match=r"part.csv is not the table of the study"):
        run(study / "part.csv", study=study / "study.py", verdicts=study / "verdicts.json")


def test_that_a_sweep_grew_is_told_where_its_study_is_named_too(folders):
    workdir, study = folders
    manifest = json.loads((workdir / "manifest.json").read_text())
    (workdir / "manifest.json").write_text(json.dumps(signed(manifest | {"extensions": [{"runs": 10, "added": 10}]})))
    for flags in ({"study": study / "study.py"}, {"question": "gelu<relu"}):
        assert f"warning     {workdir}: 10 runs were added to 10 by --extend" in run(workdir, **flags)
    assert "10 runs were added" in (study / "verdicts.json").read_text()


@pytest.fixture
def parts(folders):
    """A function of fields of the second's config: the workdir as two, of three and of two seeds, with documents."""
    workdir, _ = folders

    def divide(**changes):
        found = []
        for name, seeds, fields in (("early", (0, 1, 2), {}), ("late", (3, 4), changes)):
            part = workdir.with_name(name)
            shutil.copytree(workdir, part)
            head, *lines = (part / "results.csv").read_text().splitlines()
            own = [line for line in lines if int(line.split(",")[0][-1]) in seeds]
            (part / "results.csv").write_text("\n".join([head, *own]) + "\n")
            sweep_of(part, (1e-3, 3e-3), seeds, **fields)
            of_run = documents.Documents(np.full(len(seeds), 2.0, "f4"), np.full(len(seeds), 3, "i4"))
            made = documents.packed({line.split(",")[0]: of_run for line in own})
            (part / documents.FILE).write_bytes(made[documents.FILE])
            found.append(part)
        return found

    return divide


def told_by(study):
    """The rows of a study's table by name, and its claim but for the line of its first row."""
    claim = claim_in(study)
    rows = [row | {"config": ""} for row in rows_of(study)]  # which the whole workdir lacks
    return sorted(rows, key=lambda row: row["run"]), claim | {"evidence": claim["evidence"] | {"row": ""}}


def test_a_run_of_another_config_does_not_replace_one_of_the_same_name(folders):
    workdir, study = folders
    sweep_of(workdir, (1e-3, 3e-3))
    run(workdir, study=study / "study.py")
    sweep_of(workdir, (1e-3, 3e-3), **{"train.log_every": 7})
    run(workdir, study=study / "study.py")
    sweep_of(workdir, (1e-3, 3e-3), **{"optimizer.clip_norm": 0.5})
    with pytest.raises(UserError, match="lacks 20, .* config [0-9a-f]{12}"):
        run(workdir, study=study / "study.py")


def test_a_study_trained_in_parts_is_one_table(folders, parts):
    workdir, study = folders
    run(workdir, study=study / "study.py")
    whole = told_by(study)
    early, late = parts()
    (study / "results.csv").unlink()
    run(early, late, study=study / "study.py")
    assert told_by(study) == whole
    found = documents.read(study / documents.FILE)
    assert list(found) == [row["run"] for row in rows_of(study)]
    assert (found["gelu-lr0.001-seed0"].targets.sum(), found["relu-lr0.001-seed4"].targets.sum()) == (9, 6)


@pytest.mark.parametrize("order", [1, -1])
def test_a_run_is_taken_from_the_part_that_trained_it_furthest(folders, parts, order):
    _, study = folders
    early, late = parts()
    sweep_of(early, (1e-3, 3e-3))  # in which the runs of late are waiting
    with (early / "results.csv").open("a") as file:
        file.write((late / "results.csv").read_text().splitlines()[1].replace("finished", "stopped") + "\n")
    run(*(early, late)[::order], study=study / "study.py")
    assert {row["status"] for row in rows_of(study)} == {"finished"} and len(rows_of(study)) == 20
    assert claim_in(study)["verdict"] == "supported"
    (study / "results.csv").unlink()
    (late / "results.csv").write_text("\n".join((late / "results.csv").read_text().splitlines()[:4]))
    sweep_of(late, (1e-3, 3e-3))  # one of them stopped in early
    text = (late / "results.csv").read_text()
    (late / "results.csv").write_text(text.replace(text.splitlines()[1] + "\n", ""))
    run(*(early, late)[::order], study=study / "study.py")
    statuses = [row["status"] for row in rows_of(study)]
    assert (statuses.count("finished"), statuses.count("stopped")) == (14, 1)


def test_parts_that_are_not_of_one_study_are_refused(folders, parts, tables):
    workdir, study = folders

    def refused(*given, words):
        with pytest.raises(UserError, match=words):
            run(*given, study=study / "study.py")
        assert not (study / "results.csv").exists()

    early, late = parts(**{"model.init": "gain"})
    refused(early, late, words=r"config.model.init is 'gpt2' in .*early and 'gain' in .*late")
    sweep_of(late, (1e-3, 3e-3), (3, 4))
    refused(early, early, words=r"early .*early names a (folder|workdir) twice")
    refused(early, workdir, words=r"/one has no config.json")
    twin = shutil.copytree(early, early.with_name("twin"))
    refused(
        early, twin, words=r"gelu-lr0.001-seed0 comes twice, done in .*/early and in .*/twin: give parts with no run in"
    )
    rows = list(csv.DictReader((late / "results.csv").read_text().splitlines()))
    tables.write(late / "results.csv", [row | {"trivial_loss": 2.3} for row in rows])
    refused(early, late, words=r"early has no column trivial_loss, which another part has")


def test_the_table_alone_gives_the_same_verdicts(folders):
    workdir, study = folders
    run(workdir, study=study / "study.py", verdicts=study / "verdicts.json")
    first = (study / "verdicts.json").read_bytes()
    views = json.loads(first)["comparisons"][0]["views"]
    assert views["flops"]["budget"] and not views["flops"]["reason"]
    (study / "verdicts.json").unlink()
    run(study=study / "study.py")
    assert (study / "verdicts.json").read_bytes() == first


def test_of_a_study_that_is_being_trained_what_can_be_asked_is_asked(folders):
    workdir, study = folders
    (study / "study.py").write_text(STUDY.replace('"gelu<relu",', '"gelu<relu", "silu<gelu"'))
    out = run(workdir, study=study / "study.py", verdicts=study / "verdicts.json")
    assert "gelu < relu" in out and "silu <" not in out and "'silu<gelu': the table has no run of silu" in out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1 / 0", "fails with ZeroDivisionError"),
        ("CLAIMS = {'B07': 'gelu<relu'}", "CLAIMS.'B07'"),
        ("CLAIMS = ['B07']", "CLAIMS is not a dict"),
        ("QUESTIONS = ('gelu<relu')", "QUESTIONS is not a tuple"),
        ("QUESTIONS = ('gelu',)", "QUESTIONS has 'gelu'"),
    ],
)
def test_a_study_that_says_nonsense_is_refused(folders, content, words):
    _, study = folders
    (study / "study.py").write_text(content)
    with pytest.raises(UserError, match=words):
        studies.load(study / "study.py")


def test_an_order_that_says_nothing_of_what_is_trained_is_left_out(folders):
    workdir, study = folders
    (study / "study.py").write_text(STUDY.replace('"gelu": 1.9', '"gelu": 2.0'))
    assert "order " not in run(workdir, study=study / "study.py", verdicts=study / "verdicts.json")


def test_a_workdir_in_a_studys_folder_is_no_table(folders):
    workdir, study = folders
    mine = workdir.rename(study / "mine")
    (mine / "config.json").write_text(config_lib.to_json(Config()))
    before = (mine / "results.csv").read_bytes()
    with pytest.raises(UserError, match=f"mine is a workdir, .*--verdicts={study}/judged/verdicts.json"):
        run(mine, study=study / "study.py")
    run(mine, study=study / "study.py", verdicts=study / "judged/verdicts.json")
    assert (mine / "results.csv").read_bytes() == before
    assert "data_fingerprint" in (study / "judged/results.csv").read_text()
