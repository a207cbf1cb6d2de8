"""Tests the machinery that compares runs: errors at most at their nominal rate, power as predicted, no loss too low.

python -m actlab.validate --runs=runs/seed_study-1a2b3c4d
"""

import itertools
import pathlib

from absl import flags
from rich.console import Console
from rich.table import Table

from actlab import command

_RUNS = flags.DEFINE_multi_string(
    "runs", [], "Workdirs or results.csv whose noise is simulated and whose floors are checked; experiments/*."
)
_N_SEEDS = flags.DEFINE_integer("n_seeds", 5, "Seeds of each simulated activation.", lower_bound=2)
_REPEATS = flags.DEFINE_integer("repeats", 2000, "Simulated studies.", lower_bound=100)
_SEED = flags.DEFINE_integer("seed", 0, "Of the random draws.", lower_bound=0, upper_bound=2**31 - 1)
EXIT_INVALID = 1
_WIDTH = 160  # where there is no terminal to ask


def main(arguments: list[str]) -> int:
    """Prints a row per check; returns 0 if all hold, else 1."""
    command.refuse(arguments)

    from actlab.studies import table, validity

    paths = [pathlib.Path(path) for path in _RUNS.value] or sorted(pathlib.Path("experiments").glob("*/results.csv"))
    tables = [table.read([path]) for path in paths]
    results = list(itertools.chain(*tables))
    noise = validity.noise_of(*tables)
    console = Console(highlight=False, soft_wrap=True)
    console = console if console.is_terminal else Console(highlight=False, soft_wrap=True, width=_WIDTH)
    console.print(
        f"noise       sd {noise.residual:.4f} nats between runs, {noise.seed:.4f} between seeds ({noise.source})"
    )
    grid = Table("check", "found", "holds", box=None, pad_edge=False)
    checks = list(validity.check(results, noise, _N_SEEDS.value, _REPEATS.value, _SEED.value))
    for one in checks:
        grid.add_row(one.name, one.found, "yes" if one.holds else "NO")
    console.print(grid)
    failed = [one for one in checks if not one.holds]
    if failed:
        console.print(f"verdict     not valid: {failed[0].name}: {failed[0].found}")
        return EXIT_INVALID
    console.print(f"verdict     all {len(checks)} checks hold, over {_REPEATS.value} simulated studies each")
    return 0


if __name__ == "__main__":
    command.run(main)
