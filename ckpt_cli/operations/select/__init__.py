"""Choose tensors, and change their keys."""
