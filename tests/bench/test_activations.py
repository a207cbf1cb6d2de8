"""The cost of activations: what is measured is what is named; nothing is asserted of the speed itself."""

import csv
import functools
import itertools
import pathlib

import commands
import jax
import numpy as np
import pytest

from actlab import activations as catalogue
from actlab.bench import activations, timing
from actlab.cli import bench
from actlab.errors import UserError

TINY = activations.Size(16, 24)
NAMES = ("relu", "swiglu", "gelu_tanh_jax")


def run(*arguments):
    return commands.run(bench.main, *arguments)


@pytest.fixture(scope="module")
def rows():
    return list(activations.measure(NAMES, activations.cases(["float32"], [TINY]), repetitions=2))


def test_a_row_per_dtype_setting_pass_and_activation_with_its_ratio_within_its_interval(rows):
    keys = [(row["dtype"], row["setting"], row["pass"], row["activation"]) for row in rows]
    settings, passes = ["alone", "feed_forward"], ["forward", "forward_backward"]
    assert keys == list(itertools.product(["float32"], settings, passes, NAMES))
    for row in rows:
        assert 0 < row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
        assert row["milliseconds"] > 0 < row["relu_milliseconds"] and row["repetitions"] == 2
        assert row["versions"].startswith(f"jax {jax.__version__}") and row["device"] and row["size"] == "16x24"


def test_counts_are_per_hidden_element_and_gated_ones_are_two_thirds_as_wide(rows):
    found = {(row["setting"], row["pass"], row["activation"]): row for row in rows}
    alone, layer = found["alone", "forward", "relu"], found["feed_forward", "forward", "relu"]
    assert (alone["flops_per_element"], alone["transcendentals_per_element"]) == (1, 0)
    # Two products with d_model = 6: 2 * 2 * 6 per hidden element; a gated layer has three.
    assert layer["flops_per_element"] == 25 and layer["hidden_width"] == 24
    gated, gate = found["feed_forward", "forward", "swiglu"], found["alone", "forward", "swiglu"]
    assert gated["hidden_width"] == 16 and gate["hidden_width"] == 24
    assert gated["flops_per_element"] == 36 + gate["flops_per_element"]
    both = found["alone", "forward_backward", "swiglu"]
    assert both["flops_per_element"] > gate["flops_per_element"] > 1
    # Ours have an exponential of their own; jax.nn's form calls the library's.
    assert found["alone", "forward", "gelu_tanh_jax"]["transcendentals_per_element"] >= 1


@pytest.mark.parametrize("name", ["swish", "swiglu"])
@pytest.mark.parametrize("setting", activations.SETTINGS)
def test_the_measured_function_is_the_activation_with_all_its_gradients(setting, name):
    case = activations.Case(TINY, "float32", setting, "forward_backward")
    fn, inputs, _ = (activations._alone if setting == "alone" else activations._feed_forward)(case, catalogue.get(name))
    both, (cotangent, *_) = activations._with_gradients(fn, inputs)
    by_hand = jax.grad(lambda inputs, cotangent: (cotangent * fn(*inputs)).sum())
    (out, gradients), alone, expected = jax.jit(
        lambda inputs, cotangent: (both(cotangent, *inputs), fn(*inputs), by_hand(inputs, cotangent))
    )(inputs, cotangent)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
    close(out, alone)
    jax.tree.map(close, gradients, expected)
    assert all(np.any(leaf) for leaf in jax.tree.leaves(gradients))


def test_an_interval_holds_the_ratio_it_should_and_pairs_what_slowed_both():
    generator = np.random.default_rng(1)
    slow = 1 + generator.exponential(5, 31)  # minutes in which everything took longer
    noise = [generator.normal(1, 0.02, 31) for _ in range(2)]
    ratio, low, high = timing.ratio_interval(list(3 * slow * noise[0]), list(slow * noise[1]))
    assert low <= 3 <= high and low <= ratio <= high and high - low < 0.6
    ratio, low, high = timing.ratio_interval(list(noise[0]), list(noise[1]))
    assert 0.97 < low <= 1 <= high < 1.03
    assert timing.ratio_interval(list(slow), list(slow)) == (1, 1, 1)


