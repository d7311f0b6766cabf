"""What lies beside checkpoints in a run's directory."""
