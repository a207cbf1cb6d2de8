"""Devices: processes that train together, the mesh and shardings of a program, precision, memory, peak speed."""

import contextlib
import functools
import itertools
import math
import os
import pathlib
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from actlab.config import Config, DevicesConfig
from actlab.errors import UserError

# JAX detects SLURM, Open MPI and Cloud TPU itself; this variable is for other launchers, or set by hand.
COORDINATOR = "JAX_COORDINATOR_ADDRESS"
BATCH = ("data", "fsdp")  # the mesh axes that the batch is split along
CGROUP = pathlib.Path("/sys/fs/cgroup")
OWN_CGROUP = pathlib.Path("/proc/self/cgroup")  # lines like 0::/system.slice/job_7, of version 1 9:memory:/job_7
# What a container may take, what it has taken, and how much of that are files that the kernel gives back: of version 2,
# and of version 1.
LIMITS = (
    ("", "memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat", "total_inactive_file"),
)
RESERVE = 0.1  # share of memory left for evaluation, checkpoints and fragmentation
_REPEATS = 14  # products in one timed call, an even number
_SECONDS = 0.1  # of a measurement of the peak
_FILLING = 2**36  # multiplications of a product that fills a GPU or TPU, 0.2 ms of an H200
_HEARTBEAT = 30  # seconds until a process that is silent counts as lost


def join_processes() -> None:
    """Joins the other processes of this run, if there are any; must come before JAX's first computation.

    Raises:
        UserError: for environment variables that are not an address or a number, or that JAX refuses.
    """

    def number(name: str, low: int, high: int = 10**6) -> int | None:
        text = os.environ.get(name, "").strip()
        if text and not (re.fullmatch(r"[0-9]{1,7}", text) and low <= int(text) <= high):
            raise UserError(f"{name}={text!r} is not a whole number from {low} to {high:,}: correct it, or unset it.")
        return int(text) if text else None

    if address := os.environ.get(COORDINATOR):
        if not re.fullmatch(r"\S+:[0-9]{1,5}", address):
            raise UserError(f"{COORDINATOR}={address!r} is not a host and a port: write it like 10.0.0.1:1234.")
        n_processes = number("JAX_NUM_PROCESSES", 1)
        process = number("JAX_PROCESS_ID", 0, (n_processes or 10**6) - 1)
        try:
            jax.distributed.initialize(
                num_processes=n_processes, process_id=process, heartbeat_timeout_seconds=_HEARTBEAT
            )
        except ValueError as error:  # numbers that are missing, and of which no cluster says anything
            raise UserError(f"{COORDINATOR}={address!r}: {error} Set JAX_NUM_PROCESSES and JAX_PROCESS_ID.") from error
    elif (number("JAX_NUM_PROCESSES", 1) or 1) > 1:
        raise UserError(
            f"JAX_NUM_PROCESSES={os.environ['JAX_NUM_PROCESSES']} is set without {COORDINATOR}: set that too, to the "
            "host and port of process 0, or unset both."
        )
    # The tasks of the step (srun), not of the allocation: a script or shell that was given several tasks but does not
    # use srun is one process, and would wait for others that nobody starts.
    elif (number("SLURM_STEP_NUM_TASKS", 1) or 1) > 1:
        jax.distributed.initialize(heartbeat_timeout_seconds=_HEARTBEAT)


