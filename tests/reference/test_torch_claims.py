"""What the claims say of PyTorch, asked of PyTorch itself."""

import numpy as np
import pytest

from actlab import claims
from actlab.claims import maths, tanh

pytestmark = pytest.mark.slow


def test_the_default_gelu_of_torch_is_the_exact_one():
    torch = pytest.importorskip("torch")
    z = np.linspace(-4, 4, 801)
    default = torch.nn.functional.gelu(torch.tensor(z)).numpy()
    assert np.abs(default - maths.value("gelu", z)).max() < 1e-14
    assert np.abs(default - maths.value("gelu_tanh", z)).max() > 4e-4
    assert claims.get("A12").check().verdict == "false"


def test_the_default_linear_layer_is_drawn_as_the_simulation_draws_it():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = [torch.nn.Linear(10, 20) for _ in range(300)]
    drawn = torch.cat([layer(torch.randn(5, 10)).detach().reshape(-1) for layer in layers]).numpy()
    assert drawn.std() == pytest.approx(tanh.layer_outputs()["gelu"].std(), rel=0.02)
    largest = max(float(layer.weight.detach().abs().max()) for layer in layers)
    assert largest == pytest.approx(10**-0.5, rel=1e-3)
