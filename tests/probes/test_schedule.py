"""When the probes run, and what they cost."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab.config import replace
from actlab.probes import curvature, is_due, work


@pytest.mark.parametrize(("every", "steps"), [(0, []), (5, [0, 5, 10, 12]), (6, [0, 6, 12]), (100, [0, 12])])
def test_due_are_multiples_and_the_end(tiny, every, steps):
    assert [step for step in range(13) if is_due(tiny.train, every, step)] == steps
    train = replace(tiny, **{"train.probe_every": every, "train.census_every": every}).train
    assert work(train, 9) == len(steps) * (1 + 9 / 3)


def test_curvature_costs_as_many_gradients_as_its_products(tiny):
    """By XLA's count of the operations of a small network."""
    x, params = np.ones((64, 64), np.float32), [np.ones((64, 64), np.float32)] * 3
    outputs = lambda params: functools.reduce(lambda x, weights: jnp.tanh(x @ weights), params, x)
    loss = lambda x: jnp.square(x).mean()
    whole = lambda params: loss(outputs(params))
    count = lambda function, given: jax.jit(function).lower(given).cost_analysis()["flops"]
    products = curvature.hessian_product(whole, params), curvature.gauss_newton_product(outputs, loss, params)
    of_iteration = sum(count(product, np.ones(3 * 64 * 64, np.float32)) for product in products)
    n_gradients = curvature.ITERATIONS * of_iteration / count(jax.grad(whole), params)
    train = replace(tiny, **{"train.curvature_every": 12}).train
    assert work(train, 9) == pytest.approx(2 * n_gradients, rel=0.15), "at steps 0 and 12"