def wait_for_processes(name: str) -> None:
    """A barrier: returns when every process has come to the one of this name; at once where there is one process."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


def make_mesh(devices: DevicesConfig, n_lanes: int, batch_size: int, available: Sequence[Any] | None = None) -> Mesh:
    """The mesh of a program, with axes lane, data and fsdp; open sizes take as many devices as divide lanes and batch.

    `available` are the devices to take from, by default all that this process sees.

    Raises:
        UserError: for more devices than there are, or sizes that do not divide lanes or batch.
    """
    available = jax.devices() if available is None else available
    n_devices = len(available)
    free = n_devices // devices.fsdp
    # As many devices as possible; of equally many lanes first: they never communicate, while a batch that is split sums
    # its gradients over devices in every step.
    n_lane, n_data = max(
        itertools.product(
            [devices.lane] if devices.lane else _divisors(n_lanes),
            [devices.data] if devices.data else _divisors(batch_size // devices.fsdp),
        ),
        key=lambda sizes: (math.prod(sizes) if math.prod(sizes) <= free else -math.prod(sizes), sizes[0]),
    )
    asked = n_lane * n_data * devices.fsdp
    if asked > n_devices:
        raise UserError(
            f"config.devices asks for {n_lane} lane x {n_data} data x {devices.fsdp} fsdp = {asked} devices, "
            f"but there are {n_devices}: lower one of them."
        )
    if n_lanes % n_lane:
        raise UserError(f"config.devices.lane={n_lane} does not divide the {n_lanes} lanes: set it to a divisor.")
    if batch_size % (n_data * devices.fsdp):
        raise UserError(
            f"config.devices.data={n_data} times config.devices.fsdp={devices.fsdp} does not divide "
            f"config.data.batch_size={batch_size}: change one of them."
        )
    shape = (n_lane, n_data, devices.fsdp)
    return Mesh(np.array(available[:asked]).reshape(shape), ("lane", *BATCH), axis_types=(AxisType.Auto,) * 3)


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0] or [1]


def idle_devices(mesh: Mesh, n_lanes: int, batch_size: int) -> str | None:
    """A warning about devices outside the mesh; None where all are in use.

    Raises:
        UserError: if all devices of one process are idle, since it could not take part in the collectives.
    """
    n_devices, n_used = jax.device_count(), mesh.size
    if n_used == n_devices:
        return None
    words = f"{n_lanes} lanes and config.data.batch_size={batch_size} occupy {n_used} of {n_devices} devices"
    if {device.process_index for device in mesh.devices.flat} != set(range(jax.process_count())):
        raise UserError(
            f"{words}, and one of the {jax.process_count()} processes has none of them: choose a batch size that the "
            "number of devices divides, leave config.devices open, or start fewer processes."
        )
    return words


def sharding(mesh: Mesh, *axes: str | tuple[str, ...] | None) -> NamedSharding:
    """An array's axes split along these axes of the mesh; every device holds a whole copy of what is not split."""
    return NamedSharding(mesh, PartitionSpec(*axes))


def state_shardings(mesh: Mesh, state: Any) -> Any:
    """Shardings of arrays [R, ...]: along lanes, and along fsdp at the longest axis that it divides."""

    def sharded(path: Any, leaf: Any) -> NamedSharding:
        is_table = any(str(getattr(key, "key", "")).endswith("_embedding") for key in path)
        return NamedSharding(mesh, _state_spec(mesh.shape["fsdp"], leaf.shape, is_table))

    return jax.tree_util.tree_map_with_path(sharded, state)


def _state_spec(n_fsdp: int, shape: tuple[int, ...], is_table: bool = False) -> PartitionSpec:
    axes: list[str | None] = ["lane", *(None for _ in shape[1:])]
    # Norms and biases stay whole: they are small, and gathering them costs more than it saves. Tables of embeddings are
    # split at their entries or not at all: XLA copies [B, L, D] to every device where vectors are in parts.
    divisible = [axis for axis in range(1, len(shape)) if len(shape) > 2 and shape[axis] % n_fsdp == 0]
    divisible = [axis for axis in divisible if axis == 1 or not is_table]
    if n_fsdp > 1 and divisible:
        axes[max(divisible, key=lambda axis: shape[axis])] = "fsdp"
    return PartitionSpec(*axes)


def maps_lanes(config: Config, mesh: Mesh) -> bool:
    """Whether lanes run one after the other instead of side by side.

    On CPU they do, unless the config says otherwise: batched products are 1.6 times slower there.
    """
    by = config.devices.lanes_by
    return by == "map" or (by == "auto" and mesh.devices.flat[0].platform == "cpu")


