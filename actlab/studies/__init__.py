"""Studies: what the runs and the mathematics say, with how sure one can be."""

from actlab.studies.sensitivity import lr_sensitivity

__all__ = ["lr_sensitivity"]
