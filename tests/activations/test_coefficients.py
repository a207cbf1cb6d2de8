"""The table of polynomials is what its tool makes."""

import json
import pathlib

import pytest
import scripts

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "fit_activation_coefficients.py"


@pytest.mark.parametrize("precision", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_the_table_is_what_the_tool_makes(precision):
    tool = scripts.load(TOOL)
    assert tool.table(precision) == json.loads(tool.TABLE.read_text())[precision]


def test_the_file_is_written_as_the_tool_writes_it():
    tool = scripts.load(TOOL)
    assert tool.text(json.loads(tool.TABLE.read_text())) + "\n" == tool.TABLE.read_text()
