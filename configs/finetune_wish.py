"""Question: can a trained encoder tell whether the wish of a story comes true?

Command: python -m actlab.main --config=configs/finetune_wish.py[:small|tiny|mini|bert_small|base]
after   python -m actlab.main --config=configs/bert_gelu.py:PRESET --workdir=runs/bert_gelu_PRESET
Labels come from the choices of the story grammar; long stories lose their beginning, not their end.
--config.finetune.task=ending asks whether the ending is happy.
Expected time: small about a minute on 2 CPU cores, by its processor time.
Expected loss: small 0.005 nats/document, accuracy 1.000 (majority 0.611), from half of the steps of bert_gelu.py:small.
"""

from ml_collections import config_dict

from actlab.config import presets


def get_config(preset: str = "mini") -> config_dict.ConfigDict:
    """Overrides of the schema's defaults."""
    return presets.finetuned(preset, {"finetune.task": "wish", "finetune.from_checkpoint": f"runs/bert_gelu_{preset}"})
