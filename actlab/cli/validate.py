"""Checks the comparisons on simulated studies: error rates at most nominal, expected power, no loss below its floor.

python -m actlab validate --runs=runs/seed_study-1a2b3c4d
"""

import itertools
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from absl import flags
from rich.table import Table

from actlab.cli import command
from actlab.console import lines

EXIT_INVALID = 1


@command.entry
def main(argv: Sequence[str]) -> int:
    """Prints a row per check; returns 0 if all hold, else 1."""
    given = flags.FlagValues()
    flags.DEFINE_multi_string(
        "runs",
        [],
        "Workdirs or results.csv files: their floors are checked; by default all in experiments/.",
        flag_values=given,
    )
    flags.DEFINE_integer("n_seeds", 8, "Seeds of each simulated activation.", 2, 100, flag_values=given)
    flags.DEFINE_integer(
        "repeats", 2000, "Simulated studies of each check; 2,000 take a few minutes.", 100, 100_000, flag_values=given
    )
    flags.DEFINE_bool("compare", True, "Also simulate whole comparisons, with the rate search.", flag_values=given)
    flags.DEFINE_integer("seed", 0, "Seed of the random numbers.", 0, 2**31 - 1, flag_values=given)
    command.parse(__doc__, argv, given)

    given_paths = command.paths(given.runs)

    from actlab.adaptive import simulation
    from actlab.analysis import results as results_lib, validity

    paths = given_paths or sorted(pathlib.Path("experiments").glob("**/results.csv"))
    results = list(itertools.chain(*(results_lib.read([path]) for path in paths)))
    console = lines()
    console.print(f"false calls of a difference between two activations, {given.n_seeds} seeds, at own best rates")
    checks = list(validity.check(results, given.n_seeds, given.repeats, given.seed))
    console.print(_table(checks))
    if given.compare:
        console.print("\nfalse calls of `actlab compare`: rates searched, then seeds added and judged one by one")
        sequential = list(simulation.check(given.repeats, given.seed))
        console.print(_table(sequential))
        checks += sequential
    failed = [one for one in checks if not one.holds]
    if failed:
        console.print(f"verdict     not valid: {failed[0].name}: {failed[0].found}")
        return EXIT_INVALID
    n_limits = sum(one.limit for one in checks)
    known = f"; {n_limits} known limit{' is' if n_limits == 1 else 's are'} shown" if n_limits else ""
    console.print(
        f"verdict     all {len(checks) - n_limits} checks hold, over {given.repeats} simulated studies each{known}"
    )
    return 0


def _table(checks: Iterable[Any]) -> Table:
    table = Table("check", "found", "holds", box=None, pad_edge=False)
    for one in checks:
        table.add_row(one.name, one.found, "limit" if one.limit else "yes" if one.holds else "NO")
    return table
