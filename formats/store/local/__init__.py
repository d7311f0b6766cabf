"""The file system of this machine: reading, staging, replacing, locks."""
