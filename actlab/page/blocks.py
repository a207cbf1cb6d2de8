"""What a page is made of. Plain data; `render` turns it into HTML and escapes it."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal


@dataclasses.dataclass(frozen=True)
class Text:
    """A paragraph. A lead is larger, a note smaller, a warning marked."""

    words: str
    kind: Literal["plain", "lead", "note", "warning"] = "plain"


@dataclasses.dataclass(frozen=True)
class Listing:
    """A bulleted list."""

    items: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Code:
    """Text in a fixed-width font, with its line breaks."""

    text: str
    label: str = ""


@dataclasses.dataclass(frozen=True)
class Rows:
    """Data of a figure: the names of its columns, and rows of strings, numbers and None."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[str | int | float | None]]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A Vega-Lite spec whose data are named: `{"data": {"name": "losses"}}` means `data["losses"]`.

    `alt` says in words what it shows, for who cannot see it; `name` is unique on the page.
    """

    name: str
    spec: Mapping[str, Any]
    data: Mapping[str, Rows]
    alt: str
    caption: str = ""


@dataclasses.dataclass(frozen=True)
class Swatch:
    """How curves of something are drawn: a colour, and lengths on and off in line widths, () for a solid line."""

    colour: str
    dashes: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of some options."""

    param: str
    label: str
    options: tuple[str, ...]
    chosen: str


@dataclasses.dataclass(frozen=True)
class Toggles:
    """Some of some options, all of them at first unless `chosen` says which; `swatches` mark options.

    Several of one param in a section are one choice in groups.
    """

    param: str
    label: str
    options: tuple[str, ...]
    chosen: tuple[str, ...] | None = None
    swatches: Mapping[str, Swatch] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Slider:
    """A number of a range."""

    param: str
    label: str
    low: int | float
    high: int | float
    step: int | float
    value: int | float


@dataclasses.dataclass(frozen=True)
class Controls:
    """Controls of the figures of the section that they stand in."""

    items: tuple[Choice | Toggles | Slider, ...]


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell: its text, what it sorts by where that is a number, and where a click on it leads.

    `link` is the name of a place on the page; with `words` the table of that name is filtered by them.
    """

    text: str
    order: int | float | None = None
    link: str = ""
    words: str = ""
    swatch: Swatch | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows under headings, as wide as they need, sorted by a click on a heading; `filtered` adds a field to search.

    With `follows`, params of the section's controls with the index of a column, a row is shown only while each of them
    holds what its cell there says: {"lanes": 0, "scale": 1}. A table is filtered or follows.
    """

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell | str]]
    caption: str = ""
    filtered: bool = False
    follows: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Details:
    """Blocks that are folded away under a line; `name` is a place that links lead to, which unfolds it."""

    name: str
    summary: str
    blocks: tuple["Block", ...]


@dataclasses.dataclass(frozen=True)
class Side:
    """Titled blocks side by side, one below the other where the page is narrow."""

    parts: tuple[tuple[str, "Block"], ...]


Block = Text | Listing | Code | Figure | Controls | Table | Details | Side


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading with its blocks; `name` is a place that links lead to."""

    name: str
    title: str
    blocks: tuple[Block, ...]
