"""Text A: which models use what, and what it is said to do for training. BERT and GPT-2 are read in their own code."""

from actlab.studies.claims import curves
from actlab.studies.claims.claim import Finding, Verdict, cited, claim, graded

BERT = "google-research/bert"
# google-research/bert: modeling.py:36-41 for base; README.md for large.
BERT_BASE = {"blocks": 12, "d_model": 768, "d_ff": 3072}
BERT_LARGE = {"blocks": 24, "d_model": 1024, "d_ff": 4096}
BERT_SIZES = f"{BERT} modeling.py:36-41 and README.md:166"

_A04 = cited(
    "A04",
    "history",
    "Its small negative outputs are why GELU is standard in GPT-2, in BERT and in nearly all Transformers of today.",
    Verdict.IMPRECISE,
    "GPT-2 (tanh form) and BERT do use GELU. Most newer models do not use it plainly: LLaMA and Mistral have SwiGLU, "
    "Gemma and ModernBERT GeGLU, nanochat and modded-nanogpt squared ReLU. The reason is not given anywhere; BERT's "
    "paper says only that it follows OpenAI's GPT.",
    source=f"openai/gpt-2 src/model.py:25-26; {BERT} modeling.py:39; BERT paper (arXiv:1810.04805) appendix A.2",
)

_A13 = cited(
    "A13",
    "opinion",
    "Research comparisons need the exact form; for production the approximate one is what counts.",
    Verdict.UNSUPPORTED,
    "Nothing is offered for it. What has hurt is training with one form and serving the other; one report of such a "
    "swap measured word error rates of 0.91% and 0.84%, equal within noise. The GELU paper itself ran its "
    "experiments with the tanh form.",
    source="arXiv:1606.08415; pocket-tts issue 278; gemma_pytorch issue 33; mlx-embeddings issue 81",
    experiments=("X-7",),
)

_A34 = cited(
    "A34",
    "architecture",
    "The feed-forward layer of every Transformer is W2 GELU(W1 x + b1) + b2.",
    Verdict.IMPRECISE,
    "The form is right for GPT and BERT. The original Transformer has ReLU in that place, and gated layers have "
    "three matrices, mostly without biases.",
    source="Vaswani et al. 2017, section 3.3; Shazeer 2020, arXiv:2002.05202, equation 6",
)


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


_A38 = cited(
    "A38",
    "empirical",
    "In training, ReLU can kill a sizeable share of the neurons for good.",
    Verdict.OPEN,
    "Plausible: one encoder was reported with 0 to 73.8% dead units, growing with depth; in a toy of width 64 warmup "
    "lowered the share at step 50 from 51.6% to 13.2% (3 seeds). Whether it is for good was not tested there.",
    source="TransFuser issue 146; a third party's toy experiment",
    secondary=True,
    experiments=("X-2",),
)

_A39 = cited(
    "A39",
    "history",
    "GELU is preferred to ReLU because of dead neurons in large models.",
    Verdict.FALSE,
    "No source says so. The GELU paper derives it as the expectation of a random 0-1 mask; BERT's paper names "
    "OpenAI's GPT as the precedent and no other reason.",
    source="arXiv:1606.08415, section 2; arXiv:1810.04805, appendix A.2",
)

_A49 = cited(
    "A49",
    "history",
    "LLaMA, Mistral and Gemma all use SwiGLU.",
    Verdict.FALSE,
    "LLaMA and Mistral do. Gemma gates with GELU (GeGLU), in its tanh form.",
    source="Gemma report (arXiv:2403.08295), section 2; MaxText gemma-2b.yml, mlp_activations",
)


@claim(
    "A54",
    "empirical",
    "Since GELU's outputs are not centred on 0, it biases the updates of the layer above as ReLU does.",
    experiments=("X-13",),
)
def _not_centred() -> Finding:
    gelu, relu = (curves.mean(lambda z, name=name: curves.value(name, z)) for name in ("gelu", "relu"))
    evidence = (
        f"Under N(0, 1) the mean output is {gelu:.6g} (ReLU {relu:.6g}), so the mechanism is there; 'Bug or "
        "Feature^2' is said to prove a negative drift of weights behind positively biased activations, GELU among "
        "them. Whether it matters needs the experiment."
    )
    return Finding(Verdict.OPEN, evidence, "computed; arXiv:2605.17659, abstract", secondary=True)


_A55 = cited(
    "A55",
    "architecture",
    "In practice a batch or layer normalisation behind the activation undoes this bias.",
    Verdict.FALSE,
    "Neither BERT nor GPT-2 normalises directly behind the feed-forward activation: it goes into the second matrix, "
    "then the residual sum, and only then, if at all, a LayerNorm.",
    source=f"{BERT} modeling.py, layer_norm(layer_output + attention_output); openai/gpt-2 src/model.py",
    experiments=("X-9",),
)


@claim("A56", "architecture", "BERT-base has 24 feed-forward blocks.")
def _feed_forward_blocks() -> Finding:
    blocks = BERT_BASE["blocks"]
    return Finding(graded(blocks == 24), f"It has {blocks}; BERT-large has {BERT_LARGE['blocks']}.", BERT_SIZES)
