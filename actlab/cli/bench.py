"""Measures speed on this machine.

  python -m actlab bench training
  python -m actlab bench training --shapes=1.3M,10.7M --repetitions=9 --out=speed.csv
  python -m actlab bench targets --targets=h100,v5e:8 --out=targets.csv
  python -m actlab bench targets --here --out=measured.csv
  python -m actlab bench activations
  python -m actlab bench activations --names=gelu,swiglu --dtypes=bfloat16 --sizes=8192x3072 --out=cost.csv

`training` measures one run and six lanes; with the `reference` extra installed it takes turns with two decoders on
PyTorch (GPT-2 of transformers and a plain one), each eager and compiled. `targets` compiles programs for GPUs and TPUs
that are not here: memory, kernels, collectives, and a bound on their time. With --here it runs the training programs
for one device on this machine's own instead, and measures their memory and time. With or without --here, `targets` goes
on with a table that it began; the others replace theirs. `activations` measures each activation against ReLU, alone and
in a feed-forward layer.
"""

import csv
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import flags

from actlab.cli import command
from actlab.console import tables
from actlab.errors import UserError, shown, suggestion
from actlab.files import write_atomically
from actlab.workdir import records

_OWN_FLAGS = {
    "training": ("shapes", "repetitions"),
    "targets": ("targets", "here", "models"),
    "activations": ("names", "activations", "dtypes", "sizes", "repetitions"),
}
_MOST_REPETITIONS = 10_000
_MOST_VALUES = 2**30  # of an array
_LEAST_WIDTH = 8  # that a model takes
_SIZE = re.compile(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})")


@command.entry
def main(argv: Sequence[str]) -> None:
    """Runs the benchmark that the one word names."""
    given = flags.FlagValues()
    flags.DEFINE_integer(
        "repetitions", None, "Turns of each contender; 5 for training, 25 for activations.", flag_values=given
    )
    command.define_path("out", None, "File to write.", given)
    flags.DEFINE_list("shapes", None, "training: model sizes; 1.3M, 10.7M, 30M, on a GPU 124M too.", flag_values=given)
    flags.DEFINE_list(
        "targets",
        None,
        "targets: h100, h200, a100, v4, v5e, v6e; :4, :8 or :16 devices. Default: all.",
        flag_values=given,
    )
    flags.DEFINE_bool("here", None, "targets: run the programs on this machine's device instead.", flag_values=given)
    flags.DEFINE_list(
        "models", None, "targets: sizes of model; char, paper, 124M, bert-base. Default: all.", flag_values=given
    )
    flags.DEFINE_string("names", None, "Comma-separated names; all by default.", flag_values=given)
    command.define_activations(given)
    flags.DEFINE_list("dtypes", ["float32", "bfloat16"], "activations: dtypes of the computation.", flag_values=given)
    flags.DEFINE_list(
        "sizes",
        None,
        "activations: TOKENSxWIDTH; 2048x1536 on CPU by default, larger elsewhere.",
        flag_values=given,
    )
    words = command.parse(__doc__, argv, given, n_words=1)
    name = words[0] if words else ""
    if name not in _OWN_FLAGS:
        given_as = f"unknown benchmark {name!r}" if name else "no benchmark is named"
        raise UserError(f"{given_as}: write actlab bench training, targets or activations.")
    for other, own in _OWN_FLAGS.items():
        command.refuse(given, set(own) - set(_OWN_FLAGS[name]), f"belongs to bench {other}")
    out = command.output_file("out", given.out, ".csv") if given.out else None
    {"training": _training, "targets": _targets, "activations": _activations}[name](given, out)


def _targets(given: flags.FlagValues, out: pathlib.Path | None) -> None:
    from actlab.training import targets  # without jax, which is imported after `prepare`

    names = given.targets
    if names is None:
        names = [f"{target.name}:{number}" for target in targets.TARGETS.values() for number in target.layouts]
    elif given.here:
        raise UserError("--targets names devices that are not here: leave it out with --here.")
    chosen = [targets.parse(name, "--targets") for name in dict.fromkeys(names or [""])]
    if not given.here:
        targets.prepare()

    from actlab.bench import targets as bench, timing
    from actlab.data.preparing import say

    models = list(bench.SIZES) if given.models is None else given.models
    for name in models or [""]:
        if name not in bench.SIZES:
            raise UserError(f"unknown --models={name}: {suggestion(name, bench.SIZES)}")
    of_several = {case.size for case in bench.SEVERAL}
    if not given.here and all(one.number > 1 for one in chosen) and of_several.isdisjoint(models):
        raise UserError(
            f"--models={','.join(models)} has no program for several devices: name {' or '.join(sorted(of_several))}, "
            "or a target of one device."
        )
    known = _known(out, bench.HERE if given.here else bench.COLUMNS)
    measured = bench.run_here(models, known) if given.here else bench.measure(chosen, models, known)
    rows = list(known)
    say("measuring: a line for each program that is done")
    for row in _written(out, measured, known):
        place = "" if given.here else f" for {row['target']}:{row['devices']}"
        outcome = f"compiled in {row['compile_seconds']} s" if row["compile_seconds"] != "" else "does not fit"
        say(f"{bench.named(row)}{place}: {outcome}")
        rows.append(dict(row))
    tables().print(timing.plain(rows) if given.here else bench.table(rows))


