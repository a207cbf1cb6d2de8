"""Parameters of a model without the many small programs that `model.init` compiles."""

import jax
import jax.numpy as jnp
import numpy as np

from actlab import models


def drawn(model, size=0.4):
    """Matrices and tables N(0, size^2), scales 1, scalars of activations `size`, biases 0.

    Size 0.4 makes every dependency visible; at the 0.02 of `model.init` some would drown.
    """
    rng = np.random.default_rng(0)

    def array(path, leaf):
        if leaf.ndim > 1:
            values = size * rng.standard_normal(leaf.shape)
        else:
            values = np.full(leaf.shape, 1 if path[-1].key == "scale" else 0 if leaf.ndim else size)
        return jnp.asarray(values, leaf.dtype)

    return jax.tree_util.tree_map_with_path(array, models.shapes(model))
