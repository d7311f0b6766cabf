"""Read `.metadata` of a distributed checkpoint: a pickle of tensors' chunks, and their positions.

    Metadata
        state_dict_metadata   key -> TensorStorageMetadata(properties, size, chunks) or BytesStorageMetadata
        planner_data          key -> what leads to it in the object that was saved, joined by dots the key
        storage_data          MetadataIndex(fqn, offset) -> _StorageInfo(relative_path, offset, length)

Classes become records of the fields in the pickle; other names are rejected.
torch/distributed/checkpoint/metadata.py, filesystem.py
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ..wire.limits import KeySizes
from .objects import GLOBALS, ElementType, counts, element_type
from .pickle import Machine
from .values import Global, Made, Pairs, PickledObject

_MODULE = "torch.distributed.checkpoint.metadata"

_STORED = "torch.distributed.checkpoint.filesystem._StorageInfo"
_FIELDS = {
    "Metadata": {"state_dict_metadata", "planner_data", "storage_data"},
    "TensorStorageMetadata": {"properties", "size", "chunks"},
    "TensorProperties": {"dtype"},
    "ChunkStorageMetadata": {"offsets", "sizes"},
    "MetadataIndex": {"fqn"},
    "BytesStorageMetadata": set[str](),
    "_StorageInfo": {"relative_path", "offset", "length"},
}
"""The fields that an object of each class has in every PyTorch; there may be more."""

_MOST_REPEATED = 2
"""The factor by which chunks that overlap may exceed the elements of a tensor."""

_MOST_FIELDS = 64
"""A record can be that of many chunks, and is looked at for each."""

_CLASSES = (*(f"{_MODULE}.{name}" for name in (*_FIELDS, "StorageMeta")), _STORED)
_MADE = (f"{_MODULE}._MEM_FORMAT_ENCODING", "pathlib.PosixPath", "pathlib._local.PosixPath")


def _record(name: str, _: tuple[Any, ...]) -> PickledObject:
    return PickledObject(name)


_GLOBALS = {
    **GLOBALS,
    **{name: Global(name, partial(_record, name)) for name in _CLASSES},
    **{name: Global(name, partial(Made, name)) for name in _MADE},
}


class NotReadError(ValueError):
    """An intact file with an unsupported feature."""


class ChunkPosition(NamedTuple):
    """The position of a chunk, a part of a tensor from `offsets` on: a PyTorch file within another file."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: str
    begin: int
    length: int


class Described(NamedTuple):
    """A tensor: its chunks, and what leads to it in the object that was saved."""

    type: ElementType
    shape: tuple[int, ...]
    chunks: tuple[ChunkPosition, ...]
    way: tuple[str, ...]


class Distributed(NamedTuple):
    """All of a checkpoint: its tensors by key, and the keys of what is none."""

    tensors: dict[str, Described]
    others: tuple[str, ...]


def decode(data: bytes) -> Distributed:
    """Return what a pickle describes.  Raises ValueError; RefusedGlobalError for what it may not name."""
    root = Machine(data, _GLOBALS, _nothing_else).run()
    fields = _fields(root, "Metadata")
    places = _places(fields.get("storage_data"))
    ways = _ways(fields["planner_data"])
    tensors: dict[str, Described] = {}
    others = []
    for key, stored in _texts(fields["state_dict_metadata"]).items():
        if type(stored) is not PickledObject or not stored.name.endswith(".BytesStorageMetadata"):
            tensors[key] = _described(key, stored, places, ways.get(key) or tuple(key.split(".")))
        elif stored.fields is None or (type(stored.fields) is Pairs and not stored.fields.items):
            others.append(key)
        else:
            raise ValueError(f"{key!r:.60} is listed as a non-tensor, but described as a tensor")
    return Distributed(tensors, tuple(others))


def _nothing_else(_: Any) -> Any:
    raise ValueError("it refers to a storage, but cannot have one")


def _described(key: str, stored: Any, places: _Places, way: tuple[str, ...]) -> Described:
    fields = _fields(stored, "TensorStorageMetadata")
    properties = _fields(fields["properties"], "TensorProperties")
    shape = counts(fields["size"], "size")
    chunks = fields["chunks"]
    if type(chunks) is not list:
        raise ValueError(f"{key!r:.60} has no list of chunks")
    stored = places.get(key, {})
    if len(chunks) > _MOST_REPEATED * len(stored):  # The same list can be that of many tensors.
        raise ValueError(f"{key!r:.60} has {len(chunks)} chunks, but stores only {len(stored)}")
    found = tuple(_chunk(key, chunk, stored) for chunk in chunks)
    return Described(element_type(properties["dtype"]), shape, found, way)


