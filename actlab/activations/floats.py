"""The atoms in numpy float64, for moments."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import scipy.special

from actlab.activations.jets import Arithmetic, Constant

Numbers = np.ndarray | np.float64


class Floats(Arithmetic):
    """Plain float64 arrays, without error bounds."""

    def constant(self, value: Constant) -> np.float64:
        """The nearest float64."""
        return np.float64(float(value))

    def decays(self, x: Numbers, rates: Sequence[Fraction], powers: Sequence[int]) -> dict[int, Numbers]:
        """x^k e^-v(x) for each k."""
        exponent = sum(float(rate) * x ** (k + 1) for k, rate in enumerate(rates) if rate)
        decay = np.exp(-exponent)
        return {k: x**k * decay for k in powers}

    def normal_tails(self, x: Numbers, powers: Sequence[int]) -> dict[int, Numbers]:
        """x^k Phi(-x) for each k."""
        tail = scipy.special.ndtr(-x)
        return {k: x**k * tail for k in powers}

    def log1p(self, x: Numbers) -> Numbers:
        """log(1 + x)."""
        return np.log1p(x)


FLOATS = Floats()
