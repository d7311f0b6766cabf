"""Save the intact part of a damaged checkpoint."""
