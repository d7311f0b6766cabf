"""Safetensors: one file, or shards with the index that names them."""
