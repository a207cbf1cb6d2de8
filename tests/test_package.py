"""`import actlab` is cheap and leads everywhere: rooms are imported when they are first used, and typed by the stub."""

import ast
import pathlib
import subprocess
import sys

import actlab

STUB = pathlib.Path(actlab.__file__).with_suffix(".pyi")


def test_importing_the_package_imports_nothing_else_until_a_room_is_used(tmp_path):
    code = (
        "import sys; import actlab; "
        "heavy = {'jax', 'numpy', 'flax', 'absl', 'actlab.activations'}; print(heavy & sys.modules.keys()); "
        "record = actlab.activations.Activation('twice', lambda x: 2 * x, '2 x', 'ours'); "
        "print(actlab.activations.register(record) is actlab.activations.get('twice'))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set()", "True"]


def test_what_the_stub_types_is_what_the_package_has():
    imports = [node for node in ast.walk(ast.parse(STUB.read_text())) if isinstance(node, ast.ImportFrom)]
    typed = {alias.asname or alias.name for node in imports for alias in node.names}
    code = "import actlab; print(*(name for name in dir(actlab) if name[0] != '_'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert typed and typed == {*done.stdout.split()}
    assert all(getattr(actlab, name) is not None for name in typed)


def test_a_session_is_imported_without_what_no_start_of_a_training_needs():
    code = (
        "import sys; import actlab.sweeps.session; "
        "print({'scipy.special', 'scipy.stats', 'scipy.optimize', 'tensorflow_datasets'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set()"]


def test_registering_an_activation_computes_nothing():
    """Several processes join before their first computation, and a config file that registers one is read before."""
    code = (
        "import jax, jax.numpy as jnp\n"
        "from jax._src import xla_bridge\n"
        "from actlab import activations as a\n"
        "half = a.elementwise(lambda x, p=0.5: p * jnp.asarray(1.0) * x)\n"
        "draw = lambda key, x, p=0.5: jax.random.bernoulli(key, p, x.shape) * x\n"
        "a.register(a.Activation('noisy', half, 'p x', 'me', parameters={'p': 0.5}, draw=draw))\n"
        "print(xla_bridge.backends_are_initialized())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
