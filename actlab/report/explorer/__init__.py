"""A page to look activations up: f, f' and f'' overlaid, moments at each input scale, dead zones, sources."""

import pathlib
from collections.abc import Sequence

import jax

from actlab.activations.catalogue import is_built_in
from actlab.activations.proofs.dead_zones import DTYPES
from actlab.report import activation_table
from actlab.report.charts import styles
from actlab.report.explorer import figures, tables
from actlab.report.explorer.facts import REACH, SCALE, SCALES, Facts, facts
from actlab.report.page import Choice, Controls, Section, Slider, Text, Toggles
from actlab.report.page.render import export, render

__all__ = ["FAMILIES", "Facts", "facts", "page", "plot"]

# Groups of the picker, and one exported figure each. An activation belongs to the first group that lists it.
FAMILIES = {
    "rectifiers": ("identity", "relu", "leaky_relu", "prelu", "relu6"),
    "squares": ("relu2", "leaky_relu2", "gelu2"),
    "sigmoids": ("tanh", "hard_tanh", "penalized_tanh", "softsign", "sigmoid", "hard_sigmoid"),
    "exponential units": ("elu", "celu", "selu", "xielu", "softplus"),
    "GELU-like": ("gelu", "gelu_tanh", "gelu_tanh_jax", "quick_gelu", "silu", "swish", "mish", "hard_swish"),
    "gates": ("bilinear", "reglu", "drelu", "geglu", "geglu_tanh", "swiglu", "glu"),
}
_OTHERS = "others"
_ALL = 4  # so many are chosen at first where none of these is on the page
_FIRST = ("relu", "gelu", "silu", "tanh")
_LEAD = (
    "Pick activations, compare their values, slopes f′ and curvatures f″, and move the scale of the input. Every "
    "number was computed beforehand by the library that trains with these functions."
)
_MOVING = (
    "The input z is drawn from N(0, s²). The slider stops at each tenth of s; all numbers are exact integrals for that "
    "s, without interpolation."
)
_GAINS = (
    "Forward gain g: weights of variance g²/fan_in after f preserve the second moment of z. Backward gain: the same "
    "for gradients. P(f′ < 0): the share of units with negative slope. Of a gated activation h = f(z₁) v(z₂): mean, "
    "variance, E h² in place of E f², and gains of h; P(f′ < 0) of the gate's function f."
)
_BOUNDS = (
    "Over all x, proven by interval arithmetic; only certain digits are shown, at most 5 decimals. At -, the value is "
    "a limit at ±∞ that is attained nowhere; ≤ and ≥ mean all points on that side; of several places the rightmost is "
    "given. Kinks are jumps of f′. Gated: of the gate's function f. polynorm: of one feature among many from N(0, 1). "
    "A name leads to its formula."
)
_ZONES = (
    "Where the function as implemented, or its gradient by autodiff, is exactly 0: from the given number down, or up. "
    "Measured at every number of the 16-bit types, on backend {backend} with JAX {version}, operation by operation. "
    "Numbers that the hardware flushes to 0 count as 0. Gated: of the gate's function. polynorm is not elementwise and "
    "is omitted."
)
_FORMULAS = "A name may set parameters: gelu_scale(s=0.25). Everything on this page uses the values given here."


def page(known: Sequence[Facts]) -> str:
    """The text of the HTML file; the same bytes for the same activations on one backend.

    Args:
        known: `facts(name)` of each activation that can be picked.
    """
    names = [one.name for one in known]
    own = [name for name in names if not is_built_in(name)]
    first = [*own, *(name for name in _FIRST if name in names)]
    chosen = tuple(first or names[:_ALL])
    zones = _ZONES.format(backend=jax.default_backend(), version=jax.__version__)
    dtype = Controls((Choice("dtype", "dtype", DTYPES, DTYPES[1]),))
    unproven = [one.name for one in known if not one.properties.proven]
    measured = (Text(f"≈ ({', '.join(unproven)}): {activation_table.MEASURED}", "warning"),) if unproven else ()
    sections = [
        Section("explore", "Curves and moments", (*measured, *_explore(known, chosen))),
        Section("properties", "Properties", (Text(_BOUNDS, "note"), *measured, tables.properties(known))),
        Section("zones", "Dead zones", (Text(zones, "note"), dtype, figures.alive(known), tables.dead_zones(known))),
        Section("formulas", "Formulas and sources", (Text(_FORMULAS, "note"), tables.formulas(known))),
    ]
    return render(f"{len(known)} activations", _LEAD, sections, Controls(tuple(_picker(names, chosen))))


def plot(names: Sequence[str], folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes the curves of each family, the first figure of the page, as SVG, PNG and PDF; returns the paths."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_family(name), []).append(name)
    paths = []
    for family, members in groups.items():
        figure = figures.overlay([facts(name, complete=False) for name in members], members)
        paths += export(figure, folder, family.lower().replace("-", "_").replace(" ", "_"))
    return paths


def _explore(known: Sequence[Facts], chosen: tuple[str, ...]) -> tuple:
    reach = Slider("reach", "x up to ±", 1, REACH, 1, figures.WIDTH)
    scale = Slider("scale", "scale s of the input", SCALES[0], SCALES[-1], 0.1, SCALE)
    return (
        figures.overlay(known, chosen),
        Controls((reach,)),
        Text(_MOVING),
        Controls((scale,)),
        tables.numbers(known),
        figures.over_scales(known, chosen),
        Text(_GAINS, "note"),
    )


def _picker(names: Sequence[str], chosen: tuple[str, ...]) -> list[Toggles]:
    """A group of toggles for each family."""
    swatches = styles(names)
    return [
        Toggles("shown", family, tuple(name for name in names if _family(name) == family), chosen, swatches)
        for family in (*FAMILIES, _OTHERS)
        if any(_family(name) == family for name in names)
    ]


def _family(name: str) -> str:
    base = name.partition("(")[0]
    return next((family for family, members in FAMILIES.items() if base in members), _OTHERS)
