"""Texts A and B: the sizes of BERT and of the decoder in text B."""

import dataclasses

from actlab import models
from actlab.claims import maths
from actlab.claims.claim import Finding, Verdict, claim, graded
from actlab.config import ModelConfig

BERT = "google-research/bert"
# google-research/bert: modeling.py:36-41 for base; README.md for large.
BERT_BASE = {"blocks": 12, "d_model": 768, "d_ff": 3072}
BERT_LARGE = {"blocks": 24, "d_model": 1024, "d_ff": 4096}
BERT_SIZES = f"{BERT} modeling.py:36-41 and README.md:166"


@claim("A35", "architecture", "BERT-base has d_model 768 and a feed-forward width of 3072.")
def _bert_widths() -> Finding:
    d_model, d_ff = BERT_BASE["d_model"], BERT_BASE["d_ff"]
    evidence = f"hidden_size is {d_model}, intermediate_size {d_ff}."
    return Finding(graded((d_model, d_ff) == (768, 3072)), evidence, BERT_SIZES)


@claim("A36", "architecture", "A forward pass of BERT-base applies GELU 24 times.")
def _gelu_calls() -> Finding:
    blocks, large = BERT_BASE["blocks"], BERT_LARGE["blocks"]
    evidence = (
        f"{blocks} times, once per block; {blocks + 1} with the transform of the masked-language-model head. {large} "
        "blocks is BERT-large."
    )
    return Finding(graded(24 in (blocks, blocks + 1)), evidence, f"{BERT_SIZES}, run_pretraining.py:252")


@claim("A37", "architecture", "BERT's hidden feed-forward units are 3072 in each of 24 layers.")
def _hidden_units() -> Finding:
    sizes = {"base": BERT_BASE, "large": BERT_LARGE}
    listed = ", ".join(
        f"{name} {size['d_ff']} x {size['blocks']} = {size['d_ff'] * size['blocks']:,}" for name, size in sizes.items()
    )
    right = any((size["d_ff"], size["blocks"]) == (3072, 24) for size in sizes.values())
    return Finding(graded(right), f"No BERT is 3072 x 24: {listed}.", BERT_SIZES)


@claim(
    "A54",
    "empirical",
    "Since GELU's outputs are not centred on 0, it biases the updates of the layer above as ReLU does.",
    experiments=("X-13",),
)
def _not_centred() -> Finding:
    gelu, relu = (maths.mean(lambda z, name=name: maths.value(name, z)) for name in ("gelu", "relu"))
    evidence = (
        f"Under N(0, 1) the mean output is {gelu:.6g} (ReLU {relu:.6g}), so the mechanism is there; 'Bug or "
        "Feature^2' is said to prove a negative drift of weights behind positively biased activations, GELU among "
        "them. Whether it matters needs the experiment."
    )
    return Finding(Verdict.OPEN, evidence, "computed; arXiv:2605.17659, abstract", secondary=True)


@claim("A56", "architecture", "BERT-base has 24 feed-forward blocks.")
def _feed_forward_blocks() -> Finding:
    blocks = BERT_BASE["blocks"]
    return Finding(graded(blocks == 24), f"It has {blocks}; BERT-large has {BERT_LARGE['blocks']}.", BERT_SIZES)


GPT2_TOKENS = 50_257
CLAIMED_PARAMETERS = "10.7"  # million
# Its shape, with nanoGPT's layout.
MODEL = ModelConfig(n_layers=6, d_model=384, n_heads=6, context=128, vocab_size=50_304)


@claim("B01", "architecture", "Six layers of width 384, six heads, context 128, and GPT-2's vocabulary of 50,304.")
def _vocabulary() -> Finding:
    padded = -(-GPT2_TOKENS // 64) * 64
    evidence = (
        f"GPT-2's tokenizer has {GPT2_TOKENS:,} entries; {padded:,} is that rounded up to a multiple of 64, as "
        "nanoGPT does."
    )
    exactly, loosely = MODEL.vocab_size == GPT2_TOKENS, MODEL.vocab_size == padded
    return Finding(graded(exactly, loosely), evidence, "computed; openai/gpt-2 encoder.json; nanoGPT model.py")


def parameters(**fields: object) -> int:
    """Parameters of MODEL with some fields replaced."""
    return models.costs(models.build(dataclasses.replace(MODEL, **fields))).parameters


@claim("B02", "architecture", "That model has about 10.7 million parameters.")
def _parameters() -> Finding:
    tied, untied = parameters(), parameters(tie_embeddings=False)
    characters = parameters(vocab_size=65, use_bias=True)
    biased = models.build(dataclasses.replace(MODEL, use_bias=True))
    without_tokens = models.costs(biased).non_embedding + MODEL.context * MODEL.d_model
    evidence = (
        f"{tied:,} with tied embeddings, {untied:,} without. {CLAIMED_PARAMETERS} million fits the same network on "
        f"65 characters ({characters:,}, with biases), or one with biases whose token embedding is not counted "
        f"({without_tokens:,})."
    )
    claimed = [f"{count / 1e6:.1f}" == CLAIMED_PARAMETERS for count in (tied, untied)]
    return Finding(graded(any(claimed)), evidence, "computed on actlab.models")
