"""Self-contained HTML pages: text, tables that sort and filter, Vega-Lite figures with controls. No network.

A page is sections, a section is blocks; `render` gives the file's whole text, the same bytes for the same blocks:

    controls = Controls((Choice("scale", "scale", ("0.5", "1"), "1"), Toggles("shown", "lanes", ("relu", "gelu"))))
    data = {"losses": Rows(("step", "loss", "lane"), [(0, 7.0, "relu"), (100, 1.2, "relu")])}
    figure = Figure("curves", spec, data, alt="Loss falls from 7 to 1.2.", caption="Validation loss.")
    html = render("Title", "One sentence on what it is.", [Section("curves", "Training", (controls, figure))])

`spec` is a Vega-Lite spec as a dict (altair: `Chart(alt.NamedData("losses"))`, then `to_dict()`). A control sets the
top-level param of its name in every figure of its section: a Choice a string, Toggles an array of strings, a Slider a
number. `width: "container"` follows the page; panels of a facet are laid out by it. A click on a mark whose
datum has `link` goes to that place of the page. Colours go through `ink`, so that black is readable on a dark page.
Everything is escaped by the template; no block takes HTML. The extra `report` has what this room imports.
"""

from actlab.page.blocks import (
    Block,
    Cell,
    Choice,
    Code,
    Controls,
    Details,
    Figure,
    Listing,
    Rows,
    Section,
    Side,
    Slider,
    Swatch,
    Table,
    Text,
    Toggles,
)
from actlab.page.figures import ink
from actlab.page.render import render

__all__ = [
    "Block",
    "Cell",
    "Choice",
    "Code",
    "Controls",
    "Details",
    "Figure",
    "Listing",
    "Rows",
    "Section",
    "Side",
    "Slider",
    "Swatch",
    "Table",
    "Text",
    "Toggles",
    "ink",
    "render",
]
