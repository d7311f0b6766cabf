"""Files: where they are stored, how they are read and written, and the workers that do it."""
