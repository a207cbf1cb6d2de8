"""Answers which of some activations to take: searches each learning rate, then adds seeds until it is sure.

  python -m actlab compare relu gelu swiglu --budget=1h
  python -m actlab compare gelu mine --activations=mine.py --text=corpus/ --budget=30m --workdir=runs/mine
  python -m actlab compare gelu relu2 --config=configs/bert_gelu.py:small --budget=2h

Without --config a small decoder is trained (0.12M parameters, 1M bytes of text a run) on the embedded corpus, or on
TinyStories if that is prepared. The best learning rate of each activation is searched on seeds of its own and then
fixed; fresh seeds follow, the same for all, until every pair is lower, higher or equivalent, or the budget is spent.
The intervals hold together at 95% however often they are looked at. So Ctrl-C leaves a valid answer, the same command
goes on, and a larger --budget adds seeds. WORKDIR/index.html is the answer as a page, WORKDIR/answer.json for programs.
Exit codes: 0 an answer, which may be "undecided"; 2 the input must change; 130 and 143 stopped.
"""

import hashlib
import pathlib
import re
from collections.abc import Sequence

from absl import flags
from rich.console import Console

from actlab.adaptive.answer import BLOCK, Answer, duration, page
from actlab.cli import command
from actlab.config import Config, overrides, presets, replace
from actlab.config import fingerprint as fingerprint_of
from actlab.errors import UserError

_DURATION = re.compile(r"(?:(?P<h>[\d.]+)h)?(?:(?P<m>[\d.]+)m)?(?:(?P<s>[\d.]+)s)?")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}


@command.entry
def main(argv: Sequence[str]) -> int:
    """Trains and prints the answer; returns the exit code."""
    given = flags.FlagValues()
    command.define_config(given)
    command.define_activations(given)
    flags.DEFINE_string("budget", None, "Time for all of it: 30m, 1h, 2h30m.", flag_values=given)
    flags.DEFINE_string("workdir", None, "Folder of the comparison.", flag_values=given)
    flags.DEFINE_string("text", None, "Folder of .txt files to train on and to judge by.", flag_values=given)
    source, changes, words = overrides.split(argv)
    names = command.parse(__doc__, words, given, n_words=None)
    if given.budget is None:
        raise UserError("--budget is missing: say how long it may take, for example --budget=1h.")
    budget = seconds(given.budget)
    request = overrides.read(source, changes, presets.compared)
    if given.text is not None and request.overridden & {"data.name", "data.dir"}:
        raise UserError(f"--text={given.text} and --config.data.name both name a text: leave one out.")
    if not given.activations and not request.code:
        for name in names:
            command.require_activation(name, "name")

    from actlab import activations
    from actlab.adaptive.comparison import Comparison
    from actlab.training.loop import StopSignal

    command.register_activations(given.activations)
    chosen = [activations.get(name, "name").name for name in names]
    config = of_text(request.config, given.text) if given.text is not None else request.config
    label = "compare-" + "-".join(re.sub(r"[^\w.]+", "_", name).strip("_") for name in chosen)
    workdir = pathlib.Path(given.workdir or f"runs/{label}-{fingerprint_of(config)[:8]}")
    console = command.console()
    line = [*command.PYTHON, "actlab", "compare", *argv]
    comparison = Comparison(config, chosen, workdir, budget, line, console, lambda answer: show(console, answer))
    with StopSignal() as stop:
        answer = comparison.run(stop)
    command.write(workdir / "index.html", page(answer, " ".join(line)))
    console.print()
    for sentence in answer.sentences:
        console.print(sentence, markup=False)
    console.print(f"\npage        {workdir / 'index.html'}")
    return 128 + stop.received if stop.received else 0


def show(console: Console, answer: Answer) -> None:
    """Prints where the pairs stand that are open, or were decided by the newest seeds."""
    left = f"{duration(max(answer.budget - answer.spent, 0))} left"
    for row in answer.verdicts:
        if row["decided_at"] is None or row["decided_at"] > row["seeds"] - BLOCK:
            low, high = (("?" if row[end] is None else f"{row[end]:+.4f}") for end in ("low", "high"))
            pair = f"{row['first']} less {row['second']}"
            found = f"{row['difference']:+.4f} {answer.unit} ({low} to {high})  {row['verdict']}"
            console.print(f"seed {row['seeds']:>3}    {pair}  {found}  {left}", markup=False)


def seconds(text: str) -> float:
    """A duration such as 30m, 1h or 2h30m, in seconds.

    Raises:
        UserError: for anything else.
    """
    match = _DURATION.fullmatch(text.strip())
    try:
        found = sum(float(match[unit] or 0) * size for unit, size in _SECONDS.items()) if match else 0.0
    except ValueError:
        found = 0.0
    if found <= 0:
        raise UserError(f"--budget={text} is not a time: write for example --budget=30m, 1h or 2h30m.")
    return found


def of_text(config: Config, text: str) -> Config:
    """The config on the text of a folder, which is prepared under a name that follows from the folder's."""
    from actlab import data

    folder = pathlib.Path(text)
    if not folder.is_dir():
        raise UserError(f"--text={text} is not a folder: give the folder that holds the .txt files.")
    stem = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_")
    name = f"text_{stem}_{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:6]}"
    data.prepare(name, config.data.dir, source=folder)
    return replace(config, **{"data.name": name})
