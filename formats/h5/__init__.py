"""Shared by the HDF5 formats: safe opening, tensors, Keras' names and configuration.

superblock.py says whether a file is whole; safe.py opens it and walks it without ever
leaving it.  structure.py reads what is laid out as usual, messages.py and heap.py the
parts of that, and the HDF5 library the rest: a node.py's object is known to the one or
the other, and h5py is imported for the other alone.  specs.py and tensors.py turn
datasets into specs and arrays; names.py reads attributes; config.py holds shapes against
a model's configuration; reader.py puts them together.
"""
