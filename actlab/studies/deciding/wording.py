"""Evidence as verdicts.json holds it, in words."""

from collections.abc import Mapping
from typing import Any


def words(evidence: Mapping[str, Any] | str) -> str:
    """What was compared, its interval, seeds and scale, and the rows of the table that it rests on; a text as it is."""
    if isinstance(evidence, str):
        return evidence
    numbers = evidence["reason"] or "decided"
    if evidence["mean"] is not None and evidence["interval"] is not None:
        low, high = evidence["interval"]
        numbers = f"{evidence['mean']:+.4f} ({evidence['confidence']:.0%} interval {low:+.4f} to {high:+.4f}"
        if evidence["p_holm"] is not None:
            numbers += f", p {evidence['p_holm']:.2g} after Holm over {evidence['family']}"
        numbers += f"); {evidence['reason']}" if evidence["reason"] else ")"
    seeds = f"{evidence['n_seeds']} seeds"
    if evidence["seeds_left_out"]:
        seeds += f", {evidence['seeds_left_out']} left out"
    arms = "; ".join(_arm(arm) for arm in evidence["row"])
    return f"{evidence['says']}: {numbers}, {seeds}, at this scale ({evidence['scale']}). Rows: {arms}."


def _arm(arm: Mapping[str, Any]) -> str:
    if not arm["runs"]:
        return f"{arm['arm']}: none"
    first, *rest = arm["runs"]
    more = f" and {len(rest)} more" if rest else ""
    return (
        f"{arm['arm']}: {first}{more}, mean {arm['mean']:.4f}"
        if arm["mean"] is not None
        else f"{arm['arm']}: {first}{more}"
    )
