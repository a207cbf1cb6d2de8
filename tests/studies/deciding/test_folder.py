"""A study's folder: what study.py says, the table that is collected into it, and that it alone gives the verdicts."""

import csv
import json

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

from actlab import config as config_lib
from actlab import verdict
from actlab.config import Config
from actlab.errors import UserError
from actlab.studies import claims, deciding, table
from actlab.training.traces import dead_row

STUDY = """
from actlab.protocol import above, lower

CLAIMS = {
    "B07": lower("gelu", "relu", at=1e-3),
    "A54": lower("gelu", "relu", of="down_mean", at=1e-3),
    "A38": above("relu", 0.1, of="permanently_dead_fraction", at=1e-3),
}
QUESTIONS = ("gelu<relu",)
BASELINE = "relu"
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
        drift = {"layer_0/down_mean": -0.1 - row["seed"] / 100, "layer_1/down_mean": -0.3}
        metrics.append({"run": row["run"], "step": 100, "split": "probe", "loss": 1.0, **drift})
        traces += [dead_row(row["run"], step, DEAD[index]) for index, step in enumerate((0, 50, 100))]
    for name, lines in (("metrics", metrics), ("traces", traces)):
        (workdir / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (workdir / "manifest.json").write_text(json.dumps({"data": {"fingerprint": "0123456789abcdef"}}))
    return workdir, study


@pytest.fixture
def run(capsys):
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["verdict"])

    def run(*paths, **values):
        with flagsaver.flagsaver(**values):
            verdict.main([str(path) for path in paths])
        return capsys.readouterr().out

    return run


def test_the_collected_table_holds_what_the_other_files_say(folders):
    workdir, study = folders
    path = study / "collected.csv"
    path.write_text(deciding.collect(workdir, deciding.find(study)))
    row = list(csv.DictReader(path.read_text().splitlines()))[1]
    assert row["data_fingerprint"] == "0123456789ab"
    assert row["curve"].startswith("0:7 50:2 100:1.0") and len(row["curve"].split()) == 3
    assert float(row["down_mean"]) == pytest.approx((-0.1 - 0.01 - 0.3) / 2)
    assert float(row["permanently_dead_fraction"]) == 0.5 and float(row["revival_rate"]) == pytest.approx(1 / 3)
    assert table.read([path])[1].curve[1] == (50, 2.0)


def test_claims_are_decided_written_and_settled_in_the_ledger(folders, run):
    workdir, study = folders
    out = run(workdir, verdicts=str(study / "verdicts.json"))
    assert "claim       B07 supported at this scale: loss: (gelu, learning rate 0.001) -(relu" in out
    assert "Dunnett     gelu p " in out and "order       tau +1.00" in out
    entry = json.loads((study / "verdicts.json").read_text())["claims"]["B07"]
    assert entry["verdict"] == "supported"
    assert set(entry["evidence"]) >= {"interval", "n_seeds", "scale", "row"} and entry["evidence"]["n_seeds"] == 5
    ((_, finding),) = claims.examine((claims.get("B07"),), study.parent)
    assert finding.verdict is claims.Verdict.SUPPORTED and finding.verdict.words == "supported at this scale"
    for words in ("5 seeds", "1,000 parameters", "gelu-lr0.001-seed0 and 4 more", "95% interval", "experiments/one"):
        assert words in f"{finding.evidence} {finding.source}"
    assert deciding.words(entry["evidence"]) in finding.evidence and deciding.words("seen") == "seen"
    ((_, open_still),) = claims.examine((claims.get("B08"),), study.parent)
    assert open_still.verdict is claims.Verdict.OPEN


def sweep_of(workdir, rates, seeds=(0, 1, 2, 3, 4)):
    """The workdir's config.json, of a sweep over more runs than it has rows."""
    axes = {"model.activation": ("gelu", "relu"), "optimizer.learning_rate": rates, "seed": seeds}
    config = config_lib.replace(Config(), sweep=axes)
    (workdir / "config.json").write_text(config_lib.to_json(config))


