"""The checkpoints of TensorFlow before 0.12."""
