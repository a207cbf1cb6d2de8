"""Activations: pure functions, each with a record. `get("gelu").fn(x)`, `get("gelu_scale(s=0.25)").fn(x)`.

float16 and bfloat16 are computed in float32 and rounded once. In float32 f, f' and f'' are within a few units in the
last place of the mathematical value wherever that is a normal number, also in the tails where the usual forms lose
all digits; on CPU XLA flushes smaller ones to 0. Derivatives of a derivative are formulas of their own.
"""

from actlab.activations.catalogue import get, names, register
from actlab.activations.derivatives import elementwise, with_derivatives
from actlab.activations.record import Activation

__all__ = ["Activation", "elementwise", "get", "names", "register", "with_derivatives"]
