"""Question: how well does SwiGLU, two thirds as wide, do in the feed-forward layers of a BERT-style encoder?

Command: python -m actlab.main --config=configs/bert_swiglu.py[:small|tiny|mini|bert_small|base]
Expected time: small about 6 minutes on 2 CPU cores; the others, 100,000 steps of 256 windows, want a GPU: not run yet.
Expected loss: small 1.32 nats/masked token, seed 1337, from 5.85 without context; that of configs/bert_gelu.py 1.37.
"""

from ml_collections import config_dict

from actlab.config import presets


def get_config(preset: str = "mini") -> config_dict.ConfigDict:
    """Overrides of the schema's defaults."""
    return presets.bert(preset, {"model.activation": "swiglu"})
