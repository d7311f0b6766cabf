"""What all formats share: tensors, readers, writers, formats, and what verifying finds."""
