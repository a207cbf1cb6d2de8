"""Devices that need not be here: their compilers run without them, and say what a program takes there.

What a device is stands here as plain data, so that a flag can be checked before jax is imported. GPUs are described to
XLA by their facts (NVIDIA's data sheets and the CUDA programming guide's table of compute capabilities), TPUs by the
name of a topology, which libtpu knows.
"""

import collections
import dataclasses
import importlib.util
import math
import os
import re
import time
from collections.abc import Mapping
from typing import Any

from actlab.errors import UserError, suggestion

# Set before jax is imported: neither compiler looks for its devices then, and nothing is computed but on the CPU.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # which a lock file otherwise forbids, and a killed process leaves
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
}
_COMPILERS = {"cuda": "jax_cuda13_plugin", "tpu": "libtpu"}


@dataclasses.dataclass(frozen=True)
class Target:
    """A number of devices of one kind.

    Memory and speeds are those of one device. Speeds are the maker's: `flops`, by `train.dtype`, in FLOP/s of matrix
    products, `bandwidth` in bytes/s. `layouts` name, by the number of devices, how they are connected.
    """

    name: str
    platform: str  # of jax, and the extra that brings its compiler: cuda or tpu
    memory: int  # bytes
    bandwidth: float
    flops: Mapping[str, float]
    layouts: Mapping[int, str]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    number: int = 1

    @property
    def usable(self) -> int:
        """Bytes that jax takes: by default three quarters of a GPU's memory, all of a TPU's."""
        return self.memory * 3 // 4 if self.platform == "cuda" else self.memory

    def roofline(self, dtype: str, flops: float, facts: "Facts") -> float:
        """Seconds that a call takes at least, if every product ran at the peak and memory at its full speed.

        `flops` are those of a device. Where the compiler does not count bytes, arguments are read once and temporaries
        written and read once.
        """
        least = facts.arguments + facts.outputs + 2 * facts.temporaries
        return max(flops / self.flops[dtype], (least if facts.accessed is None else facts.accessed) / self.bandwidth)

    def require_compiler(self) -> None:
        """Raises UserError if the compiler is not installed."""
        if importlib.util.find_spec(_COMPILERS[self.platform]) is None:
            extra = f"'.[{self.platform}]'"
            raise UserError(f"no compiler for {self.name} is installed: pip install -c constraints.txt -e {extra}.")

    def devices(self) -> list[Any]:
        """The devices, to compile for; they cannot compute. Raises UserError if the compiler is not installed."""
        self.require_compiler()
        from jax.experimental import topologies

        name = self.layouts[self.number]
        if self.platform == "cuda":
            return topologies.get_topology_desc("", "cuda", topology=name, **self.options).devices
        # A host has four chips, but for a single one.
        single = {"chips_per_host_bounds": (1, 1, 1)} if self.number == 1 else {}
        return topologies.get_topology_desc(name, "tpu", **self.options, **single).devices


def _tpu(flops: float) -> dict[str, float]:
    # A matrix unit takes bfloat16; products of float32 are sums of six such, and three with a shorter tail.
    return {"bfloat16": flops, "tensorfloat32": flops / 3, "float32": flops / 6}


# XLA's description of a GPU, the fields of stream_executor's DeviceDescription.
_NVIDIA = {
    "threads_per_warp": 32,
    "threads_per_block_limit": 1024,
    "threads_per_core_limit": 2048,
    "registers_per_core_limit": 65_536,
    "registers_per_block_limit": 65_536,
    "shared_memory_per_block": 49_152,
    "block_dim_limit_x": 2**31 - 1,
    "block_dim_limit_y": 65_535,
    "block_dim_limit_z": 65_535,
    "thread_dim_limit_x": 1024,
    "thread_dim_limit_y": 1024,
    "thread_dim_limit_z": 64,
}
# Of the shared memory of a core, 1 KiB of each block is the system's.
_HOPPER = {
    **_NVIDIA,
    "core_count": 132,
    "fpus_per_core": 128,
    "shared_memory_per_core": 233_472,
    "shared_memory_per_block_optin": 232_448,
    "l2_cache_size": 52_428_800,
    "clock_rate_ghz": 1.98,
    "cuda_compute_capability": "{ major: 9 feature_extension: ACCELERATED_FEATURES }",
}
_AMPERE = {
    **_NVIDIA,
    "core_count": 108,
    "fpus_per_core": 64,
    "shared_memory_per_core": 167_936,
    "shared_memory_per_block_optin": 166_912,
    "l2_cache_size": 41_943_040,
    "clock_rate_ghz": 1.41,
    "cuda_compute_capability": "{ major: 8 }",
}
_HOPPER_FLOPS = {"bfloat16": 989e12, "tensorfloat32": 495e12, "float32": 67e12}
_AMPERE_FLOPS = {"bfloat16": 312e12, "tensorfloat32": 156e12, "float32": 19.5e12}
_GPUS = {1: "1x1x1", 4: "1x1x4", 8: "1x1x8", 16: "1x2x8"}  # slices, hosts, devices of each
_FLAT, _CUBE = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4"}, {1: "1x1x1", 4: "2x2x1", 8: "2x2x2", 16: "2x2x4"}


def _gpu(name: str, chip: Mapping[str, Any], flops: Mapping[str, float], memory: int, bandwidth: float) -> Target:
    facts = {**chip, "device_memory_size": memory, "memory_bandwidth": round(bandwidth)}
    text = " ".join(f"{field}: {value}" for field, value in facts.items()).replace(": {", " {")
    config = f'gpu_device_info {{ {text} }} platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 10 }}'
    return Target(name, "cuda", memory, bandwidth, flops, _GPUS, {"target_config": config})


