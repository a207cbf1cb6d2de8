"""Agreement of our order of activations with published ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from actlab.studies.comparison import Comparison
from actlab.studies.statistics import rank_agreement

Orders = Mapping[str, Mapping[str, float]]


def agreements(orders: Orders, comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Kendall's tau between losses at own best and each table of published losses, for each comparison.

    Activations that only one of them has are left out.

    Raises:
        UserError: as rank_agreement, for fewer than two common activations or a table that puts them level.
    """
    found = []
    for comparison in comparisons:
        ours = {one.activation: one.loss for one in comparison.main.standings if one.loss is not None}
        for source, theirs in orders.items():
            tau, p = rank_agreement(ours, theirs)
            names = sorted(ours.keys() & theirs.keys(), key=ours.__getitem__)
            found.append({"scale": comparison.condition.scale, "with": source, "tau": tau, "p": p, "our_order": names})
    return found
