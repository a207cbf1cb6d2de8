"""What is known of a family of models in transformers."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from actlab.config import ModelConfig
from actlab.errors import UserError
from actlab.interop.fields import Fields
from actlab.interop.links import Link


class Architecture(NamedTuple):
    """A family: how its config.json is read and written, and where its tensors are.

    `read` gives fields of ModelConfig, `describe` is its inverse, and `links` the tensors of a model with those
    fields, by their full names. A directory of the bare model leaves out `prefix`, which `heads` never have. `copies`
    are tensors that may stand beside the ones they must equal, `unused` those that are no parameters of ours.
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
    """Raises UserError, with the field that is in the way, unless each has the one value that the family knows."""
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
