"""Converting from and to Keras' layouts."""
