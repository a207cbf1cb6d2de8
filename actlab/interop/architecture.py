"""A family of models in transformers: fields of its config.json, names of activations, and where its tensors are."""

import dataclasses
import json
import math
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np
from jaxtyping import Float

from actlab import activations
from actlab.config import ModelConfig
from actlab.errors import UserError, suggestion

CONFIG = "config.json"


class Fields:
    """Typed access to the fields of a config.json; every error names the file, the field and its value."""

    def __init__(self, values: Mapping[str, Any], place: str):
        self._values = values
        self.place = place

    def get(self, name: str, default: Any = None) -> Any:
        """The field's value; null counts as absent, as in transformers."""
        value = self._values.get(name)
        return default if value is None else value

    def whole(self, name: str, default: int | None = None, low: int = 1) -> int:
        """An integer of at least `low`; without a default the field is required."""
        value = self.get(name, default)
        if value is None:
            raise UserError(f"{self.place} lacks {name}: use the file that belongs to the weights.")
        # Not isinstance, for which true is an integer.
        if type(value) is not int or not low <= value < 2**31:
            self.refuse(name, f"it must be an integer of at least {low}")
        return value

    def number(self, name: str, default: float) -> float:
        """A finite number."""
        value = self.get(name, default)
        if type(value) not in (int, float) or not math.isfinite(value):
            self.refuse(name, "it must be a finite number")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.get(name, default)
        if type(value) is not bool:
            self.refuse(name, "it must be true or false")
        return value

    def text(self, name: str, default: str) -> str:
        """A string."""
        value = self.get(name, default)
        if type(value) is not str:
            self.refuse(name, "it must be a string")
        return value

    def require(self, name: str, only: Any, default: Any = None) -> None:
        """Raises UserError unless the field has the one value that our models can express."""
        if self.get(name, default) != only:
            self.refuse(name, f"only {json.dumps(only)} is supported; use other weights")

    def refuse(self, name: str, why: str) -> NoReturn:
        """Raises UserError about a field."""
        end = "" if why.endswith((".", "?")) else "."
        raise UserError(f"{self.place}: {name}={self._values.get(name)!r} cannot be used: {why}{end}")


def read_fields(directory: pathlib.Path) -> Fields:
    """The fields of a directory's config.json; raises UserError if it is missing or not a JSON object."""
    place = directory / CONFIG
    try:
        values = json.loads(place.read_bytes())
    except OSError as error:
        raise UserError(
            f"{directory} has no readable {CONFIG} ({error.strerror}): name a model's directory."
        ) from error
    except ValueError as error:
        raise UserError(f"{place} is not JSON ({error}): use the file that belongs to the weights.") from error
    if not isinstance(values, dict):
        raise UserError(f"{place} is not a JSON object: use the file that belongs to the weights.")
    return Fields(values, str(place))


# "gelu" is exact in both. All other names with gelu in them are the tanh form, except quick_gelu.
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
# Of several names of theirs the first.
PLAIN = {ours: theirs for theirs, ours in reversed(OURS.items())} | {"gelu_tanh_jax": "gelu_new"}
GATED = {
    "swiglu": "silu",
    "geglu": "gelu",
    "geglu_tanh": "gelu_pytorch_tanh",
    "reglu": "relu",
    "glu": "sigmoid",
    "bilinear": "linear",
}


def plain_activation(fields: Fields, name: str, default: str) -> str:
    """Our name of the activation in a field; raises UserError if the catalogue lacks it."""
    theirs = fields.text(name, default)
    if theirs not in OURS:
        fields.refuse(name, f"unknown activation, {suggestion(theirs, OURS)}")
    return OURS[theirs]


def gated_activation(fields: Fields, name: str, default: str) -> str:
    """Our name of the gated unit whose gate is the activation in a field; raises UserError if there is none."""
    ours = plain_activation(fields, name, default)
    matching = [unit for unit, theirs in GATED.items() if OURS[theirs] == ours]
    if not matching:
        fields.refuse(name, f"no gated unit of the catalogue has that gate; known are {', '.join(GATED.values())}")
    return matching[0]


