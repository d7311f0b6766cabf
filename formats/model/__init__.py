"""Shared by all formats: tensors, readers, writers, and the findings of verification."""
