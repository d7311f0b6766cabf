"""What is in a checkpoint, and whether it is sound."""
