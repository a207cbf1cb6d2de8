"""The command that compares: what it prints and writes, and what it refuses."""

import json

import commands
import pytest

from actlab.cli import verdict
from actlab.files import signed


def run(*words):
    return commands.run(verdict.main, *words)


@pytest.fixture
def study(tables, tmp_path):
    """The results of three activations, three rates and eight seeds; gelu is planted best."""
    levels = {"gelu": 0.0, "relu": 0.05, "tanh": 0.2}
    rows = [
        tables.row(name, rate, seed, 1.5 + level + seed / 100 + (seed * rate * 1e4 % 7) / 1000 + abs(rate - 3e-3) * 9)
        for name, level in levels.items()
        for rate in (2e-3, 3e-3, 5e-3)
        for seed in range(8)
    ]
    return tables.write(tmp_path / "study" / "results.csv", rows).parent


def test_the_command_prints_a_verdict_and_writes_it_beside_the_results(study):
    out = run(study, "--question=gelu<relu")
    (sentence,) = [line for line in out.splitlines() if line.startswith("verdict ")]
    assert "supported: the loss of gelu is lower than that of relu, at this scale" in sentence
    content = json.loads((study / "verdicts.json").read_text())
    assert content["comparisons"][0]["verdicts"] == [sentence.removeprefix("verdict").strip()]
    before = (study / "verdicts.json").read_bytes()
    run(study, "--question=gelu<relu")
    assert (study / "verdicts.json").read_bytes() == before


def test_a_folder_without_a_table_is_refused(refused, tmp_path):
    assert f"{tmp_path} holds no results.csv" in refused(verdict.main, tmp_path)


def test_without_a_question_each_is_compared_with_the_baseline(study):
    out = run(study / "results.csv", "--baseline=tanh")
    assert "gelu < tanh" in out and "relu < tanh" in out and "gelu < relu" not in out
    assert "answer      Lower loss than tanh: gelu by" in out and "LR sensitivity" in out
    first = run(study / "results.csv")
    assert "relu < gelu" in first and "tanh < gelu" in first and "relu < tanh" not in first
    assert (study / "verdicts.json").is_file()


