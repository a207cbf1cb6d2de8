"""Accurate arithmetic for the activations, with its coefficients as data."""
