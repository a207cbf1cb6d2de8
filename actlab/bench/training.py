"""Training speed of one run and of six lanes, compared with decoders on PyTorch and a matrix product."""

import dataclasses
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from actlab import models
from actlab.bench.shapes import SHAPES, Shape
from actlab.bench.timing import Contender, device_name, take_turns
from actlab.training import devices, programs
from actlab.training.devices import compute_dtype
from actlab.training.programs import lane_of

N_LANES = 6
_SECONDS = 0.3  # of a turn's counted calls, at least


def default_names() -> list[str]:
    """All shapes; on a CPU none that would take an hour."""
    return [name for name in SHAPES if name != "124M" or jax.default_backend() != "cpu"]


def measure(
    names: Sequence[str], repetitions: int, progress: Callable[[str], None] = lambda line: None
) -> Iterator[dict[str, Any]]:
    """A row per shape and contender, with tokens/s as minimum, median and maximum over repetitions.

    Products are in float32 on a CPU and in bfloat16 elsewhere. The first call of a turn is not counted. Six lanes count
    all their tokens. Ratios compare turns in the same repetition; one run of ours is the reference. What does not fit
    into the device's memory has a row without numbers. `progress` is told of each turn, which may take minutes.
    """
    dtype = "float32" if jax.default_backend() == "cpu" else "bfloat16"
    for shape in (dataclasses.replace(SHAPES[name], dtype=dtype) for name in names):
        product = devices.product_of(shape.config)
        progress(f"compiling {shape.name}")
        contenders = {"actlab": ours(shape), "actlab, 6 lanes": ours(shape, N_LANES), **peers(shape)}
        turns = {name: _after_the_first(run) for name, run in contenders.items() if _fits(run)}
        turned = lambda turn, name=shape.name: progress(f"{name}: turn {turn} of {repetitions} is done")
        seconds = take_turns({"product": devices.timed_product(product), **turns}, repetitions, turned)
        most = product.flops / min(seconds.pop("product"))
        flops = models.costs(models.build(shape.config.model)).flops_per_token
        for name in contenders:
            numbers = dict.fromkeys(_NUMBERS, "")
            if name in seconds:
                numbers = _numbers(shape, seconds[name], seconds.get("actlab"), flops, most)
            about = {"shape": shape.name, "contender": name, "dtype": shape.dtype}
            yield about | numbers | {"repetitions": len(seconds.get(name, ())), "device": device_name()}


_NUMBERS = (
    "tokens_per_second_min",
    "tokens_per_second_median",
    "tokens_per_second_max",
    "speed_over_actlab_min",
    "speed_over_actlab_median",
    "speed_over_actlab_max",
    "gflops",
    "share_of_matmul_peak",
)


def _numbers(
    shape: Shape, seconds: list[float], solo: list[float] | None, flops_per_token: int, peak: float
) -> dict[str, Any]:
    tokens = shape.batch_size * shape.context
    median = tokens / statistics.median(seconds)
    ratios: list[Any] = ["", "", ""]
    if solo is not None:
        of_turns = [alone / taken for alone, taken in zip(solo, seconds, strict=True)]
        ratios = [round(of(of_turns), 3) for of in (min, statistics.median, max)]
    speeds = [round(tokens / taken) for taken in (max(seconds), statistics.median(seconds), min(seconds))]
    gflops = round(median * flops_per_token / 1e9, 1)
    return dict(zip(_NUMBERS, [*speeds, *ratios, gflops, round(median * flops_per_token / peak, 3)], strict=True))


def _fits(run: Contender) -> bool:
    """Whether a contender's first call finds memory."""
    try:
        run()
    except RuntimeError as error:
        # PyTorch's error is its own, and it need not be installed.
        if devices.is_out_of_memory(error) or type(error).__name__ == "OutOfMemoryError":
            return False
        raise
    return True


def _after_the_first(run: Contender) -> Contender:
    # A virtual machine may have given its host the memory that a contender freed in its last turn; a training, which
    # calls its program without a pause, does not wait for it. A call of milliseconds, as on a GPU, is repeated.
    def turn() -> float:
        run()
        begin = time.perf_counter()
        seconds = [run()]
        while time.perf_counter() - begin < _SECONDS:
            seconds.append(run())
        return statistics.fmean(seconds)

    return turn


def ours(shape: Shape, n_lanes: int = 1) -> Contender:
    """Our trainer as the loop drives it, several steps per call; seconds per step and lane."""
    config = shape.config
    lanes = [lane_of(config)._replace(seed=seed) for seed in range(n_lanes)]
    program = programs.build(models.build(config.model, compute_dtype(config)), config, lanes)
    size = (n_lanes, shape.n_steps, shape.batch_size, shape.context + 1)
    windows_RKBL = np.random.default_rng(0).integers(0, shape.vocab_size, size).astype(np.int32)
    state, windows = program.init(), program.rows(lambda lanes, rows: windows_RKBL[lanes, :, rows])

    def run() -> float:
        nonlocal state
        begin = time.perf_counter()
        state, metrics = program.train(state, windows, shape.n_steps)
        jax.block_until_ready((state, metrics))
        return (time.perf_counter() - begin) / shape.n_steps / n_lanes

    return run


def peers(shape: Shape) -> dict[str, Contender]:
    """GPT-2 and a plain decoder on PyTorch; empty without the `reference` extra, or where it lacks the device."""
    if not (importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")):
        return {}
    from actlab.bench import peer

    device = peer.device_like(jax.default_backend())
    return peer.contenders(shape, device) if device else {}
