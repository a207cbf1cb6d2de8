"""Activations: pure functions, each with a record. `get("gelu").fn(x)`, `get("gelu_scale(s=0.25)").fn(x)`.

float16 and bfloat16 are computed in float32 and rounded once, so their error is at most 1 unit in the last place (ULP).
In float32 and float64, f, f' and f'' are within 4 ULP of the true value (f' and f'' of gelu_tanh in float32: 4.5), also
in the tails, where the usual forms lose all digits. XLA on CPU flushes results below the smallest normal number to 0.
The error may be larger close to a zero that depends on a given or trained number (swish, gelu_scale, above all xielu).

The families of functions and their exact formulas are in polynomial.py, saturating.py, gaussian.py and swish.py; the
records that name them in records.py. precise/ has the arithmetic, proofs/ what is computed about them.
"""

from actlab.activations.catalogue import get, is_built_in, names, register, require_usable
from actlab.activations.definition import Activation, elementwise, with_derivatives
from actlab.activations.proofs.bounds import Enclosure
from actlab.activations.proofs.dead_zones import DeadZone, dead_zones
from actlab.activations.proofs.jets import Piece, Piecewise, decaying, halves, log1p, normal_tail, whole
from actlab.activations.proofs.moments import Moments, moments
from actlab.activations.properties import Properties, properties

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
    "require_usable",
    "whole",
    "with_derivatives",
]
