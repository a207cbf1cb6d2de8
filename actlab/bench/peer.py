"""The models that our speed is compared with: GPT-2 of transformers and a plain decoder on PyTorch, eager and compiled.

PyTorch comes with the extra `reference`; this file is imported only where that is installed.
"""

import time
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]
import transformers  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

from actlab.bench.shapes import Shape
from actlab.bench.timing import Contender


def device_like(backend: str) -> str | None:
    """PyTorch's device for one of jax's backends; None where this PyTorch has none."""
    if backend == "gpu" and torch.cuda.is_available():
        return "cuda"
    return "cpu" if backend == "cpu" else None


def contenders(shape: Shape, device: str) -> dict[str, Contender]:
    """Each runs the updates of a turn and returns seconds per update."""
    return {
        f"{name} {how}": _training(shape, make(shape), how == "compiled", device)
        for name, make in (("gpt2", _gpt2), ("plain", Plain))
        for how in ("eager", "compiled")
    }


def _gpt2(shape: Shape) -> Any:
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
        bos_token_id=None,
        eos_token_id=None,
    )
    return transformers.GPT2LMHeadModel(config)


class Plain(nn.Module):
    """GPT-2 with as little around its products as PyTorch allows: one projection to q, k and v, and fused attention."""

    def __init__(self, shape: Shape) -> None:
        """Weights from N(0, 0.02^2), biases 0."""
        super().__init__()
        self.tokens = nn.Embedding(shape.vocab_size, shape.d_model)
        self.positions = nn.Embedding(shape.context, shape.d_model)
        self.blocks = nn.ModuleList(_Block(shape) for _ in range(shape.n_layers))
        self.norm = nn.LayerNorm(shape.d_model)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens_BL: Any) -> Any:
        """Logits [B, L, V]."""
        x_BLD = self.tokens(tokens_BL) + self.positions.weight[: tokens_BL.shape[1]]
        for block in self.blocks:
            x_BLD = block(x_BLD)
        return F.linear(self.norm(x_BLD), self.tokens.weight)


class _Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.d_model
        self.n_heads = shape.n_heads
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x_BLD: Any) -> Any:
        qkv = self.qkv(self.attention_norm(x_BLD)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in qkv)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x_BLD = x_BLD + self.out(attended.transpose(1, 2).flatten(-2))
        return x_BLD + self.down(F.gelu(self.up(self.feed_forward_norm(x_BLD))))


class _Loss(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, windows_BL: Any) -> Any:
        out = self.model(windows_BL[:, :-1])
        logits_BLV = getattr(out, "logits", out).float()
        return F.cross_entropy(logits_BLV.flatten(0, 1), windows_BL[:, 1:].flatten())


def _training(shape: Shape, model: Any, compiled: bool, device: str) -> Contender:
    model = model.to(device)
    # Otherwise the second shape of a process is compiled for any shape, slower, or on a GPU not at all.
    loss_of = torch.compile(_Loss(model), dynamic=False) if compiled else _Loss(model)
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=True)
    windows = torch.randint(0, shape.vocab_size, (shape.batch_size, shape.context + 1), device=device)
    # Like ours: float32 weights, products in the dtype of the shape.
    half = torch.autocast(device, dtype=torch.bfloat16, enabled=shape.dtype == "bfloat16")

    def run() -> float:
        begin, losses = time.perf_counter(), []
        for _ in range(shape.n_steps):
            with half:
                loss = loss_of(windows)
            adamw.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            adamw.step()
            losses.append(loss.detach())
        torch.stack(losses).tolist()  # waits for the device once, as our call of several steps does
        return (time.perf_counter() - begin) / shape.n_steps

    return run
