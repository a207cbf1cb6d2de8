"""The table of polynomials is what its script makes."""

import pathlib

import pytest
import scripts

from actlab.activations import coefficients

SCRIPT = pathlib.Path(__file__).parents[2] / "experiments" / "fit_activation_coefficients.py"


@pytest.mark.parametrize("precision", ["FLOAT32", pytest.param("FLOAT64", marks=pytest.mark.slow)])
def test_the_table_is_what_the_script_makes(precision):
    script = scripts.load(SCRIPT)
    polynomials, expansions = script.table(precision)
    assert polynomials == getattr(coefficients, precision)
    assert expansions == getattr(coefficients, f"{precision}_EXPANSIONS")
    assert float(script.CENTRE[precision]) == getattr(coefficients, f"{precision}_CENTRE")