def _chips(version: str, layouts: dict[int, str]) -> dict[int, str]:
    return {number: f"{version}:{layout}" for number, layout in layouts.items()}


TARGETS = {
    target.name: target
    for target in (
        _gpu("h100", _HOPPER, _HOPPER_FLOPS, 84_942_979_072, 3.35e12),
        _gpu("h200", _HOPPER, _HOPPER_FLOPS, 151_397_597_184, 4.8e12),
        _gpu("a100", _AMPERE, _AMPERE_FLOPS, 85_100_068_864, 2.04e12),
        # Both cores of a v4 chip are one device.
        Target("v4", "tpu", 2**35, 1.2e12, _tpu(275e12), _chips("v4", _CUBE), {"chip_config_name": "megacore"}),
        Target("v5e", "tpu", 2**34, 0.82e12, _tpu(197e12), _chips("v5e", _FLAT)),
        Target("v6e", "tpu", 2**35, 1.64e12, _tpu(918e12), _chips("v6e", _FLAT)),
    )
}


def parse(text: str, flag: str = "--target") -> Target:
    """A target from a flag's "h100" or "v5e:8".

    Raises:
        UserError: for an unknown target or number.
    """
    name, colon, number = text.partition(":")
    if name not in TARGETS:
        raise UserError(f"unknown {flag}={text!r}: {suggestion(name, TARGETS)}")
    target = TARGETS[name]
    if colon and number not in map(str, target.layouts):
        raise UserError(f"{flag}={text}: {name} is known with {', '.join(map(str, target.layouts))} devices.")
    return dataclasses.replace(target, number=int(number or 1))


def prepare() -> None:
    """Sets the environment in which compilers start without their devices; before jax is imported."""
    os.environ.update(ENVIRONMENT)


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a compiler says of one function on one of the devices.

    Bytes are of one device. `flops` and `accessed` (bytes read and written) are the compiler's own count, with the body
    of a loop once; None where it has none (XLA for GPUs). `collectives` has (kind, number, bytes).
    """

    seconds: float
    arguments: int
    temporaries: int
    outputs: int  # beside those in donated arguments
    code: int
    flops: float | None
    accessed: float | None
    kernels: Mapping[str, int]
    collectives: tuple[tuple[str, int, int], ...]

    @property
    def memory(self) -> int:
        """Bytes on a device while the function runs."""
        return self.arguments + self.temporaries + self.outputs + self.code


def compiled_facts(lowered: Any) -> Facts:
    """Compiles a lowered function for the devices it was lowered for, and reads what the compiler says of it."""
    begin = time.perf_counter()
    compiled = lowered.compile()
    return facts_of(compiled, time.perf_counter() - begin)


def facts_of(compiled: Any, seconds: float) -> Facts:
    """What the compiler says of a function that took so many seconds to compile."""
    need, cost, text = compiled.memory_analysis(), compiled.cost_analysis() or {}, compiled.as_text()
    return Facts(
        seconds,
        need.argument_size_in_bytes,
        need.temp_size_in_bytes,
        need.output_size_in_bytes - need.alias_size_in_bytes,
        need.generated_code_size_in_bytes,
        cost.get("flops"),
        cost.get("bytes accessed"),
        _kernels(text),
        collectives(text),
    )


_KERNELS = {
    "cuDNN attention": r'custom_call_target="__cudnn\$fmha',
    "cuBLAS product": r'custom_call_target="__cublas',
    "Triton product": r'"kind":"__triton_(?:nested_)?gemm',
    "Pallas kernel": r'custom_call_target="tpu_custom_call"',
}
_COLLECTIVE = re.compile(
    r" = (\(?[^=]*?) (all-reduce|all-gather|reduce-scatter|collective-permute|all-to-all)(-start)?\("
)
_CHANNEL = re.compile(r"channel_id=(\d+)")
_ARRAY = re.compile(r"\b(pred|[suf]\d+|bf16)\[([\d,]*)\]")


def _kernels(text: str) -> dict[str, int]:
    counts = {name: len(re.findall(pattern, text)) for name, pattern in _KERNELS.items()}
    return {name: count for name, count in counts.items() if count}


def collectives(text: str) -> tuple[tuple[str, int, int], ...]:
    """Kind, number and bytes of results of the collectives in a compiled program's text; those of a loop count once.

    An asynchronous one repeats its operand before its result. A TPU's compiler repeats one, with its channel, in each
    computation that it overlaps with.
    """
    found: dict[str, list[int]] = collections.defaultdict(list)
    channels = set()
    for line in re.sub(r"/\*.*?\*/", "", text).splitlines():
        match, channel = _COLLECTIVE.search(line), _CHANNEL.search(line)
        if match is None or (channel and channel[1] in channels):
            continue
        channels |= {channel[1]} if channel else set()
        shapes, kind, starts = match.groups()
        sizes = [_bytes(*array) for array in _ARRAY.findall(shapes)]
        # all-reduce-start has results only; the others a tuple of operands and one of results.
        found[kind].append(sum(sizes[len(sizes) // 2 :]) if starts and kind != "all-reduce" else sum(sizes))
    return tuple((kind, len(sizes), sum(sizes)) for kind, sizes in sorted(found.items()))


def _bytes(dtype: str, shape: str) -> int:
    bits = 8 if dtype == "pred" else int(re.sub(r"\D", "", dtype))
    return math.prod(int(size) for size in shape.split(",") if size) * bits // 8
