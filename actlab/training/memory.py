"""Memory: what a program needs, what the device has, how many lanes fit."""

import os
import pathlib
from typing import Any, NamedTuple

import jax

from actlab.errors import UserError

RESERVE = 0.1  # share of the memory that is left to the rest: evaluation, checkpoints, the allocator's gaps


class Need(NamedTuple):
    """Bytes per device of a program with one lane: what stays between calls, what is taken during one."""

    state: int
    work: int


def need(program: Any) -> Need:
    """Of a compiled program with one lane, as its compiler has laid it out."""
    analysis = program.memory_analysis()
    kept = analysis.argument_size_in_bytes + analysis.output_size_in_bytes - analysis.alias_size_in_bytes
    return Need(kept, analysis.temp_size_in_bytes)


def available() -> int:
    """Bytes free on a device; on CPU each of the devices that are simulated has its share of what is free."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats["bytes_in_use"]
    return _host_memory() // jax.local_device_count()


def _host_memory() -> int:
    told = pathlib.Path("/proc/meminfo")
    for line in told.read_text().splitlines() if told.exists() else ():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def most_lanes(one: Need, by_map: bool, free: int) -> int:
    """How many lanes fit on a device; side by side each needs room to work, one after the other they share it."""
    room = int(free * (1 - RESERVE))
    fits = (room - one.work) // one.state if by_map else room // (one.state + one.work)
    return max(1, fits)


def is_exhausted(error: Exception) -> bool:
    """Whether an error says that a device is out of memory."""
    return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)


def too_small(batch_size: int) -> UserError:
    """What a user is told where one lane is too much."""
    return UserError(
        f"config.data.batch_size={batch_size} does not fit into the device's memory: lower it, or the model's size."
    )


def too_small_now(part: str, step: int) -> UserError:
    """What a user is told where what was trained to a step no longer fits: in halves it would begin at step 0."""
    return UserError(
        f"part {part}, trained to step {step}, does not fit into the device's memory: end what else uses it, or take a "
        "device as large as before, and run the same command, which goes on from its checkpoint."
    )


def divided(n_lanes: int, most: int, multiple: int) -> list[int]:
    """Numbers of lanes of as few programs as possible, each at most `most`, as equal as can be.

    Every number is a multiple of `multiple`, the devices that lanes are dealt among, which divides n_lanes.
    """
    groups, most_groups = n_lanes // multiple, max(1, most // multiple)
    n_parts = -(-groups // most_groups)
    return [multiple * (groups // n_parts + (index < groups % n_parts)) for index in range(n_parts)]
