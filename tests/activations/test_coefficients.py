"""The table of polynomials is what its script makes."""

import importlib.util
import pathlib

from actlab.activations import coefficients

SCRIPT = pathlib.Path(__file__).parents[2] / "experiments" / "fit_activation_coefficients.py"


def test_the_table_is_what_the_script_makes():
    spec = importlib.util.spec_from_file_location("fit_activation_coefficients", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for precision in script.TOLERANCE:
        polynomials, roots = script.table(precision)
        assert polynomials == getattr(coefficients, precision)
        assert roots == getattr(coefficients, f"{precision}_ROOTS")
        assert script.shift(precision) == getattr(coefficients, f"{precision}_SHIFT")
        assert float(script.CENTRE[precision]) == getattr(coefficients, f"{precision}_CENTRE")
