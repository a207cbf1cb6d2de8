"""Models, the only room that imports flax. `build(config).apply(params, tokens)` gives (logits, statistics)."""

from actlab.models.costs import Costs, costs
from actlab.models.generation import complete
from actlab.models.layers import Readout
from actlab.models.model import Model, build

__all__ = ["Costs", "Model", "Readout", "build", "complete", "costs"]
