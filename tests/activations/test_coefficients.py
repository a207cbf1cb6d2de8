"""The table of polynomials is what its script makes."""

import importlib.util
import pathlib

import pytest

from actlab.activations import coefficients

SCRIPT = pathlib.Path(__file__).parents[2] / "experiments" / "fit_activation_coefficients.py"


@pytest.mark.parametrize("precision", ["FLOAT32", pytest.param("FLOAT64", marks=pytest.mark.slow)])
def test_the_table_is_what_the_script_makes(precision):
    spec = importlib.util.spec_from_file_location("fit_activation_coefficients", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    polynomials, expansions = script.table(precision)
    assert polynomials == getattr(coefficients, precision)
    assert expansions == getattr(coefficients, f"{precision}_EXPANSIONS")
    assert float(script.CENTRE[precision]) == getattr(coefficients, f"{precision}_CENTRE")
