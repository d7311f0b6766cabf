"""Tensors from one checkpoint into another."""
