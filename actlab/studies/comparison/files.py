"""verdicts.json: comparisons beside the claims that a study has settled."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from actlab.errors import UserError
from actlab.files import write_atomically
from actlab.studies.comparison.comparison import Comparison

FILE = "verdicts.json"
_DIGITS = 9  # what a sum in another order could change is left out


def write(
    path: pathlib.Path,
    comparisons: Sequence[Comparison],
    decisions: Mapping[str, Any] | None = None,
    agreements: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Writes {"claims": {...}, "comparisons": [...]}, with agreements if there are any.

    Without decisions, claims that the file holds already stay.

    Equal tables give equal bytes.

    Raises:
        UserError: for a file that is not of that form, or cannot be written.
    """
    held = _claims(path)
    if decisions is not None:
        held = _rounded({id: decision.as_dict() for id, decision in decisions.items()})
    content = {"claims": held, "comparisons": _rounded([one.as_dict() for one in comparisons])}
    if agreements:
        content["agreements"] = _rounded(list(agreements))
    try:
        write_atomically(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}): take another.") from error


def _claims(path: pathlib.Path) -> Any:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise UserError(f"{path} is there and not JSON ({error}): remove it or take another.") from error
    if not isinstance(content, dict) or not isinstance(content.get("claims", {}), dict):
        raise UserError(f'{path} is there and no object with "claims": remove it or take another.')
    return content.get("claims", {})


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, list | tuple) else value
