"""The subcommands, one module each, found by file name; each exposes `command`."""
