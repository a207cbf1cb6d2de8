"""Figures of f, f' and f'': all activations as small multiples on one page, and an overlay per family."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from actlab.activations.catalogue import get, names
from actlab.activations.colours import BLACK, BLUE, DASHED, DASHES, DOTTED, SOLID, VERMILLION, Style, style

Range = tuple[float, float]
Curves = tuple[Float[Array, "N"], Float[Array, "N"], Float[Array, "N"]]


@dataclasses.dataclass(frozen=True)
class Family:
    """Activations that belong in one figure, and the window in which they differ: of x, f, f' and f''."""

    members: tuple[str, ...]
    x: Range
    windows: tuple[Range, Range, Range]


FAMILIES = {
    "rectifiers": Family(
        ("identity", "relu", "leaky_relu", "prelu", "relu6", "relu2", "leaky_relu2"),
        (-4.0, 8.0),
        ((-2.5, 8.0), (-1.2, 3.0), (-0.2, 2.2)),
    ),
    "sigmoids": Family(
        ("tanh", "hard_tanh", "penalized_tanh", "softsign", "sigmoid", "hard_sigmoid"),
        (-4.0, 4.0),
        ((-1.1, 1.1), (-0.1, 1.1), (-2.1, 2.1)),
    ),
    "exponential_units": Family(
        ("elu", "celu(alpha=0.5)", "selu", "xielu", "softplus"),
        (-4.0, 3.0),
        ((-2.0, 4.0), (-0.5, 2.5), (-0.2, 2.1)),
    ),
    "gelu_like": Family(
        ("gelu", "gelu_tanh", "gelu_tanh_jax", "quick_gelu", "silu", "swish", "mish", "hard_swish", "gelu2"),
        (-5.0, 3.0),
        ((-0.45, 1.5), (-0.6, 1.6), (-0.3, 1.2)),
    ),
    "variants": Family(
        ("gelu", "gelu_centred", "stochastic_gelu", "tanh", "elu"),
        (-4.0, 3.0),
        ((-1.1, 2.0), (-0.2, 1.2), (-0.8, 1.1)),
    ),
    "gates": Family(
        ("bilinear", "reglu", "drelu", "geglu", "geglu_tanh", "swiglu", "glu"),
        (-4.0, 3.0),
        ((-1.0, 2.0), (-0.25, 1.25), (-0.2, 0.9)),
    ),
    "gelu_scale": Family(
        tuple(f"gelu_scale(s={s})" for s in (0.0, 0.25, 0.5, 1.0, 2.0)),
        (-4.0, 4.0),
        ((-0.5, 3.0), (-0.2, 1.2), (-0.6, 3.3)),
    ),
}

SETTINGS: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 8,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: it can be searched and read aloud
    "svg.hashsalt": "actlab",  # identifiers that are the same in every process
}
_LABELS = ("$f(x)$", "$f\\,'(x)$", "$f\\,''(x)$")
_STYLES = (Style(BLUE, SOLID), Style(VERMILLION, DASHED), Style(BLACK, DOTTED))
_NOTE = (
    "Gated: $h(x, v)$ at $v = 1$. polynorm: one feature, the others spread as $N(0, 1)$. "
    "No impulse is drawn where $f\\,'$ jumps."
)
_PAGE = 7.5  # inches, between the margins of a page
_FEATURES = 2**14


