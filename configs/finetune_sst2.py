"""Question: how well does a trained encoder tell the sentiment of GLUE's SST-2?

Command: python -m actlab.main --config=configs/finetune_sst2.py:base --config.finetune.from_checkpoint=DIR
    --config.data.tokenizer=wordpiece:DIR --config.model.d_ff=3072
after   python -m actlab data prepare sst2 [--from=FOLDER with train.tsv and dev.tsv of GLUE]
DIR is a Hugging Face directory of BERT base, uncased, with vocab.txt. Presets name a checkpoint of
configs/bert_gelu.py:PRESET in runs/bert_gelu_PRESET, trained on stories, not on film reviews.
Expected time: not run yet.
Expected loss: not run yet; BERT base is at 0.935 accuracy on the test set (Devlin et al. 2018, table 1).
"""

from ml_collections import config_dict

from actlab.config import presets


def get_config(preset: str = "base") -> config_dict.ConfigDict:
    """Overrides of the schema's defaults."""
    return presets.finetuned(
        preset,
        {
            "finetune.task": "sst2",
            "finetune.from_checkpoint": f"runs/bert_gelu_{preset}",
            "data.name": "sst2",
            "model.context": 128,
        },
    )
