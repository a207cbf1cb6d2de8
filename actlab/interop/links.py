"""Which tensors of theirs hold a parameter of ours, and how one becomes the other."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

Shape = tuple[int, ...]
Weights = Float[np.ndarray, "..."]


@dataclasses.dataclass(frozen=True)
class Link:
    """A parameter of ours, a path like block_0/attention/qkv/kernel, and the tensors of theirs that hold it.

    Ours is theirs side by side on the last axis, each transposed before where PyTorch keeps [out, in], and without
    its first `skip` rows. Where `repeats` has a number for each, every group of `width` entries of the last axis
    stands that many times: query heads that share a key-value head get one of their own, which is the same function.
    Without `theirs` they have no place for it: it is zero there.
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
        """Ours of theirs."""
        arrays = [(array.T if self.transposed else array)[self.skip :] for array in arrays]
        if self.repeats:
            arrays = [self._repeated(array, repeat) for array, repeat in zip(arrays, self.repeats, strict=True)]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-1)

    def part(self, array: Weights) -> dict[str, Weights]:
        """Theirs of ours, the inverse of join where nothing is skipped or repeated."""
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
