"""The HDF5 library, held back from what would hang or crash it."""
