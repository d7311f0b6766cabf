"""The words of every format: dtypes, specs, regions, and tensors as streams of chunks."""