def _training(given: flags.FlagValues, out: pathlib.Path | None) -> None:
    # A GPU's memory is for PyTorch too; by default jax takes three quarters at once. Read when jax finds its devices.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    from actlab.bench import timing, training
    from actlab.data.preparing import say

    shapes = training.default_names() if given.shapes is None else given.shapes
    for name in shapes or [""]:
        if name not in training.SHAPES:
            raise UserError(f"unknown --shapes={name}: {suggestion(name, training.SHAPES)}")
    measured = training.measure(shapes, _repetitions(given, default=5, least=1), say)
    rows = list(_written(out, measured))
    tables().print(timing.speeds(rows))


def _known(out: pathlib.Path | None, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a table that was begun.

    Raises:
        UserError: for a file that is another table.
    """
    if out is None or not out.exists():
        return []
    try:
        with out.open(newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"--out={out} cannot be read ({error}): name another file.") from error
    if any(list(row) != list(columns) or None in row.values() for row in rows):
        raise UserError(f"--out={out} is not a table of this command, or not whole: name another file.")
    return rows


def _activations(given: flags.FlagValues, out: pathlib.Path | None) -> None:
    command.register_activations(given.activations)
    names = None if given.names is None else command.activation_names(given.names, "--names")

    from actlab import activations as catalogue
    from actlab.bench import activations, timing

    names = names or catalogue.names()
    for dtype in given.dtypes or [""]:
        if dtype not in activations.DTYPES:
            raise UserError(f"unknown --dtypes={dtype}: {suggestion(dtype, activations.DTYPES)}")
    sizes = activations.default_sizes() if given.sizes is None else [_size(text) for text in given.sizes or [""]]
    # Even the lowest and highest of five hold the median less often than 95%.
    repetitions = _repetitions(given, default=25, least=6)
    cases = activations.cases(given.dtypes, sizes)
    measured = _written(out, activations.measure(names, cases, repetitions))
    rows = list(command.track(measured, "measuring", len(names) * len(cases)))
    console = tables()
    for table in timing.relative(rows):
        console.print(table)


def _repetitions(given: flags.FlagValues, default: int, least: int) -> int:
    repetitions = default if given.repetitions is None else given.repetitions
    if repetitions < least:
        raise UserError(f"--repetitions={repetitions} is too few: give {least} or more.")
    if repetitions > _MOST_REPETITIONS:
        raise UserError(f"--repetitions={shown(repetitions)} is too many: give {_MOST_REPETITIONS:,} or less.")
    return repetitions


def _size(text: str) -> Any:
    from actlab.bench.activations import Size

    match = _SIZE.fullmatch(text)
    if match is None or int(match[2]) % 4 or int(match[2]) < _LEAST_WIDTH:
        raise UserError(
            f"--sizes={text} is not a size: write TOKENSxWIDTH, the width a multiple of 4 and {_LEAST_WIDTH} or more, "
            "like 2048x1536."
        )
    if int(match[1]) * int(match[2]) > _MOST_VALUES:
        raise UserError(f"--sizes={text} is an array of more than {_MOST_VALUES:,} values: make it smaller.")
    return Size(int(match[1]), int(match[2]))


def _written(
    path: pathlib.Path | None, rows: Iterable[Mapping[str, Any]], known: Sequence[Mapping[str, Any]] = ()
) -> Iterator[Mapping[str, Any]]:
    """The rows, each written before the next is measured, behind those `known`: what is stopped keeps what it has."""
    if path is None:
        yield from rows
        return
    done = [dict(row) for row in known]
    for row in rows:
        done.append(dict(row))
        write_atomically(path, records.table(done))
        yield row
