"""Dtypes, specs, regions, and tensors as streams of chunks."""
