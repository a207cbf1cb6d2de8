"""Lists 110 claims about activations from three texts, each with its verdict and evidence.

python -m actlab claims --source=A --verdict=false
"""

import pathlib
from collections.abc import Sequence

from absl import flags

from actlab.cli import command
from actlab.console import lines, tables
from actlab.errors import UserError, suggestion


@command.entry
def main(argv: Sequence[str]) -> None:
    """Prints a table, a claim or the answers."""
    given = flags.FlagValues()
    flags.DEFINE_string("id", None, "Prints this claim in full, A20 for example.", flag_values=given)
    flags.DEFINE_string("source", None, "Claims of this text only: A, B or C.", flag_values=given)
    flags.DEFINE_string("kind", None, "Claims of this kind only, math for example.", flag_values=given)
    flags.DEFINE_string(
        "verdict",
        None,
        "Only these: true, false, imprecise, unsupported, open; or, at a scale, supported, refuted, equivalent, "
        "undecided, mixed.",
        flag_values=given,
    )
    flags.DEFINE_bool("questions", False, "Answers the five questions of text A instead.", flag_values=given)
    command.define_path("results", None, "Folder of studies, */verdicts.json; experiments by default.", given)
    command.parse(__doc__, argv, given)
    alone = [f"--{name}" for name in ("id", "questions") if given[name].value not in (None, False)]
    filters = [f"--{name}" for name in ("source", "kind", "verdict") if given[name].value is not None]
    if alone and len(alone) + len(filters) > 1:
        raise UserError(f"{alone[0]} cannot be combined with other flags: leave out {', '.join(alone[1:] + filters)}.")

    from actlab import claims
    from actlab.claims import claim, questions

    console = tables()
    results = claims.RESULTS if given.results is None else pathlib.Path(given.results)
    if given.results is not None and not results.is_dir():
        raise UserError(f"--results={results} is not a folder: give the one that holds the studies.")
    if given.verdict not in (None, *claims.Verdict):
        raise UserError(f"unknown --verdict={given.verdict}: {suggestion(given.verdict, map(str, claims.Verdict))}")
    if given.questions:
        console.print(questions.answers(results))
    elif given.id is not None:
        console.print(claim.full(*claims.examine((claims.get(given.id),), results)[0]))
    else:
        rows = claims.examine(claims.select(text=given.source, kind=given.kind), results)
        console.print(claim.table([row for row in rows if given.verdict in (None, row[1].verdict)]))
    if not any(results.glob("*/verdicts.json")):
        words = "has no verdicts.json of a study: what studies decide counts as open; run in a clone, or add --results"
        lines(stderr=True).print(f"warning     {results} {words}")
