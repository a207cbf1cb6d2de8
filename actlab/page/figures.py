"""What figures need: the Vega libraries as one script, rows of few digits, colours for light and dark paper."""

import functools
import math
from collections.abc import Iterable, Sequence

import vl_convert

_VEGA_LITE = "6.4"  # what altair 6 writes for; one version, so that equal pages have equal bytes
_DIGITS = 5
Value = str | int | float | None


@functools.cache
def libraries() -> str:
    """Vega, Vega-Lite and vega-embed as one JavaScript module that sets window.vegaEmbed."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", _VEGA_LITE)


def ink(colour: str) -> str:
    """A colour as figures use it: black is the colour of the page's text, light on a dark page."""
    return "var(--ink)" if colour.lower() in ("#000000", "black") else colour


def compact(rows: Iterable[Sequence[Value]], digits: int = _DIGITS) -> list[list[Value]]:
    """Rows as a figure keeps them: so many significant digits; NaN and infinities are null."""
    return [[_rounded(value, digits) for value in row] for row in rows]


def _rounded(value: Value, digits: int) -> Value:
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short
