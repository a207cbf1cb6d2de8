"""Self-contained HTML pages: text, sortable tables, Vega-Lite figures with controls. They need no network.

A page consists of sections, a section of blocks. In render.py, `render` returns the text of the HTML file, the same
bytes for the same blocks, and `export` writes a figure as SVG, PNG and PDF:

    controls = Controls((Choice("scale", "scale", ("0.5", "1"), "1"), Toggles("shown", "runs", ("relu", "gelu"))))
    data = {"losses": Rows(("step", "loss", "run"), [(0, 7.0, "relu"), (100, 1.2, "relu")])}
    figure = Figure("curves", spec, data, alt="Loss falls from 7 to 1.2.", caption="Validation loss.")
    html = render("Title", "One sentence about it.", [Section("curves", "Training", (controls, figure))])

`spec` is a Vega-Lite spec as a dict (in altair: `Chart(alt.NamedData("losses"))`, then `to_dict()`). A control sets
the top-level param of its name in every figure of its section, one in the bar those of all sections: a Choice sets a
string, Toggles an array of strings, a Slider a number. The page's address holds what is chosen. `width: "container"`
follows the page; the page chooses the columns of a facet. A click on a mark whose datum has a `link` goes to that place
on the page. Use the colours of charts.py, which are legible on light and dark paper. The template escapes everything;
no block takes HTML.

A link is the name of a place; of a table also with search words, "runs-table activation=relu seed=1". Figures, tables
and records are drawn when they come into view, so that a page of a thousand runs opens at once.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

Value = str | int | float | None


@dataclasses.dataclass(frozen=True)
class Text:
    """A paragraph. A note is set smaller; a warning is marked."""

    words: str
    kind: Literal["plain", "note", "warning"] = "plain"


@dataclasses.dataclass(frozen=True)
class Listing:
    """A bulleted list."""

    items: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Code:
    """Text in a fixed-width font with its line breaks."""

    text: str
    label: str = ""


@dataclasses.dataclass(frozen=True)
class Rows:
    """Data of a figure: column names, and rows of strings, numbers and None."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Value]]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A Vega-Lite spec with named data: `{"data": {"name": "losses"}}` means `data["losses"]`.

    `alt` describes the figure in words; if the figure depends on a condition, it has one description for each, the one
    shown first in front. `name` is unique on the page. `files` names the exported files, each with the values of the
    spec's params that differ from the page's first state; without it there is one file, named like the figure.
    A `narrow` figure takes one column of a paper, others take two.
    """

    name: str
    spec: Mapping[str, Any]
    data: Mapping[str, Rows]
    alt: str | Mapping[str, str]
    caption: str = ""
    files: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    narrow: bool = False

    def words(self, condition: str | None = None) -> str:
        """What it shows of a condition, by default of the first."""
        if isinstance(self.alt, str):
            return self.alt
        return self.alt.get(condition or "") or next(iter(self.alt.values()), "")


@dataclasses.dataclass(frozen=True)
class Swatch:
    """How a curve is drawn: a colour, and dash lengths on and off in line widths; () is a solid line."""

    colour: str
    dashes: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Choice:
    """A choice of one option."""

    param: str
    label: str
    options: tuple[str, ...]
    chosen: str


@dataclasses.dataclass(frozen=True)
class Toggles:
    """A choice of several options; all are chosen at first unless `chosen` names some. `swatches` mark options.

    Several Toggles with the same param in one section form one choice, shown in groups.
    """

    param: str
    label: str
    options: tuple[str, ...]
    chosen: tuple[str, ...] | None = None
    swatches: Mapping[str, Swatch] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Slider:
    """A choice of a number from a range."""

    param: str
    label: str
    low: int | float
    high: int | float
    step: int | float
    value: int | float


@dataclasses.dataclass(frozen=True)
class Controls:
    """Controls; they act on the figures of their section."""

    items: tuple[Choice | Toggles | Slider, ...]


@dataclasses.dataclass(frozen=True)
class Cell:
    """A table cell: its text, and the number it sorts by, if any."""

    text: str
    order: int | float | None = None
    swatch: Swatch | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows under headings; a click on a heading sorts, `filtered` adds a search field. Long tables show 50 rows first.

    `links` has the link of each row. `follows` maps params of the controls to column indices: a row is shown only while
    every such control contains the row's cell of that column. {"lanes": 0, "scale": 1} is an example.
    """

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell | str]]
    caption: str = ""
    filtered: bool = False
    follows: Mapping[str, int] = dataclasses.field(default_factory=dict)
    links: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Records:
    """Many things of equal fields, of which the page shows the one that a link leads to.

    `rows` maps its place to the values; the first is its title. Empty values are left out.
    """

    name: str
    fields: tuple[str, ...]
    rows: Mapping[str, Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Details:
    """Blocks folded under a summary line; `name` is a place that links lead to, which unfolds it."""

    name: str
    summary: str
    blocks: tuple["Block", ...]


@dataclasses.dataclass(frozen=True)
class Side:
    """Titled blocks side by side; one below the other on a narrow page."""

    parts: tuple[tuple[str, "Block"], ...]


Block = Text | Listing | Code | Figure | Controls | Table | Records | Details | Side


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading with its blocks; `name` is a place that links lead to."""

    name: str
    title: str
    blocks: tuple[Block, ...]
