"""The numbers that claims and answers are made of, against closed forms, mpmath and quadrature."""

import csv
import math
import pathlib

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import integrate

from actlab.claims import maths, questions


@pytest.mark.parametrize("z", [-9.3, -2.5, -0.1, 0.0, 0.7, 5.5])
def test_value_slope_and_curvature_are_float64(z):
    with mpmath.workdps(30):
        phi, Phi = mpmath.npdf(z), mpmath.ncdf(z)
        truth = [float(z * Phi), float(Phi + z * phi), float((2 - mpmath.mpf(z) ** 2) * phi)]
    computed = [float(f("gelu", z)) for f in (maths.value, maths.slope, maths.curvature)]
    assert computed == pytest.approx(truth, rel=1e-13, abs=1e-300)


@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (4097,)])
def test_arrays_keep_their_shape_and_order(shape):
    z = np.linspace(-2, 2, math.prod(shape)).reshape(shape)
    assert np.array_equal(maths.value("relu", z), np.maximum(z, 0))


def test_gaussian_means_have_their_closed_forms():
    assert maths.mean(lambda z: maths.value("relu", z)) == pytest.approx(1 / math.sqrt(2 * math.pi), abs=1e-13)
    assert maths.mean(lambda z: maths.value("gelu", z)) == pytest.approx(0.5 / math.sqrt(math.pi), abs=1e-13)
    power = maths.mean(lambda z: maths.slope("gelu", z) ** 2)
    assert power == pytest.approx(1 / 3 + 2 / (3 * math.pi * math.sqrt(3)), abs=1e-13)
    assert maths.mean(lambda z: maths.value("relu", z) ** 2, scale=0.3) == pytest.approx(0.045, abs=1e-13)
    assert maths.mean(lambda z: np.ones_like(z), negative=True) == pytest.approx(0.5, abs=1e-13)


@pytest.mark.parametrize(("mu", "sigma"), [(0.0, 1.0), (-3.0, 2.0), (1.5, 0.4)])
def test_mean_of_gelu_under_a_shifted_gaussian(mu, sigma):
    def integrand(z):
        return float(maths.phi((z - mu) / sigma)) / sigma * z * float(maths.Phi(z))

    reach = 12 * sigma
    truth, _ = integrate.quad(integrand, mu - reach, mu + reach, epsabs=1e-12, limit=200)
    assert maths.mean_under(mu, sigma) == pytest.approx(truth, abs=1e-10)


def test_where_bfloat16_goes_silent():
    assert maths.silent_below(lambda x: jnp.where(x < -3, 1.0, x)) == -3.015625
    assert maths.silent_below(lambda x: x) == -math.inf
    # A gradient that comes back further left is not silent.
    assert maths.silent_below(lambda x: jnp.where((x < -3) & (x > -50), 1.0, x)) == -math.inf


def test_turning_point_and_steepest_fall():
    with mpmath.workdps(30):
        turn = mpmath.findroot(lambda z: mpmath.ncdf(z) + z * mpmath.npdf(z), -0.75)
    assert maths.turning_point() == pytest.approx(float(turn), abs=1e-14)
    assert maths.steepest_fall() == pytest.approx(-math.sqrt(2), abs=1e-14)


COMMITTED = pathlib.Path(__file__).parents[2] / "experiments"
NUMBERS = {
    "Q1": ["0.5", "0.797884560803"],
    "Q2": ["0.00620966532578", "0.0175283004936", "-0.0155241633144", "-0.0376110859081", "-0.01508426609", "13.3"],
    "Q3": ["12", "66.9%, 42.1%, 19.4%, 7.5%", "+0.0755, +0.1103, +0.1168, +0.0842", "0.007%", "0.020%", "X-6"],
    "Q4": ["4.4715e-05", "1.595769", "0.0539827837277", "0.0539827510454", "0.0539809784885", "0.0524979187479"],
    "Q5": ["-0.751791524694", "22.6%", "-3.0625", "0.392", "0.3247", "35%"],
}


@pytest.mark.parametrize("question", questions.QUESTIONS, ids=lambda question: question.id)
def test_answers_have_the_known_numbers(question):
    answer = question.answer(COMMITTED)
    for number in NUMBERS[question.id]:
        assert number in answer


@pytest.mark.parametrize("scale", [0.25, 2.0])
def test_the_change_of_a_swap_by_quadrature(scale):
    def integral(function):
        total = 0.0
        for low, high in ((-10, 0), (0, 10)):
            total += integrate.quad(lambda z: function(scale * z) * float(maths.phi(z)), low, high, epsabs=1e-13)[0]
        return total

    def exact(z):
        return z * float(maths.Phi(z))

    def change(z):
        return max(z, 0.0) - exact(z)

    relative, shift = questions.change("gelu", "relu", scale)
    assert relative == pytest.approx(
        np.sqrt(integral(lambda z: change(z) ** 2) / integral(lambda z: exact(z) ** 2)), rel=1e-9
    )
    assert shift == pytest.approx(integral(change), rel=1e-9)


def swaps(folder, costs, dead):
    """A table of swaps: GELU's loss is 1, with a seed's noise that all arms share, and `costs` more in an arm."""
    rows = [
        {"stage": stage, "activation": "gelu", "to": to, "blocks": n, "fold": fold, "seed": seed, "step": step}
        | {"loss": 1 + seed / 10 + seed * cost / 1000 + cost, "dead_fraction": dead[step > 0] if to else 0.0}
        for (stage, to, n, fold, step), cost in costs.items()
        for seed in (1, 2, 3)
    ]
    (folder / questions.SWAPS.parent).mkdir()
    with (folder / questions.SWAPS).open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize(("dead", "words"), [((0.25, 0.125), "no more die"), ((0.25, 0.5), "units die, too")])
def test_the_swap_is_answered_by_the_rows_of_its_study(tmp_path, dead, words):
    arms = {("", 0, False): 0.0, ("relu", 1, False): 0.25, ("relu", 2, False): 0.5, ("relu", 2, True): 0.125}
    arms |= {("gelu_tanh", 2, False): 0.0}
    costs = {
        (stage, *arm, step): cost * (1 if step == 0 else 0.5)
        for stage, last in (("swap", 200), ("finetune", 300))
        for arm, cost in arms.items()
        for step in (0, last)
    }
    assert "To verify" in questions.swap(tmp_path)
    swaps(tmp_path, costs, dead)
    answer = questions.swap(tmp_path)
    assert "To verify" not in answer and words in answer and f"{dead[0]:.1%} are dead" in answer
    assert "2 blocks. ReLU in 1, 2 of them costs 0.251, 0.501 nats" in answer and "75% of it back" in answer
    assert "200 steps of pre-training leave 0.2505" in answer and "without a swap by 0.2505" in answer


def test_answers_follow_the_function(monkeypatch):
    monkeypatch.setattr(maths, "slope", lambda name, z: np.full(np.shape(z), 0.25))
    monkeypatch.setattr(questions, "turning_point", lambda: -0.75)
    assert "raises the output" in questions.at_minus_two_and_a_half()
