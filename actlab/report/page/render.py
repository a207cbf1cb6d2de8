"""A page as one HTML file, its figures as SVG, PNG and PDF for print: one theme, the same libraries, short rows."""

import base64
import collections
import copy
import functools
import hashlib
import json
import math
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jinja2
import markupsafe
import vl_convert

from actlab.files import write_atomically
from actlab.report.page import (
    Block,
    Cell,
    Controls,
    Details,
    Figure,
    Records,
    Rows,
    Section,
    Side,
    Swatch,
    Table,
    Value,
)

VEGA_LITE = "6.4"  # the version that altair 6 writes; fixed, so that equal pages have equal bytes
DIGITS = 5  # significant digits of the numbers in a figure
# The theme of every figure. The page defines the colours, for light and for dark paper; page.js hands it to Vega.
THEME = {
    "background": None,
    "font": 'system-ui, -apple-system, "Segoe UI", sans-serif',
    "view": {"stroke": None},
    "axis": {
        "domainColor": "var(--faint)",
        "tickColor": "var(--faint)",
        "gridColor": "var(--line)",
        "gridOpacity": 0.7,
        "labelColor": "var(--ink)",
        "titleColor": "var(--ink)",
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelLimit": 0,
        "labelSeparation": 6,  # so that two numbers do not read as one
        "titleLimit": 0,
    },
    "legend": {
        "labelColor": "var(--ink)",
        "titleColor": "var(--faint)",
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "labelLimit": 0,
        "symbolSize": 80,
        "orient": "bottom",
        "columns": 4,
    },
    "header": {"labelColor": "var(--ink)", "titleColor": "var(--faint)", "labelFontSize": 12, "labelLimit": 0},
    "title": {"color": "var(--ink)", "fontWeight": "normal", "fontSize": 12},
    "text": {"color": "var(--ink)"},
    "rule": {"color": "var(--ink)"},
    "point": {"color": "var(--ink)"},
}
# The legend of lines: on a page that has no controls for it, and in every exported figure.
LEGEND = {
    "title": None,
    "rowPadding": 1,
    "columnPadding": 12,
    "labelFontSize": 12,
    "offset": 6,
    "symbolType": "stroke",
    "symbolSize": 900,
    "symbolStrokeWidth": 2,
    "symbolOpacity": 1,
    "symbolLimit": 100,
}
DASH = 2.0  # pixels per unit of a dash length
_HERE = pathlib.Path(__file__).parent
_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
)
# Of an exported figure: the two columns of a paper or one of them, 6.5 and 3.15 inches at 96 pixels per inch.
WIDTH, NARROW = 624, 302
_PRINTED = 11  # pixels of all its text, 8.25 points
_SYMBOL, _LETTER = 54, 5.8  # pixels of a legend's symbol with the space around it, and of a letter beside it
_COLUMNS, _AXIS, _GAP = 3, 42, 20  # panels in a row; pixels of a y axis and between panels
# The colours of the page on white paper; page.css has those of the screen. After Okabe and Ito 2008, Color Universal
# Design, without their yellow, darkened until each stands out from white by 3:1, as WCAG 2.2 asks of graphics (1.4.11).
PAPER = {
    "ink": "#000000",
    "faint": "#5c5c5c",
    "line": "#e4e4e4",
    "grey": "#767676",
    "orange": "#b87400",
    "sky": "#2e8fc7",
    "green": "#00805c",
    "blue": "#004a8f",
    "vermillion": "#c84c00",
    "purple": "#a8508a",
}
_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # the first comes with vl-convert: equal text everywhere
_PNG_SCALE = 3
_IDS = re.compile(r"(?<=[\"#])(clip|gradient_)\d+")  # Vega counts on from drawing to drawing
_GEOMETRY = re.compile(r' (?:d|transform|x|y|x1|x2|y1|y2|width|height)="[^"]*"')
_DECIMALS = re.compile(r"-?\d+\.\d{2,}")  # a tenth of a pixel is enough, and the same on every machine


def render(title: str, lead: str, sections: Sequence[Section], bar: Controls | None = None) -> str:
    """The text of the HTML file. Its content security policy forbids every request and all scripts but its own two.

    The bar stays in view; its controls act on all sections.

    Raises:
        ValueError: two sections or blocks share a name.
    """
    blocks = [block for section in sections for block in _walk(section.blocks)]
    _require_unique(
        [section.name for section in sections]
        + [block.name for block in blocks if isinstance(block, Figure | Table | Details | Records)]
        + [place for block in blocks if isinstance(block, Records) for place in block.rows]
    )
    scripts = [_HERE.joinpath("page.js").read_text()]
    if any(isinstance(block, Figure) for block in blocks):
        scripts.insert(0, _libraries())
    return _TEMPLATES.get_template("page.html").render(
        title=title,
        lead=lead,
        sections=sections,
        bar=bar or Controls(()),
        style=markupsafe.Markup(_HERE.joinpath("page.css").read_text()),
        theme=THEME,
        # The policy names the hash of each script, so a script must stand between its tags unchanged.
        scripts=[markupsafe.Markup(script) for script in scripts],
        hashes=[_hash(script) for script in scripts],
        kind=lambda block: type(block).__name__,
        packed=_packed,
        packed_table=_packed_table,
        packed_records=_packed_records,
        dashes=_dashes,
    )


