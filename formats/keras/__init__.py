"""What Keras means, in one place."""
