"""The probes of one lane: a batch through model, loss and gradient, with the hidden layers measured. Pure functions.

Probes are compiled functions of their own on fixed validation batches, not statistics of the training step. So training
is the same with and without them, they cost only where they run, and what they measure depends on the state alone: a
resume repeats it to the bit.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from actlab import activations
from actlab.config import Config
from actlab.models import Model
from actlab.probes import activity, curvature, gradients
from actlab.training import losses
from actlab.training.losses import Examples
from actlab.training.step import Lane, TrainState, update

MEANS = ("negative_fraction", "zero_fraction", "post_mean")


def probe_step(
    model: Model, config: Config, lane: Lane, state: TrainState, examples: Examples
) -> dict[str, Float[Array, ""]]:
    """Activity and gradients on a batch, under flat names: layer_0/negative_fraction, layer_0/attention/grad_norm.

    Gradients are of the batch's mean loss, before clipping; updates are those that AdamW would make of them.
    `loss` and `grad_norm` are of the whole batch and model; the measures in MEANS are also given as means over layers.
    """
    spec = model.spec

    # Shifts of 0 are added to the units' inputs z: the gradient with respect to them is dL/dz.
    def objective(params: Any, shifts: Any) -> tuple[Array, Any]:
        x_BKD, readout, hidden = model.hidden(params, shifts=shifts, **examples.inputs)
        return losses.of_hidden(model, x_BKD, readout, examples) / _total(examples), hidden

    zeros_TF = jnp.zeros((examples.tokens.size, spec.d_hidden), spec.dtype)
    gradient = jax.value_and_grad(objective, argnums=(0, 1), has_aux=True)
    (loss, hidden), (grads, slopes) = gradient(state.params, (zeros_TF,) * spec.n_layers)
    _, updates, _ = update(model, config, lane, state, grads)
    weights_T = jnp.asarray(examples.counted).reshape(-1)
    layers = []
    for index, (units, dz_TF) in enumerate(zip(hidden, slopes, strict=True)):
        down_FD = state.params[f"block_{index}"]["feed_forward"]["down"]["kernel"]
        measured = activity.layer(units.z_TF, units.a_TF, dz_TF, down_FD, weights_T)
        layers.append({**measured, "down_common": activity.common_share(down_FD)})
    return {
        "loss": loss,
        "grad_norm": gradients.norm(grads),
        **{name: jnp.stack([layer[name] for layer in layers]).mean() for name in MEANS},
        **{f"layer_{index}/{name}": value for index, layer in enumerate(layers) for name, value in layer.items()},
        **gradients.by_group(state.params, grads, updates),
    }


def curvature_step(model: Model, params: Any, examples: Examples) -> dict[str, Float[Array, ""]]:
    """Largest eigenvalue of the Hessian and of the Gauss-Newton matrix of a batch's mean loss; see curvature.Top."""
    model = model.twice_differentiable()

    def outputs(params: Any) -> Array:
        return model.apply(params, **examples.inputs)[0]

    def loss(logits_BKV: Array) -> Array:
        return (losses.cross_entropy(logits_BKV, examples.targets) * examples.weights).sum() / _total(examples)

    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    products = {
        "hessian": curvature.hessian_product(lambda params: loss(outputs(params)), params),
        "gauss_newton": curvature.gauss_newton_product(outputs, loss, params),
    }
    tops = {name: curvature.top_eigenvalue(product, size) for name, product in products.items()}
    return {
        **{f"{name}_top": top.value for name, top in tops.items()},
        **{f"{name}_residual": top.residual for name, top in tops.items()},
    }


def _total(examples: Examples) -> Array:
    """The sum of the weights; 1 for a batch without a target, whose loss is 0 and not 0/0."""
    total = examples.weights.sum()
    return jnp.where(total > 0, total, 1)


def census(model: Model, params: Any, examples: Examples) -> Bool[Array, "layers F"]:
    """Which hidden units are dead (D4), i.e. fire on none of the counted tokens of batches [N, B]; see activity.fires.

    Stops at the batch by which every unit has fired, so it reads all batches only if some unit is dead.
    """

    def goes_on(carry: Any) -> Array:
        index, fired_UF = carry
        return (index < len(examples.tokens)) & ~fired_UF.all()

    def look(carry: Any) -> Any:
        index, fired_UF = carry
        return index + 1, fired_UF | _fired(model, params, jax.tree.map(lambda batches: batches[index], examples))

    none = jnp.zeros((model.spec.n_layers, model.spec.d_hidden), bool)
    return ~jax.lax.while_loop(goes_on, look, (jnp.int32(0), none))[1]


def _fired(model: Model, params: Any, examples: Examples) -> Array:
    _, hidden = model.apply(params, **examples.inputs)
    weights_T = jnp.asarray(examples.counted).reshape(-1)
    names = [model.spec.of_block(index).activation for index in range(model.spec.n_layers)]
    return jnp.stack(
        [
            activity.fires(activations.get(name), units.theta, units.z_TF, weights_T)
            for name, units in zip(names, hidden, strict=True)
        ]
    )
