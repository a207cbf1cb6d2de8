"""Text B: the model, the protocol, and what is asserted without a number. ReLU against GELU on TinyStories."""

import dataclasses

from actlab import models
from actlab.config import ModelConfig
from actlab.studies.claims.claim import Finding, Verdict, cited, claim, graded

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


_B03 = cited(
    "B03",
    "setup",
    "The protocol is given: AdamW (0.9, 0.95), cosine, warmup unspecified, 5,000 steps, seed 1337, float32.",
    Verdict.IMPRECISE,
    "Weight decay, batch size, gradient clipping, dropout, the lowest learning rate and the size of the evaluation "
    "are missing, so nobody can repeat it. 6 layers, 6 heads, width 384, 5,000 steps, seed 1337 and ReLU are "
    "together the values of a well-known character-level script (whose context is 256).",
    source="karpathy/ng-video-lecture gpt.py",
)

_B04 = cited(
    "B04",
    "method",
    "Fixing the seed at 1337 makes the result deterministic and reproducible.",
    Verdict.IMPRECISE,
    "A seed fixes initialisation and data order, not the order of GPU reductions. And one seed tells nothing of the "
    "spread between seeds, which is what a comparison needs.",
    source="PyTorch documentation, 'Reproducibility'; cuBLAS documentation, 'Results reproducibility'",
)

_B15 = cited(
    "B15",
    "interpretation",
    "More than 90% of inactive units shows that the models learned an efficient, sparse representation of the "
    "stories' grammar.",
    Verdict.OPEN,
    "High sparsity appears without any grammar: T5-Base is reported with 3.0% nonzero ReLU outputs, and similarly on "
    "random labels and inputs; another study derives up to 90% from weight drift, with accuracy falling above about "
    "70%.",
    source="Lazy Neuron (arXiv:2210.06313), Bug or Feature^2 (arXiv:2605.17659), abstracts",
    secondary=True,
    experiments=("X-12",),
)

_B16 = cited(
    "B16",
    "interpretation",
    "ReLU's mean activation of 0.70 at the highest rate points to internal covariate shift.",
    Verdict.UNSUPPORTED,
    "Covariate shift is a change of a distribution over time; one mean at one time does not measure it.",
    source="definition: Ioffe and Szegedy 2015, arXiv:1502.03167, section 2",
    experiments=("X-1",),
)

_B19 = cited(
    "B19",
    "training",
    "GELU trains more stably, and is the safer choice for large language models.",
    Verdict.OPEN,
    "There is evidence on both sides: OPT-175B went to ReLU for stability; ReLU is reported 8.2% better in "
    "perplexity without LayerNorm; a gated ReLU is reported level with SwiGLU (28.45 against 28.48); in the GELU "
    "paper GELU and ReLU both converged poorly at a rate of 0.01.",
    source="metaseq issue 622; arXiv:2410.09637; arXiv:2406.05955; arXiv:1606.08415",
    secondary=True,
    experiments=("X-1", "X-4"),
)

_B20 = cited(
    "B20",
    "cost",
    "At moderate settings ReLU is a little faster.",
    Verdict.UNSUPPORTED,
    "The text reports no time at all.",
    source="the text's own tables",
    experiments=("X-8",),
)

_B23 = cited(
    "B23",
    "reproducibility",
    "The code is in the branch experiment/relu-vs-gelu.",
    Verdict.FALSE,
    "The link has no target, and no such branch was found.",
    source="the text's link",
)
