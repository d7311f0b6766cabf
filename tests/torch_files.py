"""PyTorch files made by hand: an object's pickle, byte by byte, and storages, in both forms."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."


class Named(NamedTuple):
    """A global, `module.name`."""

    name: str


class Call(NamedTuple):
    """A global that is called."""

    name: str
    arguments: tuple[Any, ...] = ()


class Saved(NamedTuple):
    """A persistent id."""

    saved: tuple[Any, ...]


class Opcodes(NamedTuple):
    """Opcodes as they are."""

    data: bytes


def storage(key: str = "0", elements: Any = 6, kind: str = "torch.FloatStorage", *view: Any) -> Saved:
    return Saved(("storage", Named(kind), key, "cpu", elements, *view))


def tensor(
    of: Saved | None = None, first: Any = 0, shape: Any = (2, 3), strides: Any = (3, 1), *more: Any
) -> Call:
    hooks = Call("collections.OrderedDict")
    arguments = (of or storage(), first, shape, strides, False, hooks, *more)
    return Call("torch._utils._rebuild_tensor_v2", arguments)


def untyped(dtype: str, key: str, nbytes: int, shape: tuple[int, ...]) -> Call:
    """Return a tensor of one dimension over bytes, as torch saves its newer dtypes."""
    of = storage(key, nbytes, "torch.storage.UntypedStorage")
    hooks = Call("collections.OrderedDict")
    arguments = (of, 0, shape, (1,), False, hooks, Named(f"torch.{dtype}"))
    return Call("torch._utils._rebuild_tensor_v3", arguments)


def pickled(value: Any) -> bytes:
    """Return the pickle of an object, of protocol 2."""
    return b"\x80\x02" + _opcodes(value) + b"."


def _opcodes(value: Any) -> bytes:
    if isinstance(value, Opcodes):
        return value.data
    if isinstance(value, Named):
        module, _, name = value.name.rpartition(".")
        return f"c{module}\n{name}\n".encode()
    if isinstance(value, Call):
        return _opcodes(Named(value.name)) + _opcodes(value.arguments) + b"R"
    if isinstance(value, Saved):
        return _opcodes(value.saved) + b"Q"
    if value is None or isinstance(value, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, int):
        if -(1 << 31) <= value < 1 << 31:
            return b"J" + struct.pack("<i", value)
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes((len(data),)) + data
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        return b"X" + struct.pack("<I", len(data)) + data
    if isinstance(value, tuple):
        return b"(" + b"".join(map(_opcodes, value)) + b"t"
    if isinstance(value, list):
        return b"](" + b"".join(map(_opcodes, value)) + b"e"
    assert isinstance(value, dict)
    items = (_opcodes(key) + _opcodes(item) for key, item in value.items())
    return b"}(" + b"".join(items) + b"u"


def zipped(
    value: Any,
    storages: Mapping[str, bytes],
    members: Mapping[str, bytes] = {},
    method: int = zipfile.ZIP_STORED,
) -> bytes:
    """Return a file in the zip form; `members` are additional to the object and the storages."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("archive/data.pkl", pickled(value))
        for name, data in {"byteorder": b"little", "version": b"3\n", **members}.items():
            archive.writestr(f"archive/{name}", data)
        for key, data in storages.items():
            archive.writestr(f"archive/data/{key}", data)
    return out.getvalue()


def legacy(value: Any, storages: Mapping[str, tuple[int, bytes]]) -> bytes:
    """Return a file in the legacy form; of each storage how many elements it says it has, and its bytes."""
    facts = {"protocol_version": 1001, "little_endian": True}
    head = MAGIC + pickled(1001) + pickled(facts) + pickled(value) + pickled(list(storages))
    return head + b"".join(struct.pack("<Q", count) + data for count, data in storages.values())


def written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


_METADATA = "torch.distributed.checkpoint.metadata"


def record(name: str, fields: Any) -> Opcodes:
    """Return an object of a class of torch's distributed checkpoints, or of that module, with its fields."""
    return Opcodes(
        _opcodes(Named(f"{_METADATA}.{name}" if "." not in name else name))
        + b")\x81"
        + _opcodes(fields)
        + b"b"
    )


def size(*counts: int) -> Call:
    return Call("torch.Size", (counts,))


class Piece(NamedTuple):
    """A chunk of a tensor, and its stated position."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: str
    begin: int
    length: int


def chunk(piece: Piece) -> bytes:
    """Return the opcodes of what describes a chunk."""
    fields = {"offsets": size(*piece.offsets), "sizes": size(*piece.sizes)}
    return record("ChunkStorageMetadata", fields).data


def distributed_metadata(
    tensors: Mapping[str, tuple[tuple[int, ...], list[Piece]]],
    dtype: str | Mapping[str, str] = "torch.float32",
    ways: Mapping[str, tuple[Any, ...]] | None = None,
    **more: Any,
) -> bytes:
    """Return the `.metadata` of tensors of these shapes, in these chunks.

    `dtype` is that of all, or of each by its key; `ways` are what leads to them, `more` fields of each place.
    """
    described, places = [], []
    for key, (shape, chunks) in tensors.items():
        listed = [Opcodes(chunk(piece)) for piece in chunks]
        named = dtype if isinstance(dtype, str) else dtype[key]
        properties = record("TensorProperties", (Named(named), None, False, None, False))
        fields = {"properties": properties, "size": size(*shape), "chunks": listed}
        described.append(_opcodes(key) + _opcodes(record("TensorStorageMetadata", fields)))
        for piece in chunks:
            index = record("MetadataIndex", {"fqn": key, "offset": size(*piece.offsets), "index": 0})
            place = {"relative_path": piece.file, "offset": piece.begin, "length": piece.length, **more}
            stored = record("torch.distributed.checkpoint.filesystem._StorageInfo", place)
            places.append(_opcodes(index) + _opcodes(stored))
    fields = {
        "state_dict_metadata": Opcodes(b"}(" + b"".join(described) + b"u"),
        "storage_data": Opcodes(b"}(" + b"".join(places) + b"u"),
        "planner_data": ways,
    }
    return pickled(record("Metadata", fields))
