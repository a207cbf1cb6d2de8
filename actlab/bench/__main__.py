"""Measures speed on this machine.

  python -m actlab.bench training
  python -m actlab.bench training --shapes=1.3M,10.7M --repetitions=9 --out=speed.csv
  python -m actlab.bench activations
  python -m actlab.bench activations --activations=gelu,swiglu --dtypes=bfloat16 --sizes=8192x3072 --out=cost.csv

`training` measures one run; with the `reference` extra installed, GPT-2 from transformers on PyTorch is measured
beside, turn by turn. `activations` measures each activation against ReLU, alone and in a feed-forward layer.
"""

import csv
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from absl import flags

from actlab import command
from actlab.errors import UserError, suggestion

_REPETITIONS = flags.DEFINE_integer("repetitions", None, "Turns of each contender; 5 for training, 25 for activations.")
_OUT = flags.DEFINE_string("out", None, "File to write.")
_SHAPES = flags.DEFINE_list("shapes", None, "training: model sizes; 1.3M, 10.7M, 30M, on a GPU 124M too.")
_ACTIVATIONS = flags.DEFINE_string("activations", None, "activations: their names, all by default.")
_DTYPES = flags.DEFINE_list("dtypes", ["float32", "bfloat16"], "activations: dtypes of the computation.")
_SIZES = flags.DEFINE_list("sizes", None, "activations: TOKENSxWIDTH; 2048x1536 on CPU by default, larger elsewhere.")

_OWN_FLAGS = {"training": ("shapes",), "activations": ("activations", "dtypes", "sizes")}
_SIZE = re.compile(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})")


def main(arguments: list[str]) -> None:
    """Runs the benchmark named by the one argument."""
    if len(arguments) != 1 or arguments[0] not in _OWN_FLAGS:
        name = " ".join(arguments)
        raise UserError(f"{name!r} is no benchmark: write python -m actlab.bench training, or activations.")
    _refuse_flags_of_others(arguments[0])
    out = command.target("out") if _OUT.value else None
    _training(out) if arguments[0] == "training" else _activations(out)


def _refuse_flags_of_others(benchmark: str) -> None:
    for other, names in _OWN_FLAGS.items():
        for name in names:
            if other != benchmark and flags.FLAGS[name].present:
                raise UserError(f"--{name} belongs to {other}: leave it out, or write python -m actlab.bench {other}.")


def _repetitions(default: int, least: int) -> int:
    repetitions = default if _REPETITIONS.value is None else _REPETITIONS.value
    if repetitions < least:
        raise UserError(f"--repetitions={repetitions} is too few: give {least} or more.")
    return repetitions


def _training(out: pathlib.Path | None) -> None:
    from actlab.bench import tables, training

    shapes = training.default_names() if _SHAPES.value is None else _SHAPES.value
    for name in shapes or [""]:
        if name not in training.SHAPES:
            raise UserError(f"--shapes={name} is not known: {suggestion(name, training.SHAPES)}")
    rows = list(_written(out, training.measure(shapes, _repetitions(default=5, least=1))))
    command.console().print(tables.plain(rows))


def _activations(out: pathlib.Path | None) -> None:
    from actlab import activations as catalogue
    from actlab.bench import activations, tables

    names = catalogue.names()
    if _ACTIVATIONS.value is not None:
        names = tuple(catalogue.get(text, "--activations").name for text in catalogue.split(_ACTIVATIONS.value))
    for dtype in _DTYPES.value or [""]:
        if dtype not in activations.DTYPES:
            raise UserError(f"--dtypes={dtype} is not known: {suggestion(dtype, activations.DTYPES)}")
    sizes = activations.default_sizes() if _SIZES.value is None else [_size(text) for text in _SIZES.value or [""]]
    # An interval needs two repetitions.
    cases = activations.cases(_DTYPES.value, sizes)
    measured = _written(out, activations.measure(names, cases, _repetitions(default=25, least=2)))
    rows = list(command.track(measured, "measuring", len(names) * len(cases)))
    console = command.console()
    for table in tables.relative(rows):
        console.print(table)


def _size(text: str) -> Any:
    from actlab.bench.activations import Size

    match = _SIZE.fullmatch(text)
    if match is None or int(match[2]) % 4:
        raise UserError(f"--sizes={text} is no size: write TOKENSxWIDTH, the width a multiple of 4, like 2048x1536.")
    return Size(int(match[1]), int(match[2]))


def _written(path: pathlib.Path | None, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The rows, each in the file before the next is measured: a benchmark that is stopped keeps what it has."""
    if path is None:
        yield from rows
        return
    try:
        file = path.open("w", newline="")
    except OSError as error:
        raise UserError(f"--out={path} cannot be written ({error.strerror}): name another file.") from error
    with file:
        writer = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, row, lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            yield row


if __name__ == "__main__":
    command.run(main)
