"""Whether activations come in the order of how nonlinear they are at the start, at each initialisation.

Command: python experiments/initialisation/order.py
Reads results.csv, writes order.csv and prints it, with Kendall's tau between the size N of the part of the hidden units
that is not linear in their inputs, falling, and the mean test loss at own best rates, rising; README.md has the rule.
"""

import csv
import pathlib
from collections.abc import Sequence

import numpy as np
from scipy import special, stats

from actlab import activations
from actlab.__main__ import program
from actlab.analysis import results
from actlab.analysis.contrasts import losses_at_best
from actlab.cli import command

FOLDER = pathlib.Path(__file__).parent
INIT = "model.init"
WIDTH = 64
SCALES = {"gpt2": 0.02 * WIDTH**0.5, "gain": 1.0, "fan_in": 1.0}  # standard deviation of the inputs
N_QUANTILES, N_RESAMPLES = 2**16, 9_999


@command.entry
def main(argv: Sequence[str]) -> None:
    """Writes order.csv and prints what the rule asks for."""
    command.parse(__doc__, argv, n_words=0)
    runs = results.read([FOLDER / "results.csv"])
    rows, taus = [], {}
    for init, scale in SCALES.items():
        mine = [run for run in runs if dict(run.axes)[INIT] == init]
        losses = losses_at_best(mine)
        gains = {name: 1.0 if init == "gpt2" else activations.moments(name).forward_gain for name in losses}
        sizes = {name: gains[name] * nonlinear_size(name, scale) for name in losses}
        means = {name: float(np.mean(values)) for name, values in losses.items()}
        for place, name in enumerate(sorted(means, key=means.__getitem__), 1):
            rows.append({"init": init, "place": place, "activation": name, "loss": means[name], "N": sizes[name]})
        taus[init] = tau(sizes, losses)
        print(f"{init:7} tau {taus[init][0]:+.2f}, p {taus[init][1]:.3g}; " + " < ".join(sorted(means, key=means.get)))
    for init in ("gain", "fan_in"):
        share = float(np.mean(taus[init][2] < taus["gpt2"][2]))
        print(f"{init:7} tau below that of gpt2 in {share:.1%} of {N_RESAMPLES:,} resamples of the seeds")
    with (FOLDER / "order.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "loss": f"{row['loss']:.6f}", "N": f"{row['N']:.6g}"} for row in rows)


def nonlinear_size(name: str, scale: float) -> float:
    """sd of f(z) less its best linear fit, z ~ N(0, scale^2); of a gated unit, of f(z) v less its fit by z and v."""
    activation = activations.get(name)
    # Quantiles as one vector, since polynorm divides by the root mean square of the units of a token.
    z = scale * special.ndtri((np.arange(N_QUANTILES) + 0.5) / N_QUANTILES)
    value = np.asarray(activation.fn(np.float32(z), **activation.theta), np.float64)
    if activation.gated:
        # f(z) v with independent v: its best fit is E[f] v, which leaves sd(v) sd(f).
        return scale * float(value.std())
    slope = np.cov(z, value)[0, 1] / z.var(ddof=1)
    return float((value - slope * z).std())


def tau(sizes: dict[str, float], losses: dict[str, np.ndarray]) -> tuple[float, float, np.ndarray]:
    """Kendall's tau between size and minus loss, its exact p, and the tau of each resample of the seeds."""
    size = np.array([sizes[name] for name in losses])
    table = np.array(list(losses.values()))  # [activations, seeds]
    seeds = np.random.default_rng(0).integers(table.shape[1], size=(N_RESAMPLES, table.shape[1]))
    test = stats.kendalltau(size, -table.mean(axis=1), method="exact")
    one, two = np.triu_indices(len(size), 1)
    signs = np.sign(size[one] - size[two])
    resampled = table[:, seeds].mean(axis=2)
    taus = (signs[:, None] * np.sign(resampled[two] - resampled[one])).mean(axis=0)
    return float(test.statistic), float(test.pvalue), taus


if __name__ == "__main__":
    program(main)
