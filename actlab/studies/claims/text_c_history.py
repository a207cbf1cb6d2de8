"""Text C: what BERT used, and when. google-research/bert at fe35475 (2018-10-31) unless said otherwise."""

from actlab.studies.claims.claim import Verdict, cited

MODELING = "google-research/bert modeling.py"
VASWANI = "Vaswani et al. 2017, arXiv:1706.03762, section 3.3"

_C01 = cited(
    "C01",
    "history",
    "BERT's feed-forward layers use tanh, not GELU.",
    Verdict.FALSE,
    "Its first release has hidden_act='gelu', passes it to the feed-forward layer, and computes it by the error "
    "function. The paper's appendix says GELU instead of ReLU, as in OpenAI's GPT.",
    source=f"{MODELING}:39, :213, :265-278; arXiv:1810.04805, appendix A.2",
)

_C02 = cited(
    "C02",
    "history",
    "What is true of the premise: tanh does occur in BERT.",
    Verdict.TRUE,
    "In the pooler, fixed; from 2019-02 also inside the formula of GELU. A docstring that says hidden_act serves the "
    "pooler too, which the code contradicts, may have caused the confusion.",
    source=f"{MODELING}:232 (and commit bee6030)",
)

_C03 = cited(
    "C03",
    "history",
    "BERT was released in 2018.",
    Verdict.TRUE,
    "The code is of 2018-10-31.",
    source="google-research/bert",
)

_C04 = cited(
    "C04",
    "history",
    "BERT came before GELU was widely used and tested.",
    Verdict.FALSE,
    "GELU was published in June 2016; Sockeye merged it for Transformers in November 2017; GPT-1's code of June 2018 "
    "has it as default; BERT itself used it.",
    source="arXiv:1606.08415; awslabs/sockeye pull request 229; openai/finetune-transformer-lm train.py:348",
)

_C05 = cited(
    "C05",
    "history",
    "GELU came only with later models in BERT's line.",
    Verdict.FALSE,
    "It is in the first release.",
    source=f"{MODELING}:39",
)

_C06 = cited(
    "C06",
    "history",
    "The Transformer that BERT was built on used tanh.",
    Verdict.FALSE,
    "The original Transformer's feed-forward layers have ReLU.",
    source=VASWANI,
)

_C07 = cited(
    "C07",
    "history",
    "Self-attention at first came with tanh or sigmoid feed-forward networks inside the attention blocks.",
    Verdict.FALSE,
    "Attention holds no feed-forward network, only a softmax; the feed-forward layer behind it has ReLU.",
    source=VASWANI,
)

_C08 = cited(
    "C08",
    "history",
    "BERT's paper was about pre-training and masking rather than a new architecture.",
    Verdict.TRUE,
    "Fair; the one change in the feed-forward layer was from ReLU to GELU.",
    source="arXiv:1810.04805, section 3 and appendix A.2",
)

_C14 = cited(
    "C14",
    "history",
    "At the time leaky ReLU had been tried in deep Transformers less than tanh.",
    Verdict.FALSE,
    "The Swish paper is reported to test leaky ReLU, PReLU, Softplus, ELU, SELU, GELU, ReLU and Swish on a 12-layer "
    "Transformer, and no tanh; no Transformer with tanh feed-forward layers published before 2018 was found.",
    source="Ramachandran et al. 2017, arXiv:1710.05941 (unverified)",
    secondary=True,
)

_C19 = cited(
    "C19",
    "empirical",
    "GELU could be used well only with another tuning strategy.",
    Verdict.OPEN,
    "BERT and GPT trained with ordinary Adam recipes; a comparison at several rates needs the experiment.",
    source="arXiv:1810.04805, appendix A.2",
    experiments=("X-5",),
)

_C21 = cited(
    "C21",
    "empirical",
    "Inside a larger Transformer the difference between tanh and GELU grows.",
    Verdict.OPEN,
    "Nothing is offered for it.",
    source="none",
    experiments=("X-5",),
)

_C27 = cited(
    "C27",
    "history",
    "An encoder block with activation_function='tanh' as default is near what BERT had at first.",
    Verdict.FALSE,
    "BERT never had tanh there. Its normalisation behind the residual sum is right; dropout and masks are missing.",
    source=f"{MODELING}:39",
)

_C28 = cited(
    "C28",
    "history",
    "At the time ReLU was the customary choice.",
    Verdict.TRUE,
    "The original Transformer has it, and most networks of the time.",
    source=VASWANI,
)

_C29 = cited(
    "C29",
    "history",
    "Most modern variants of BERT use GELU or something newer.",
    Verdict.TRUE,
    "RoBERTa, ALBERT and ELECTRA are reported with GELU; ModernBERT has GeGLU with the exact GELU.",
    source="Hugging Face configurations; mlx-embeddings issue 81",
    secondary=True,
)

_C30 = cited(
    "C30",
    "reference",
    "Its reading list names Vaswani et al., Goodfellow, Bengio and Courville, Hendrycks and Gimpel.",
    Verdict.TRUE,
    "All three exist and are by these authors.",
    source="arXiv:1706.03762; Deep Learning, MIT Press 2016; arXiv:1606.08415",
)
