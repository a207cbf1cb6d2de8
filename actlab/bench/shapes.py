"""The models whose training speed is measured, by ours and by the peers."""

import dataclasses

from actlab.config import Config, replace


@dataclasses.dataclass(frozen=True)
class Shape:
    """A model and a batch; products in `dtype`."""

    name: str
    d_model: int
    n_heads: int
    vocab_size: int
    batch_size: int
    n_steps: int  # per measured call, which is also ours per compiled call
    n_layers: int = 6
    context: int = 128
    dtype: str = "float32"

    @property
    def config(self) -> Config:
        """The defaults of the schema, except for the shape."""
        return replace(
            Config(),
            **{
                "model.n_layers": self.n_layers,
                "model.context": self.context,
                "model.d_model": self.d_model,
                "model.n_heads": self.n_heads,
                "model.vocab_size": self.vocab_size,
                "model.use_bias": True,  # like GPT-2
                "data.batch_size": self.batch_size,
                "train.steps_per_call": self.n_steps,
                "train.dtype": self.dtype,
            },
        )


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("1.3M", 128, 4, 512, 8, 8),
        Shape("10.7M", 384, 6, 256, 16, 8),
        Shape("30M", 384, 6, 50_304, 16, 4),
        Shape("124M", 768, 12, 50_304, 32, 4, n_layers=12, context=1024),  # GPT-2; for a GPU
    )
}
