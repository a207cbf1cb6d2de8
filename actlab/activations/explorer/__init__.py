"""A page to look activations up: f, f' and f'' overlaid, moments at each scale of the input, dead zones, sources."""

from collections.abc import Sequence

import jax

from actlab.activations.dead_zones import DTYPES
from actlab.activations.explorer import figures, tables
from actlab.activations.explorer.curves import REACH
from actlab.activations.explorer.facts import SCALE, SCALES, Facts, facts
from actlab.activations.figures import FAMILIES
from actlab.page import Choice, Controls, Section, Slider, Text, Toggles, render

__all__ = ["Facts", "facts", "page"]

_OTHERS = "others"
_FIRST = ("relu", "gelu", "silu", "tanh")
_LEAD = (
    "Pick activations, see each with its slope f′ and curvature f″, and move the scale of the input. Every number is "
    "computed beforehand by the library that trains with them; the page computes none."
)
_MOVING = (
    "The input z is drawn from N(0, s²). The slider stops at each tenth of s, and all numbers are exact integrals "
    "computed for that s: nothing is interpolated."
)
_GAINS = (
    "Forward gain g: weights of variance g²/fan_in after f keep the second moment of z. Backward gain: the same for "
    "gradients. P(f′ < 0): the share of units with negative slope. Gated, h = f(z₁) v(z₂): mean, variance, E h² in the "
    "place of E f², and gains of h; P(f′ < 0) of the gate's function f."
)
_BOUNDS = (
    "Over all x, proven by interval arithmetic; only digits that are certain are shown, at most 5 decimals. Where "
    "there is - it is a limit at ±∞, taken nowhere; ≤ and ≥ are all points on that side; of several places the "
    "rightmost is named. Kinks are where f′ jumps. Gated: of the gate's function f. polynorm: of one feature among "
    "many of N(0, 1). A name leads to its formula."
)
_ZONES = (
    "Where the function as implemented, or its gradient by autodiff, is exactly 0: from the number given down, or up. "
    "Measured, every number of the 16-bit types, on backend {backend} with JAX {version}, operation by operation. "
    "Numbers that the hardware flushes to 0 count as 0. Gated: of the gate's function. polynorm is not elementwise and "
    "left out."
)
_FORMULAS = "A name may set parameters: gelu_scale(s=0.25). Everything on this page is at the values given here."


def page(known: Sequence[Facts]) -> str:
    """The whole file; the same bytes for the same activations on one backend.

    Args:
        known: `facts(name)` of each activation that can be picked.
    """
    names = [one.name for one in known]
    chosen = tuple(name for name in _FIRST if name in names) or tuple(names[:4])
    zones = _ZONES.format(backend=jax.default_backend(), version=jax.__version__)
    sections = [
        Section("explore", "Curves and moments", _explore(known, chosen)),
        Section("properties", "Properties", (Text(_BOUNDS, "note"), tables.properties(known))),
        Section("zones", "Dead zones", (Text(zones, "note"), _DTYPE, figures.alive(known), tables.dead_zones(known))),
        Section("formulas", "Formulas and sources", (Text(_FORMULAS, "note"), tables.formulas(known))),
    ]
    return render(f"{len(known)} activations", _LEAD, sections)


_DTYPE = Controls((Choice("dtype", "dtype", DTYPES, DTYPES[1]),))


def _explore(known: Sequence[Facts], chosen: tuple[str, ...]) -> tuple:
    reach = Slider("reach", "x up to ±", 1, REACH, 1, figures.WIDTH)
    scale = Slider("scale", "scale s of the input", SCALES[0], SCALES[-1], 0.1, SCALE)
    return (
        Controls((*_picker([one.name for one in known], chosen), reach)),
        figures.overlay(known, chosen),
        Text(_MOVING),
        Controls((scale,)),
        tables.numbers(known),
        figures.over_scales(known, chosen),
        Text(_GAINS, "note"),
    )


def _picker(names: Sequence[str], chosen: tuple[str, ...]) -> list[Toggles]:
    """A group of toggles for each family of more than one; each name is in the first that has it, else in the last."""
    homes = {name: _home(name) for name in names}
    swatches = {name: figures.swatch(name) for name in names}
    return [
        Toggles("shown", home, tuple(name for name in names if homes[name] == home), chosen, swatches)
        for home in sorted(set(homes.values()), key=[*map(_title, FAMILIES), _OTHERS].index)
    ]


def _home(name: str) -> str:
    for family, of in FAMILIES.items():
        members = {member.partition("(")[0] for member in of.members}
        if name in members and len(members) > 1:
            return _title(family)
    return _OTHERS


def _title(family: str) -> str:
    return family.replace("gelu_", "GELU-").replace("_", " ")
