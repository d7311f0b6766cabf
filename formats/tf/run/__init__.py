"""Other files in a run's directory, next to its checkpoints."""
