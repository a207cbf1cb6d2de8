"""Comparisons that stop when they know: search.py finds each activation's rate, judgement.py decides the pairs."""
