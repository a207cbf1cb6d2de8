"""Which package may import which, and which file owns which library."""

import ast
import pathlib

PACKAGE = pathlib.Path(__file__).parents[1] / "actlab"
FILES = {str(path.relative_to(PACKAGE)): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}

LEAVES = {"console", "errors", "files"}
MAY_IMPORT = {
    "console": set(),
    "errors": set(),
    "files": set(),
    "config": set(),
    "activations": set(),
    "data": set(),
    "models": {"activations", "config"},
    "probes": {"activations", "config"},
    "workdir": {"config", "models"},
    "training": {"activations", "config", "data", "models", "probes", "workdir", "callbacks"},
    "callbacks": {"config", "workdir"},
    "interop": {"activations", "config", "models"},
    "sweeps": {
        "activations",
        "callbacks",
        "config",
        "data",
        "interop",
        "models",
        "probes",
        "training",
        "workdir",
    },
    "analysis": {"config", "workdir"},
    "adaptive": {
        "activations",
        "analysis",
        "callbacks",
        "config",
        "data",
        "sweeps",
        "training",
        "workdir",
    },
    "claims": {"activations", "analysis", "config", "models"},
    "report": {
        "activations",
        "analysis",
        "config",
        "sweeps",
        "workdir",
    },
    "bench": {"activations", "config", "data", "models", "training"},
    "api": {"activations", "adaptive", "config", "data", "models", "sweeps", "training", "workdir"},
    "main": {"__main__", "cli", "config", "sweeps", "training"},
    "__init__": set(),
    "__main__": set(),
}
MAY_IMPORT["cli"] = set(MAY_IMPORT) - {"main", "__main__", "__init__"}
OWNERS = {
    "flax": ("models/",),
    "orbax": ("training/checkpoint.py",),
    "tensorflow_datasets": ("data/",),
    "tokenizers": ("data/",),
    "absl": ("cli/", "main.py", "api.py"),
    "altair": ("report/",),
    "jinja2": ("report/",),
    "vl_convert": ("report/",),
    "safetensors": ("interop/tensors.py",),
    "tensorboardX": ("callbacks/tensorboard.py",),
    "torch": ("bench/peer.py",),
    "transformers": ("bench/peer.py",),
    "wandb": ("callbacks/weights_and_biases.py",),
    "optax": ("training/step.py",),
}
# properties.py compiles to read the compiler's counts and runs nothing; definition.py's are written out in place;
# objectives.py masks the rows of an evaluation, once, before training.
JITS = {
    "activations/definition.py",
    "activations/properties.py",
    "bench/activations.py",
    "training/objectives.py",
    "training/programs.py",
    "training/generation.py",
    "training/devices.py",
}


def imports(tree):
    """Every dotted name imported anywhere in a file, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, ast.unparse(node)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(place):
    return place.split("/")[0].removesuffix(".py")


def test_a_room_imports_only_the_rooms_below_it():
    wrong = []
    for place, tree in FILES.items():
        for name in imports(tree):
            target = f"{name}.__init__".split(".")[1]
            allowed = {room(place), *LEAVES, *MAY_IMPORT[room(place)]}
            if name.split(".")[0] == "actlab" and target not in allowed:
                wrong.append((place, name))
    assert wrong == []


def test_a_library_is_imported_by_its_owner_only_and_jit_applied_in_few_places():
    wrong = [
        (place, name)
        for place, tree in FILES.items()
        for name in imports(tree)
        if not place.startswith(OWNERS.get(name.split(".")[0], ""))
    ]
    assert wrong == []
    nodes = ((place, node) for place, tree in FILES.items() for node in ast.walk(tree))
    jits = {place for place, node in nodes if isinstance(node, ast.Attribute) and node.attr in ("jit", "pjit", "pmap")}
    assert jits == JITS
    assert not any("TYPE_CHECKING" in ast.unparse(tree) for tree in FILES.values())
