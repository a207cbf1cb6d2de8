"""The schema: every field has a purpose, a valid default, and the roles that decide what it does to a run."""

import dataclasses
import subprocess
import sys
import typing

from actlab import config as config_lib
from actlab.config import Config, replace, schema


def another(path, entry):
    """A valid value of a field other than its default."""
    if path == "sweep":
        return (("seed", (1, 2)),)
    choices = [choice for choice in typing.get_args(entry.type) if choice != entry.default]
    if typing.get_origin(entry.type) is typing.Literal:
        return choices[0]
    if entry.default is None:
        return 64
    if isinstance(entry.default, bool):
        return not entry.default
    return entry.default + (1 if isinstance(entry.default, int | float) else "2")


def changed(config, path, value):
    """A copy with one field changed and nothing validated."""
    first, _, rest = path.partition(".")
    first = "from_" if first == "from" else first
    return dataclasses.replace(config, **{first: changed(getattr(config, first), rest, value) if rest else value})


def test_every_field_has_a_purpose_and_known_roles():
    for path, entry in config_lib.fields().items():
        assert entry.metadata["why"] and entry.metadata["roles"] <= set(typing.get_args(schema.Role)), path
    assert config_lib.from_json(config_lib.to_json(Config())) == Config()


def test_identity_is_every_field_but_the_external_ones():
    base = Config()
    for path, entry in config_lib.fields().items():
        other = changed(base, path, another(path, entry))
        external = path in config_lib.paths("external")
        assert external == (path == "data.dir" or path.startswith(("devices.", "log."))), path
        assert (config_lib.fingerprint(other) == config_lib.fingerprint(base)) == external, path
        # A field that is still open differs from nothing, so the resolved one asks.
        assert config_lib.first_difference(other, base) == (None if external else path)


def test_traced_values_are_those_of_a_lane():
    config = replace(Config(), seed=3, **{"optimizer.weight_decay": 0.5})
    assert config_lib.traced(config) == {"seed": 3, "optimizer.learning_rate": 1e-3, "optimizer.weight_decay": 0.5}


def test_nothing_heavy_is_imported():
    code = "import sys; from actlab.config import overrides, presets, sweep; print({'jax', 'numpy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
