"""Exact formulas: what a function is on each piece of the line."""

import dataclasses
import math
from collections.abc import Callable

from actlab.activations.jets import Jet


@dataclasses.dataclass(frozen=True)
class Piece:
    """A smooth formula on the closed interval [low, high]; at a shared end both neighbours hold as one-sided limits.

    `formula` is built of + - * / and the atoms of atoms.py. Analytic inside.
    """

    low: float
    high: float
    formula: Callable[[Jet], Jet]


@dataclasses.dataclass(frozen=True)
class Piecewise:
    """A function of the whole line as pieces from left to right; `unit` is the distance over which it bends."""

    pieces: tuple[Piece, ...]
    unit: float = 1.0

    @property
    def breaks(self) -> tuple[float, ...]:
        """Where one piece ends and the next begins."""
        return tuple(piece.high for piece in self.pieces[:-1])


def whole(formula: Callable[[Jet], Jet], unit: float = 1.0) -> Piecewise:
    """One formula for the whole line."""
    return Piecewise((Piece(-math.inf, math.inf, formula),), unit)


def halves(left: Callable[[Jet], Jet], right: Callable[[Jet], Jet], unit: float = 1.0) -> Piecewise:
    """One formula for x <= 0, one for x >= 0."""
    return Piecewise((Piece(-math.inf, 0.0, left), Piece(0.0, math.inf, right)), unit)
