"""Many machines: the cohorts of a sweep as jobs of an engine, gathered into one workdir."""

from actlab.studies.launching.executor import Executor
from actlab.studies.launching.launch import run
from actlab.studies.launching.local import Local
from actlab.studies.launching.slurm import Slurm

__all__ = ["Executor", "Local", "Slurm", "run"]
