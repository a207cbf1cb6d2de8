"""Many machines: the programs of a sweep trained as jobs and gathered into one workdir."""

from actlab.sweeps.launching.executors import Local, Slurm
from actlab.sweeps.launching.launch import run

__all__ = ["Local", "Slurm", "run"]
