"""Question: how well does ELU do in a GPT-style decoder on TinyStories?

Command: python -m actlab.main --config=configs/tinystories_elu.py[:small|char|paper]
Expected time: small 2 to 5 minutes on 2 CPU cores; char 3 to 8 hours and paper 7 to 18, by the measured tokens/s.
Expected loss: small on story_grammar 1.46 nats/token, seed 1337, floor 0.841; char and paper are not run yet.
"""

from ml_collections import config_dict

from actlab.config import presets


def get_config(preset: str = "char") -> config_dict.ConfigDict:
    """Overrides of the schema's defaults."""
    return presets.tinystories(preset, {"model.activation": "elu"})