def test_runs_that_are_to_come_are_rows_and_leave_claims_open(folders, run):
    workdir, study = folders
    # B07 is at 1e-3, and one seed of GELU is missing there.
    sweep_of(workdir, (1e-3, 3e-3), seeds=(0, 1, 2, 3, 4, 5))
    out = run(workdir, verdicts=str(study / "verdicts.json"))
    rows = list(csv.DictReader((study / "results.csv").read_text().splitlines()))
    waiting = [row for row in rows if row["status"] == "waiting"]
    assert [row["run"] for row in waiting] == [f"{n}-lr{r}-seed5" for n in ("gelu", "relu") for r in (0.001, 0.003)]
    assert len(rows) == 24 and {row["final_loss"] for row in waiting} == {""}
    entry = json.loads((study / "verdicts.json").read_text())["claims"]["B07"]
    assert entry["verdict"] == "undecided" and entry["evidence"]["reason"] == "2 of its runs are not trained yet"
    assert "4 of 24 runs are not trained to their end" in out and "Dunnett" not in out
    again = run(study)
    assert json.loads((study / "verdicts.json").read_text())["claims"]["B07"] == entry and "claim       B07" in again


def test_a_fixed_rate_that_is_whole_decides_while_others_are_to_come(folders, run):
    workdir, study = folders
    sweep_of(workdir, (1e-3, 3e-3, 1e-2))
    run(workdir, verdicts=str(study / "verdicts.json"))
    assert json.loads((study / "verdicts.json").read_text())["claims"]["B07"]["verdict"] == "supported"