def draw(folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes every figure into a folder that exists, as PNG and as SVG, and returns the paths."""
    figures = {"activations": multiples(names()), **{family: overlay(family) for family in FAMILIES}}
    return [path for name, figure in figures.items() for path in save(figure, folder / name)]


@matplotlib.rc_context(SETTINGS)
def save(figure: Figure, path: pathlib.Path) -> list[pathlib.Path]:
    """Writes path.png and path.svg; the SVG is the same to the byte whenever the curves are."""
    paths = [path.with_suffix(".png"), path.with_suffix(".svg")]
    figure.savefig(paths[0], dpi=300)
    figure.savefig(paths[1], metadata={"Date": None})
    return paths


def curves(name: str, low: float, high: float, points: int = 1000) -> Curves:
    """f, f' and f'' at evenly spaced points, in float32.

    A gated activation is cut at the value v = 1. Of a vector-valued one it is one feature among 16,384 others, whose
    values are spread as N(0, 1).
    """
    activation = get(name)
    others = norm.ppf((jnp.arange(_FEATURES) + 0.5) / _FEATURES)

    def function(x: Array) -> Array:
        if not activation.elementwise:
            return activation.fn(jnp.append(others, x))[-1]
        return activation.fn(x) * activation.value_fn(jnp.ones_like(x)) if activation.gated else activation.fn(x)

    first = jax.grad(function)
    # `map` compiles one program; `vmap` would compile every operation by itself, three times as slow.
    return jax.lax.map(lambda x: (function(x), first(x), jax.grad(first)(x)), jnp.linspace(low, high, points))


@matplotlib.rc_context(SETTINGS)
def multiples(activations: Sequence[str]) -> Figure:
    """One panel per activation, all on the same axes."""
    columns = 6
    rows = -(-len(activations) // columns)
    figure = Figure(figsize=(_PAGE, 1.5 * rows + 0.6), layout="constrained")
    panels = list(np.ravel(figure.subplots(rows, columns, sharex=True, sharey=True)))
    for panel, name in zip(panels, activations, strict=False):
        for label, y, line in zip(_LABELS, curves(name, -4.0, 4.0), _STYLES, strict=True):
            _draw(panel, -4.0, 4.0, y, line, label, 1.4)
        panel.set_title(name, fontsize=8, pad=3)
        panel.set(xlim=(-4, 4), ylim=(-1.6, 3.2), xticks=(-4, -2, 0, 2, 4), yticks=(-1, 0, 1, 2, 3))
    for panel in panels[len(activations) :]:
        panel.remove()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=9)
    figure.supxlabel(_NOTE, fontsize=8)
    return figure


@matplotlib.rc_context(SETTINGS)
def overlay(family: str) -> Figure:
    """f, f' and f'' of a family in three panels; beneath those of the gates, h(x, v) of each."""
    figure = Figure(figsize=(_PAGE, 4.6 if family == "gates" else 3.1), layout="constrained")
    if family != "gates":
        _overlay(figure, family)
        return figure
    above, below = np.ravel(np.asarray(figure.subfigures(2, 1, height_ratios=(3.1, 1.5))))
    _overlay(above, family)
    _surfaces(below, FAMILIES[family].members)
    return figure


def _overlay(figure: Figure | SubFigure, family: str) -> None:
    members, (low, high), windows = dataclasses.astuple(FAMILIES[family])
    panels = list(np.ravel(figure.subplots(1, 3)))
    # Thinner and thinner, so that a curve shows under another that coincides with it.
    widths = np.linspace(2.8, 1.1, len(members)) if family != "gelu_scale" else [1.5] * len(members)
    for name, line, width in zip(members, _lines(family), widths, strict=True):
        for panel, y in zip(panels, curves(name, low, high), strict=True):
            _draw(panel, low, high, y, line, name, width)
    for panel, label, window in zip(panels, _LABELS, windows, strict=True):
        panel.set_title(label + (" at $v = 1$" if family == "gates" else ""), fontsize=9)
        panel.set(xlim=(low, high), ylim=window, xlabel="$x$")
        panel.locator_params(nbins=6)
    columns = 3 if family == "gelu_scale" else 5
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns, handlelength=3)


def _lines(family: str) -> list[Style]:
    members = FAMILIES[family].members
    if family != "gelu_scale":
        return [style(name) for name in members]
    # One activation at several s: a colour map for the order.
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(members)))
    return [Style(colors.to_hex(colour), dashes) for colour, dashes in zip(colours, DASHES, strict=False)]


def _surfaces(figure: SubFigure, members: Sequence[str]) -> None:
    axis = jnp.linspace(-3, 3, 61)
    panels = list(np.ravel(figure.subplots(1, len(members), sharey=True)))
    levels = np.linspace(-4.25, 4.25, 18)  # zero is in the middle of the white one
    contours = []
    for panel, name in zip(panels, members, strict=True):
        activation = get(name)
        h = activation.fn(axis)[None, :] * activation.value_fn(axis)[:, None]
        contours += [panel.contourf(axis, axis, h, levels, cmap="PuOr_r", extend="both")]
        panel.grid(False)
        panel.set_title(name, fontsize=8, pad=3)
        panel.set(xlabel="$x$", aspect="equal", xticks=(-2, 0, 2), yticks=(-2, 0, 2))
    panels[0].set_ylabel("$v$")
    figure.colorbar(contours[-1], ax=panels, label="$h(x, v)$", ticks=(-4, -2, 0, 2, 4), shrink=0.7)


def _draw(panel: Axes, low: float, high: float, y: Array, line: Style, label: str, width: float) -> None:
    dashes = (0, line.dashes) if line.dashes else "-"
    x = np.linspace(low, high, len(y))
    panel.plot(x, broken(np.asarray(y)), color=line.colour, linestyle=dashes, linewidth=width, label=label)


def broken(y: np.ndarray) -> np.ndarray:
    """The curve with a gap where it jumps, which is where a step is far larger than its neighbours."""
    steps = np.pad(np.abs(np.diff(y)), 1)
    jumps = steps[1:-1] > 10 * np.maximum(steps[:-2], steps[2:]) + 1e-3
    return np.where(np.append(jumps, False), np.nan, y)
