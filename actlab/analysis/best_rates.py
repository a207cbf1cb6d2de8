"""Arms at their own best learning rates: which rate that is, the loss there, and what swapping two arms' curves shows.

The lowest of several means is partly lowest by luck; at a high rate the luck may be that none of five seeds collapsed.
A t test of the differences at the chosen rates takes the choice as given. Four tests are wrong in different places, and
contrasts.py calls a difference only where all of them do; validity.py counts how often each would be wrong:

- at the rates of the lowest means, by a t test: wrong where seeds collapse at the best rate;
- the same, where the two arms' whole curves are swapped within seeds and the rates chosen anew (`swap`): exact for arms
  that follow one law, collapse included, but it favours the arm with more equally good rates, or more noise;
- for each seed at the rate that the other seeds choose, between the grid's rates (`left_out`), by a t test: it favours
  neither an arm nor an optimum that the grid happens to hit, but values of different seeds depend on each other. By a
  parabola through three rates it is wrong where valleys are lopsided;
- by a cubic through four it is wrong where the fourth rate lies far up a steep side.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from actlab.analysis.effects import DECIMALS, PermutationTest

NEAR = 1.8  # a rate is resolved with neighbours at most this factor away
_MOST = 16  # seeds of which all swaps are taken; of more, 2^16 - 1 are drawn


class Curves(NamedTuple):
    """An arm's losses by rate, rising, and seed. The best rate is chosen by `chosen`; `read` is what it is worth."""

    rates: Float64[np.ndarray, "R"]
    chosen: Float64[np.ndarray, "R n"]
    read: Float64[np.ndarray, "R n"]
    failed: Bool[np.ndarray, "R n"]  # diverged, collapsed, or learned nothing


def best(curves: Curves) -> int:
    """Index of the rate of the lowest mean; of equal ones the lowest rate."""
    return int(_lowest(curves.chosen.mean(axis=1)))


def _lowest(means: Float64[np.ndarray, "R *m"]) -> Int[np.ndarray, "*m"]:
    return np.asarray(np.round(means, DECIMALS).argmin(axis=0))


def unresolved(curves: Curves) -> str:
    """Why the best rate is not resolved; "" if its neighbours are at most a factor 1.8 away and no run failed there."""
    rates, at = curves.rates, best(curves)
    rate = f"{rates[at]:g}"
    if at in (0, len(rates) - 1):
        return f"{rate} is at the edge of the grid"
    away = max(rates[at + 1] / rates[at], rates[at] / rates[at - 1] if rates[at - 1] else np.inf)
    if away > NEAR * (1 + 1e-9):
        how = f"a factor {away:.3g} away" if rates[at - 1] else "0 and another"
        return f"the rates beside {rate} are {how}"
    for beside in (at - 1, at, at + 1):
        if count := int(curves.failed[beside].sum()):
            where = "there" if beside == at else f"at {rates[beside]:g} beside it"
            return f"of {rate}, {count} of {curves.failed.shape[1]} runs failed {where}"
    return ""


def at_best(curves: Curves) -> Float64[np.ndarray, "n"]:
    """What the arm is worth by seed at the rate of the lowest mean."""
    return curves.read[best(curves)]


def readings(curves: Curves) -> tuple[Float64[np.ndarray, "n"], ...]:
    """What the arm is worth by seed: at the rate of the lowest mean, and between rates by a parabola and by a cubic."""
    return at_best(curves), left_out(curves, 2), left_out(curves, 3)


