"""Signed statements of tensors: keys, envelopes, and what is held against them."""
