"""Dead zones, against a scan of every number and the reference's table."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab import activations
from actlab.activations.proofs.dead_zones import DeadZone

pytestmark = pytest.mark.optimized


def test_the_dead_zone_of_jaxs_gelu():
    # Measured outside of this project: 1 + tanh cancels.
    zones = activations.dead_zones("gelu_tanh_jax")
    assert zones["bfloat16"] == DeadZone(-3.0625, -3.0625, None)
    assert zones["float32"].value_below == pytest.approx(-4.868, abs=2e-3)
    assert zones["float16"].value_below == pytest.approx(-3.586, abs=1e-3)


def test_ours_reach_further():
    assert activations.dead_zones("gelu_tanh")["bfloat16"].value_below <= -10
    assert activations.dead_zones("elu")["float32"].gradient_below <= -87


@pytest.mark.parametrize("name", ["softsign", "relu6", "leaky_relu"])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_sixteen_bits_are_as_a_plain_scan_finds(name, dtype):
    fn = activations.get(name).fn
    x = np.arange(2**16, dtype=np.uint16).view(dtype)
    x = np.unique(x[np.isfinite(x.astype(np.float32))].astype(np.float32))
    value, pull = jax.vjp(fn, jnp.asarray(x, dtype))
    value, gradient = np.asarray(value, np.float32), np.asarray(pull(jnp.ones_like(value))[0], np.float32)

    def run(alive, x):
        return None if alive[0] else float(x[np.argmax(alive) - 1])

    zone = activations.dead_zones(name)[jnp.dtype(dtype).name]
    assert zone == DeadZone(run(value != 0, x), run(gradient != 0, x), run(gradient[::-1] != 0, x[::-1]))


@pytest.fixture
def clipped():
    """An activation whose zones are known to the last digit."""
    end = np.float32(-1.2345678)
    record = activations.Activation(
        "clipped", lambda x: jnp.where(x > end.astype(x.dtype), jnp.minimum(x, 3), 0), "", ""
    )
    activations.register(record)
    return end


def test_float32_ends_are_exact(clipped):
    zone = activations.dead_zones("clipped")["float32"]
    assert zone.value_below == zone.gradient_below == float(clipped)
    assert zone.gradient_above == float(np.nextafter(np.float32(3), np.float32(4)))


def test_a_gated_form_has_those_of_its_gate_and_a_vector_none():
    assert activations.properties("reglu").dead_zones == activations.dead_zones("relu")
    assert activations.properties("polynorm").dead_zones == {}