def left_out(curves: Curves, degree: Literal[2, 3]) -> Float64[np.ndarray, "n"]:
    """What the arm is worth by seed at the best rate of the other seeds, between the grid's rates.

    The best rate is the vertex of the parabola in the logarithm of the rate through the lowest mean of the others and
    its two neighbours, and a seed's loss there that of the parabola through its own three losses. With degree 3 it is
    the minimum of the cubic through the next rate too, on the side of the lower neighbour or else on the other, and the
    others' cubic term is added to the seed's loss; its own loss at the fourth rate is not read, where noise may be
    large. Without a fourth rate, or where every run failed there, the term is 0. A loss falls no farther below the
    lowest mean than a convex curve through the others' means can; where losses are level and then rise steeply, a
    parabola would. Where some runs failed beside the best rate, the others say how the loss goes on there
    (`_completed`). At an edge, beside a rate at which every run failed, and where a run failed at the best rate itself,
    the best rate is that of the lowest mean. With a single seed, that seed chooses.
    """
    lowest_n, seeds = _lowest(_of_others(curves.chosen)), np.arange(curves.chosen.shape[1])
    found = curves.read[lowest_n, seeds]
    curves = _completed(curves)
    means_Rn = _of_others(curves.chosen)
    # Without their failures the others may be lower at another rate, which then counts as level with the best.
    means_Rn = np.maximum(means_Rn, means_Rn[lowest_n, seeds])
    usable = np.pad(~curves.failed.any(axis=1) & (curves.rates > 0), 2)  # none in the two places beyond each edge
    ok_n = usable[lowest_n + np.array([[1], [2], [3]])].all(axis=0)
    centre, seeds = lowest_n[ok_n], seeds[ok_n]
    if not seeds.size:
        return found
    side = np.where(means_Rn[centre + 1, seeds] < means_Rn[centre - 1, seeds], 2, -2)
    fourth = centre + np.where(usable[centre + side + 2], side, -side)
    cubic = usable[fourth + 2] & (degree == 3)
    three_3n = centre + np.array([[0], [-1], [1]])
    places_4n = np.concatenate([three_3n, np.where(cubic, fourth, centre)[None]])
    x_4n = np.log(curves.rates[places_4n] / curves.rates[centre])
    at, third = _minimum(x_4n, means_Rn[places_4n, seeds], cubic)
    of_means, of_seed = (
        _change(at, third, x_4n[:3], losses_Rn[three_3n, seeds]) for losses_Rn in (means_Rn, curves.read)
    )
    dip = -of_means
    most = _convex_dip(curves.rates, means_Rn[:, seeds], centre, np.where(at < 0, -1, 1), usable)
    found[seeds] += of_seed * np.where(dip > most, most / np.where(dip > 0, dip, 1), 1)
    return found


def _of_others(losses_Rn: Float64[np.ndarray, "R n"]) -> Float64[np.ndarray, "R n"]:
    """For each seed the means of the others; a single seed is its own."""
    n = losses_Rn.shape[1]
    return (losses_Rn.sum(axis=1, keepdims=True) - losses_Rn) / (n - 1) if n > 1 else losses_Rn


def _completed(curves: Curves) -> Curves:
    """Failed runs filled in where other seeds did not fail: a seed's loss at the best rate, plus the others' change."""
    at, whole_Rn = best(curves), ~curves.failed
    n_whole_R1 = whole_Rn.sum(axis=1, keepdims=True)
    filled_Rn = curves.failed & (n_whole_R1 > 0)
    if curves.failed[at].any() or not filled_Rn.any():
        return curves

    def fill(losses_Rn: Float64[np.ndarray, "R n"]) -> Float64[np.ndarray, "R n"]:
        changes_Rn = np.where(whole_Rn, losses_Rn - losses_Rn[at], 0.0)
        change_R1 = changes_Rn.sum(axis=1, keepdims=True) / np.maximum(n_whole_R1, 1)
        return np.where(filled_Rn, losses_Rn[at] + change_R1, losses_Rn)

    return Curves(curves.rates, fill(curves.chosen), fill(curves.read), curves.failed & ~filled_Rn)


def _convex_dip(
    rates: Float64[np.ndarray, "R"],
    means_Rn: Float64[np.ndarray, "R n"],
    centre: Int[np.ndarray, "n"],
    side: Int[np.ndarray, "n"],
    usable: Bool[np.ndarray, "R+4"],
) -> Float64[np.ndarray, "n"]:
    """How far a convex curve through the means can fall below that at `centre` before the next rate on that `side`.

    It lies above the line through the centre and the rate before, and above that through the next two rates, where the
    second of them is usable.
    """
    seeds, beyond = np.arange(len(centre)), centre + 2 * side
    known = usable[beyond + 2]
    places = np.stack([centre - side, centre + side, np.where(known, beyond, centre)])
    x_before, x_next, x_beyond = np.abs(np.log(rates[places] / rates[centre]))
    y_before, y_next, y_beyond = means_Rn[places, seeds] - means_Rn[centre, seeds]
    falls = y_before / x_before
    rises = np.where(known, np.maximum(y_beyond - y_next, 0) / np.where(known, x_beyond - x_next, 1), 0)
    meet = np.maximum(rises * x_next - y_next, 0) / np.maximum(rises + falls, 1e-300)
    return falls * np.where(known, meet, x_next)


def _minimum(
    x: Float64[np.ndarray, "4 n"], y: Float64[np.ndarray, "4 n"], cubic: Bool[np.ndarray, "n"]
) -> tuple[Float64[np.ndarray, "n"], Float64[np.ndarray, "n"]]:
    """Where the curve through four places is lowest between x[1] < 0 and x[2] > 0, and its third divided difference.

    y is lowest at x[0] = 0. The third difference is limited so that the curve is convex at least half-way to both
    neighbours: a fourth place beyond a cliff would else bend it without bound. It is 0 where it is not `cubic`.
    """
    _, below, above, beyond = x
    slope, bend = _parabola(x[:3], y[:3])
    bend = np.maximum(bend, 0)  # below 0 by rounding only
    beyond = np.where(cubic, beyond, 2 * above)
    third = (((y[3] - y[0]) / beyond - slope) / (beyond - below) - bend) / (beyond - above)
    c = np.where(cubic, np.clip(third, bend / (below - above / 2), bend / (above - below / 2)), 0)
    # In powers of x the curve is y[0] + a x + b x^2 + c x^3, lowest where its derivative rises through 0.
    a, b = slope - below * (bend - above * c), bend - c * (below + above)
    rising = b + np.sqrt(np.maximum(b**2 - 3 * a * c, 0))
    return np.where(rising > 0, -a / np.where(rising > 0, rising, 1), 0), c


