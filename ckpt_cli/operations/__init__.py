"""What the commands do, as functions over readers and writers that return data and never print."""
