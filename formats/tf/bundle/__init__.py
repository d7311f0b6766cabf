"""TensorBundle V2: an index, and data shards."""
