"""Shared by the HDF5 formats: safe opening, tensors, Keras' names and configuration.

superblock.py            checks that a file is complete
safe.py                  opens it, and walks it without following links out of it
structure.py             reads files in the usual layout, with messages.py and heap.py
node.py                  an object that structure.py or the HDF5 library has read (which imports h5py)
specs.py, tensors.py     turn datasets into specs and arrays
names.py                 reads attributes
config.py                compares shapes with a model's configuration
reader.py                combines them
"""
