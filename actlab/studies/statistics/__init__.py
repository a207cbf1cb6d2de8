"""How sure one can be of a difference between runs: effects over seeds, tests, trends, power, the word of a verdict."""

from actlab.studies.statistics.effects import (
    CONFIDENCE,
    Effect,
    Interval,
    bca_interval,
    nats,
    paired,
    prediction_interval,
    prediction_p,
    t_interval,
)
from actlab.studies.statistics.judgements import ALPHA, MARGIN, Judgement, Verdict, judge
from actlab.studies.statistics.power import paired_power, paired_resolution, two_sample_resolution
from actlab.studies.statistics.significance import (
    dunnett,
    equivalence,
    holm,
    permutation,
    sign,
    standard_deviation,
    t_test,
    two_sample,
)
from actlab.studies.statistics.trends import jonckheere_terpstra, rank_agreement

__all__ = [
    "ALPHA",
    "CONFIDENCE",
    "MARGIN",
    "Effect",
    "Interval",
    "Judgement",
    "Verdict",
    "bca_interval",
    "dunnett",
    "equivalence",
    "holm",
    "jonckheere_terpstra",
    "judge",
    "nats",
    "paired",
    "paired_power",
    "paired_resolution",
    "permutation",
    "prediction_interval",
    "prediction_p",
    "rank_agreement",
    "sign",
    "standard_deviation",
    "t_interval",
    "t_test",
    "two_sample",
    "two_sample_resolution",
]
