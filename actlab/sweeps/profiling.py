"""A profile of a program's training: a trace to open in XProf or Perfetto, and the operations that took longest."""

import collections
import functools
import pathlib
import re
from typing import NamedTuple

import jax
from rich.console import Console
from rich.table import Column, Table

from actlab.console import counted
from actlab.training import programs
from actlab.training.program_spec import ProgramSpec

N_STEPS = 8  # at most; a trace of more is slow to open
N_SHOWN = 20

# What XLA names the loops around a step; none of them tells one operation from another.
_LOOPS = {"jit(train)", "while", "body", "closed_call", "vmap()"}
_PASSES = {
    name: words
    for model in ("Decoder", "Encoder")
    for name, words in ((f"jvp({model})", "forward"), (f"transpose(jvp({model}))", "backward"))
}
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = .*?op_name=\"([^\"]*)\"", re.MULTILINE)


class Operation(NamedTuple):
    """Where in the model an operation belongs, all blocks together; calls and milliseconds of the whole trace."""

    name: str
    calls: int
    milliseconds: float


def run(console: Console, spec: ProgramSpec, folder: pathlib.Path) -> None:
    """Traces one call of up to 8 updates after one that warms up, and prints the 20 slowest operations.

    Raises:
        OSError: if the folder cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = spec.config
    program = programs.build(spec.model, config, spec.lanes, spec.objective).compile()
    names = instructions(program.functions.train.as_text())
    rows = program.rows(functools.partial(spec.feed.train, range(program.rows_shape[1])))
    n_steps = min(N_STEPS, program.rows_shape[1])
    # Else the trace would hold what only a first call does.
    state = jax.block_until_ready(program.train(program.init(), rows, 1))[0]
    with jax.profiler.trace(str(folder)):
        jax.block_until_ready(program.train(state, rows, n_steps))
    console.print(_table(operations(folder, names), n_steps))
    console.print(
        f"profile     {n_steps} steps of {counted(len(spec.names), 'lane')}; trace in {folder}; nothing was trained"
    )


def instructions(program: str) -> dict[str, str]:
    """Instruction -> the place in the model it was written for, from a compiled program's text."""
    return {name: _place(path) for name, path in _INSTRUCTION.findall(program)}


def _place(path: str) -> str:
    parts = (_PASSES.get(part, part) for part in path.split("/") if part not in _LOOPS)
    return "/".join(re.sub(r"^block_\d+$", "block_*", part) for part in parts)


def operations(folder: pathlib.Path, names: dict[str, str]) -> list[Operation]:
    """The operations of the newest trace in a folder, longest first; time inside a nested one is the nested one's.

    Times of threads or streams that ran side by side are added.
    """
    newest = max(folder.rglob("*.xplane.pb"), key=lambda path: path.stat().st_mtime)
    calls: collections.Counter[str] = collections.Counter()
    nanoseconds: dict[str, float] = collections.defaultdict(float)
    # A GPU is given many kernels at once, as a graph, which is what their events name. A kernel that XLA wrote is
    # called like its instruction, with "_" for other signs.
    of_kernels = {re.sub(r"[.-]", "_", name): place for name, place in names.items()}

    def place_of(operation: str, kernel: str) -> str:
        if not operation.startswith("command_buffer"):
            return names.get(operation) or re.sub(r"[.\d]+$", "", operation)
        kernel = re.sub(r"\([^()]*\)$", "", kernel)  # without the types of its arguments
        return of_kernels.get(kernel, kernel)

    for plane in jax.profiler.ProfileData.from_file(str(newest)).planes:
        for line in plane.lines:
            found = [(event, dict(event.stats)) for event in line.events]
            # Only what XLA runs has the name of an instruction.
            events = [
                (event.start_ns, event.end_ns, place_of(stats["hlo_op"], event.name))
                for event, stats in found
                if "hlo_op" in stats
            ]
            # Kernels of a GPU are side by side, never one inside another.
            is_gpu = plane.name.startswith("/device:GPU")
            own_times = [(place, end - start) for start, end, place in events] if is_gpu else _own_times(events)
            for place, own in own_times:
                calls[place] += 1
                nanoseconds[place] += own
    slowest = sorted(nanoseconds.items(), key=lambda item: -item[1])
    return [Operation(place, calls[place], own / 1e6) for place, own in slowest]


def _own_times(events: list[tuple[float, float, str]]) -> list[tuple[str, float]]:
    """(name, time less that of the events inside) of (start, end, name)."""
    own: list[list] = []
    open_: list[tuple[float, int]] = []
    # Of operations that start together the longest contains the others.
    for start, end, name in sorted(events, key=lambda event: (event[0], -event[1])):
        while open_ and open_[-1][0] <= start:
            open_.pop()
        if open_:
            own[open_[-1][1]][1] -= end - start
        open_.append((end, len(own)))
        own.append([name, end - start])
    return [(name, time) for name, time in own]


def _table(operations: list[Operation], n_steps: int) -> Table:
    total = sum(operation.milliseconds for operation in operations)
    numbers = (Column(name, justify="right", no_wrap=True) for name in ("calls per step", "ms per step", "share"))
    table = Table(Column("operation", overflow="fold"), *numbers, box=None, pad_edge=False)
    for name, calls, milliseconds in operations[:N_SHOWN]:
        share = f"{milliseconds / total:.1%}"
        table.add_row(name, f"{calls / n_steps:g}", f"{milliseconds / n_steps:.2f}", share)
    return table
