"""The location of a checkpoint, and the meaning of its files' names."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from ..errors import CheckpointError
from ..store.content_cache import LARGEST_KEPT, whole
from ..store.siblings import (
    FLAX_SHARD,
    H5_SHARD,
    SAFETENSORS_SHARD,
    SHARD,
    TORCH_SHARD,
    V1_SHARD,
    gguf_parts,
    hub_shard,
    matching_files,
)
from .weight_map import INDEX

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..location import Location
    from ..store.base import Identity, Store


WEIGHTS_SHARD = re.compile(r"(?P<prefix>.+)_\d{5,}\.weights\.h5", re.DOTALL)
"""A shard of Keras' weights, next to PREFIX.weights.json."""


INDEX_SUFFIX = ".safetensors.index.json"
TORCH_INDEX_SUFFIX = ".bin.index.json"
FLAX_INDEX_SUFFIX = ".msgpack.index.json"
H5_INDEX_SUFFIX = ".h5.index.json"
HUB_INDEXES = (INDEX_SUFFIX, TORCH_INDEX_SUFFIX, FLAX_INDEX_SUFFIX, H5_INDEX_SUFFIX)
"""The indexes of Hugging Face's shards."""

MAP = re.compile(r".+(\.(safetensors|bin|msgpack|h5)\.index(\.[^.]+)?\.json|\.weights\.json)", re.DOTALL)
"""A map of shards; that of a variant of a model is called NAME.safetensors.index.VARIANT.json."""


FILE_SUFFIXES = (
    *HUB_INDEXES,
    ".h5",
    ".hdf5",
    ".weights.h5",
    ".weights.json",
    ".keras",
    ".npz",
    ".safetensors",
    ".sft",
    ".pt",
    ".pth",
    ".msgpack",
    ".gguf",
    ".onnx",
    ".tflite",
)
"""Suffixes that mark a damaged file as a checkpoint.

They repeat the suffixes of all formats, except those in `SHARED_SUFFIXES`, so that names are recognised
without importing a format. A test compares the two.
"""

SHARED_SUFFIXES = (".index", ".json", ".bin", ".pb")
"""Suffixes of formats that many other files have, too."""


DCP_METADATA = ".metadata"
"""The file that lists the tensors of PyTorch's distributed checkpoints; their chunks are next to it."""

DCP_SUFFIX = ".distcp"

_DCP_MARK = b"torch.distributed.checkpoint.metadata"


_STEP = re.compile(r"(?:-|^checkpoint_)(\d+)$")


_SUFFIXES = (".weights.h5", ".ckpt", *FILE_SUFFIXES, ".bin")


# Leftovers of interrupted saves (tensor_bundle.cc, saver.py), which are not checkpoints.
_LEFTOVER_FILE = re.compile(r".+\.tempstate\d+", re.DOTALL)


ORBAX_TEMPORARY = re.compile(r".+\.orbax-checkpoint-tmp(-\d+)?", re.DOTALL)
"""Orbax's name for a step that is being written."""

_LEFTOVER_DIRECTORY = re.compile(rf".+_temp(_[0-9a-f]{{32}})?|{ORBAX_TEMPORARY.pattern}", re.DOTALL)


Fingerprint = dict["Location", "Identity"]


class CheckpointLocation(NamedTuple):
    """The location of a checkpoint.

    `path` is its name: the prefix of a bundle, the pattern of a sharded V1 checkpoint, otherwise the file.
    `head` is the file that identifies it. `note` says what was chosen and why, if there was a choice, and
    `reason` why, if there was none.
    """

    path: Location
    head: Location
    note: str | None = None
    reason: str | None = None

    @property
    def store(self) -> Store:
        """The store of all its files."""
        return self.head.store

    @property
    def name(self) -> str:
        return self.path.name

    def files(self) -> list[Location]:
        """Return the files of this checkpoint that are there: the head first, then data shards."""
        found = [self.head] if self.head.is_file() else []
        if self.head == self.path + ".index":
            return found + data_shards(self.path)
        if self.head.startswith(self.path + "/"):
            from .orbax_files import files_below

            return [*found, *(path for path in files_below(self.path) if path != self.head)]
        if self.head != self.path:
            shard = hub_shard(self.head)
            return v1_shards(self.path) if shard is None else lone_shards(self.head, shard)
        if self.head.name == DCP_METADATA:
            folder = self.head.parent
            return found + [folder / name for name, _ in folder.names() if name.endswith(DCP_SUFFIX)]
        if MAP.fullmatch(self.head):
            from .weight_map import files_of_map

            return found + [path for path in files_of_map(self.head) if path.is_file()]
        if self.head.endswith(".gguf"):
            return found + [path for path in gguf_parts(self.head) if path != self.head and path.is_file()]
        return found

    def nbytes(self) -> int:
        """Return the size of all files that can be looked at."""
        return sum(found.size for path in self.files() if (found := path.entry()) is not None)

    def fingerprint(self) -> Fingerprint:
        """Return, by file, what changes when one is written to, replaced or removed.

        If each file would cost a request, it covers the head alone: other files are requested in the version
        that was opened.
        """
        files = self.files() if self.store.lists_first else [self.head]
        found = {path: path.entry() for path in files}
        # A missing file was just removed, or is a broken link.
        return {path: entry.identity for path, entry in found.items() if entry is not None}


