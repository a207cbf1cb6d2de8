"""Lists the claims of the three texts with verdict and evidence, computed anew.

python -m actlab.claims --text=A --verdict=false
"""

import pathlib

from absl import flags
from rich.console import Console

from actlab import command
from actlab.errors import UserError, suggestion

_ID = flags.DEFINE_string("id", None, "Prints this claim in full, A20 for example.")
_TEXT = flags.DEFINE_string("text", None, "Claims of this text only: A, B or C.")
_KIND = flags.DEFINE_string("kind", None, "Claims of this kind only, math for example.")
_VERDICT = flags.DEFINE_string(
    "verdict",
    None,
    "Only these: true, false, imprecise, unsupported, open; or supported, refuted, equivalent, undecided, at a scale.",
)
_QUESTIONS = flags.DEFINE_bool("questions", False, "Answers the five questions of text A instead.")
_RESULTS = flags.DEFINE_string("results", None, "Folder of studies, */verdicts.json; experiments by default.")
_WIDTH = 160  # where there is no terminal to ask


def main(arguments: list[str]) -> None:
    """Prints a table, a claim or the answers."""
    command.refuse(arguments)
    filters = [name for name in ("text", "kind", "verdict") if flags.FLAGS[name].value is not None]
    alone = [f"--{name}" for name in ("id", "questions") if flags.FLAGS[name].value]
    if len(alone) + len(filters) > 1 and alone:
        raise UserError(
            f"{alone[0]} stands alone: leave out {', '.join([*alone[1:], *(f'--{name}' for name in filters)])}."
        )

    from actlab.studies import claims
    from actlab.studies.claims import listing, questions

    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=_WIDTH)
    if _QUESTIONS.value:
        console.print(listing.answers(questions.QUESTIONS))
        return
    results = claims.RESULTS if _RESULTS.value is None else pathlib.Path(_RESULTS.value)
    if _RESULTS.value is not None and not results.is_dir():
        raise UserError(f"--results={results} is no folder: give the one that holds the studies.")
    if _ID.value:
        console.print(listing.full(*claims.examine((claims.get(_ID.value),), results)[0]))
        return
    if _VERDICT.value not in (None, *claims.Verdict):
        raise UserError(f"--verdict={_VERDICT.value} is none: {suggestion(_VERDICT.value, map(str, claims.Verdict))}")
    rows = claims.examine(claims.select(text=_TEXT.value, kind=_KIND.value), results)
    console.print(listing.table([row for row in rows if _VERDICT.value in (None, row[1].verdict)]))


if __name__ == "__main__":
    command.run(main)
