"""The work of the commands, as functions over readers and writers that return data and never print."""
