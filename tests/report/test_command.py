"""The command report: a page and figures, or a sentence that says why not."""

import pathlib
import sys

import commands
import pytest
import scripts

from actlab.cli import activations, report

EXPERIMENTS = pathlib.Path(__file__).parents[2] / "experiments"


def test_it_writes_a_page_and_figures(workdirs, six, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = workdirs.copied(six, tmp_path / "s", "results.csv")
    words = (folder, "--out=page.html", "--figures=figures", "--question=gelu<relu", "--samples=0")
    paths = [tmp_path / line for line in commands.run(report.main, *words).splitlines()]
    assert paths[0] == tmp_path / "page.html" and len(paths) == 7
    assert {path.stem for path in paths[1:]} == {"ranking", "cost"}
    assert all(path.stat().st_size > 1_000 for path in paths)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "no folder is given"),
        (("s", "--question=gelu<tanh"), "tanh is not in the table"),
        (("s", "--baseline=tanh"), "--baseline=tanh has no runs here"),
        (("s", "--baseline=gelu", "--question=gelu<relu"), "--baseline=gelu asks about every activation"),
        (("s", "--out=empty"), "--out=empty"),
        (("s", "--out=s/results.csv"), "--out=s/results.csv does not end in .html: name a file that does"),
        (("s", "--out=x.txt"), "--out=x.txt does not end in .html"),
        (("s", "--out=s/results.csv/page.html"), "--out=s/results.csv/page.html"),
        (("s", "--figures=s/results.csv"), "--figures=s/results.csv"),
        (("s", "--figures="), "--figures is empty"),
    ],
)
def test_what_cannot_be_written_or_compared_is_refused(workdirs, six, tmp_path, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    workdirs.copied(six, tmp_path / "s", "results.csv")
    (tmp_path / "empty").mkdir()
    code, out, error = commands.call(report.main, *words)
    assert (code, out, error.count("\n")) == (2, "", 1) and told in error
    assert not (tmp_path / "report.html").exists()


def test_without_the_extra_a_sentence_names_it(tmp_path, monkeypatch, capsys):
    import actlab.report

    monkeypatch.setattr(actlab, "report", actlab.report)  # importing it anew sets it
    for name in [name for name in sys.modules if name.startswith("actlab.report")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "altair", None)  # which makes its import fail
    for main, *words in ((report.main, tmp_path), (activations.main, f"--html={tmp_path / 'page.html'}")):
        code, out, error = commands.call(main, *words)
        assert (code, out, error.count("\n")) == (2, "", 1) and "altair" in error and "[report]" in error
    for script in ("initialisation/figure.py", "relu_vs_gelu/arms.py", "activation_swap/summary.py"):
        with pytest.raises(SystemExit, match="^2$"):
            scripts.load(EXPERIMENTS / script)
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and "altair" in error and "[report]" in error
