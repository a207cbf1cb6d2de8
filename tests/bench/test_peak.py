"""The peak is that of the model's own product, and a number."""

import jax

from actlab.bench import peak
from actlab.config import Config, replace


def test_the_product_is_that_of_the_models_feed_forward():
    config = replace(Config(), **{"model.d_model": 96, "data.batch_size": 3, "model.context": 40})
    product = peak.product_of(config)
    assert product[:4] == (120, 96, 384, "float32")
    assert product.flops == 11 * 2 * 120 * 96 * 384
    assert peak.product_of(replace(config, **{"model.d_ff": 64, "train.dtype": "bfloat16"}))[2:4] == (64, "bfloat16")
    assert peak.product_of(replace(config, **{"train.dtype": "tensorfloat32"}))[3:] == ("float32", "tensorfloat32")


def test_it_is_measured_once_and_is_the_devices_together(monkeypatch):
    product = peak.product_of(replace(Config(), **{"model.d_model": 16, "model.n_heads": 2, "data.batch_size": 1}))
    assert 0 < peak.flops_per_second(product) == peak.flops_per_second(product)
    monkeypatch.setattr(peak, "flops_per_second", lambda product: 10.0)
    assert peak.of_devices(Config(), 4) == 10.0, "cores are shared"
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert peak.of_devices(Config(), 4) == 40.0
