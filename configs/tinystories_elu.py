"""Question: how well does elu do in a GPT-style decoder on TinyStories?

Command: python -m actlab.main --config=configs/tinystories_elu.py[:small|char|paper]
Expected time: TBD
Expected loss: TBD
"""

from ml_collections import config_dict

from actlab import presets


def get_config(preset: str = "char") -> config_dict.ConfigDict:
    """Overrides of the schema's defaults."""
    return presets.tinystories(preset, {"model.activation": "elu"})
