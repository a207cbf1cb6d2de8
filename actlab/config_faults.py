"""What is wrong with a config file or an override: the words of libraries, in ours."""

import ast
import re
from collections.abc import Iterator

from absl import flags

from actlab import config as config_lib
from actlab.errors import UserError, suggestion

_UNKNOWN = re.compile(r'Key "(?P<name>[^"]+)" does not exist.* present: "\{(?P<present>.*)\}', re.DOTALL)
_UNREAD = re.compile(r"'(?P<name>\w+)'(\nDid you mean .*)?", re.DOTALL)
_TYPE = re.compile(
    r"Could not override field '(?P<name>\w+)'.*?\. (?P<value>.*) is of original type <class '(?P<given>\w+)'>"
    r" and cannot be casted to type <class '(?P<wanted>\w+)'>",
    re.DOTALL,
)
_VALUE = re.compile(r"flag --(?P<flag>config\.[^=]+)=(?P<value>.*?): (?P<fault>.*)")
_EARLY = re.compile(r"Found (?P<flag>\S+) in argv before a value for --config.*")
_KINDS = {"int": "whole number", "float": "number"}
_FAULTS = {
    "invalid literal for int": "is no whole number: give one",
    "could not convert": "is no number: give one",
    "('Non-boolean": "is neither true nor false: give one of them",
}


def of_file(error: Exception) -> UserError:
    """For what a config file raised while it ran."""
    if isinstance(error, UserError):
        return error
    return UserError(next(_of_file(error, _words(error))))


def _words(error: Exception) -> str:
    """The message; ml_collections makes it that of a KeyError's text, in quotes."""
    told = str(error.args[0] if error.args else error)
    try:
        inner = ast.literal_eval(told)
    except (SyntaxError, ValueError):
        return told
    return inner if isinstance(inner, str) and not inner.isidentifier() else told


def _of_file(error: Exception, told: str) -> Iterator[str]:
    if match := _UNKNOWN.match(told):
        section = _section(re.findall(r"'(\w+)': ", match["present"]))
        valid = [path for path, _ in config_lib.fields() if path.startswith(section)]
        name = section + match["name"]
        yield f"config.{name} is no field: {suggestion(name, valid)}"
    if isinstance(error, AttributeError | KeyError) and (match := _UNREAD.fullmatch(told)):
        parts = {part for path, _ in config_lib.fields() for part in path.split(".")}
        yield f"{match['name']} is no field: {suggestion(match['name'], parts)}"
    if match := _TYPE.match(told):
        wanted = _KINDS.get(match["wanted"], match["wanted"])
        yield f"{match['name']}={match['value']!r} is a {match['given']}: give a {wanted}."
    yield f"the config file fails with {type(error).__name__}: {told}"


def _section(names: list[str]) -> str:
    """The prefix, with its dot, of the fields that have all of these names; empty for the top."""
    of: dict[str, set[str]] = {}
    for path, _ in config_lib.fields():
        parent, dot, name = path.rpartition(".")
        of.setdefault(parent + dot, set()).add(name)
    return next((prefix for prefix, held in of.items() if prefix and held <= set(names)), "")


def of_flags(error: Exception) -> Exception:
    """For what the parser of flags raised."""
    told = str(error)
    if match := _VALUE.fullmatch(told):
        for fault, words in _FAULTS.items():
            if match["fault"].startswith(fault):
                return UserError(f"--{match['flag']}={match['value']} {words}.")
    if match := _EARLY.fullmatch(told):
        return UserError(f"{match['flag']} stands before --config: name the config file first.")
    if isinstance(error, flags.Error | UserError):
        return error
    return UserError(f"--config: the config file fails with {type(error).__name__}: {error}")
