"""What is different, and what would match."""
