"""Activations: pure functions, each with a record. `get("gelu").fn(x)`, `get("gelu_scale(s=0.25)").fn(x)`.

float16 and bfloat16 are computed in float32 and rounded once: all bfloat16 are within 1 unit in the last place (ULP).
In float32 and float64 f and f' are within 4 ULP of the true value (gelu2' within 5), f'' within 4 to 6, where that is a
normal number, also in the tails where the usual forms lose all digits; on CPU XLA flushes smaller ones to 0. The
exceptions are the zeros of xielu, swish and functions of a scaled argument, where the absolute error is that small.
"""

from actlab.activations.atoms import decaying, log1p, normal_tail
from actlab.activations.catalogue import get, names, register
from actlab.activations.dead_zones import DeadZone, dead_zones
from actlab.activations.derivatives import elementwise, with_derivatives
from actlab.activations.extrema import Enclosure
from actlab.activations.moments import Moments, moments
from actlab.activations.piecewise import Piece, Piecewise, halves, whole
from actlab.activations.properties import Properties, properties
from actlab.activations.record import Activation

__all__ = [
    "Activation",
    "DeadZone",
    "Enclosure",
    "Moments",
    "Piece",
    "Piecewise",
    "Properties",
    "dead_zones",
    "decaying",
    "elementwise",
    "get",
    "halves",
    "log1p",
    "moments",
    "names",
    "normal_tail",
    "properties",
    "register",
    "whole",
    "with_derivatives",
]
