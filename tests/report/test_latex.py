"""The LaTeX table of verdicts: sound in structure, with the numbers of verdicts.json, and names that LaTeX prints."""

import json
import re

import commands
import pytest
from hypothesis import given, strategies as st

from actlab.analysis import results
from actlab.analysis.comparison import compare
from actlab.cli import verdict
from actlab.errors import UserError
from actlab.report import latex

SPECIAL = re.compile(r"(?<!\\)[&#%_^~]|(?<!\\)\$")


@pytest.fixture
def study(tables, tmp_path):
    """Three activations at two conditions, one with parameters in its name, one equal to another; gelu is best."""
    levels = {"gelu": 0.0, "gelu_scale(s=0.16)": 0.05, "relu": 0.05 + 1e-6}
    rows = [
        tables.row(name, 1e-3, seed, 1.5 + level + seed / 100 + (seed * len(name) % 5) / 900) | {"model.norm": norm}
        for norm in ("layer_norm", "rms_norm")
        for name, level in levels.items()
        for seed in range(8)
    ]
    return tables.write(tmp_path / "study" / "results.csv", rows).parent


def require_sound(text):
    """Braces and environments are closed in order, and the rows of a tabular have its columns; returns the cells."""
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", body):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0 and len(re.findall(r"(?<!\\)\$", body)) % 2 == 0
    opened = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", body):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert opened == []
    columns = len(re.search(r"\\begin\{tabular\}\{([lcr]+)\}", body)[1])
    rows = re.search(r"\\toprule(.*)\\bottomrule", body, re.DOTALL)[1].replace(r"\midrule", "").strip().split(r"\\")
    assert rows.pop() == ""
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)&", row)] for row in rows]
    assert all(len(row) == columns or row[0].startswith(rf"\multicolumn{{{columns}}}") for row in cells)
    return cells


def test_the_table_has_the_numbers_of_the_verdicts(study, tmp_path):
    path = tmp_path / "verdicts.tex"
    out = commands.run(verdict.main, study, f"--latex={path}")
    assert str(path) in out
    cells = require_sound(path.read_text())
    compared = json.loads((study / "verdicts.json").read_text())["comparisons"]
    pairs = [pair for one in compared for pair in one["views"]["parameters"]["pairs"]]
    rows = [row for row in cells[1:] if len(row) > 1]
    assert len(pairs) == len(rows) == 4 and len(cells) - 1 - len(rows) == len(compared) == 2
    for pair, (question, difference, interval, seeds, p, word) in zip(pairs, rows, strict=True):
        known = pair["own_best"]
        assert float(difference.strip("$")) == pytest.approx(known["mean_difference"], abs=5e-5)
        ends = [float(end) for end in re.findall(r"[+-][\d.]+", interval)]
        assert ends == pytest.approx(known["interval"], abs=5e-5)
        assert seeds == "8" and float(p.strip("$")) == pytest.approx(known["p_holm"], rel=0.1)
        assert word.removesuffix(r"$^\dagger$") == known["verdict"]
        assert word.endswith("$") == (known["verdict"] != "undecided")  # one rate is not resolved
        names = question.replace(r"\texttt{", "").replace("}", "").replace(r"\_", "_").replace(" $<$ ", " < ")
        assert names == pair["question"]
    assert any("gelu\\_scale(s=0.16)" in row[0] for row in rows) and "dagger$: rate" in path.read_text()


def test_one_seed_has_dashes_and_no_interval(tables, tmp_path):
    rows = [tables.row(name, 1e-3, 1, loss) for name, loss in (("gelu", 1.5), ("relu", 1.6))]
    path = tables.write(tmp_path / "one" / "results.csv", rows)
    commands.run(verdict.main, path, f"--latex={tmp_path / 'one.tex'}")
    cells = require_sound((tmp_path / "one.tex").read_text())
    assert cells[1] == [r"\texttt{relu} $<$ \texttt{gelu}", "$+0.1000$", "--", "1", "--", "undecided"]
    assert "dagger" not in (tmp_path / "one.tex").read_text(), "an undecided question has no mark to explain"


@given(st.text())
def test_no_special_character_is_left(text):
    rest = latex.escaped(text)
    for command in (r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}", "$<$", "$>$"):
        rest = rest.replace(command, "")
    assert not SPECIAL.search(rest) and not re.search(r"(?<!\\)[{}]|[<>]", rest)


def test_a_small_number_is_one_of_mathematics():
    assert latex._number("-2.1e-05") == r"-2.1 \times 10^{-5}" and latex._number("+0.0432") == "+0.0432"


def test_a_file_that_cannot_be_written_is_refused_before_anything_is(study, tmp_path):
    with pytest.raises(UserError, match="--latex=.*nowhere"):
        commands.run(verdict.main, study, f"--latex={tmp_path / 'nowhere' / 'table.tex'}")
    assert not (study / "verdicts.json").exists()


def test_the_caption_says_how_equal_the_parameters_are(tables, tmp_path):
    for size, told in ((1000, "at equal parameters,"), (1012, r"at parameters equal to within 1.2\%,")):
        rows = [
            tables.row(name, 1e-3, seed, 1.5 + seed / 100, parameters=n)
            for name, n in (("gelu", 1000), ("swiglu", size))
            for seed in range(3)
        ]
        table = tables.write(tmp_path / str(size) / "results.csv", rows)
        assert told in latex.table(compare(results.read([table])))
