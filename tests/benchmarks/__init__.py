"""Benchmarks: the program and its rivals in turn, in one run, as ratios (`make bench`)."""
