"""A page as text."""

import base64
import hashlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import jinja2
import markupsafe

from actlab.page.blocks import Block, Cell, Details, Figure, Section, Side, Swatch, Table
from actlab.page.figures import compact, libraries

_SWATCH_DASH = 2  # pixels of a dash's unit
_HERE = pathlib.Path(__file__).parent
_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
)


def render(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The whole file. It loads nothing: its policy forbids every request, and every script but its own two.

    Raises:
        ValueError: for two figures, tables or places of one name.
    """
    blocks = [block for section in sections for block in _walk(section.blocks)]
    _require_unique([section.name for section in sections] + [name for block in blocks if (name := _name(block))])
    scripts = [_HERE.joinpath("page.js").read_text()]
    if any(isinstance(block, Figure) for block in blocks):
        scripts.insert(0, libraries())
    style = _HERE.joinpath("page.css").read_text()
    return _TEMPLATES.get_template("page.html").render(
        title=title,
        lead=lead,
        sections=sections,
        style=markupsafe.Markup(style),
        # Each script as it will stand between its tags, since the policy names its hash.
        scripts=[markupsafe.Markup(script) for script in scripts],
        hashes=[_hash(script) for script in scripts],
        kind=lambda block: type(block).__name__,
        packed=_packed,
        numeric=_is_numeric,
        dashes=_dashes,
    )


def _walk(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Details):
            yield from _walk(block.blocks)
        elif isinstance(block, Side):
            yield from _walk([part for _, part in block.parts])


def _packed(figure: Figure) -> dict[str, Any]:
    data = {name: {"columns": table.columns, "rows": compact(table.rows)} for name, table in figure.data.items()}
    return {"spec": figure.spec, "data": data}


def _is_numeric(table: Table, index: int) -> bool:
    """Whether a column holds numbers, above which its heading stands."""
    cells = [row[index] for row in table.rows]
    return any(isinstance(cell, Cell) and cell.order is not None for cell in cells)


def _dashes(swatch: Swatch) -> str:
    return " ".join(f"{_SWATCH_DASH * length:g}" for length in swatch.dashes)


def _name(block: Any) -> str:
    return getattr(block, "name", "")


def _require_unique(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two blocks of the page are named {name!r}: name them apart.")


def _hash(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
