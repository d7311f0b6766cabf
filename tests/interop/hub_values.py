"""The values of tensors in tests of transformers' models: they follow from names, so that none is stored."""

import zlib

import numpy as np


def values(name, shape):
    """Return the values of a tensor; of TensorFlow's the model's own scope does not count."""
    last = name.partition("/")[2] or name
    return np.random.RandomState(zlib.crc32(last.encode())).random_sample(shape).astype(np.float32)