def compute_dtype(config: Config) -> np.dtype:
    """The dtype of arrays in matrix products; tensorfloat32 is stored as float32."""
    return jnp.dtype("float32" if config.train.dtype == "tensorfloat32" else config.train.dtype)


def product_precision(config: Config) -> str:
    """JAX's matmul precision; by default a GPU or TPU rounds the inputs of float32 products to fewer bits."""
    return "tensorfloat32" if config.train.dtype == "tensorfloat32" else "float32"


class MemoryNeed(NamedTuple):
    """Bytes per device of a program with one lane: kept between calls (state), and temporary during one (work).

    `copies` is how often the states of all lanes are there: twice where a checkpoint is written from a copy beside.
    `together` is the work memory of a lane side by side with others over that of one alone.
    """

    state: int
    work: int
    copies: int = 1
    together: float = 1.0

    def on(self, platform: str, kernels_together: bool = False) -> "MemoryNeed":
        """The need on devices of a platform: of a CPU, whose memory is the host's, with the copy of a checkpoint."""
        # Kernels side by side share less memory: those of 2 to 16 lanes take 1.04 to 1.25 times as much a lane as one,
        # by the compilers of A100 and H100.
        return self._replace(copies=2 if platform == "cpu" else 1, together=1.25 if kernels_together else 1.0)


def kernels_together(platform: str, n_devices: int, remat: bool) -> bool:
    """Whether kernels that do not need each other run side by side in training: on one GPU, but for `remat`.

    By default XLA starts them one after the other. Side by side they share less memory: temporaries are up to 1.5 times
    as large, and with remat as if nothing were computed again. On several GPUs it has not been run.
    """
    return platform == "gpu" and n_devices == 1 and not remat


def memory_need(compiled: Any) -> MemoryNeed:
    """The need of a compiled training function with one lane, as the compiler reports it."""
    analysis = compiled.memory_analysis()
    # Donated buffers (aliases) are both argument and output, and are there once.
    kept = analysis.argument_size_in_bytes + analysis.output_size_in_bytes - analysis.alias_size_in_bytes
    return MemoryNeed(kept, analysis.temp_size_in_bytes)


def free_memory() -> int:
    """Free bytes of a device; simulated CPU devices share the host's free memory equally."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats["bytes_in_use"]
    host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    meminfo = pathlib.Path("/proc/meminfo")  # Linux: what programs can still take, caches included
    for line in meminfo.read_text().splitlines() if meminfo.exists() else ():
        if line.startswith("MemAvailable:"):
            host = int(line.split()[1]) * 1024
    # A container or a job may have less, and the kernel ends what takes more without a word.
    groups = {pathlib.PurePosixPath()}
    for line in OWN_CGROUP.read_text().splitlines() if OWN_CGROUP.exists() else ():
        group = pathlib.PurePosixPath(line.split(":", 2)[-1].lstrip("/"))
        groups |= {group, *group.parents}
    for (kind, *names, stat, cache), group in itertools.product(LIMITS, groups):
        folder = CGROUP / kind / group
        with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
            limit, used = (int((folder / name).read_text()) for name in names)
            with contextlib.suppress(OSError, ValueError):
                facts = dict(line.split() for line in (folder / stat).read_text().splitlines())
                used -= int(facts.get(cache, 0))
            host = min(host, max(0, limit - used))
    return host // jax.local_device_count()


def memory_of(one: MemoryNeed, n_lanes: int, by_map: bool) -> int:
    """Bytes of that many lanes on a device: side by side each needs its own work memory, by map they share one.

    By map the lane whose turn it is has a copy of its state beside.
    """
    kept = one.copies * one.state
    if by_map:
        return n_lanes * kept + one.work + (one.state if n_lanes > 1 else 0)
    return n_lanes * (kept + (int(one.together * one.work) if n_lanes > 1 else one.work))


def most_lanes(one: MemoryNeed, by_map: bool, free: int) -> int:
    """How many lanes fit on a device; one is always tried."""
    room = int(free * (1 - RESERVE))
    kept = one.copies * one.state
    fits = (room - one.work - one.state) // kept if by_map else room // (kept + int(one.together * one.work))
    return max(1, fits)


def split_lanes(n_lanes: int, most: int, multiple: int) -> list[int]:
    """Sizes of as few parts as possible, each at most `most` lanes, as equal as can be.

    Every size is a multiple of `multiple`, the number of devices along the lane axis, which divides n_lanes.
    """
    groups, most_groups = n_lanes // multiple, max(1, most // multiple)
    n_parts = -(-groups // most_groups)
    return [multiple * (groups // n_parts + (index < groups % n_parts)) for index in range(n_parts)]


def is_lost_process(error: Exception) -> bool:
    """Whether an error of JAX says that another process of this training has ended."""
    words = ("gloo", "nccl", "heartbeat", "unavailable", "connection", "coordination", "barrier")
    return jax.process_count() > 1 and any(word in str(error).lower() for word in words)


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error says that a device ran out of memory."""
    return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)