def is_dcp_metadata(head: bytes) -> bool:
    """Whether a file that begins so is the pickle of a distributed checkpoint's metadata."""
    return head.startswith(b"\x80") and _DCP_MARK in head[:100]


def dcp_metadata(directory: Location) -> Location | None:
    """Return the metadata of a folder that is a distributed checkpoint; None if it is none."""
    path = directory / DCP_METADATA
    if not path.is_file():
        return None
    with path.open() as file:
        return path if is_dcp_metadata(file.read(0, 100)) else None


def bundle(prefix: Location) -> CheckpointLocation:
    return CheckpointLocation(prefix, prefix + ".index")


def _beside(prefix: Location, pattern: re.Pattern[str], count: Callable[[], int | None]) -> list[Location]:
    try:
        return matching_files(prefix, pattern, count)
    except CheckpointError:
        return []


def data_shards(prefix: Location) -> list[Location]:
    """Return the data shards next to a bundle's index, with any count in their names.

    If the store looks names up one by one, the count is the index's.
    """
    return _beside(prefix, SHARD, lambda: _counted(prefix + ".index"))


def _counted(index: Location) -> int | None:
    """Return the number of data shards in the header of an index, or None if it cannot be read."""
    from ..wire.messages import BundleHeaderProto
    from ..wire.sstable import Table

    try:
        with index.open() as file:
            if file.size <= LARGEST_KEPT:
                data = whole(file)
                table = Table(lambda offset, size: data[offset : offset + size], len(data), index)
            else:
                table = Table(file.read, file.size, index)
            value = table.get(b"")
        return None if value is None else max(0, BundleHeaderProto.decode(value).num_shards)
    except (CheckpointError, ValueError):  # ValueError: no such message
        return None


def v1_shards(path: Location) -> list[Location]:
    """Return the files of a sharded V1 checkpoint, from its prefix or pattern."""
    match = V1_SHARD.fullmatch(path)
    prefix = path.of(match["prefix"]) if match else path
    count = match["count"] if match and match["count"].isdigit() else None
    found = _beside(prefix, V1_SHARD, lambda: None if count is None else int(count))
    return [name for name in found if count is None or name.endswith(f"-of-{count}")]


def index_of_shard_name(shard: Location) -> str:
    """Return the name of the index that a shard of Hugging Face's belongs to, whether it is there or not."""
    match = hub_shard(shard.name)
    assert match is not None
    return index_of(match)


def index_of(shard: re.Match[str]) -> str:
    """Return the path of the index that a shard belongs to, by its name."""
    return shard["prefix"] + shard["suffix"] + INDEX


def has_index_file(path: Location) -> bool:
    """Whether a file is a shard of Hugging Face's whose index, which stands for it, is there."""
    match = hub_shard(path)
    return match is not None and path.of(index_of(match)).is_file()


def shards_of_index(path: Location) -> list[Location]:
    """Return the shards next to one of Hugging Face's indexes, with any count in their names.

    If the store looks names up one by one, there are none: the index names its own.
    """
    prefix, suffix = os.path.splitext(path.removesuffix(INDEX))
    pattern = {".bin": TORCH_SHARD, ".msgpack": FLAX_SHARD, ".h5": H5_SHARD}.get(suffix, SAFETENSORS_SHARD)
    return _beside(path.of(prefix), pattern, lambda: 0)


def lone_shards(shard: Location, match: re.Match[str]) -> list[Location]:
    """Return the shards of Hugging Face's that are there of one's set; `match` is of its name."""
    found = _beside(shard.of(match["prefix"]), match.re, lambda: int(match["count"]))
    return [path for path in found if path.endswith(f"-of-{match['count']}{match['suffix']}")]


def is_leftover(name: str, *, directory: bool) -> bool:
    """Whether a name is one that interrupted saves leave behind."""
    return bool((_LEFTOVER_DIRECTORY if directory else _LEFTOVER_FILE).fullmatch(name))


def is_part(name: str) -> bool:
    """Whether a file is a part of a bundle that its index stands for."""
    return bool(SHARD.fullmatch(name)) or name.endswith((".index", ".meta"))


def is_event_file(name: str) -> bool:
    """Whether a file is one of TensorBoard's event files, by what TensorBoard knows them by."""
    return "tfevents" in name


def bundle_prefix(path: Location) -> Location:
    """Return the prefix of the bundle that a path names: itself, or what its index or a shard begins with."""
    shard = SHARD.fullmatch(path)
    return path.of(shard["prefix"]) if shard else path.removesuffix(".index")


def step_of(name: str) -> int | None:
    """Return the step in a checkpoint's name: the integer after its last `-`, or `checkpoint_` of Flax."""
    base = _without_shard(name.rpartition("/")[2])
    for suffix in _SUFFIXES:
        base = base.removesuffix(suffix)
    match = _STEP.search(_without_shard(base))
    return int(match[1]) if match else None


def _without_shard(base: str) -> str:
    """Return a name without the number and count of a shard, which are not a step."""
    match = V1_SHARD.fullmatch(base)
    return match["prefix"] if match else base
