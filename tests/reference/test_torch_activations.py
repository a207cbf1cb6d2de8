"""Values and slopes against PyTorch on [-5, 5]; its exact GELU, 1 + erf, has lost its digits further left."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab import activations

pytestmark = [pytest.mark.slow, pytest.mark.optimized]

PEERS = {
    "relu": lambda F: F.relu,
    "leaky_relu": lambda F: F.leaky_relu,
    "leaky_relu(slope=0.2)": lambda F: lambda x: F.leaky_relu(x, 0.2),
    "relu6": lambda F: F.relu6,
    "hard_tanh": lambda F: F.hardtanh,
    "hard_sigmoid": lambda F: F.hardsigmoid,
    "hard_swish": lambda F: F.hardswish,
    "tanh": lambda F: lambda x: x.tanh(),
    "sigmoid": lambda F: lambda x: x.sigmoid(),
    "softplus": lambda F: F.softplus,
    "softsign": lambda F: F.softsign,
    "elu(alpha=0.7)": lambda F: lambda x: F.elu(x, 0.7),
    "celu(alpha=2)": lambda F: lambda x: F.celu(x, 2.0),
    "selu": lambda F: F.selu,
    "gelu": lambda F: F.gelu,
    "gelu_tanh": lambda F: lambda x: F.gelu(x, approximate="tanh"),
    "silu": lambda F: F.silu,
    "mish": lambda F: F.mish,
}


@pytest.mark.parametrize("name", PEERS)
def test_value_and_slope_agree(name):
    torch = pytest.importorskip("torch", reason="needs the reference extra")
    x = np.linspace(-5, 5, 2003, dtype=np.float32)
    theirs = torch.tensor(x, requires_grad=True)
    value = PEERS[name](torch.nn.functional)(theirs)
    value.sum().backward()
    f = activations.get(name).fn
    np.testing.assert_allclose(f(jnp.array(x)), value.detach().numpy(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(f))(x), theirs.grad.numpy(), rtol=0, atol=2e-6)
