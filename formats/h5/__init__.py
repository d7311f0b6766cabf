"""Shared by the HDF5 formats: safe opening, tensors, Keras' names and configuration.

superblock.py checks that a file is complete; safe.py opens it, and walks it without following links out of
it. structure.py reads files in the usual layout, messages.py and heap.py the parts of that, and the HDF5
library the rest: node.py holds an object of one or the other, and h5py is imported only for the latter.
specs.py and tensors.py turn datasets into specs and arrays; names.py reads attributes; config.py compares
shapes with a model's configuration; reader.py combines them.
"""