def test_contenders_take_turns_after_one_that_is_not_counted():
    turns = []

    def contender(name, seconds):
        return lambda: turns.append(name) or seconds

    assert timing.take_turns({"a": contender("a", 1.0), "b": contender("b", 2.0)}, 2) == {"a": [1, 1], "b": [2, 2]}
    assert turns == ["a", "b"] * 3


def test_a_short_call_is_repeated_and_a_long_one_is_not(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])

    def call(seconds):
        calls.append(seconds)
        clock[0] += seconds

    for seconds, expected in ((0.25, 8), (4.0, 1)):
        calls = []
        run = timing.repeated(lambda: call(seconds), at_least=2.0)  # noqa: B023
        calls.clear()
        assert run() == seconds and len(calls) == expected


def test_the_command_prints_a_table_and_writes_the_rows(tmp_path):
    path = tmp_path / "cost.csv"
    out = run(
        "activations",
        "--names=celu(alpha=2)",
        "--sizes=8x8",
        "--dtypes=bfloat16",
        "--repetitions=6",
        f"--out={path}",
    )
    with path.open() as file:
        written = list(csv.DictReader(file))
    assert len(written) == 4 and {row["activation"] for row in written} == {"celu(alpha=2.0)"}
    assert all(value for row in written for value in row.values())
    assert "celu(alpha=2.0)" in out and "bfloat16, 8x8" in out and max(map(len, out.splitlines())) <= 120


def test_a_benchmark_that_is_stopped_keeps_the_rows_it_has(tmp_path, monkeypatch):
    def measure(*_):
        yield {"activation": "relu", "ratio": 1.0}
        raise KeyboardInterrupt

    monkeypatch.setattr(activations, "measure", measure)
    words = ["--names=relu", "--sizes=8x8", "--dtypes=float32", f"--out={tmp_path / 'cost.csv'}"]
    assert commands.call(bench.main, "activations", *words)[0] == 130
    assert (tmp_path / "cost.csv").read_text() == "activation,ratio\nrelu,1.0\n"


def test_a_file_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    opened = pathlib.Path.open

    def refused(path, *args, **fields):
        if "cost.csv" in path.name:
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **fields)

    monkeypatch.setattr(pathlib.Path, "open", refused)
    monkeypatch.setattr(timing, "take_turns", None)
    with pytest.raises(
        UserError, match=r"cost.csv cannot be used \(Permission denied\): correct that, or name another"
    ):
        run("activations", "--names=relu", "--sizes=8x8", "--dtypes=float32", f"--out={tmp_path / 'cost.csv'}")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no benchmark"),
        (["speed"], "unknown benchmark 'speed'"),
        (["activations", "training"], "unexpected argument 'training'"),
        (["activations", "--names=relu,gleu"], r"gleu.* did you mean 'gelu'"),
        (["activations", "--names=gelu_scale(s=-1)"], r"--names='gelu_scale\(s=-1\)'.* out of range"),
        (["activations", "--names="], "--names is empty"),
        (["activations", "--dtypes=bfloat61"], "--dtypes=bfloat61: did you mean 'bfloat16'"),
        (["activations", "--dtypes="], "unknown --dtypes="),
        (["activations", "--sizes=2048"], "--sizes=2048 is not a size: write TOKENSxWIDTH"),
        (["activations", "--sizes=8x6"], "multiple of 4"),
        (["activations", "--sizes=1x4"], "--sizes=1x4 is not a size: .* 8 or more"),
        (["activations", "--repetitions=5"], "--repetitions=5 is too few: give 6 or more"),
        (["training", "--repetitions=0"], "--repetitions=0 is too few: give 1 or more"),
        (["activations", "--shapes=1.3M"], "--shapes=1.3M belongs to bench training"),
        (["training", "--dtypes=float32"], "--dtypes=float32 belongs to bench activations"),
        (["training", "--shapes=1.33M"], "did you mean '1.3M'"),
        (["activations", "--out=nowhere/cost.csv"], "--out=nowhere/cost.csv is in a folder that does not exist"),
        (["activations", "--out=."], "--out=. is a folder: name a file in it"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_anything_is_measured(arguments, words, monkeypatch):
    monkeypatch.setattr(timing, "take_turns", None)
    with pytest.raises(UserError, match=words):
        run(*arguments)
