"""Activations by their names in transformers (its ACT2FN)."""

from actlab import activations
from actlab.config import ModelConfig
from actlab.errors import UserError
from actlab.interop.fields import Fields

# "gelu" is exact there and here; all others with gelu in their names are the tanh form but quick_gelu.
OURS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "relu2": "relu2",
    "relu6": "relu6",
    "leaky_relu": "leaky_relu",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "swish": "silu",  # theirs has no beta to train
    "tanh": "tanh",
    "mish": "mish",
    "hardswish": "hard_swish",
    "linear": "identity",
}
PLAIN = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "gelu_tanh_jax": "gelu_new",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "relu2": "relu2",
    "relu6": "relu6",
    "leaky_relu": "leaky_relu",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "tanh": "tanh",
    "mish": "mish",
    "hard_swish": "hardswish",
    "identity": "linear",
}
GATED = {
    "swiglu": "silu",
    "geglu": "gelu",
    "geglu_tanh": "gelu_pytorch_tanh",
    "reglu": "relu",
    "glu": "sigmoid",
    "bilinear": "linear",
}


def plain(fields: Fields, name: str, default: str) -> str:
    """Our name of the activation in a field; raises UserError for one that is not in the catalogue."""
    theirs = fields.text(name, default)
    if theirs not in OURS:
        fields.refuse(name, f"the catalogue has it under no name; known are {', '.join(OURS)}")
    return OURS[theirs]


def gated(fields: Fields, name: str, default: str) -> str:
    """Our name of the gated feed-forward whose gate has the activation in a field; raises UserError likewise."""
    ours = plain(fields, name, default)
    matching = [unit for unit, theirs in GATED.items() if OURS[theirs] == ours]
    if not matching:
        fields.refuse(name, f"no gated unit of the catalogue has that gate; known are {', '.join(GATED.values())}")
    return matching[0]


def theirs(config: ModelConfig, family: str, field: str = "activation", *, among: dict[str, str] = PLAIN) -> str:
    """The name there of an activation of ours, one of the keys of `among`.

    Raises:
        UserError: for any other, with the field.
    """
    text = getattr(config, field)
    name = activations.get(text, f"config.model.{field}").name
    if name not in among:
        raise UserError(
            f"config.model.{field}={text!r} has no counterpart in {family} of transformers: "
            f"what can be saved is {', '.join(among)}."
        )
    return among[name]
