"""Safetensors: one file, or shards with an index."""