def figures(sections: Sequence[Section]) -> list[Figure]:
    """The figures of a page, in its order."""
    return [block for section in sections for block in _walk(section.blocks) if isinstance(block, Figure)]


def compact(rows: Iterable[Sequence[Value]]) -> list[list[Value]]:
    """Rows with floats cut to DIGITS; NaN and infinities become None."""
    return [[_rounded(value) for value in row] for row in rows]


@functools.cache  # tests and scripts render many pages, and bundling takes long
def _libraries() -> str:
    """Vega, Vega-Lite and vega-embed as one JavaScript module that sets window.vegaEmbed."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VEGA_LITE)


def _walk(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Details):
            yield from _walk(block.blocks)
        elif isinstance(block, Side):
            yield from _walk([part for _, part in block.parts])


def _packed(figure: Figure) -> dict[str, Any]:
    return {"spec": figure.spec, "data": {name: _columns(table) for name, table in figure.data.items()}}


def _columns(table: Rows) -> dict[str, Any]:
    rows = compact(table.rows)
    return {
        "columns": table.columns,
        "values": [_shortened([row[at] for row in rows]) for at in range(len(table.columns))],
    }


def _shortened(column: list[Any]) -> Any:
    """A column that repeats its values as these values and their places."""
    known = {value: place for place, value in enumerate(dict.fromkeys(column))}
    repeats = len(column) > 8 and 2 * len(known) < len(column)
    return {"of": list(known), "at": [known[value] for value in column]} if repeats else column


def _packed_table(table: Table) -> dict[str, Any]:
    rows = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in table.rows]
    cells = [[row[at] for row in rows] for at in range(len(table.columns))]
    return {
        "columns": table.columns,
        "texts": [_shortened([cell.text for cell in column]) for column in cells],
        "orders": [_orders(column) for column in cells],
        "swatches": [_swatches(column) for column in cells],
        "links": _shortened(list(table.links)),
        "follows": table.follows or None,
    }


def _orders(column: Sequence[Cell]) -> Any:
    """What a column sorts by: None for its texts, "texts" for the numbers that these are, else the numbers."""
    if all(cell.order is None for cell in column):
        return None
    if all(cell.order is None or cell.order == _number(cell.text) for cell in column):
        return "texts"
    return _shortened([cell.order for cell in column])


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _swatches(column: Sequence[Cell]) -> Any:
    if all(cell.swatch is None for cell in column):
        return None
    return _shortened([cell.swatch and (cell.swatch.colour, _dashes(cell.swatch)) for cell in column])


def _packed_records(block: Records) -> dict[str, Any]:
    columns = [_shortened(list(column)) for column in zip(*block.rows.values(), strict=True)]
    return {"fields": block.fields, "places": list(block.rows), "values": columns}


def _rounded(value: Value) -> Value:
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    # 4 is shorter than 4.0; beyond 2^53 a float is no longer exact to the unit, and its digits would be noise.
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short


def _dashes(swatch: Swatch) -> str:
    return " ".join(f"{DASH * length:g}" for length in swatch.dashes)


def _require_unique(names: Sequence[str]) -> None:
    for name, count in collections.Counter(names).items():
        if count > 1:
            raise ValueError(f"two blocks of the page are named {name!r}: names must differ.")


def _hash(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def export(figure: Figure, folder: pathlib.Path, name: str = "", title: str = "", **params: Any) -> list[pathlib.Path]:
    """Writes a figure into a folder as NAME.svg, .png and .pdf; the same rows give the same bytes of SVG.

    Args:
        figure: a figure of a page.
        folder: is made if it does not exist.
        name: of the files; the figure's by default.
        title: what stands above the drawing.
        params: values of the figure's params that differ from those with which the page opens.
    """
    svg = to_svg(figure, title, **params)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name or figure.name}.{form}" for form in ("svg", "png", "pdf")]
    contents = svg, vl_convert.svg_to_png(svg, scale=_PNG_SCALE), vl_convert.svg_to_pdf(svg)
    for path, content in zip(paths, contents, strict=True):
        write_atomically(path, content)
    return paths


def to_svg(figure: Figure, title: str = "", **params: Any) -> str:
    """The drawing on white paper, as wide as one column of a paper or both, all its text of one size."""
    width = NARROW if figure.narrow else WIDTH
    spec = _printed(copy.deepcopy(dict(figure.spec)), _chosen(figure, params))
    spec["params"] = [{**one, "value": params.get(one["name"], one.get("value"))} for one in spec.get("params", ())]
    spec["datasets"] = {name: _objects(table) for name, table in figure.data.items()}
    spec |= {"background": "white", "padding": 6} | ({"title": title} if title else {})
    if "facet" in spec and "columns" not in spec:
        own = spec.get("resolve", {}).get("scale", {}).get("y") == "independent"
        each = _AXIS if own else 0
        spec["columns"] = _COLUMNS
        spec["spec"]["width"] = (width - (0 if own else _AXIS)) // _COLUMNS - each - _GAP
        spec["spacing"] = _GAP
    elif spec.get("width") == "container":
        spec |= {"width": width, "autosize": {"type": "fit-x", "contains": "padding"}}
    # Without aria, which would label each mark of the file for screen readers; the file has a title and a description.
    config = _of_one_size(json.loads(_on_paper(json.dumps(THEME)))) | {"font": _FONT, "aria": False}
    spec = _of_one_size(json.loads(_on_paper(json.dumps(spec))))
    svg = vl_convert.vegalite_to_svg(spec, VEGA_LITE, config=config)
    ids: dict[str, str] = {}
    svg = _IDS.sub(lambda found: ids.setdefault(found[0], f"{found[1]}{len(ids)}"), svg)
    svg = _GEOMETRY.sub(lambda found: _DECIMALS.sub(lambda number: f"{float(number[0]):.1f}", found[0]), svg)
    said = f"{figure.words(params.get('condition'))} {figure.caption}".strip()  # the caption explains the marks
    told = f"<title>{markupsafe.escape(title or figure.name)}</title><desc>{markupsafe.escape(said)}</desc>"
    return re.sub(r"<svg[^>]*>", lambda found: f"{found[0]}{told}", svg, count=1)


def _of_one_size(spec: Any) -> Any:
    """A spec whose texts all have the size of print."""
    if isinstance(spec, Mapping):
        sized = (key for key in spec if key == "fontSize" or key.endswith("FontSize"))
        return {key: _of_one_size(value) for key, value in spec.items()} | dict.fromkeys(sized, _PRINTED)
    return [_of_one_size(one) for one in spec] if isinstance(spec, list) else spec


def _objects(table: Rows) -> list[dict[str, Value]]:
    return [dict(zip(table.columns, row, strict=False)) for row in compact(table.rows)]


def _on_paper(text: str) -> str:
    for name, colour in PAPER.items():
        text = text.replace(f"var(--{name})", colour)
    return text


def _chosen(figure: Figure, params: Mapping[str, Any]) -> Sequence[str] | None:
    """The activations that are in colour."""
    first = {one["name"]: one.get("value") for one in figure.spec.get("params", ())}
    return {**first, **params}.get("activations")


def _printed(spec: dict[str, Any], chosen: Sequence[str] | None) -> dict[str, Any]:
    """Without what only a pointer finds, and with the legend that the page has in its controls."""
    for views in ("layer", "hconcat"):
        if views in spec:
            spec[views] = [_printed(one, chosen) for one in spec[views] if not _is_hidden(one)]
    if "spec" in spec:
        spec["spec"] = _printed(spec["spec"], chosen)
    encoding = spec.get("encoding", {})
    encoding.pop("tooltip", None)
    if encoding.get("y", {}).get("field") != "activation":  # else the axis names them
        for channel in ("color", "fill", "strokeDash"):  # one legend, for an absent one would disable the others
            of = encoding.get(channel, {})
            if of.get("field") in ("activation", "arm"):
                own, drawn = of.get("legend") or {}, of.get("scale", {}).get("domain", [])
                names = list(chosen) if chosen and of["field"] == "activation" else drawn
                of["legend"] = {**LEGEND, "columns": _columns_of(names)}
                of["legend"] |= {key: own[key] for key in own if key != "columns" or type(own[key]) is int}
                of["legend"] |= {"values": names} if chosen and of["field"] == "activation" else {}
    return spec


def _columns_of(names: Sequence[str]) -> int:
    """How many columns of a legend of these names fit into a figure."""
    longest = _SYMBOL + _LETTER * max(map(len, names), default=0)
    return max(1, min(THEME["legend"]["columns"], int(WIDTH / longest)))


def _is_hidden(layer: Mapping[str, Any]) -> bool:
    return isinstance(layer.get("mark"), Mapping) and layer["mark"].get("opacity") == 0
