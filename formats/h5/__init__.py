"""What the HDF5 layouts share: opening a file safely, its tensors, Keras' names and configuration.

superblock.py says whether a file is whole before the HDF5 library sees it; safe.py
opens it and walks it without ever leaving it; tensors.py turns datasets into specs and
arrays; names.py reads attributes; config.py holds shapes against a model's
configuration; reader.py puts them together.  h5py is imported where a file is opened.
"""
