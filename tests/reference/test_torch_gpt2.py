"""Parity with GPT-2 as PyTorch and transformers have it: logits, then fifty AdamW steps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab import models
from actlab.config import Config, replace
from actlab.training import step as steps
from actlab.training.step import Lane, schedule_fraction

pytestmark = pytest.mark.slow

D, N, V, CONTEXT, N_STEPS = 48, 3, 96, 32, 50
# Our name, transformers' name: "gelu" is the exact form in both.
ACTIVATIONS = [("gelu", "gelu"), ("gelu_tanh", "gelu_new"), ("relu", "relu"), ("silu", "silu"), ("tanh", "tanh")]


def our_config(activation):
    return replace(
        Config(),
        **{
            "model.activation": activation,
            "model.n_layers": N,
            "model.d_model": D,
            "model.n_heads": 4,
            "model.context": CONTEXT,
            "model.vocab_size": V,
            "model.use_bias": True,
            "optimizer.warmup_steps": 5,
            "optimizer.clip_norm": 0.5,
            "train.n_steps": N_STEPS,
        },
    )


@functools.cache
def reference(activation):
    torch = pytest.importorskip("torch", reason="needs the reference extra")
    transformers = pytest.importorskip("transformers", reason="needs the reference extra")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=V, n_positions=CONTEXT, n_embd=D, n_layer=N, n_head=4, activation_function=activation,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.1,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def our_params(theirs):
    arrays = {name: tensor.detach().numpy().copy() for name, tensor in theirs.named_parameters()}
    norm = lambda name: {"scale": arrays[f"{name}.weight"], "bias": arrays[f"{name}.bias"]}
    linear = lambda name: {"kernel": arrays[f"{name}.weight"], "bias": arrays[f"{name}.bias"]}
    params = {
        "token_embedding": {"embedding": arrays["transformer.wte.weight"]},
        "position_embedding": {"embedding": arrays["transformer.wpe.weight"]},
        "final_norm": norm("transformer.ln_f"),
    }
    for index in range(N):
        block = f"transformer.h.{index}"
        params[f"block_{index}"] = {
            "attention_norm": norm(f"{block}.ln_1"),
            "attention": {"qkv": linear(f"{block}.attn.c_attn"), "out": linear(f"{block}.attn.c_proj")},
            "feed_forward_norm": norm(f"{block}.ln_2"),
            "feed_forward": {"up": linear(f"{block}.mlp.c_fc"), "down": linear(f"{block}.mlp.c_proj")},
        }
    return jax.tree.map(jnp.array, params)


def windows_at(step):
    return np.random.default_rng(step).integers(0, V, (8, CONTEXT + 1))


@pytest.mark.parametrize(("ours", "theirs"), ACTIVATIONS)
def test_logits_agree(ours, theirs):
    import torch

    peer, model = reference(theirs), models.build(our_config(ours).model)
    tokens = windows_at(0)[:, :-1]
    with torch.no_grad():
        expected = peer(torch.tensor(tokens)).logits.numpy()
    logits, _ = model.apply(our_params(peer), jnp.array(tokens))
    assert np.std(expected) > 0.5, "a test on logits near zero would say nothing"
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_exact_and_tanh_gelu_differ_by_more_than_the_tolerance():
    params, tokens = our_params(reference("gelu")), jnp.array(windows_at(0)[:, :-1])
    exact, tanh = (models.build(our_config(name).model).apply(params, tokens)[0] for name in ("gelu", "gelu_tanh"))
    assert np.abs(exact - tanh).max() > 2e-4


@pytest.mark.parametrize(("ours", "theirs"), ACTIVATIONS[:3])
def test_fifty_adamw_steps_agree(ours, theirs):
    import copy

    import torch

    config = our_config(ours)
    model, peer = models.build(config.model), copy.deepcopy(reference(theirs))
    params = our_params(peer)
    matrices = [p for p in peer.parameters() if p.ndim >= 2]
    vectors = [p for p in peer.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    peer_adamw = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)

    hyper = Lane(0, jnp.float32(1e-3), jnp.float32(0.1))
    step = jax.jit(functools.partial(steps.train_step, model, config, hyper))
    state = steps.init_state(model, config, jnp.int32(0))._replace(params=params)
    difference = []
    for index in range(N_STEPS):
        windows = windows_at(index % 4)
        for group in peer_adamw.param_groups:
            group["lr"] = 1e-3 * float(schedule_fraction(config.optimizer, N_STEPS, jnp.int32(index)))
        logits = peer(torch.tensor(windows[:, :-1])).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(windows[:, 1:]).flatten())
        peer_adamw.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(peer.parameters(), 0.5)
        peer_adamw.step()
        state, metrics = step(state, jnp.array(windows))
        assert metrics.grad_norm == pytest.approx(float(norm), rel=1e-2)
        difference.append(abs(float(metrics.loss) - loss.item()))
    assert max(difference) < 1e-3
    first = reference(theirs)(torch.tensor(windows_at(0)[:, :-1])).logits
    start = torch.nn.functional.cross_entropy(first.flatten(0, 1), torch.tensor(windows_at(0)[:, 1:]).flatten())
    assert float(metrics.loss) < start.item() - 0.5, "they must have learned, not only agreed"
