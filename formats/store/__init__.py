"""Where bytes lie, how they are read and written, and who does the work."""