def test_a_table_is_replaced_only_by_one_that_could_be_decided_on(folders, run):
    workdir, study = folders
    run(workdir, verdicts=str(study / "verdicts.json"))
    before = (study / "results.csv").read_text()
    rows = list(csv.DictReader((workdir / "results.csv").read_text().splitlines()))
    with (workdir / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows([{**row, "data": "other" if index else row["data"]} for index, row in enumerate(rows)])
    with pytest.raises(UserError, match="the table mixes data"):
        run(workdir, verdicts=str(study / "verdicts.json"))
    assert (study / "results.csv").read_text() == before


@pytest.mark.parametrize("change", [{"run": "other"}, {"parameters": "9"}, {"tokens": "9"}, {"status": "stopped"}])
def test_a_table_is_never_replaced_by_one_that_lacks_its_runs(folders, run, change):
    workdir, study = folders
    run(workdir, verdicts=str(study / "verdicts.json"))
    kept = {path.name: path.read_bytes() for path in study.iterdir()}
    rows = list(csv.DictReader((workdir / "results.csv").read_text().splitlines()))
    with (workdir / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows([*rows[:-1], {**rows[-1], **change}])
    with pytest.raises(
        UserError, match=f"lacks 1, the first {rows[-1]['run']} .*--verdicts={study}/mine/verdicts.json"
    ):
        run(workdir, verdicts=str(study / "verdicts.json"))
    assert {path.name: path.read_bytes() for path in study.iterdir()} == kept


def test_runs_on_other_data_do_not_replace_a_study_and_have_a_folder_of_their_own(folders, run):
    workdir, study = folders
    run(workdir, verdicts=str(study / "verdicts.json"))
    (workdir / "manifest.json").write_text(json.dumps({"data": {"fingerprint": "another"}}))
    with pytest.raises(UserError, match=r"lacks 20, .* \(data 0123456789ab, 1000 parameters, 6400 tokens\)"):
        run(workdir, verdicts=str(study / "verdicts.json"))
    run(workdir, verdicts=str(study / "mine/verdicts.json"))
    assert json.loads((study / "mine/verdicts.json").read_text())["claims"]["B07"]["verdict"] == "supported"


def test_a_file_that_is_not_the_studys_table_is_refused(folders, run):
    workdir, study = folders
    (study / "part.csv").write_text((workdir / "results.csv").read_text())
    with pytest.raises(UserError, match=r"part.csv is not the table of the study"):
        run(study / "part.csv", verdicts=str(study / "verdicts.json"))


def test_the_table_alone_gives_the_same_verdicts(folders, run):
    workdir, study = folders
    run(workdir, verdicts=str(study / "verdicts.json"))
    first = (study / "verdicts.json").read_bytes()
    views = json.loads(first)["comparisons"][0]["views"]
    assert views["flops"]["budget"] and not views["flops"]["reason"]
    (study / "verdicts.json").unlink()
    run(study)
    assert (study / "verdicts.json").read_bytes() == first


def test_an_arm_of_a_study_has_its_claims(folders, run):
    workdir, study = folders
    (study / "gain").mkdir()
    run(workdir, verdicts=str(study / "gain/verdicts.json"))
    assert json.loads((study / "gain/verdicts.json").read_text())["claims"]["B07"]["verdict"] == "supported"
    assert deciding.find(study.parent) is None


def test_of_a_study_that_is_being_trained_what_can_be_asked_is_asked(folders, run):
    workdir, study = folders
    (study / "study.py").write_text(
        STUDY.replace('"gelu<relu",', '"gelu<relu", "silu<gelu"').replace('= "relu"', '= "silu"')
    )
    out = run(workdir, verdicts=str(study / "verdicts.json"))
    assert "gelu < relu" in out and "silu" not in out.replace("silu_", "") and "Dunnett" not in out


@pytest.mark.parametrize(
    ("content", "words"),
    [("1 / 0", "fails with ZeroDivisionError"), ("CLAIMS = {'B07': 'gelu<relu'}", "'B07'. is no contrast")],
)
def test_a_study_that_says_nonsense_is_refused(folders, content, words):
    _, study = folders
    (study / "study.py").write_text(content)
    with pytest.raises(UserError, match=words):
        deciding.find(study)


def test_a_study_has_one_table(folders, run):
    workdir, study = folders
    with pytest.raises(UserError, match="name one workdir"):
        run(workdir, workdir, verdicts=str(study / "verdicts.json"))


def test_evidence_that_is_not_ours_is_refused(folders):
    _, study = folders
    (study / "verdicts.json").write_text(json.dumps({"claims": {"B07": {"verdict": "supported", "evidence": {}}}}))
    with pytest.raises(UserError, match="write it again"):
        claims.examine((claims.get("B07"),), study.parent)


def test_a_study_in_training_is_asked_what_its_orders_and_baseline_allow(folders, run, tables):
    workdir, study = folders
    rows = [row for row in csv.DictReader((workdir / "results.csv").read_text().splitlines()) if row["seed"] == "0"]
    tables.write(workdir / "results.csv", rows)
    (study / "study.py").write_text(STUDY.replace('"gelu": 1.9', '"gelu": 2.0'))
    out = run(workdir, verdicts=str(study / "verdicts.json"))
    assert "no Dunnett's test against relu yet: " in out and "order " not in out
    with pytest.raises(UserError, match="Dunnett's test needs two"):
        run(workdir, verdicts=str(study / "verdicts.json"), baseline="relu")


def test_a_workdir_in_a_studys_folder_is_no_table(folders, run):
    workdir, study = folders
    mine = workdir.rename(study / "mine")
    (mine / "config.json").write_text(config_lib.to_json(Config()))
    before = (mine / "results.csv").read_bytes()
    with pytest.raises(UserError, match=f"mine is a workdir, .*--verdicts={study}/judged/verdicts.json"):
        run(mine)
    run(mine, verdicts=str(study / "judged/verdicts.json"))
    assert (mine / "results.csv").read_bytes() == before
    assert "data_fingerprint" in (study / "judged/results.csv").read_text()


def test_a_diverged_run_is_one_that_a_table_has(folders, run):
    workdir, study = folders
    rows = list(csv.DictReader((workdir / "results.csv").read_text().splitlines()))

    def collect(kept):
        with (workdir / "results.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(kept)
        run(workdir, verdicts=str(study / "verdicts.json"))

    blown = {**rows[-1], "status": "diverged", "final_loss": "nan", "steps": "40", "tokens": "2560"}
    collect([*rows[:-1], blown])
    collect([*rows[:-1], {**blown, "steps": "41", "tokens": "2624"}])
    with pytest.raises(UserError, match=f"lacks 1, the first {rows[-1]['run']} "):
        collect(rows[:-1])
