"""Differences, and predictions of a restore."""
