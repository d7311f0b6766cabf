"""The findings of commands as one list for CI services."""
