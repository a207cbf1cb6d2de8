"""How a cohort lies on the devices: one mesh with the axes lane, data and fsdp, and the sharding of every array."""

import math
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from actlab.config import DevicesConfig
from actlab.errors import UserError

BATCH = ("data", "fsdp")  # the batch is dealt along both


def mesh(devices: DevicesConfig, n_lanes: int, batch_size: int) -> Mesh:
    """The mesh of a cohort: lanes spread over the devices as far as their numbers allow, the batch over the rest.

    Raises:
        UserError: for more devices than there are, or numbers that do not divide lanes or batch.
    """
    there = jax.device_count()
    free = there // devices.fsdp
    n_lane = devices.lane or math.gcd(max(1, free // (devices.data or 1)), n_lanes)
    n_data = devices.data or math.gcd(max(1, free // n_lane), max(1, batch_size // devices.fsdp))
    asked = n_lane * n_data * devices.fsdp
    if asked > there:
        raise UserError(
            f"config.devices asks for {n_lane} lane x {n_data} data x {devices.fsdp} fsdp = {asked} devices, "
            f"but there are {there}: lower one of them."
        )
    if n_lanes % n_lane:
        raise UserError(f"config.devices.lane={n_lane} does not divide the {n_lanes} lanes: take a divisor of them.")
    if batch_size % (n_data * devices.fsdp):
        raise UserError(
            f"config.devices.data={n_data} times config.devices.fsdp={devices.fsdp} does not divide "
            f"config.data.batch_size={batch_size}: change one of them."
        )
    shape = (n_lane, n_data, devices.fsdp)
    return Mesh(np.array(jax.devices()[:asked]).reshape(shape), ("lane", *BATCH), axis_types=(AxisType.Auto,) * 3)


def idle(mesh: Mesh, n_lanes: int, batch_size: int) -> str | None:
    """Words for devices that no lane and no row falls to; None where all are in use.

    Raises:
        UserError: if all devices of one process are idle: it could not take part.
    """
    there, used = jax.device_count(), mesh.size
    if used == there:
        return None
    words = f"{n_lanes} lanes and config.data.batch_size={batch_size} occupy {used} of {there} devices"
    if {device.process_index for device in mesh.devices.flat} != set(range(jax.process_count())):
        raise UserError(
            f"{words}, and one of the {jax.process_count()} processes has none of them: take a batch size that the "
            "number of devices divides, leave config.devices open, or take fewer processes."
        )
    return words


def of_state(mesh: Mesh, state: Any) -> Any:
    """Shardings of arrays [R, ...]: along lanes, and along fsdp at the longest axis that it divides."""
    return jax.tree.map(lambda leaf: NamedSharding(mesh, _spec(mesh.shape["fsdp"], leaf.shape)), state)


def _spec(n_fsdp: int, shape: tuple[int, ...]) -> PartitionSpec:
    axes: list[str | None] = ["lane", *(None for _ in shape[1:])]
    # Norms and biases are left whole: they are small, and gathering them costs more than it saves.
    divisible = [axis for axis in range(1, len(shape)) if len(shape) > 2 and shape[axis] % n_fsdp == 0]
    if n_fsdp > 1 and divisible:
        axes[max(divisible, key=lambda axis: shape[axis])] = "fsdp"
    return PartitionSpec(*axes)


def lanewise(mesh: Mesh) -> NamedSharding:
    """Of arrays [R, ...] that every device of a lane holds."""
    return NamedSharding(mesh, PartitionSpec("lane"))


def rows(mesh: Mesh) -> NamedSharding:
    """Of training rows [R, K, B, W]."""
    return NamedSharding(mesh, PartitionSpec("lane", None, BATCH))


def validation(mesh: Mesh) -> NamedSharding:
    """Of the validation set's arrays [N, B, ...]."""
    return NamedSharding(mesh, PartitionSpec(None, BATCH))


def validation_batch(mesh: Mesh) -> NamedSharding:
    """Of the arrays [B, ...] of one validation batch."""
    return NamedSharding(mesh, PartitionSpec(BATCH))


def whole(mesh: Mesh) -> NamedSharding:
    """Of arrays that every device holds."""
    return NamedSharding(mesh, PartitionSpec())
