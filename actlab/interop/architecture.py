"""What a family of models in transformers is: entries of config.json, names of activations, and where tensors are."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from jaxtyping import Float

from actlab import activations, config as config_lib
from actlab.config import ModelConfig
from actlab.errors import UserError, suggestion
from actlab.files import read_json
from actlab.models.spec import Spec, resolve

CONFIG = "config.json"
SHOWN = 100  # characters of a value in a message


class Fields:
    """Typed access to the fields of a config.json; every error names the file, the field and its value."""

    def __init__(self, values: Mapping[str, Any], place: str):
        self._values = values
        self.place = place

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str, default: Any = None) -> Any:
        """The field's value; null counts as absent, as in transformers."""
        value = self._values.get(name)
        return default if value is None else value

    def whole(self, name: str, default: int | None = None, low: int = 1) -> int:
        """An integer of at least `low`; without a default the field is required."""
        value = self._required(name, default)
        # Not isinstance, for which true is an integer.
        if type(value) is not int or not low <= value < 2**31:
            self.refuse(name, f"it must be an integer of at least {low}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number; without a default the field is required."""
        value = self._required(name, default)
        if type(value) not in (int, float) or not math.isfinite(value):
            self.refuse(name, "it must be a finite number")
        return float(value)

    def _required(self, name: str, default: Any) -> Any:
        value = self.get(name, default)
        if value is None:
            raise UserError(f"{self.place} lacks {name}: use the file that belongs to the weights.")
        return value

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

    def require(self, name: str, only: Any) -> None:
        """Raises UserError unless the field is absent or has the one value that our models can express."""
        if self.get(name, only) != only:
            self.refuse(name, f"only {json.dumps(only)} is supported; use other weights")

    def refuse(self, name: str, why: str) -> NoReturn:
        """Raises UserError about a field."""
        end = "" if why.endswith((".", "?")) else "."
        value = repr(self._values.get(name))
        value = value if len(value) <= SHOWN else f"{value[:SHOWN]}..."
        raise UserError(f"{self.place}: {name}={value} cannot be used: {why}{end}")


def read_fields(directory: pathlib.Path) -> Fields:
    """The fields of a directory's config.json; raises UserError if it is missing or not a JSON object."""
    place = directory / CONFIG
    if not place.exists():
        raise UserError(f"{directory} has no {CONFIG}: name a model's directory.")
    return Fields(read_json(place, "use the file that belongs to the weights"), str(place))


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
PLAIN = {ours: theirs for theirs, ours in reversed(OURS.items())} | {
    "gelu_tanh_jax": "gelu_new",
    "stochastic_gelu": "gelu",  # which it is but in training
}
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


def their_activation(config: ModelConfig, family: str, among: dict[str, str]) -> str:
    """The name in transformers of an activation of ours, which must be a key of `among`.

    Raises:
        UserError: for any other, with the field.
    """
    name = activations.get(config.activation, "config.model.activation").name
    if name not in among:
        raise UserError(
            f"config.model.activation={config.activation!r} has no counterpart in {family} of transformers: "
            f"what can be saved is {', '.join(among)}."
        )
    return among[name]


Shape = tuple[int, ...]
Weights = Float[np.ndarray, "..."]


@dataclasses.dataclass(frozen=True)
class Link:
    """Parameters of ours, by paths like block_0/attention/qkv/kernel, and the tensors of transformers that hold them.

    Theirs, joined on the last axis, are ours, joined on the last axis; most links have one of each. Before that, each
    of theirs is transposed if PyTorch stores [out, in], loses its first `skip` rows, and gains `plus`. `sizes` are the
    lengths of theirs where they differ. With `heads`, theirs has the query, key and value of a head side by side, ours
    those of all heads. A parameter without `theirs` has no counterpart: it must be zero.
    """

    ours: tuple[str, ...]
    theirs: tuple[str, ...] = ()
    transposed: bool = False
    skip: int = 0
    plus: float = 0.0
    sizes: Shape = ()
    heads: int = 0

    def shapes(self, full: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shape of each tensor of theirs, by the shapes of ours."""
        if not self.theirs:
            return {}
        *lead, _ = full[self.ours[0]]
        if lead:
            lead = [lead[0] + self.skip, *lead[1:]]
        shapes = [(*lead, size) for size in self._sizes(sum(full[path][-1] for path in self.ours))]
        return {
            name: shape[::-1] if self.transposed else shape for name, shape in zip(self.theirs, shapes, strict=True)
        }

    def join(self, arrays: list[Weights], full: Mapping[str, Shape]) -> dict[str, Weights]:
        """Our parameters from their tensors."""
        if not self.theirs:
            return {path: np.zeros(full[path], np.float32) for path in self.ours}
        arrays = [(array.T if self.transposed else array)[self.skip :] for array in arrays]
        if self.plus:  # adding 0 would turn -0.0 into 0.0
            arrays = [array + np.float32(self.plus) for array in arrays]
        whole = _joined(arrays)
        if self.heads:
            whole = _exchanged(whole, self.heads, 3)
        ends = np.cumsum([full[path][-1] for path in self.ours])[:-1]
        return dict(zip(self.ours, np.split(whole, ends, axis=-1), strict=True))

    def part(self, leaves: Mapping[str, Weights]) -> dict[str, Weights]:
        """Their tensors from our parameters: the inverse of join, with zeros in the rows that it skips."""
        whole = _joined([leaves[path] for path in self.ours])
        if self.heads:
            whole = _exchanged(whole, 3, self.heads)
        if self.skip:
            whole = np.concatenate([np.zeros((self.skip, *whole.shape[1:]), np.float32), whole])
        ends = np.cumsum(self._sizes(whole.shape[-1]))[:-1]
        parts = np.split(whole - np.float32(self.plus) if self.plus else whole, ends, axis=-1)
        return {name: part.T if self.transposed else part for name, part in zip(self.theirs, parts, strict=True)}

    def _sizes(self, whole: int) -> Shape:
        return self.sizes or (whole // len(self.theirs),) * len(self.theirs)


def _joined(arrays: list[Weights]) -> Weights:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-1)


def _exchanged(array: Weights, n: int, m: int) -> Weights:
    """The last axis, which is n times m groups, as m times n groups."""
    return array.reshape(*array.shape[:-1], n, m, -1).swapaxes(-3, -2).reshape(array.shape)


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


class Entry(NamedTuple):
    """An entry of config.json and the field of ModelConfig that it gives; without a default it is required."""

    theirs: str
    ours: str
    kind: Literal["whole", "number", "flag", "plain", "gated"] = "whole"
    default: Any = None


# The fields of ours that say what a block is made of. A family has these values but for those that it names.
LEAST_D_FF: int = config_lib.fields()["model.d_ff"].metadata["low"]
PLAIN_DECODER = {
    "kind": "decoder",
    "norm": "layernorm",
    "norm_position": "pre",
    "activation_norm": "none",
    "residual": "sequential",
    "position": "learned",
    "rotary_fraction": 1.0,
    "rotary_scaling": "none",
    "qk_norm": False,
    "n_kv_heads": None,
    "d_head": None,
    "scale_embeddings": False,
    "d_embedding": None,
}


@dataclasses.dataclass(frozen=True)
class Family:
    """The models of one model_type of transformers: how config.json is read and written, and where the tensors are.

    A field of ours comes from one entry (`entries`), from several (`read`, inverted by `describe`), or has one value in
    all models of the family (`fixed`, over PLAIN_DECODER). `required` entries of config.json have one value that can be
    used, and `written` ones are only written. `links` gives the tensors of a model by full names: a directory of the
    bare model omits `prefix`, which the names of `heads` never have. `copies` maps tensors that may be stored twice to
    the ones they must equal; `unused` matches tensors that are ignored. With `counts_from_padding` the first position
    is that after the id of the padding token.
    """

    name: str
    model_type: str
    saved_as: str  # the class of transformers that reads what is written
    prefix: str
    entries: tuple[Entry, ...]
    links: Callable[[ModelConfig, Fields], list[Link]]
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    required: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    written: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    read: Callable[[Fields], dict[str, Any]] = lambda _: {}
    describe: Callable[[Spec], dict[str, Any]] = lambda _: {}
    heads: tuple[str, ...] = ("lm_head.",)
    copies: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unused: str = ""
    counts_from_padding: bool = False

    def model_fields(self, fields: Fields) -> dict[str, Any]:
        """The fields of a ModelConfig that config.json describes; raises UserError for what ours cannot express."""
        for name, only in self.required.items():
            fields.require(name, only)
        own = {**PLAIN_DECODER, **self.fixed}
        if own["kind"] == "decoder":
            fields.require("is_causal", True)
        found = own | {entry.ours: _read(entry, fields) for entry in self.entries} | self.read(fields)
        # Our d_ff has a least value, the number of hidden units has none.
        return found if found["d_ff"] >= LEAST_D_FF else found | {"d_ff": LEAST_D_FF, "d_hidden": found["d_ff"]}

    def described(self, config: ModelConfig) -> dict[str, Any]:
        """The entries of config.json for a model; raises UserError for the first field the family does not have."""
        config = _without_defaults(config)
        for field, only in {**PLAIN_DECODER, **self.fixed}.items():
            if only is not ANY and getattr(config, field) != only:
                raise UserError(
                    f"config.model.{field}={getattr(config, field)!r} has no counterpart in {self.name} of "
                    f"transformers, the nearest to this model: only {only!r} can be saved."
                )
        activation = {
            entry.theirs: their_activation(config, self.name, GATED if entry.kind == "gated" else PLAIN)
            for entry in self.entries
            if entry.kind in ("plain", "gated")
        }
        spec = resolve(config)
        plain = {
            entry.theirs: getattr(spec, "d_hidden" if entry.ours == "d_ff" else entry.ours)
            for entry in self.entries
            if entry.theirs not in activation
        }
        own = {"model_type": self.model_type, "architectures": [self.saved_as]}
        return {**own, **self.written, **self.required, **plain, **activation, **self.describe(spec)}


ANY = object()  # in `fixed`: the field comes from `read`


def _read(entry: Entry, fields: Fields) -> Any:
    if entry.kind == "plain":
        return plain_activation(fields, entry.theirs, entry.default)
    if entry.kind == "gated":
        return gated_activation(fields, entry.theirs, entry.default)
    return getattr(fields, entry.kind)(entry.theirs, entry.default)


def _without_defaults(config: ModelConfig) -> ModelConfig:
    """The config with None in place of sizes that equal the default None stands for."""
    same = {
        "n_kv_heads": config.n_heads,
        "d_head": config.d_model / config.n_heads,
        "d_embedding": config.d_model,
    }
    return dataclasses.replace(config, **{name: None for name, size in same.items() if getattr(config, name) == size})


def linear(ours: str, *theirs: str, biased: bool = True, transposed: bool = True, **how: Any) -> list[Link]:
    """Kernel and bias of PyTorch's nn.Linear, or of several that are one projection here."""
    weights, biases = (tuple(f"{name}.{kind}" for name in theirs) for kind in ("weight", "bias"))
    return [
        Link((f"{ours}/kernel",), weights, transposed=transposed, **how),
        Link((f"{ours}/bias",), biases, **how) if biased else Link((f"{ours}/bias",)),
    ]


def table(ours: str, theirs: str, **how: Any) -> Link:
    """An embedding."""
    return Link((f"{ours}/embedding",), (f"{theirs}.weight",), **how)


def scale(ours: str, theirs: str, **how: Any) -> Link:
    """Scale of a norm."""
    return Link((f"{ours}/scale",), (f"{theirs}.weight",), **how)


def layer_norm(ours: str, theirs: str) -> list[Link]:
    """Scale and bias of PyTorch's nn.LayerNorm."""
    return [scale(ours, theirs), Link((f"{ours}/bias",), (f"{theirs}.bias",))]
