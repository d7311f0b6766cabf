"""From what people type to an open reader."""
