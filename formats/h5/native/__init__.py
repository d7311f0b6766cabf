"""The structures of HDF5 files, read here and in bounds."""
