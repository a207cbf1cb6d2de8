"""Studies: sweeps of runs, what they and the mathematics say, and how sure one can be."""

from actlab.studies.sensitivity import lr_sensitivity

__all__ = ["lr_sensitivity"]