def _ways(stored: Any) -> dict[str, tuple[str, ...]]:
    """Return the path to each key, which determines its kind, without the plans of other programs."""
    found = {}
    for key, way in _texts(stored).items() if type(stored) is Pairs else ():
        if type(way) is not tuple or len(way) >= _MOST_PARTS:
            continue
        odd = next((part for part in way if type(part) not in (str, int)), None)
        if odd is not None:
            message = f"has a {type(odd).__name__} in its path; expected names and numbers"
            raise ValueError(f"{key!r:.60} {message}")
        if not _is_joined(key, way):
            spelled = ".".join(str(part)[:60] for part in way)
            raise ValueError(f"{key!r:.60} has a path that does not match: {spelled!r:.60}")
        found[key] = tuple(map(str, way))
    return found


_MOST_PARTS = 64


def _is_joined(key: str, way: tuple[str | int, ...]) -> bool:
    """Whether a key is the parts of a way, which may be longer than any key, joined by dots."""
    texts = sum(len(part) for part in way if type(part) is str)
    return texts <= len(key) and ".".join(map(str, way)) == key


def _chunk(key: str, stored: Any, places: dict[Any, PickledObject]) -> ChunkPosition:
    fields = _fields(stored, "ChunkStorageMetadata")
    offsets, sizes = counts(fields["offsets"], "offsets"), counts(fields["sizes"], "sizes")
    place = places.get(offsets)
    if place is None:
        raise ValueError(f"{key!r:.60} has a chunk that is not stored")
    stored = _fields(place, "_StorageInfo")
    if stored.get("transform_descriptors"):
        raise NotReadError(f"{key!r:.60} is stored transformed, which is not supported")
    file, begin, length = (stored[name] for name in ("relative_path", "offset", "length"))
    if type(file) is not str or type(begin) is not int or type(length) is not int or min(begin, length) < 0:
        raise ValueError(f"{key!r:.60} has a chunk at an invalid position")
    return ChunkPosition(offsets, sizes, file, begin, length)


_Places = dict[str, dict[Any, PickledObject]]
"""The positions of chunks, by key and by their start in the tensor."""


def _places(stored: Any) -> _Places:
    if type(stored) is not Pairs:
        raise ValueError("the table of stored chunks is missing")
    found: _Places = {}
    for index, place in stored.items:
        fields = _fields(index, "MetadataIndex")
        key, offset = fields["fqn"], fields.get("offset")
        if type(key) is not str:
            raise ValueError("a stored chunk has no name")
        found.setdefault(key, {})[None if offset is None else counts(offset, "offsets")] = place
    return found


def _fields(record: Any, name: str) -> dict[str, Any]:
    """Return the fields of a record of a class, by name."""
    if type(record) is not PickledObject or record.name.rpartition(".")[2] != name:
        raise ValueError(f"found a {type(record).__name__}; expected {name}")
    if name == "TensorProperties" and type(record.fields) is tuple:
        fields = dict(zip(_PROPERTIES, record.fields, strict=False))
    elif type(record.fields) is Pairs and len(record.fields.items) > _MOST_FIELDS:
        raise ValueError(f"{name} has too many fields: {len(record.fields.items)}")
    else:
        fields = _texts(record.fields)
    if not fields.keys() >= _FIELDS[name]:
        raise ValueError(f"{name} has no {min(_FIELDS[name] - fields.keys())}")
    return fields


_PROPERTIES = ("dtype", "layout", "requires_grad", "memory_format", "pin_memory")


def _texts(pairs: Any) -> dict[str, Any]:
    """Return the items of a dictionary whose keys are text, each once.  Raises ValueError for another."""
    if type(pairs) is not Pairs or not all(type(key) is str for key, _ in pairs.items):
        raise ValueError("expected a dictionary with names as keys")
    KeySizes().add([key for key, _ in pairs.items])
    found = dict(pairs.items)
    if len(found) < len(pairs.items):
        raise ValueError("a dictionary has the same name twice")
    return found