def _parabola(
    x: Float64[np.ndarray, "3 n"], y: Float64[np.ndarray, "3 n"]
) -> tuple[Float64[np.ndarray, "n"], Float64[np.ndarray, "n"]]:
    """Newton's first and second divided differences of y at three places, of which the first is 0."""
    slope = (y[1] - y[0]) / x[1]
    return slope, ((y[2] - y[0]) / x[2] - slope) / (x[2] - x[1])


def _change(
    at: Float64[np.ndarray, "n"],
    third: Float64[np.ndarray, "n"],
    x: Float64[np.ndarray, "3 n"],
    y: Float64[np.ndarray, "3 n"],
) -> Float64[np.ndarray, "n"]:
    """The change from 0 to `at` of the cubic through three points with this third divided difference."""
    slope, bend = _parabola(x, y)
    return at * (slope + (at - x[1]) * (bend + (at - x[2]) * third))


def swap(pairs: Sequence[tuple[float, Curves, Curves]]) -> PermutationTest:
    """PermutationTest of a sum over pairs of arms, weight times the first's mean at its best rate minus the second's.

    All pairs swap together, and each swap chooses all rates anew. The arms have the same rates and seeds. Exact if,
    within a seed, the curves of the first arms and of the second are exchangeable. For an interaction this must hold
    after each pair's own difference is subtracted, so the arms of a pair should be best at about the same rate.
    """
    n_seeds = pairs[0][1].chosen.shape[1]
    swapped_Mn = _swapped(n_seeds)
    difference_M, k_M = np.zeros(len(swapped_Mn)), swapped_Mn.sum(axis=1)
    for weight, first, second in pairs:
        indices = [_lowest(means_RM) for means_RM in _means(first.chosen, second.chosen, swapped_Mn)]
        reads = _means(first.read, second.read, swapped_Mn)
        one, two = (np.take_along_axis(read, at[None], axis=0)[0] for read, at in zip(reads, indices, strict=True))
        difference_M += weight * (one - two)
    observed = difference_M[0]
    typical = (observed - difference_M[1:]) * n_seeds / (2 * k_M[1:])
    if n_seeds <= _MOST:
        # The first seed was never swapped: swapping all others instead turns the sign of the difference.
        opposite = (observed + difference_M) * n_seeds / (2 * (n_seeds - k_M))
        typical = np.concatenate([typical, opposite])
    return PermutationTest(np.sort(np.round(typical, DECIMALS)))


def signs(values: Float64[np.ndarray, "n"]) -> PermutationTest:
    """PermutationTest of a mean with nothing to choose: the sign of each value turns."""
    curve = values[None]
    fixed = Curves(np.ones(1), curve, curve, np.zeros(curve.shape, bool))
    return swap([(1.0, fixed, fixed._replace(chosen=np.zeros_like(curve), read=np.zeros_like(curve)))])


def _means(
    first: Float64[np.ndarray, "R n"], second: Float64[np.ndarray, "R n"], swapped_Mn: Float64[np.ndarray, "M n"]
) -> tuple[Float64[np.ndarray, "R M"], Float64[np.ndarray, "R M"]]:
    """Means over seeds of both arms under every swap."""
    n_seeds = first.shape[1]
    moved_RM = (second - first) @ swapped_Mn.T
    return (first.sum(axis=1)[:, None] + moved_RM) / n_seeds, (second.sum(axis=1)[:, None] - moved_RM) / n_seeds


@functools.cache
def _swapped(n_seeds: int) -> Float64[np.ndarray, "M {n_seeds}"]:
    """Which seeds are swapped: none first, then every set without the first seed, or sets that are drawn."""
    if n_seeds <= _MOST:
        rows = np.array(list(itertools.product((0.0, 1.0), repeat=n_seeds - 1))).reshape(
            2 ** (n_seeds - 1), n_seeds - 1
        )
        return np.concatenate([np.zeros((len(rows), 1)), rows], axis=1)
    drawn = np.random.default_rng(0).integers(2, size=(2**_MOST, n_seeds)).astype(np.float64)
    drawn[0] = 0
    return np.concatenate([drawn[:1], drawn[drawn.any(axis=1)]])
