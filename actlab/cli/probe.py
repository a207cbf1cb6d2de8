"""Looks into a trained model: activity, dead units and gradients of its hidden units, by layer.

  python -m actlab probe gpt2/ --text=notes.txt               a directory of Hugging Face transformers
  python -m actlab probe runs/tinystories_gelu-1a2b3c4d        a run, on the text it was trained on

The model, its tokenizer and its activation come from the directory. Nothing is trained. It prints a table, and writes a
page with the table and figures to --out. --config.train.eval_tokens=65536 and --config.model.context=512 set how much
is read.
"""

from collections.abc import Sequence

from absl import flags

from actlab.cli import command
from actlab.console import lines
from actlab.errors import UserError
from actlab.files import write_atomically


@command.entry
def main(argv: Sequence[str]) -> None:
    """Prints the table and writes the page."""
    given = flags.FlagValues()
    command.define_model(given)
    command.define_path("out", "probe.html", "File to write.", given)
    name, request = command.parse_model(__doc__, argv, given)
    if "train.curvature_every" in request.overridden:
        raise UserError("--config.train.curvature_every has no effect: a probe measures no curvature; leave it out.")
    out = command.output_file("out", given.out, ".html")

    from rich.table import Table

    from actlab.report import layers
    from actlab.report.page.render import render
    from actlab.sweeps import existing

    command.register_activations(given.activations)
    console = lines()
    start = existing.open_model(name)
    config = existing.config_of(start, request.config, request.overridden, given.text, given.field, console)
    found = existing.measure(start, config, console)
    console.print()
    lead, sections = layers.of_model(config, found)
    table = Table(box=None, pad_edge=False)
    columns, rows = layers.by_layer(config, found)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"\n{lead}")
    write_atomically(out, render(f"What the hidden units of {name} do", lead, sections))
    console.print(f"page        {out}")