def their_activation(
    config: ModelConfig, family: str, field: str = "activation", *, among: dict[str, str] = PLAIN
) -> str:
    """The name in transformers of an activation of ours, which must be a key of `among`.

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


Shape = tuple[int, ...]
Weights = Float[np.ndarray, "..."]


@dataclasses.dataclass(frozen=True)
class Link:
    """A parameter of ours, a path like block_0/attention/qkv/kernel, and the tensors of transformers that hold it.

    Ours is the concatenation of theirs on the last axis. Before that, each is transposed if PyTorch stores [out, in],
    and loses its first `skip` rows. With `repeats`, a number per tensor, every group of `width` entries of the last
    axis is repeated that often: query heads that share a key-value head get copies of it, which is the same function.
    A parameter without `theirs` has no counterpart: it must be zero.
    """

    ours: str
    theirs: tuple[str, ...] = ()
    transposed: bool = False
    skip: int = 0
    repeats: Shape = ()
    width: int = 1

    def shapes(self, shape: Shape) -> dict[str, Shape]:
        """The shape of each tensor of theirs for a parameter of this shape."""
        shapes = {}
        for name, repeat in zip(self.theirs, self.repeats or (1,) * len(self.theirs), strict=True):
            *lead, last = shape
            part = (*lead, last // (len(self.theirs) * repeat))
            part = (part[0] + self.skip, *part[1:])
            shapes[name] = part[::-1] if self.transposed else part
        return shapes

    def join(self, arrays: list[Weights]) -> Weights:
        """Our parameter from their tensors."""
        arrays = [(array.T if self.transposed else array)[self.skip :] for array in arrays]
        if self.repeats:
            arrays = [self._repeated(array, repeat) for array, repeat in zip(arrays, self.repeats, strict=True)]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-1)

    def part(self, array: Weights) -> dict[str, Weights]:
        """Their tensors from our parameter: the inverse of join without skip and repeats."""
        parts = np.split(array, len(self.theirs), axis=-1)
        return {name: part.T if self.transposed else part for name, part in zip(self.theirs, parts, strict=True)}

    def _repeated(self, array: Weights, repeat: int) -> Weights:
        *lead, last = array.shape
        groups = array.reshape(*lead, last // self.width, self.width)
        return np.repeat(groups, repeat, axis=-2).reshape(*lead, last * repeat)


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Path -> leaf of nested dicts."""
    leaves: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{prefix}{name}"
        leaves |= flat(value, f"{path}/") if isinstance(value, Mapping) else {path: value}
    return leaves


def nested(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of flat."""
    tree: dict[str, Any] = {}
    for path, leaf in leaves.items():
        *parents, name = path.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = leaf
    return tree


class Architecture(NamedTuple):
    """A family: how its config.json is read and written, and where its tensors are.

    `read` gives fields of ModelConfig, `describe` is its inverse, and `links` gives the tensors of a model with those
    fields, by full names. A directory of the bare model omits `prefix`, which the names of `heads` never have. `copies`
    maps tensors that may be stored twice to the ones they must equal; `unused` matches tensors that are ignored.
    """

    family: str
    model_type: str
    prefix: str
    read: Callable[[Fields], dict[str, Any]]
    describe: Callable[[ModelConfig], dict[str, Any]]
    links: Callable[[ModelConfig, Fields], list[Link]]
    heads: tuple[str, ...]
    copies: Mapping[str, str]
    unused: re.Pattern[str]


def require(config: ModelConfig, family: str, **only: Any) -> None:
    """Raises UserError, naming the field, unless each field has the only value that the family supports."""
    for field, known in only.items():
        value = getattr(config, field)
        if value != known:
            raise UserError(
                f"config.model.{field}={value!r} has no counterpart in {family} of transformers, the nearest "
                f"to this model: only {known!r} can be saved."
            )


def linear(ours: str, *theirs: str, biased: bool = True, repeats: tuple[int, ...] = (), width: int = 1) -> list[Link]:
    """Kernel and bias of PyTorch's nn.Linear, or of several that are one projection here."""
    weights, biases = (tuple(f"{name}.{kind}" for name in theirs) for kind in ("weight", "bias"))
    return [
        Link(f"{ours}/kernel", weights, transposed=True, repeats=repeats, width=width),
        Link(f"{ours}/bias", biases, repeats=repeats, width=width) if biased else Link(f"{ours}/bias"),
    ]


def layer_norm(ours: str, theirs: str) -> list[Link]:
    """Scale and bias of PyTorch's nn.LayerNorm."""
    return [Link(f"{ours}/scale", (f"{theirs}.weight",)), Link(f"{ours}/bias", (f"{theirs}.bias",))]
