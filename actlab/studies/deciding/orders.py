"""Agreement of our order of activations with published ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from actlab.studies.comparison import Comparison
from actlab.studies.statistics import rank_agreement

Orders = Mapping[str, Mapping[str, float]]


def agreements(orders: Orders, comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Kendall's tau between losses at own best and each table of published losses, for each comparison.

    Activations that only one of them has are left out, and so is a table that orders none of those that are left, as
    may be while a study is trained.
    """
    found = []
    for comparison in comparisons:
        ours = {one.activation: one.loss for one in comparison.main.standings if one.loss is not None}
        for source, theirs in orders.items():
            names = sorted(ours.keys() & theirs.keys(), key=ours.__getitem__)
            if any(len({table[name] for name in names}) < 2 for table in (ours, theirs)):
                continue
            tau, p = rank_agreement(ours, theirs)
            found.append({"scale": comparison.condition.scale, "with": source, "tau": tau, "p": p, "our_order": names})
    return found
