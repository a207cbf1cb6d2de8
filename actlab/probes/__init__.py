"""Probes: what happens inside a network while it trains. Pure functions of arrays; programs.py compiles them."""
