"""Sequential comparisons: search.py finds each activation's rate, judgement.py decides the pairs."""
