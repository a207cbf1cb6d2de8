"""Parity with BERT as transformers has it: logits of padded, segmented input, for both of its heads."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab import models
from actlab.config import Config, replace

pytestmark = pytest.mark.slow

D, N, V, CONTEXT, F = 48, 3, 96, 32, 56
ACTIVATIONS = [("gelu", "gelu"), ("gelu_tanh", "gelu_new"), ("relu", "relu")]


def our_config(activation, n_classes):
    return replace(
        Config(),
        **{
            "model.kind": "encoder",
            "model.activation": activation,
            "model.head_activation": "gelu" if n_classes else activation,  # a classifier has no such head
            "model.n_layers": N,
            "model.d_model": D,
            "model.n_heads": 4,
            "model.d_ff": F,
            "model.context": CONTEXT,
            "model.vocab_size": V,
            "model.norm_position": "post",
            "model.norm_epsilon": 1e-12,
            "model.use_bias": True,
            "model.n_segments": 3,
            "model.n_classes": n_classes,
        },
    )


def reference(activation, n_classes):
    torch = pytest.importorskip("torch", reason="needs the reference extra")
    transformers = pytest.importorskip("transformers", reason="needs the reference extra")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=V, hidden_size=D, num_hidden_layers=N, num_attention_heads=4, intermediate_size=F,
        hidden_act=activation, max_position_embeddings=CONTEXT, type_vocab_size=3, initializer_range=0.1,
        num_labels=max(n_classes, 1),
    )  # fmt: skip
    model = (transformers.BertForSequenceClassification if n_classes else transformers.BertForMaskedLM)(config)
    with torch.no_grad():  # biases and norms start at 0 and 1, which would hide a mix-up
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def our_params(theirs, n_classes):
    arrays = {name: tensor.detach().numpy().copy() for name, tensor in theirs.named_parameters()}
    norm = lambda name: {"scale": arrays[f"{name}.weight"], "bias": arrays[f"{name}.bias"]}
    linear = lambda name: {"kernel": arrays[f"{name}.weight"].T, "bias": arrays[f"{name}.bias"]}
    embedding = lambda name: {"embedding": arrays[f"bert.embeddings.{name}.weight"]}
    params = {
        "token_embedding": embedding("word_embeddings"),
        "position_embedding": embedding("position_embeddings"),
        "segment_embedding": embedding("token_type_embeddings"),
        "embedding_norm": norm("bert.embeddings.LayerNorm"),
    }
    for index in range(N):
        layer = f"bert.encoder.layer.{index}"
        q, k, v = (linear(f"{layer}.attention.self.{name}") for name in ("query", "key", "value"))
        params[f"block_{index}"] = {
            "attention": {
                "qkv": {part: np.concatenate([q[part], k[part], v[part]], axis=-1) for part in ("kernel", "bias")},
                "out": linear(f"{layer}.attention.output.dense"),
            },
            "attention_norm": norm(f"{layer}.attention.output.LayerNorm"),
            "feed_forward": {"up": linear(f"{layer}.intermediate.dense"), "down": linear(f"{layer}.output.dense")},
            "feed_forward_norm": norm(f"{layer}.output.LayerNorm"),
        }
    if n_classes:
        heads = {"pooler": {"dense": linear("bert.pooler.dense")}, "classifier": linear("classifier")}
    else:
        heads = {
            "head": {"dense": linear("cls.predictions.transform.dense")},
            "head_norm": norm("cls.predictions.transform.LayerNorm"),
            "output_bias": arrays["cls.predictions.bias"],
        }
    return jax.tree.map(jnp.array, {**params, **heads})


@pytest.mark.parametrize("n_classes", [0, 3])
@pytest.mark.parametrize(("ours", "theirs"), ACTIVATIONS)
def test_logits_of_padded_and_segmented_input_agree(ours, theirs, n_classes):
    torch = pytest.importorskip("torch", reason="needs the reference extra")
    peer, model = reference(theirs, n_classes), models.build(our_config(ours, n_classes).model)
    draw = np.random.default_rng(0)
    tokens, segments = draw.integers(0, V, (4, CONTEXT)), draw.integers(0, 3, (4, CONTEXT))
    real = np.arange(CONTEXT)[None] < np.array([[CONTEXT], [20], [7], [1]])
    with torch.no_grad():
        given = {"attention_mask": real, "token_type_ids": segments}
        expected = peer(torch.tensor(tokens), **{name: torch.tensor(array) for name, array in given.items()}).logits
    params = our_params(peer, n_classes)
    shapes = models.shapes(model)
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, shapes), "every weight has its place"
    logits, _ = model.apply(params, jnp.array(tokens), segments_BL=jnp.array(segments), real_BL=jnp.array(real))
    expected = expected.numpy()[:, None] if n_classes else expected.numpy()[real]
    logits = np.asarray(logits) if n_classes else np.asarray(logits)[real]
    assert np.std(expected) > 0.3, "a test on logits near zero would say nothing"
    np.testing.assert_allclose(logits, expected, atol=1e-4)
