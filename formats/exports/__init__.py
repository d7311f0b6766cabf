"""Shared by the formats of exported models: weights inside graphs, read only."""
