"""The safetensors package reads our files and writes its own; run by TensorFlow 2.21's Python.

A tensor is [dtype, shape, bytes in hexadecimal].
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
    """Write tensors, given as such lists."""
    arrays = {
        key: np.frombuffer(bytes.fromhex(data), _dtype(name)).reshape(shape)
        for key, (name, shape, data) in tensors.items()
    }
    save_file(arrays, path, metadata)


def _dtype(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def read_sharded(index):
    """Return the tensors of an index's shards as transformers loads them: shard by shard, whole."""
    import json
    import os

    with open(index, encoding="utf-8") as file:
        document = json.load(file)
    found = {}
    for name in sorted(set(document["weight_map"].values())):
        raw, _, metadata = read(os.path.join(os.path.dirname(index), name))
        assert {key for key, file in document["weight_map"].items() if file == name} == set(raw)
        found.update(raw)
    return found, document["metadata"]["total_size"], metadata
