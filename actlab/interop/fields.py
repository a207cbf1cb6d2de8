"""The fields of a config.json, checked as they are read."""

import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any, NoReturn

from actlab.errors import UserError

NAME = "config.json"


class Fields:
    """Typed access to the fields; every refusal names the file, the field and its value."""

    def __init__(self, values: Mapping[str, Any], place: str):
        self._values = values
        self.place = place

    def get(self, name: str, default: Any = None) -> Any:
        """The field as it stands; null counts as absent, as it does in transformers."""
        value = self._values.get(name)
        return default if value is None else value

    def whole(self, name: str, default: int | None = None, low: int = 1) -> int:
        """A whole number of at least `low`; without a default the field must be there."""
        value = self.get(name, default)
        if value is None:
            raise UserError(f"{self.place} lacks {name}: take the file that belongs to the weights.")
        if type(value) is not int or not low <= value < 2**31:
            self.refuse(name, f"it must be a whole number from {low} on")
        return value

    def number(self, name: str, default: float) -> float:
        """A finite number."""
        value = self.get(name, default)
        if type(value) not in (int, float) or not math.isfinite(value):
            self.refuse(name, "it must be a finite number")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.get(name, default)
        if type(value) is not bool:
            self.refuse(name, "it must be true or false")
        return value

    def text(self, name: str, default: str) -> str:
        """A string."""
        value = self.get(name, default)
        if type(value) is not str:
            self.refuse(name, "it must be a string")
        return value

    def require(self, name: str, only: Any, default: Any = None) -> None:
        """Raises UserError unless the field has the one value that our models can express."""
        if self.get(name, default) != only:
            self.refuse(name, f"our models know {json.dumps(only)} alone; take other weights")

    def refuse(self, name: str, why: str) -> NoReturn:
        """Raises UserError about a field."""
        raise UserError(f"{self.place}: {name}={self._values.get(name)!r} cannot be used: {why}.")


def read(directory: pathlib.Path) -> Fields:
    """The fields of a directory's config.json; raises UserError where it is missing or no JSON object."""
    place = directory / NAME
    try:
        values = json.loads(place.read_bytes())
    except OSError as error:
        raise UserError(f"{directory} has no readable {NAME} ({error.strerror}): give a model's directory.") from error
    except ValueError as error:
        raise UserError(f"{place} is not JSON ({error}): take the file that belongs to the weights.") from error
    if not isinstance(values, dict):
        raise UserError(f"{place} is not a JSON object: take the file that belongs to the weights.")
    return Fields(values, str(place))
