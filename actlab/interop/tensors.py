"""The tensors of a directory's safetensors files, read one at a time as float32.

Only safetensors are read: loading a pickle runs code.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float

from actlab.errors import UserError
from actlab.files import read_json

try:
    import safetensors
    from safetensors import numpy as safetensors_numpy
except ImportError as error:
    raise UserError("the library safetensors is missing: install it with `pip install -e '.[hf]'`.") from error

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("*.bin", "*.bin.index.json", "*.pt", "*.pth", "*.pkl", "*.ckpt", "*.h5", "*.msgpack")
FLOATS = ("F32", "F16", "BF16")


@dataclasses.dataclass(frozen=True)
class Stored:
    """A tensor in a file, not read yet."""

    path: pathlib.Path
    name: str
    shape: tuple[int, ...]
    dtype: str

    def read(self) -> Float[np.ndarray, "..."]:
        """The tensor in float32.

        Raises:
            UserError: for numbers that are not 16- or 32-bit floats, and for a damaged file.
        """
        if self.dtype not in FLOATS:
            raise UserError(f"{self.path}: {self.name} is {self.dtype}: only {', '.join(FLOATS)} can be used.")
        with _opened(self.path) as file:
            return file.get_tensor(self.name).astype(np.float32)


def find(directory: pathlib.Path) -> dict[str, Stored]:
    """All tensors of a directory by name; only the files' headers are read.

    Raises:
        UserError: if there are no safetensors, a file is missing or damaged, the index names files elsewhere, or a
            tensor is in two files or not in the one that the index names.
    """
    if (directory / WEIGHTS).is_file():
        return _header(directory / WEIGHTS)
    if not (directory / INDEX).is_file():
        raise UserError(_no_weights(directory))
    weight_map = _weight_map(directory / INDEX)
    found: dict[str, Stored] = {}
    for shard in sorted(set(weight_map.values())):
        for name, stored in _header(directory / shard).items():
            if name in found:
                raise UserError(f"{directory}: {name} is in {found[name].path.name} and in {shard}: keep one of them.")
            found[name] = stored
    for name, shard in weight_map.items():
        if name not in found or found[name].path.name != shard:
            raise UserError(f"{directory / shard} lacks {name}, which {INDEX} places there: use matching files.")
    return found


def write(tensors: dict[str, Float[np.ndarray, "..."]], path: pathlib.Path) -> None:
    """Writes one file; raises OSError if it cannot be written."""
    # The library writes memory as it is laid out. transformers refuses files without this metadata.
    dense = {name: np.ascontiguousarray(array, np.float32).reshape(array.shape) for name, array in tensors.items()}
    try:
        path.touch()
        mode = path.stat().st_mode  # the library writes a temporary file, which nobody else may read
        safetensors_numpy.save_file(dense, path, metadata={"format": "pt"})
        path.chmod(mode)
    except safetensors.SafetensorError as error:
        raise OSError(str(error)) from error


def _no_weights(directory: pathlib.Path) -> str:
    pickles = sorted(path.name for pattern in PICKLES for path in directory.glob(pattern))
    if pickles:
        return (
            f"{directory} holds {pickles[0]}, but no {WEIGHTS}: only safetensors are read, since a pickle may run "
            "code; load it with transformers and save it with save_pretrained."
        )
    return f"{directory} holds no weights: add {WEIGHTS}, or {INDEX} with its files."


def _weight_map(path: pathlib.Path) -> dict[str, str]:
    try:
        weight_map = read_json(path, "use the file that belongs to the weights")["weight_map"]
        entries = list(weight_map.items())
    except (KeyError, AttributeError) as error:
        raise UserError(
            f"{path} is not an index with a weight_map: use the file that belongs to the weights."
        ) from error
    for name, shard in entries:
        if not isinstance(shard, str) or not shard.endswith(".safetensors") or pathlib.PurePath(shard).name != shard:
            raise UserError(f"{path}: {name} is in {shard!r}, which is not a .safetensors file in the same folder.")
        if not (path.parent / shard).is_file():
            raise UserError(f"{path.parent} lacks {shard}, which {path.name} names: add the file.")
    return weight_map


def _header(path: pathlib.Path) -> dict[str, Stored]:
    with _opened(path) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}
        return {name: Stored(path, name, tuple(part.get_shape()), part.get_dtype()) for name, part in slices.items()}


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Iterator[Any]:
    try:
        with safetensors.safe_open(path, framework="np") as file:
            yield file
    except (safetensors.SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a whole safetensors file ({error}): download or write it again.") from error
