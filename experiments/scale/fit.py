"""The excess over the entropy as a power of the size, for each activation, and what it says of a larger size.

Command: python experiments/scale/fit.py
Reads results.csv in the folders 32, 48, 64, 96 and, where it is there, 128; writes fit.csv and prints it. The fit is
log excess = log a - b log N, least squares on means over seeds; intervals of b are percentiles over resamples of the
seeds. An interval of prediction adds the scatter about the line.
"""

import csv
import pathlib
import sys
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from actlab.analysis import results
from actlab.analysis.contrasts import losses_at_best
from actlab.cli import command
from actlab.errors import UserError

FOLDER = pathlib.Path(__file__).parent
WIDTHS, NEXT = (32, 48, 64, 96), 128
N_RESAMPLES, CONFIDENCE = 9_999, 0.95

Excess = Mapping[int, np.ndarray]  # width -> [seeds], nats/token


@command.entry
def main(argv: Sequence[str]) -> None:
    """Writes fit.csv and prints a line per activation."""
    command.parse(__doc__, argv, n_words=0)
    paths = {width: FOLDER / str(width) / results.FILE for width in (*WIDTHS, NEXT)}
    tables = {width: results.read([path]) for width, path in paths.items() if width != NEXT or path.is_file()}
    sizes = {width: 12 * 4 * width**2 for width in tables}
    rows = []
    excess = {width: excess_of(runs) for width, runs in tables.items()}
    for name in excess[WIDTHS[0]]:
        found = {width: of_width[name] for width, of_width in excess.items()}
        rows.append({"activation": name} | fit({width: found[width] for width in WIDTHS}, sizes))
        if NEXT in found:
            mean = float(found[NEXT].mean())
            rows[-1] |= {"measured": mean, "holds": rows[-1]["next_low"] <= mean <= rows[-1]["next_high"]}
        print(rows[-1])
    with (FOLDER / "fit.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def excess_of(runs: Sequence[results.Result]) -> dict[str, np.ndarray]:
    """Test loss less the entropy of the test stories [seeds] of each activation, at its best rate."""
    if runs[0].test_floor is None:
        raise UserError(f"{runs[0].run} has no floor of its test loss: train on the story grammar with packing=padded.")
    return {name: losses - runs[0].test_floor for name, losses in losses_at_best(runs).items()}


def fit(excess: Excess, sizes: Mapping[int, int]) -> dict[str, float]:
    """a and b of a N^-b with intervals of b, and the excess at the next size with its interval of prediction."""
    rng = np.random.default_rng(0)
    log_n = np.log([sizes[width] for width in excess])
    resampled = lambda seeds: seeds[rng.integers(len(seeds), size=(N_RESAMPLES, len(seeds)))].mean(axis=1)  # noqa: E731
    drawn = [resampled(seeds) for seeds in excess.values()]
    log_e = np.log([values.mean() for values in excess.values()])
    slope, intercept = np.polyfit(log_n, log_e, 1)
    slopes, intercepts = np.polyfit(log_n, np.log(drawn), 1)
    # Scatter about the line, which a true power law would not have: a t interval for a new mean.
    next_n, n = np.log(12 * 4 * NEXT**2), len(log_n)
    scatter = np.sqrt(((log_e - intercept - slope * log_n) ** 2).sum() / (n - 2))
    leverage = 1 + 1 / n + (next_n - log_n.mean()) ** 2 / ((log_n - log_n.mean()) ** 2).sum()
    of_seeds = (intercepts + slopes * next_n).std()
    half = stats.t.ppf((1 + CONFIDENCE) / 2, n - 2) * np.hypot(scatter * leverage**0.5, of_seeds)
    middle = intercept + slope * next_n
    low, high = np.quantile(-slopes, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return {
        "a": float(np.exp(intercept)),
        "b": float(-slope),
        "b_low": float(low),
        "b_high": float(high),
        "next": float(np.exp(middle)),
        "next_low": float(np.exp(middle - half)),
        "next_high": float(np.exp(middle + half)),
    }


if __name__ == "__main__":
    sys.exit(main())
