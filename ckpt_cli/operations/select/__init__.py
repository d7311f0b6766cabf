"""Which tensors, and under which keys."""
