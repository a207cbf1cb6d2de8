"""The fixed colour and dashes of each activation, the same in every figure."""

import dataclasses
import zlib

from actlab.activations.catalogue import get

# Okabe and Ito 2008, Color Universal Design, without the yellow that white paper swallows and with a grey.
BLACK, GREY, ORANGE, SKY = "#000000", "#7f7f7f", "#e69f00", "#56b4e9"
GREEN, BLUE, VERMILLION, PURPLE = "#009e73", "#0072b2", "#d55e00", "#cc79a7"
PALETTE = (BLACK, GREY, ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE)

SOLID, DASHED, DOTTED, DASH_DOT = (), (4.0, 1.5), (1.0, 1.3), (5.0, 1.5, 1.0, 1.5)
LONG, DASH_DOT_DOT = (8.0, 2.0), (5.0, 1.5, 1.0, 1.5, 1.0, 1.5)
DASHES = (SOLID, DASHED, DOTTED, DASH_DOT, LONG, DASH_DOT_DOT)


@dataclasses.dataclass(frozen=True)
class Style:
    """How a curve is drawn: an RGB colour, and lengths on and off in line widths, () for a solid line."""

    colour: str
    dashes: tuple[float, ...]


# Colours differ within a family and among those that are compared most; a gated one has the colour of its gate, but
# for drelu, which has reglu's gate.
STYLES = {
    "identity": Style(GREY, SOLID),
    "relu": Style(VERMILLION, SOLID),
    "leaky_relu": Style(ORANGE, DASHED),
    "prelu": Style(SKY, DASH_DOT),
    "relu6": Style(GREEN, LONG),
    "relu2": Style(BLACK, SOLID),
    "leaky_relu2": Style(PURPLE, DASHED),
    "hard_tanh": Style(VERMILLION, DASH_DOT),
    "hard_sigmoid": Style(SKY, DOTTED),
    "hard_swish": Style(GREY, LONG),
    "tanh": Style(PURPLE, SOLID),
    "penalized_tanh": Style(ORANGE, DASH_DOT),
    "sigmoid": Style(BLACK, DASH_DOT),
    "softplus": Style(GREEN, DASH_DOT),
    "softsign": Style(GREY, DASH_DOT),
    "elu": Style(ORANGE, SOLID),
    "celu": Style(BLUE, LONG),
    "selu": Style(PURPLE, DASH_DOT),
    "xielu": Style(BLACK, LONG),
    "gelu": Style(BLUE, SOLID),
    "gelu_scale": Style(BLUE, DASH_DOT),
    "gelu_tanh": Style(PURPLE, LONG),
    "gelu_tanh_jax": Style(ORANGE, DOTTED),
    "quick_gelu": Style(VERMILLION, LONG),
    "gelu2": Style(BLACK, DOTTED),
    "gelu_centred": Style(VERMILLION, DASH_DOT_DOT),
    "stochastic_gelu": Style(GREEN, DASH_DOT_DOT),
    "silu": Style(GREEN, SOLID),
    "swish": Style(BLACK, DASH_DOT_DOT),
    "mish": Style(SKY, SOLID),
    "polynorm": Style(GREY, DOTTED),
    "glu": Style(BLACK, DASHED),
    "bilinear": Style(GREY, DASHED),
    "reglu": Style(VERMILLION, DASHED),
    "geglu": Style(BLUE, DASHED),
    "geglu_tanh": Style(PURPLE, DASH_DOT_DOT),
    "swiglu": Style(GREEN, DASHED),
    "drelu": Style(ORANGE, DASH_DOT_DOT),
}


def style(name: str) -> Style:
    """The style of a name or an alias; parameters do not change it.

    An activation registered by a user has one too, drawn from its name, which may coincide with another's.

    Raises:
        UserError: for an unknown name.
    """
    base = get(name).name.partition("(")[0]
    number = zlib.crc32(base.encode())
    return STYLES.get(base) or Style(PALETTE[number % len(PALETTE)], DASHES[number // 8 % len(DASHES)])
