"""Finds which of several activations to take: searches each learning rate, then adds seeds until it is sure.

  python -m actlab compare relu gelu swiglu --budget=1h
  python -m actlab compare gelu mine --activations=mine.py --text=corpus/ --budget=30m --workdir=runs/mine
  python -m actlab compare gelu relu2 --config=configs/bert_gelu.py:small --budget=2h

Without --config a small decoder is trained (0.12M parameters, 1M bytes of text a run) on the embedded corpus, or on
TinyStories if that is prepared. The best learning rate of each activation is searched on seeds of its own and then
fixed; fresh seeds follow, the same for all, until every pair is lower, higher or equivalent, or the budget is spent.
The intervals hold together at 95% however often they are looked at. So Ctrl-C leaves a valid answer, the same command
goes on, and a larger --budget adds seeds as long as they can decide something. WORKDIR/index.html is the answer as a
page, WORKDIR/answer.json for programs; without --workdir it is runs/compare-NAMES-FINGERPRINT. --scales=3 judges at
three widths, the model's and its doublings, with the same rates under mup, and says whether each difference grows,
shrinks or holds.
Exit codes: 0 an answer, which may be "undecided"; 2 the input must change; 130 and 143 stopped.
"""

from collections.abc import Sequence

from absl import flags

from actlab.cli import command
from actlab.config import overrides, presets
from actlab.console import lines
from actlab.errors import UserError

# Fields that the comparison sets, so that another value would do nothing.
_OWN = ("model.activation", *(f"train.{name}_every" for name in ("eval", "checkpoint", "probe", "census", "curvature")))


@command.entry
def main(argv: Sequence[str]) -> int:
    """Trains and prints the answer; returns the exit code."""
    given = flags.FlagValues()
    command.define_config(given)
    command.define_activations(given)
    flags.DEFINE_string("budget", None, "Total time: 30m, 1h, 2h30m.", flag_values=given)
    command.define_path("workdir", None, "Folder to train in.", given)
    command.define_text(given)
    flags.DEFINE_integer(
        "scales", None, "Number of widths to judge at: the model's and its doublings.", 1, 8, flag_values=given
    )
    source, changes, words = overrides.split(argv)
    names = command.parse(__doc__, words, given, n_words=None)
    if given.workdir:
        command.output_folder("workdir", given.workdir)
    if given.budget is None:
        raise UserError("--budget is missing: say how long it may take, for example --budget=1h.")
    if not names:
        raise UserError("no activation is named: name two or more, python -m actlab compare relu gelu --budget=1h.")
    request = overrides.read(source, changes, presets.compared)
    command.require_one_text(given, request)
    if taken := [path for path in _OWN if path in request.overridden]:
        listed = " and ".join(f"--config.{path}" for path in taken)
        raise UserError(f"the comparison sets {listed} itself: leave {'it' if len(taken) == 1 else 'them'} out.")
    if not given.activations and not request.code:
        for name in names:
            command.require_activation(name)

    from actlab import api

    command.register_activations(given.activations)
    console = lines()
    answer = api.comparison_of(
        names,
        budget=api.budget_seconds(given.budget),
        text=given.text,
        field=given.field,
        config=request.config,
        workdir=given.workdir,
        scales=given.scales,
        console=console,
        command=[*command.PYTHON, "actlab", "compare", *argv],
    )
    console.print()
    for sentence in answer.sentences:
        console.print(sentence)
    console.print(f"\npage        {answer.workdir / 'index.html'}")
    return 128 + answer.signal if answer.signal else 0
