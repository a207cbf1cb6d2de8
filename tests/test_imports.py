"""The plan of the house: who may import whom, and which file owns which library."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "actlab"
FILES = sorted(PACKAGE.rglob("*.py"))

MAY_IMPORT = {
    "errors": set(),
    "command": {"errors", "files"},
    "files": set(),
    "checks": {"errors"},
    "page": set(),
    "axes": {"checks", "errors"},
    "schema": {"axes", "checks"},
    "relations": {"errors", "schema"},
    "config": {"axes", "checks", "errors", "relations", "schema"},
    "presets": {"config", "errors"},
    "protocol": set(),
    "activations": {"command", "errors", "page"},
    "data": {"errors", "command"},
    "models": {"activations", "config", "errors"},
    "probes": {"activations", "config"},
    "training": {"activations", "config", "data", "errors", "files", "models", "probes"},
    "studies": {
        "activations",
        "axes",
        "bench",
        "config",
        "data",
        "errors",
        "files",
        "interop",
        "models",
        "probes",
        "protocol",
        "training",
    },
    "interop": {"activations", "config", "errors", "models"},
    "registering": {"errors"},
    "interop/__main__": {"command", "errors", "interop", "models", "registering", "studies"},
    "sample": {"command", "errors", "registering", "studies", "training"},
    "claims": {"command", "errors", "studies"},
    "report": {"activations", "command", "config", "errors", "page", "probes", "registering", "studies", "training"},
    "verdict": {"command", "errors", "studies"},
    "validate": {"command", "studies"},
    "replicate": {"command", "errors", "studies"},
    "bench": {"activations", "command", "config", "errors", "models", "training"},
    "config_faults": {"config", "errors"},
    "config_flag": {"axes", "config", "config_faults", "errors"},
    "main": {"command", "config_flag", "studies", "training"},
    "launch": {"command", "config_flag", "errors", "studies"},
    "__init__": set(),
    "__main__": {"command", "errors"},
}
OWNERS = {
    "flax": ("models/",),
    "orbax": ("training/checkpoint.py",),
    "tensorflow_datasets": ("data/",),
    "tokenizers": ("data/",),
    "absl": (
        "command.py",
        "config_faults.py",
        "config_flag.py",
        "launch.py",
        "main.py",
        "registering.py",
        "sample.py",
        "claims.py",
        "verdict.py",
        "validate.py",
        "activations/__main__.py",
        "bench/__main__.py",
        "data/__main__.py",
        "interop/__main__.py",
        "report/__main__.py",
    ),
    "matplotlib": ("activations/figures.py", "report/static.py"),
    "altair": ("report/", "activations/explorer/"),
    "jinja2": ("page/",),
    "vl_convert": ("page/",),
    "safetensors": ("interop/tensors.py",),
    "tensorboardX": ("training/tensorboard.py",),
    "torch": ("bench/peer.py",),
    "transformers": ("bench/peer.py",),
    "wandb": ("training/weights_and_biases.py",),
    "optax": ("training/optimizer.py", "training/step.py"),
}


def imports(path):
    """Every dotted name imported anywhere in a file, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(path):
    """A command may stand above its room: interop's reads runs, which studies do, and studies may use interop."""
    place = str(path.relative_to(PACKAGE).with_suffix(""))
    return place if place in MAY_IMPORT else path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_the_rooms_it_may(path):
    for name in imports(path):
        head, *rest = name.split(".")
        if head == "actlab":
            target = rest[0] if rest else "__init__"
            assert target == room(path) or target in MAY_IMPORT[room(path)], f"{path} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_library_is_imported_by_its_owner_only(path):
    place = str(path.relative_to(PACKAGE))
    for name in imports(path):
        owners = OWNERS.get(name.split(".")[0])
        assert owners is None or place.startswith(owners), f"{place} imports {name}"


@pytest.mark.parametrize(
    ("target", "places"), [("command", ("activations/__main__.py",)), ("page", ("activations/explorer/",))]
)
def test_the_functions_themselves_know_no_other_room(target, places):
    for path in PACKAGE.joinpath("activations").rglob("*.py"):
        named = any(f"{name}.".startswith(f"actlab.{target}.") for name in imports(path))
        assert not named or str(path.relative_to(PACKAGE)).startswith(places), path


def _names_jit(path):
    for node in ast.walk(ast.parse(path.read_text())):
        yield isinstance(node, ast.Attribute) and node.attr in ("jit", "pjit", "pmap")
        yield isinstance(node, ast.ImportFrom) and any(alias.name in ("jit", "pjit", "pmap") for alias in node.names)


def test_no_import_hides_behind_type_checking_and_no_file_is_called_utils():
    assert FILES
    for path in FILES:
        assert "TYPE_CHECKING" not in path.read_text(), path
        assert path.name not in ("utils.py", "helpers.py", "misc.py", "common.py")


def test_jit_is_applied_in_two_places_only_beside_the_benchmarks():
    users = {str(path.relative_to(PACKAGE)) for path in FILES if any(_names_jit(path))}
    # costs.py compiles to read the compiler's counts and runs nothing.
    users -= {"bench/training.py", "bench/peak.py", "bench/activations.py", "activations/costs.py"}
    assert users == {"training/cohort.py", "training/generation.py"}
