"""Static costs: counts that follow from the formula."""

import jax
import jax.numpy as jnp

from actlab.activations.properties import static_cost


def test_counts_are_per_element():
    assert (static_cost(lambda x: x * x).flops, static_cost(lambda x: x * x).transcendentals) == (1, 0)
    assert (static_cost(jnp.exp).flops, static_cost(jnp.exp).transcendentals) == (0, 1)
    assert static_cost(lambda x: jnp.exp(x) + x).total == 2


def test_the_backward_pass_has_its_own_count():
    # dx = dy * 3 x^2 costs more than x, which costs nothing.
    assert static_cost(lambda x: x).flops == 0
    assert static_cost(lambda x: x * x * x, backward=True).flops > static_cost(lambda x: x * x * x).flops


def test_exact_gelu_costs_more_than_its_tanh_form_and_relu_least():
    exact, tanh, relu = (
        static_cost(lambda x: jax.nn.gelu(x, approximate=False)),
        static_cost(lambda x: jax.nn.gelu(x, approximate=True)),
        static_cost(jax.nn.relu),
    )
    assert exact.total > tanh.total > relu.total > 0
