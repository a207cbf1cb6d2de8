"""Models, the only room that imports flax. `build(config).apply(params, tokens)` gives (logits, statistics)."""

from actlab.models.costs import Costs, costs
from actlab.models.generation import complete
from actlab.models.model import Model, build

__all__ = ["Costs", "Model", "build", "complete", "costs"]
