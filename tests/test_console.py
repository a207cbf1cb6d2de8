"""Lines: whole in a file, ended between words on a terminal, and no word is cut."""

import io
import pathlib

from actlab.console import Lines, WarningsOnly, lines
from actlab.sweeps import announce


def test_a_file_gets_whole_lines(capsys):
    lines().print("word " * 60)
    assert capsys.readouterr().out.count("\n") == 1


def test_a_terminal_s_lines_end_between_words_and_a_path_stays_whole():
    path = "/a/path/that/is/longer/than/a/line/of/this/terminal"
    file = io.StringIO()
    Lines(file=file, force_terminal=True, width=24).print(f"results and metrics are in {path} now")
    printed = [line.strip() for line in file.getvalue().splitlines()]
    assert path in printed and all(len(line) <= 24 for line in printed if line != path)
    assert " ".join(printed).split() == f"results and metrics are in {path} now".split()


def test_what_looks_like_markup_is_printed_as_it_is(capsys):
    lines().print("workdir     runs/[new]/a[/b]/:cat:")
    assert capsys.readouterr().out == "workdir     runs/[new]/a[/b]/:cat:\n"


def test_the_names_of_runs_are_whole_however_narrow_the_console():
    row = {"status": "finished", "steps": 1, "best_step": 1, "final_loss": 1.0, "test_loss": 1.0, "best_loss": 1.0}
    file = io.StringIO()
    rows = [{"run": f"{'long' * 12}-seed{seed}", **row} for seed in (1, 2)]
    announce.results(Lines(file=file, width=60), rows, pathlib.Path("w"))
    first_column = "".join(line.split(" ")[0] for line in file.getvalue().splitlines())
    assert f"{'long' * 12}-seed1{'long' * 12}-seed2" in first_column


def test_of_a_session_within_another_only_warnings_are_printed_each_once():
    file = io.StringIO()
    quiet = WarningsOnly(Lines(file=file))
    for text in ("data        mine", "warning     slow", "warning     slow", "warning     other", "results     w"):
        quiet.print(text)
    assert file.getvalue().splitlines() == ["warning     slow", "warning     other"]
