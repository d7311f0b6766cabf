"""Targets of Orbax and Flax: OCDBT's manifests and nodes, zarr's metadata, a tree's JSON, and msgpack.

Mutated parts get the right checksum, so that the code behind the check is reached.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import numpy as np

from formats.orbax.ocdbt import NodePosition, decode_manifest, decode_node
from formats.orbax.zarr import parse_array
from tests import msgpack_files, orbax_files
from tests.hostile.mutation import mutate_bytes, mutate_json
from tests.support import data_path

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

__all__ = [
    "checkpoint_in",
    "mutate_frame",
    "mutate_named",
    "parse_frame",
    "parse_zarr",
    "seeds_of_checkpoints",
    "seeds_of_flax",
    "seeds_of_frames",
    "seeds_of_zarr",
]

_ARRAYS = {
    "params.kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "params.bias": np.zeros(4, np.float32),
    "step": np.array(7),
}
_LARGEST = 100_000_000
_HEADER = 14
"""Bytes of a frame before its body."""


def seeds_of_frames() -> list[bytes]:
    """Return frames: a manifest, a leaf and an interior node."""
    leaf = orbax_files.leaf_body(orbax_files.stored(_ARRAYS))
    interior = orbax_files.interior_body([(b"a", 0, 50), (b"k", 50, 60)], 1)
    frames = [orbax_files.manifest(0, 100, height=1)]
    return frames + [orbax_files.frame(orbax_files.NODE, body) for body in (leaf, interior)]


def mutate_frame(dice: random.Random, data: bytes) -> bytes:
    """Mutate the body of a frame, and give it its length and its checksum; or mutate all of it."""
    if dice.random() < 0.1:
        return mutate_bytes(dice, data)
    body = mutate_bytes(dice, data[_HEADER:-4])
    return orbax_files.frame(int.from_bytes(data[:4], "big"), body)


def parse_frame(data: bytes) -> None:
    if data[:4] == orbax_files.MANIFEST.to_bytes(4, "big"):
        decode_manifest(data)
        return
    height = data[_HEADER] if len(data) > _HEADER else 0
    node = decode_node(data, NodePosition(b"d/0", b"", 0, len(data), height), b"", _LARGEST)
    assert sum(len(key) for key, _ in node.values) < 64 * len(data) + (1 << 21)
    assert all(child.height < height for _, child in node.children)


def seeds_of_zarr() -> list[bytes]:
    found = [orbax_files.zarray(array) for array in _ARRAYS.values()]
    for name in ("zarr3_files", "sharded_zarr3"):
        folder = data_path("orbax", "new", name)
        for parent, _, names in sorted(os.walk(folder)):
            if "zarr.json" in names:
                with open(os.path.join(parent, "zarr.json"), "rb") as file:
                    found.append(file.read())
    return found


def parse_zarr(data: bytes) -> None:
    array = parse_array(data)
    assert array.nbytes >= 0
    assert len(array.cell) == len(array.shape)
    array.chunk_key((0,) * len(array.shape))


_NAMES = ("_METADATA", "_CHECKPOINT_METADATA", "_sharding", "_strings.json", "params.kernel/.zarray")


def seeds_of_checkpoints() -> list[bytes]:
    """Return JSON files of a tree, each behind the number of its name."""
    whole = {
        "_METADATA": orbax_files.metadata([key.split(".") for key in _ARRAYS], use_ocdbt=False),
        "_CHECKPOINT_METADATA": b'{"item_handlers": {"default": "x"}, "metrics": {"loss": 0.5}}',
        "_sharding": b'{"cGFyYW1zLmtlcm5lbA==": "{\\"shape\\": [2], \\"axis_names\\": [\\"x\\"]}"}',
        "_strings.json": b'{"name": "text"}',
        "params.kernel/.zarray": orbax_files.zarray(_ARRAYS["params.kernel"]),
    }
    return [bytes([_NAMES.index(name)]) + data for name, data in whole.items()]


def mutate_named(dice: random.Random, data: bytes) -> bytes:
    return data[:1] + mutate_json(dice, data[1:])


def checkpoint_in(outcome: Callable[[str], str]) -> Callable[[bytes, str], str]:
    """Return a `run` that opens a tree of plain files; the case is one of them."""

    def run(data: bytes, workspace: str) -> str:
        folder = os.path.join(workspace, "tree")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        _write(
            folder, "_METADATA", orbax_files.metadata([key.split(".") for key in _ARRAYS], use_ocdbt=False)
        )
        for name, array in _ARRAYS.items():
            _write(folder, f"{name}/.zarray", orbax_files.zarray(array))
            _write(folder, f"{name}/{'.'.join('0' * array.ndim) or '0'}", array.tobytes())
        _write(folder, _NAMES[data[0] % len(_NAMES)], data[1:])
        return outcome(folder)

    return run


def _write(folder: str, name: str, data: bytes) -> None:
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def seeds_of_flax() -> list[bytes]:
    """Return files of Flax's, and one with all kinds of leaves."""
    found = [
        msgpack_files.packed({"params": {"w": _ARRAYS["params.kernel"]}, "step": 7, "t": "x", "n": None})
    ]
    for name in ("new/flax_msgpack/flax_model.msgpack", "old/odd_names/checkpoint"):
        with open(data_path("orbax", name), "rb") as file:
            found.append(file.read())
    return found