def test_the_folder_of_an_arm_is_made(study, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/study.py").write_text("QUESTIONS = ('gelu<relu',)")
    out = tmp_path / "home/arm/verdicts.json"
    run(study, f"--study={tmp_path}/home/study.py", f"--verdicts={out}")
    assert out.is_file() and (out.parent / "results.csv").is_file()


def test_verdicts_of_a_study_lie_in_its_folder_and_those_of_an_arm_in_the_arms(tmp_path):
    home, study = tmp_path / "study", str(tmp_path / "study/study.py")
    for folders, expected in (
        ([home], home),
        ([home / "arm"], home / "arm"),
        ([tmp_path / "runs/a"], home),
        ([home / "a", home / "b"], home),
    ):
        assert verdict._place(folders, study) == expected
    assert verdict._place([tmp_path / "runs/a", tmp_path / "runs/b"], None) == tmp_path / "runs/a"


@pytest.mark.parametrize("file", ["", "results.csv"])
def test_a_study_that_grew_is_warned_of(study, file):
    assert "--extend" not in run(study / file)
    (study / "manifest.json").write_text(json.dumps(signed({"extensions": [{"runs": 18, "added": 54}]})))
    assert "54 runs were added to 18 by --extend" in " ".join(run(study / file).split())


def test_rows_of_several_commits_are_warned_of(study):
    def session(step=8, part="0", commit="a" * 40, **others):
        restored = [] if step is None else [{"part": part, "step": step}]
        return {
            "commit": commit,
            "device": {"kind": "cpu"},
            "packages": {"jax": "0.10.2"},
            "restored": restored,
            **others,
        }

    first, other = session(0), "b" * 40
    for sessions, sentence in (
        ([first, session()], ""),
        ([first, session(commit=other + "-dirty")], "by several commits (aaaaaaa, bbbbbbb-dirty), and"),
        (
            [first, session(device={"kind": "H200"}, packages={"jax": "0.11.2"})],
            "by several versions of jax (0.10.2, 0.11.2) and several kinds of device (H200, cpu), and",
        ),
        (
            [session(0, device={"kind": "cpu", "cores": 2}), session(device={"kind": "cpu", "cores": 1})],
            "by several numbers of CPU cores (1, 2), and",
        ),
        ([first, session(device={"kind": "cpu", "cores": 1})], ""),  # of the first it is not known
        ([first, session(commit=None)], ""),
        ([first, {"restored": [{"part": "0", "step": 8}]}], ""),
        ([first, session(0, commit=other)], ""),  # which began again
        ([first, session(None, commit=other)], ""),  # which trained nothing
        ([first, session(0, "1", other)], "(aaaaaaa, bbbbbbb)"),
        ([first | {"job": 0}, session(0, commit=other, job=1)], "(aaaaaaa, bbbbbbb)"),
    ):
        (study / "manifest.json").write_text(json.dumps(signed({"sessions": sessions})))
        out = " ".join(run(study).split())
        assert sentence in out and ("the rows were made by" in out) == bool(sentence)


def test_a_verdict_is_printed_also_where_it_cannot_be_written(study, monkeypatch, capsys):
    def fail(path, text):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("actlab.analysis.verdicts.write_atomically", fail)
    assert verdict.main([str(study)]) == 2
    told = capsys.readouterr()
    assert "answer" in told.out and "verdicts.json" not in told.out
    assert "verdicts.json cannot be used (Permission denied): correct that, or name another path" in told.err


def test_a_question_may_be_repeated(study):
    out = run(study, "--question=gelu<relu", "--question=tanh<relu")
    assert "supported: the loss of gelu" in out and "refuted: the loss of tanh" in out
    assert "gelu < tanh" not in out


def test_the_margin_is_that_of_equivalence(study, tables, tmp_path):
    rows = [
        tables.row(name, 1e-3, seed, 1.0 + (seed - 3.5) / 4000 * (name == "relu"))
        for name in ("relu", "gelu")
        for seed in range(8)
    ]
    path = tables.write(tmp_path / "near" / "results.csv", rows)
    out = run(path)
    assert "equivalent, rate not resolved: " in out and "within 0.0025 nats/byte" in out
    assert "undecided: " in run(path, "--margin=1e-4")


def test_several_tables_are_one_and_need_a_place(study, tables, tmp_path, refused):
    rows = [tables.row("silu", rate, seed, 1.4 + seed / 90) for rate in (2e-3, 3e-3, 5e-3) for seed in range(8)]
    other = tables.write(tmp_path / "other" / "results.csv", rows).parent
    assert "--verdicts is missing: 2 tables" in refused(verdict.main, study, other)
    out = run(study, other, f"--verdicts={tmp_path / 'both.json'}")
    assert "silu < gelu" in out and str(tmp_path / "both.json") in out
    assert not (study / "verdicts.json").exists()


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("--question=gelu", "--question='gelu'"),
        ("--question=glue<relu", "did you mean 'gelu'"),
        ("--margin=0", "margin=0"),
    ],
)
def test_bad_flags_are_refused(study, refused, word, told):
    assert told in refused(verdict.main, study, word)


def test_no_table_is_no_comparison(refused):
    assert "no table is given" in refused(verdict.main)


def test_a_folder_that_is_named_twice_is_refused(study, refused):
    assert "names a folder twice: name each once" in refused(verdict.main, study, f"{study.parent}/./{study.name}")


def test_a_part_of_a_comparison_is_judged_by_the_comparison(study, refused, monkeypatch):
    (study.parent / "comparison.json").write_text("{}")
    monkeypatch.chdir(study)
    for part in (study, study / "results.csv", ".", "results.csv"):
        assert f"{study.parent} is a comparison, which judges its runs itself" in refused(verdict.main, part)
    assert not (study / "verdicts.json").exists()
