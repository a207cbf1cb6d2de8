"""The five answers hold the numbers that the reference derives."""

import numpy as np
import pytest
from scipy import integrate

from actlab.studies.claims import curves, gelu, questions

NUMBERS = {
    "Q1": ["0.5", "0.797884560803"],
    "Q2": ["0.00620966532578", "0.0175283004936", "-0.0155241633144", "-0.0376110859081", "-0.01508426609", "13.3"],
    "Q3": ["12", "66.9%, 42.1%, 19.4%, 7.5%", "+0.0755, +0.1103, +0.1168, +0.0842", "0.007%", "0.020%", "X-6"],
    "Q4": ["4.4715e-05", "1.595769", "0.0539827837277", "0.0539827510454", "0.0539809784885", "0.0524979187479"],
    "Q5": ["-0.751791524694", "22.6%", "-3.0625", "0.392", "0.3247", "35%"],
}


@pytest.mark.parametrize("question", questions.QUESTIONS, ids=lambda question: question.id)
def test_answers_have_the_known_numbers(question):
    answer = question.answer()
    for number in NUMBERS[question.id]:
        assert number in answer


@pytest.mark.parametrize("scale", [0.25, 2.0])
def test_the_change_of_a_swap_by_quadrature(scale):
    def integral(function):
        total = 0.0
        for low, high in ((-10, 0), (0, 10)):
            total += integrate.quad(lambda z: function(scale * z) * float(gelu.phi(z)), low, high, epsabs=1e-13)[0]
        return total

    def exact(z):
        return z * float(gelu.Phi(z))

    def change(z):
        return max(z, 0.0) - exact(z)

    relative, shift = questions.change("gelu", "relu", scale)
    assert relative == pytest.approx(
        np.sqrt(integral(lambda z: change(z) ** 2) / integral(lambda z: exact(z) ** 2)), rel=1e-9
    )
    assert shift == pytest.approx(integral(change), rel=1e-9)


def test_answers_follow_the_function(monkeypatch):
    monkeypatch.setattr(curves, "slope", lambda name, z: np.full(np.shape(z), 0.25))
    monkeypatch.setattr(questions, "turning_point", lambda: -0.75)
    assert "raises the output" in questions.at_minus_two_and_a_half()
