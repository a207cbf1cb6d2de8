"""Cost of activations relative to ReLU: time alone and inside a feed-forward layer, and the compiler's own counts.

A random activation is timed as an evaluation has it, without its draws.
"""

import dataclasses
import importlib.metadata
import itertools
import math
import platform
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from actlab import models
from actlab.activations import Activation, get
from actlab.bench.timing import Contender, device_name, ratio_interval, repeated, take_turns
from actlab.config import ModelConfig
from actlab.models import layers

SETTINGS = ("alone", "feed_forward")
PASSES = ("forward", "forward_backward")
DTYPES = ("float32", "bfloat16", "float16")
TURN_SECONDS = 5e-3
REFERENCE = "relu"

Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Size:
    """`tokens` times `width`, the width F of a plain feed-forward layer."""

    tokens: int
    width: int

    def __str__(self) -> str:
        return f"{self.tokens}x{self.width}"


@dataclasses.dataclass(frozen=True)
class Case:
    """What is measured of every activation in turn."""

    size: Size
    dtype: str
    setting: str
    passes: str


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A compiled contender, the hidden width it has, and the compiler's counts per call."""

    run: Contender
    width: int
    flops: float
    transcendentals: float


def default_sizes() -> tuple[Size, ...]:
    """On CPU one size that 2 cores measure in minutes; on an accelerator 8192 tokens at three widths."""
    if jax.default_backend() == "cpu":
        return (Size(2048, 1536),)
    return tuple(Size(8192, width) for width in (1536, 3072, 12288))


def cases(dtypes: Sequence[str], sizes: Sequence[Size]) -> tuple[Case, ...]:
    """Every combination with the two settings and the two passes.

    alone             fn(z), gated fn(z) * value_fn(v), of arrays [tokens, F]
    feed_forward      the decoder's layer, jitted, at d_model = F/4; gated ones at F' = 2F/3 to the multiple of 8
    forward           the output
    forward_backward  the output and the gradients with respect to all inputs and trained numbers
    """
    return tuple(itertools.starmap(Case, itertools.product(sizes, dtypes, SETTINGS, PASSES)))


def measure(names: Sequence[str], cases: Sequence[Case], repetitions: int) -> Iterator[dict[str, Any]]:
    """A row per case and activation: milliseconds, their ratio to ReLU's, and counts per hidden element.

    Each activation takes turns with ReLU only, so that the two share every repetition. ReLU has a row too: how far its
    ratio to itself is from 1 tells how far the others can be trusted.
    """
    for case in cases:
        relu = _program(case, get(REFERENCE))
        for name in names:
            program = _program(case, get(name))
            seconds = take_turns({"relu": relu.run, "activation": program.run}, repetitions)
            yield _row(case, name, program, seconds["activation"], seconds["relu"])


def _row(case: Case, name: str, program: Compiled, seconds: list[float], relu: list[float]) -> dict[str, Any]:
    ratio, low, high = ratio_interval(seconds, relu)
    elements = case.size.tokens * program.width
    packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("jax", "jaxlib"))
    return {
        "setting": case.setting,
        "pass": case.passes,
        "dtype": case.dtype,
        "activation": name,
        "size": str(case.size),
        "hidden_width": program.width,
        "milliseconds": round(1e3 * statistics.median(seconds), 4),
        "relu_milliseconds": round(1e3 * statistics.median(relu), 4),
        "ratio": round(ratio, 3),
        "ratio_low": round(low, 3),
        "ratio_high": round(high, 3),
        "flops_per_element": round(program.flops / elements, 3),
        "transcendentals_per_element": round(program.transcendentals / elements, 3),
        "repetitions": len(seconds),
        "device": device_name(),
        "versions": f"{packages}, Python {platform.python_version()}",
    }


def _program(case: Case, activation: Activation) -> Compiled:
    fn, inputs, width = (_alone if case.setting == "alone" else _feed_forward)(case, activation)
    if case.passes == "forward_backward":
        fn, inputs = _with_gradients(fn, inputs)
    return _compile(fn, inputs, width)


def _alone(case: Case, activation: Activation) -> tuple[Function, tuple[Any, ...], int]:
    theta = {name: jnp.float32(start) for name, start in activation.theta.items()}

    def fn(theta: dict[str, jax.Array], pre: jax.Array, *value: jax.Array) -> jax.Array:
        out = activation.fn(pre, **theta)
        return out * activation.value_fn(*value) if activation.gated else out

    shape = (case.size.tokens, case.size.width)
    arrays = (_normal(shape, case.dtype, seed) for seed in range(2 if activation.gated else 1))
    return fn, (theta, *arrays), case.size.width


def _feed_forward(case: Case, activation: Activation) -> tuple[Function, tuple[Any, ...], int]:
    width = case.size.width
    config = ModelConfig(activation=activation.name, d_model=width // 4, n_heads=1, d_ff=width, vocab_size=2)
    spec = models.build(config, jnp.dtype(case.dtype)).spec
    layer = layers.FeedForward(spec)
    x_TD = _normal((case.size.tokens, spec.d_model), "float32", 0)  # as it comes from the norm before it
    params = jax.jit(layer.init)(jax.random.key(1), x_TD)["params"]
    return (lambda params, x_TD: layer.apply({"params": params}, x_TD)[0]), (params, x_TD), spec.d_hidden


def _with_gradients(fn: Function, inputs: tuple[Any, ...]) -> tuple[Function, tuple[Any, ...]]:
    def both(cotangent: jax.Array, *inputs: Any) -> tuple[jax.Array, Any]:
        out, pull = jax.vjp(fn, *inputs)
        return out, pull(cotangent)

    out = jax.eval_shape(fn, *inputs)
    return both, (_normal(out.shape, out.dtype, 2), *inputs)


def _compile(fn: Function, inputs: tuple[Any, ...], width: int) -> Compiled:
    out = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(fn, *inputs))
    # Each call writes into the buffers of the previous call, as in a training step. Allocating new memory would cost
    # more than most activations.
    jitted = jax.jit(lambda inputs, out: fn(*inputs), donate_argnums=1, keep_unused=True)
    program = jitted.lower(inputs, out).compile()

    def call() -> None:
        nonlocal out
        out = jax.block_until_ready(program(inputs, out))

    return Compiled(repeated(call, TURN_SECONDS), width, *_counts(program))


def _counts(program: jax.stages.Compiled) -> Iterator[float]:
    counts = program.cost_analysis()
    for kind in ("flops", "transcendentals"):
        # A count of zero has no key; a compiler that does not count gives None.
        yield math.nan if counts is None else counts.get(kind, 0.0)


def _normal(shape: tuple[int, ...], dtype: Any, seed: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape).astype(dtype)
