"""Studies: sweeps of runs, what they amount to, and the claims they settle."""
