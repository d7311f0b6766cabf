"""Signed statements about tensors: keys, envelopes, and comparisons with them."""
