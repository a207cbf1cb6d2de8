"""Many processes that train together: how they find each other and wait for each other."""

import os

import jax
from jax.experimental import multihost_utils

# Set by the launchers that JAX knows (SLURM, Open MPI, Cloud TPU need no word from us) or by hand for others.
COORDINATOR = "JAX_COORDINATOR_ADDRESS"


def join() -> None:
    """Joins the other processes of this run, if there are any; must come before JAX's first computation."""
    if COORDINATOR in os.environ:
        jax.distributed.initialize(num_processes=_number("JAX_NUM_PROCESSES"), process_id=_number("JAX_PROCESS_ID"))
    elif int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        jax.distributed.initialize()


def _number(name: str) -> int | None:
    value = os.environ.get(name)
    return None if value is None else int(value)


def meet(name: str) -> None:
    """Waits for all processes, where there are many."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)
