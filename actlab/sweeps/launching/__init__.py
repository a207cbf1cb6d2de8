"""Many machines: the programs of a sweep trained as jobs and gathered into one workdir."""

from actlab.sweeps.launching.executors import Executor, Local, Slurm
from actlab.sweeps.launching.launch import run

__all__ = ["Executor", "Local", "Slurm", "run"]
