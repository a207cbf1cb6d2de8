"""The order of activations by the part of their output that is not linear: its size against closed forms, its tau."""

import pathlib

import numpy as np
import pytest
import scripts

ORDER = scripts.load(pathlib.Path(__file__).parents[2] / "experiments/initialisation/order.py")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("identity", 0.0),
        ("relu", 0.5 * (1 - 2 / np.pi) ** 0.5),  # z/2 + |z|/2: what is left is the deviation of |z| / 2
        ("bilinear", 1.0),  # z v
        ("reglu", (0.5 - 0.5 / np.pi) ** 0.5),  # relu(z) v less its mean times v
    ],
)
@pytest.mark.parametrize("scale", [0.16, 1.0])
def test_the_size_of_what_is_not_linear(name, expected, scale):
    of_scale = scale**2 if name in ("bilinear", "reglu") else scale
    assert ORDER.nonlinear_size(name, scale) == pytest.approx(expected * of_scale, rel=2e-3, abs=1e-6)  # in float32


def test_tau_is_one_where_what_is_less_linear_has_less_loss():
    names = "abcde"
    sizes = {name: 5.0 - place for place, name in enumerate(names)}
    losses = {name: np.array([place, place + 0.1]) for place, name in enumerate(names)}
    tau, p, resampled = ORDER.tau(sizes, losses)
    assert (tau, p) == pytest.approx((1, 2 / 120)) and (resampled == 1).all()
    turned, _, _ = ORDER.tau({name: -size for name, size in sizes.items()}, losses)
    assert turned == pytest.approx(-1)
