"""Training speed of one run, against transformers' GPT-2 on PyTorch and the machine's own matrix products."""

import dataclasses
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from actlab import models
from actlab.bench import peer
from actlab.bench.timing import Contender, take_turns
from actlab.config import Config, replace
from actlab.training.cohort import Cohort, lane_of

CONTEXT = 128


@dataclasses.dataclass(frozen=True)
class Shape:
    """A model and a batch, six layers deep, 128 tokens long."""

    name: str
    d_model: int
    n_heads: int
    vocab_size: int
    batch_size: int
    n_steps: int  # per measured call, which is also ours per compiled call

    @property
    def config(self) -> Config:
        """The schema's defaults but for the shape."""
        return replace(
            Config(),
            **{
                "model.d_model": self.d_model,
                "model.n_heads": self.n_heads,
                "model.vocab_size": self.vocab_size,
                "model.use_bias": True,  # as the peer
                "data.batch_size": self.batch_size,
                "train.steps_per_call": self.n_steps,
            },
        )


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("1.3M", 128, 4, 512, 8, 8),
        Shape("10.7M", 384, 6, 256, 16, 8),
        Shape("30M", 384, 6, 50_304, 16, 4),
    )
}


def measure(names: Sequence[str], repetitions: int) -> Iterator[dict[str, Any]]:
    """A row per shape and contender, with tokens/s as minimum, median and maximum over repetitions."""
    for shape in (SHAPES[name] for name in names):
        product, operations = matmul(shape)
        contenders = {"actlab": ours(shape), **peer.contenders(shape)}
        seconds = take_turns({"product": product, **contenders}, repetitions)
        peak = operations / min(seconds.pop("product"))
        flops = models.costs(models.build(shape.config.model)).flops_per_token
        for name, taken in seconds.items():
            yield _row(shape, name, taken, flops, peak)


def _row(shape: Shape, contender: str, seconds: list[float], flops_per_token: int, peak: float) -> dict[str, Any]:
    tokens = shape.batch_size * CONTEXT
    median = tokens / statistics.median(seconds)
    return {
        "shape": shape.name,
        "contender": contender,
        "tokens_per_second_min": round(tokens / max(seconds)),
        "tokens_per_second_median": round(median),
        "tokens_per_second_max": round(tokens / min(seconds)),
        "gflops": round(median * flops_per_token / 1e9, 1),
        "share_of_matmul_peak": round(median * flops_per_token / peak, 3),
        "repetitions": len(seconds),
    }


def ours(shape: Shape) -> Contender:
    """Our trainer as the loop drives it: one lane, several steps per call."""
    config = shape.config
    cohort = Cohort(models.build(config.model), config, [lane_of(config)])
    size = (1, shape.n_steps, shape.batch_size, CONTEXT + 1)
    windows_RKBL = np.random.default_rng(0).integers(0, shape.vocab_size, size).astype(np.int32)
    state, windows = cohort.init(), cohort.windows(lambda lanes, rows: windows_RKBL[lanes, :, rows])

    def run() -> float:
        nonlocal state
        begin = time.perf_counter()
        state, metrics = cohort.train(state, windows, shape.n_steps)
        jax.block_until_ready((state, metrics))
        return (time.perf_counter() - begin) / shape.n_steps

    return run


def matmul(shape: Shape) -> tuple[Contender, int]:
    """The feed-forward's product alone, [T, D] @ [D, 4D], eleven times; and the FLOPs of the eleven."""
    rows, width = shape.batch_size * CONTEXT, shape.d_model
    x, w = jnp.ones((rows, width)), jnp.ones((width, 4 * width))
    # The sum of the rows' products keeps the compiler from leaving one out.
    product = jax.jit(lambda x, w: jax.lax.fori_loop(0, 10, lambda i, y: (x + y[0, 0] * 1e-9) @ w, x @ w))

    def run() -> float:
        begin = time.perf_counter()
        product(x, w).block_until_ready()
        return time.perf_counter() - begin

    return run, 11 * 2 * rows * width * 4 * width
