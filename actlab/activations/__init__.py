"""Activations: pure elementwise functions, each with a record. `get("gelu").fn(x)`."""

from actlab.activations.catalogue import Activation, get, names

__all__ = ["Activation", "get", "names"]
