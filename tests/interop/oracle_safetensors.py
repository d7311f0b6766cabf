"""What the safetensors package makes of our files, and files of its own; run by TensorFlow 2.21's Python.

Tensors are told as [dtype, shape, bytes in hexadecimal].
"""

import ml_dtypes
import numpy as np
import safetensors
from safetensors.numpy import save_file


def read(path):
    """Return the tensors of a file, and its metadata; numpy's own dtypes twice, as arrays, too."""
    with open(path, "rb") as file:
        held = safetensors.deserialize(file.read())
    with safetensors.safe_open(path, "np") as file:
        metadata = file.metadata()
        arrays = {
            key: [array.dtype.name, list(array.shape), array.tobytes().hex()]
            for key, one in held
            if "F8" not in one["dtype"]
            for array in [np.asarray(file.get_tensor(key))]
        }
    raw = {key: [one["dtype"], one["shape"], bytes(one["data"]).hex()] for key, one in held}
    return raw, arrays, metadata


def written(path, tensors, metadata):
    """Write tensors, given as they are told."""
    arrays = {
        key: np.frombuffer(bytes.fromhex(data), _dtype(name)).reshape(shape)
        for key, (name, shape, data) in tensors.items()
    }
    save_file(arrays, path, metadata)


def _dtype(name):
    return np.dtype(getattr(ml_dtypes, name, name))