def one_lane_too_large(batch_size: int) -> UserError:
    """The error if even one lane does not fit."""
    return UserError(
        f"config.data.batch_size={batch_size} does not fit into the device's memory: lower it, config.model.context or "
        "the model's size, or stop other programs that use the device."
    )


class Product(NamedTuple):
    """The matrix products of a feed-forward, [T, D] @ [D, F] and back, in a dtype."""

    rows: int
    width: int
    hidden: int
    dtype: str
    precision: str

    @property
    def flops(self) -> int:
        """FLOPs of one timed call."""
        return _REPEATS * 2 * self.rows * self.width * self.hidden


def product_of(config: Config) -> Product:
    """The products of a config's plain feed-forward; on a GPU or TPU of as many rows as fill it."""
    rows, width = config.data.batch_size * config.model.context, config.model.d_model
    hidden = config.model.d_ff or 4 * width
    if jax.default_backend() != "cpu":
        # Products of a small model run at a fifth of an H200's peak, and lanes side by side faster than that.
        rows = max(rows, _FILLING // (width * hidden))
    return Product(rows, width, hidden, compute_dtype(config).name, product_precision(config))


def peak_flops(config: Config, n_devices: int) -> float:
    """Peak FLOP/s of these devices, which training is compared with: the speed of the feed-forward's products alone.

    One device is measured, once per process; simulated CPU devices share its cores.
    """
    one = _flops_per_second(product_of(config))
    return one if jax.default_backend() == "cpu" else one * n_devices


@functools.cache
def _flops_per_second(product: Product) -> float:
    run = timed_product(product)
    run()  # compiles
    return product.flops / run()


def timed_product(product: Product) -> Callable[[], float]:
    """A function that repeats a call for a tenth of a second and returns the seconds of the fastest.

    Whatever else runs on the machine can only slow a call down, and the first finds cold caches. A call is the two
    products of a feed-forward in turn, [T, D] @ [D, F] and [T, F] @ [F, D], and nothing else: each takes the result of
    the one before, so that the compiler cannot drop any.
    """
    x = jnp.ones((product.rows, product.width), product.dtype)
    up = jnp.full((product.width, product.hidden), 1 / product.width, product.dtype)
    down = jnp.full((product.hidden, product.width), 1 / product.hidden, product.dtype)

    @jax.jit
    def products(x: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
        with jax.default_matmul_precision(product.precision):
            return jax.lax.fori_loop(0, _REPEATS // 2, lambda _, x: (x @ up) @ down, x)

    def call() -> float:
        begin = time.perf_counter()
        products(x, up, down).block_until_ready()
        return time.perf_counter() - begin

    def run() -> float:
        seconds = [call()]
        while sum(seconds) < _SECONDS:
            seconds.append(call())
        return min(seconds)

    return run
