"""Zip archives, whose members are files."""
