"""Models, the only package that imports flax. `build(config).apply(params, tokens)` gives (logits, hidden units)."""

from actlab.models.layers import Readout
from actlab.models.model import Costs, Model, build, costs, shapes

__all__ = ["Costs", "Model", "Readout", "build", "costs", "shapes"]
