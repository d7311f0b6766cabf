"""The content of a checkpoint, and whether it is intact."""
