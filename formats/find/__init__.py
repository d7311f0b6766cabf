"""From an argument to an open reader."""
