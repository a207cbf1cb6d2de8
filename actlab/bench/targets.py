"""What training would take on devices that are not here: each program compiled for each target, by its own compiler.

Memory, collectives and kernels are those of the program that would run there. Two things a compiler does not know: how
fast it is, of which the roofline is a bound, and on GPUs which products cuBLAS would be chosen for by timing them.
"""

import dataclasses
import statistics
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from rich.table import Table

from actlab import config as config_lib, models
from actlab.bench.timing import device_name
from actlab.config import Config, presets
from actlab.data.tokenizer_kinds import Specials
from actlab.training import programs, targets
from actlab.training.devices import compute_dtype, is_out_of_memory
from actlab.training.objectives import NEXT_TOKEN, MaskedToken, Objective
from actlab.training.programs import lane_of
from actlab.training.targets import Target

_MIB = 2**20
_SCORED = 4  # batches of an evaluation or census
_GPT2 = {"model.n_layers": 12, "model.d_model": 768, "model.n_heads": 12, "model.context": 1024, "model.use_bias": True}
# Rows of a device are as many as in a common training of that size.
SIZES = {
    "char": presets.tinystories("char", {"model.vocab_size": 256, "data.batch_size": 64}),
    "paper": presets.tinystories("paper", {"data.batch_size": 64}),
    "124M": presets.tinystories("paper", {**_GPT2, "data.batch_size": 16}),
    "bert-base": presets.bert("base", {"model.vocab_size": 30_528, "data.batch_size": 64}),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A program: a size in a dtype; `lanes` on each device, or one lane whose batch is split (data, fsdp)."""

    size: str
    dtype: str
    split: str = "lanes"  # what the devices share: lanes, data or fsdp
    lanes: int = 1
    remat: bool = False
    functions: tuple[str, ...] = ("train",)

    def config(self, n_devices: int) -> Config:
        """Its config; a batch that is split grows with the devices."""
        config = config_lib.from_mapping(SIZES[self.size].to_dict())
        split = {"lanes": "lane", "data": "data", "fsdp": "fsdp"}[self.split]
        sizes = {"devices.lane": 1, "devices.data": 1, "devices.fsdp": 1, f"devices.{split}": n_devices}
        rows = config.data.batch_size * (1 if self.split == "lanes" else n_devices)
        changes = {"data.batch_size": rows, "train.dtype": self.dtype, "devices.remat": self.remat}
        return config_lib.replace(config, **sizes, **changes)


_FUNCTIONS = ("train", "evaluate", "probe", "census", "curvature")
ALONE = (
    Case("char", "bfloat16", lanes=6),
    Case("char", "bfloat16", lanes=6, remat=True),
    Case("124M", "bfloat16"),
    Case("124M", "bfloat16", remat=True),
    Case("bert-base", "bfloat16", functions=("train", "evaluate")),
    Case("char", "bfloat16", functions=_FUNCTIONS),
    Case("paper", "bfloat16"),
    Case("paper", "bfloat16", remat=True),
    Case("char", "float32", lanes=6),  # a TPU's compiler takes minutes, since a product is six there
)
SEVERAL = (
    Case("char", "bfloat16"),
    Case("124M", "bfloat16", split="data"),
    Case("124M", "bfloat16", split="fsdp"),
)


_KEY = ("target", "devices", "size", "dtype", "split", "lanes", "rows", "remat", "function")


def measure(
    chosen: Sequence[Target], sizes: Sequence[str], known: Sequence[Mapping[str, Any]] = ()
) -> Iterator[Mapping[str, Any]]:
    """A row per target and function of a program of these sizes, but for those that are `known`.

    Raises:
        UserError: for a target whose compiler is not installed.
    """
    done = {tuple(str(row[column]) for column in _KEY) for row in known}
    for target in chosen:
        devices = target.devices()
        for case in ALONE if target.number == 1 else SEVERAL:
            if case.size in sizes:
                yield from _rows(target, devices, case, done)


def _rows(
    target: Target, devices: Sequence[Any], case: Case, done: Collection[tuple[str, ...]]
) -> Iterator[dict[str, Any]]:
    config, objective, program, work = _built(case, target.number, devices)
    for function in case.functions:
        about = {"target": target.name, "devices": target.number} | _about(case, program) | {"function": function}
        if tuple(map(str, about.values())) in done:
            continue
        yield about | _compiled(target, program, function, _examples(objective, config, function), config, work)


def _built(
    case: Case, number: int, devices: Sequence[Any] | None = None
) -> tuple[Config, Objective, programs.Program, float]:
    """A case's config, objective and program, and the FLOP of an update on one of so many devices.

    Forward and backward are counted, not what is computed again.
    """
    config = case.config(number)
    objective: Objective = NEXT_TOKEN
    if config.model.kind == "encoder":
        n_ids = config.model.vocab_size or 0
        objective = MaskedToken(Specials(0, 1, 2, 3), n_ids, config.data.mask_fraction, padded=False)
    lanes = [lane_of(config)] * (case.lanes * (number if case.split == "lanes" else 1))
    model = models.build(config.model, compute_dtype(config))
    program = programs.build(model, config, lanes, objective, target=devices)
    costs = models.costs(model, objective.share(config.model.context))
    tokens = config.data.batch_size * config.model.context
    return config, objective, program, costs.flops_per_token * tokens * len(lanes) / number


def _about(case: Case, program: programs.Program) -> dict[str, Any]:
    return {
        "size": case.size,
        "dtype": case.dtype,
        "split": case.split,
        "lanes": program.n_lanes,
        "rows": program.rows_shape[2],
        "remat": case.remat,
    }


def _examples(objective: Objective, config: Config, function: str) -> Any:
    """Shapes of a batch, or of several for what goes over a whole split."""
    rows = jax.ShapeDtypeStruct((config.data.batch_size, objective.width(config.model.context)), np.int32)
    batch = jax.eval_shape(objective.training, rows, jax.random.key(0))
    if function in ("probe", "curvature"):
        return batch
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((_SCORED, *leaf.shape), leaf.dtype), batch)


def _compiled(
    target: Target, program: programs.Program, function: str, examples: Any, config: Config, work: float
) -> dict[str, Any]:
    try:
        facts = targets.compiled_facts(program.lower(function, examples))
    except jax.errors.JaxRuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return {**dict.fromkeys(COLUMNS[len(_KEY) :], ""), "fits": "no: the compiler found no way"}
    is_training = function == "train"
    return {
        "fits": "yes" if facts.memory <= target.usable else "no",
        "compile_seconds": round(facts.seconds, 1),
        "arguments_MiB": round(facts.arguments / _MIB),
        "temporaries_MiB": round(facts.temporaries / _MIB),
        "code_MiB": round(facts.code / _MIB),
        "share_of_memory": round(facts.memory / target.memory, 3),
        "gflop": round(work / 1e9) if is_training else "",
        "compiler_gflop": "" if facts.flops is None else round(facts.flops / 1e9),
        "compiler_gb": "" if facts.accessed is None else round(facts.accessed / 1e9, 2),
        "roofline_ms": round(1e3 * target.roofline(config.train.dtype, work, facts), 2) if is_training else "",
        "kernels": _counted(facts.kernels),
        "collectives": "; ".join(f"{number} {kind}, {size / 1e6:.3g} MB" for kind, number, size in facts.collectives),
    }


COLUMNS = (
    *_KEY,
    "fits",
    "compile_seconds",
    "arguments_MiB",
    "temporaries_MiB",
    "code_MiB",
    "share_of_memory",
    "gflop",
    "compiler_gflop",
    "compiler_gb",
    "roofline_ms",
    "kernels",
    "collectives",
)


def run_here(
    sizes: Sequence[str], known: Sequence[Mapping[str, Any]] = (), at_least: float = 1.0
) -> Iterator[Mapping[str, Any]]:
    """A row per training program of these sizes, but for those `known`, measured on one device of this machine.

    Each is timed for at least so many seconds after two calls. `peak_MiB` is the most that this process has had in use
    on the device so far, empty where the device does not tell; programs come roughly in the order of what they keep.
    """
    done = {tuple(str(row[column]) for column in _KEY_HERE) for row in known}
    for case in sorted((case for case in ALONE if case.size in sizes), key=_kept):
        _, _, program, work = _built(case, 1)
        about = {"device": device_name(), **_about(case, program)}
        if tuple(map(str, about.values())) in done:
            continue
        lowered, begin = program.lower("train"), time.perf_counter()
        try:
            compiled = lowered.compile()
            facts = targets.facts_of(compiled, time.perf_counter() - begin)
            program = dataclasses.replace(program, functions=program.functions._replace(train=compiled))
            seconds = _seconds_per_update(program, at_least)
        except jax.errors.JaxRuntimeError as error:
            if not is_out_of_memory(error):
                raise
            yield {**dict.fromkeys(HERE, ""), **about, "fits": "no"}
            continue
        stats, median = jax.local_devices()[0].memory_stats(), statistics.median(seconds)
        yield about | {
            "fits": "yes",
            "compile_seconds": round(facts.seconds, 1),
            "arguments_MiB": round(facts.arguments / _MIB),
            "temporaries_MiB": round(facts.temporaries / _MIB),
            "peak_MiB": round(stats["peak_bytes_in_use"] / _MIB) if stats else "",
            "ms_min": round(1e3 * min(seconds), 2),
            "ms_median": round(1e3 * median, 2),
            "tflop_per_second": float(f"{work / median / 1e12:.3g}"),
            "kernels": _counted(facts.kernels),
        }


_KEY_HERE = ("device", "size", "dtype", "split", "lanes", "rows", "remat")
HERE = (
    *_KEY_HERE,
    "fits",
    "compile_seconds",
    "arguments_MiB",
    "temporaries_MiB",
    "peak_MiB",
    "ms_min",
    "ms_median",
    "tflop_per_second",
    "kernels",
)


def _kept(case: Case) -> float:
    """About how much a program keeps for its backward pass, to put programs in order."""
    config = case.config(1)
    vectors = case.lanes * config.data.batch_size * config.model.context * config.model.n_layers * config.model.d_model
    return vectors * (0.1 if case.remat else 1) * (2 if case.dtype == "float32" else 1)


def _seconds_per_update(program: programs.Program, at_least: float) -> list[float]:
    """Seconds per update of each call of a training, after two calls that are not counted."""
    n_steps, rng = program.rows_shape[1], np.random.default_rng(0)
    tokens = rng.integers(4, 200, program.rows_shape).astype(np.int32)  # of every vocabulary; no special ones
    rows = program.rows(lambda lanes, rows: tokens[lanes, :, rows])
    state, seconds = program.init(), []
    while len(seconds) < 3 or sum(seconds[2:]) * n_steps < at_least:
        begin = time.perf_counter()
        state, metrics = program.train(state, rows, n_steps)
        jax.block_until_ready((state, metrics))
        seconds.append((time.perf_counter() - begin) / n_steps)
    return seconds[2:]


def _counted(kernels: Mapping[str, int]) -> str:
    return "; ".join(f"{number} {name}" for name, number in kernels.items())


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """What one asks first: a row per program, with memory on a device and the bound on the time of an update."""
    shown = Table("target", "program", "fits", "GiB", "of memory", "at least", "kernels and collectives", box=None)
    for row in rows:  # of numbers, or of a file's text
        mib = [row[f"{kind}_MiB"] for kind in ("arguments", "temporaries", "code")]
        size = "" if "" in mib else f"{sum(map(float, mib)) / 1024:.1f}"
        share = "" if row["share_of_memory"] == "" else f"{float(row['share_of_memory']):.0%}"
        bound = "" if row["roofline_ms"] == "" else f"{float(row['roofline_ms']):g} ms"
        notes = "; ".join(filter(None, (row["kernels"], row["collectives"])))
        shown.add_row(f"{row['target']}:{row['devices']}", named(row), row["fits"], size, share, bound, notes)
    return shown


def named(row: Mapping[str, Any]) -> str:
    """The program of a row of either table, in words."""
    parts = [row.get("function", "train"), row["size"], row["dtype"]]
    parts += [f"{row['lanes']} lanes"] if int(row["lanes"]) > 1 else []
    parts += [row["split"]] if int(row.get("devices", 1)) > 1 else []
    return " ".join(parts + ["remat"] * (str(row["remat"]) == "True"))
