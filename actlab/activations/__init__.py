"""Activations: pure functions, each with a record. `get("gelu").fn(x)`, `get("gelu_scale(s=0.25)").fn(x)`.

float16 and bfloat16 are computed in float32 and rounded once: all of them are within 1 unit in the last place (ULP).
In float32 and float64 f, f' and f'' are within 4 ULP of the true value (f' and f'' of gelu_tanh in float32: 4.5), where
that is a normal number, also in the tails where the usual forms lose all digits; on CPU XLA flushes smaller ones to 0.
Next to a zero that depends on a given or trained number (swish, gelu_scale; xielu, most of all) it may be more.
"""

from actlab.activations.atoms import decaying, log1p, normal_tail
from actlab.activations.catalogue import get, is_built_in, names, register, split
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
    "is_built_in",
    "log1p",
    "moments",
    "names",
    "normal_tail",
    "properties",
    "register",
    "split",
    "whole",
    "with_derivatives",
]
