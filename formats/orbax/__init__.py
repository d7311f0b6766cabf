"""Shared by the Orbax and Flax formats: trees of arrays."""
