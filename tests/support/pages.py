"""What the blocks of a page hold for its script, unpacked."""

import json
import re
from typing import Any


def content(html: str, name: str) -> Any:
    """The packed content of the block of a name."""
    found = re.search(rf'id="{name}".*?<script type="application/json">(.*?)</script>', html, re.DOTALL)
    assert found, f"the page has no {name}"
    return json.loads(found[1])


def unpacked(column: Any) -> list[Any]:
    """A column, also where it is kept as its values and their places."""
    return [column["of"][place] for place in column["at"]] if isinstance(column, dict) else column


def points(html: str, figure: str) -> list[dict[str, Any]]:
    """The rows of a figure's first table."""
    table = next(iter(content(html, figure)["data"].values()))
    rows = zip(*map(unpacked, table["values"]), strict=True)
    return [dict(zip(table["columns"], row, strict=True)) for row in rows]


def cells(html: str, table: str) -> list[tuple[list[str], list[float | None]]]:
    """Of each row of a table: the texts, and the numbers by which it sorts."""
    packed = content(html, table)
    texts = [unpacked(column) for column in packed["texts"]]
    orders = [_orders(order, text) for order, text in zip(packed["orders"], texts, strict=True)]
    return [(list(row), list(of)) for row, of in zip(zip(*texts, strict=True), zip(*orders, strict=True), strict=True)]


def _orders(packed: Any, texts: list[str]) -> list[float | None]:
    if packed is None:
        return [None] * len(texts)
    return [_number(text) for text in texts] if packed == "texts" else unpacked(packed)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
