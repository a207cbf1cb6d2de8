"""The outside peer: GPT-2 from transformers on PyTorch, eager and compiled, where the `reference` extra is there."""

import importlib.util
import time
from collections.abc import Callable
from typing import Any


def contenders(shape: Any) -> dict[str, Callable[[], float]]:
    """The peer's ways to train a shape, none where torch is not installed."""
    if not (importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")):
        return {}
    return {"gpt2 eager": _trainer(shape, compiled=False), "gpt2 compiled": _trainer(shape, compiled=True)}


def _trainer(shape: Any, *, compiled: bool) -> Callable[[], float]:
    import torch  # pyright: ignore[reportMissingImports]
    import transformers  # pyright: ignore[reportMissingImports]

    config = transformers.GPT2Config(
        vocab_size=shape.vocab_size,
        n_positions=shape.context,
        n_embd=shape.d_model,
        n_layer=shape.n_layers,
        n_head=shape.n_heads,
        activation_function="gelu",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = transformers.GPT2LMHeadModel(config)
    model = model.to(device)
    forward = torch.compile(model) if compiled else model
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=True)
    windows = torch.randint(0, shape.vocab_size, (shape.batch_size, shape.context + 1), device=device)
    # Float32 weights and a product's inputs in the shape's dtype, as ours.
    half = torch.autocast(device, dtype=torch.bfloat16, enabled=shape.dtype == "bfloat16")

    def run() -> float:
        begin = time.perf_counter()
        for _ in range(shape.n_steps):
            with half:
                logits = forward(windows[:, :-1]).logits.float()
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
            adamw.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            adamw.step()
            loss.item()
        return (time.perf_counter() - begin) / shape.n_steps

    return run
