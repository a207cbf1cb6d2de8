"""The catalogue: one record per activation, looked up by name."""

import dataclasses
from collections.abc import Callable

from jax import Array

from actlab.activations import functions
from actlab.errors import UserError, suggestion


@dataclasses.dataclass(frozen=True)
class Activation:
    """An activation: a pure elementwise function with what is known of it.

    A gated one is used as fn(x W) * (x V): `fn` is applied to the gate only (Shazeer 2020, arXiv:2002.05202).
    """

    name: str
    fn: Callable[[Array], Array]
    formula: str
    source: str
    gated: bool = False


_RECORDS = (
    Activation("relu", functions.relu, r"\max(0, x)", "Nair and Hinton 2010"),
    Activation("tanh", functions.tanh, r"\tanh x", "definition"),
    Activation("elu", functions.elu, r"x \text{ if } x > 0 \text{ else } e^x - 1", "arXiv:1511.07289"),
    Activation("gelu", functions.gelu, r"x \Phi(x)", "arXiv:1606.08415"),
    Activation(
        "gelu_tanh",
        functions.gelu_tanh,
        r"\tfrac{x}{2}(1 + \tanh(\sqrt{2/\pi}(x + 0.044715 x^3)))",
        "arXiv:1606.08415, section 2",
    ),
    Activation("silu", functions.silu, r"x \sigma(x)", "arXiv:1702.03118"),
    Activation("swiglu", functions.silu, r"\mathrm{silu}(xW) \odot xV", "arXiv:2002.05202, equation 6", gated=True),
    Activation("geglu", functions.gelu, r"\mathrm{gelu}(xW) \odot xV", "arXiv:2002.05202, equation 6", gated=True),
    Activation("reglu", functions.relu, r"\mathrm{relu}(xW) \odot xV", "arXiv:2002.05202, equation 6", gated=True),
)
_CATALOGUE = {record.name: record for record in _RECORDS}


def names() -> tuple[str, ...]:
    """All names that `get` knows."""
    return tuple(_CATALOGUE)


def get(name: str) -> Activation:
    """The record of an activation; raises UserError, with the nearest name, if there is none."""
    if name not in _CATALOGUE:
        raise UserError(f"config.model.activation={name!r} is no activation: {suggestion(name, names())}")
    return _CATALOGUE[name]
