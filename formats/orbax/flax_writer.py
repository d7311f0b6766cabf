"""Writing Flax's msgpack: maps, and each tensor behind its own header (see `formats.orbax.flax_tree`).

All headers are known before the first byte, since all specs are.  Numbers of Python stay numbers, in their
longest form, so that every tensor's place is known as well.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from ..core.chunks import view_of
from ..core.spec import TensorSpec
from ..model.sharding import PlannedFile, ShardWriter
from ..model.weight_map import FLAX
from ..model.writer import Placement
from ..store.local.staged_file import StagedFile
from ..wire.msgpack_encoding import (
    NONE,
    encode_bytes_header,
    encode_extension_header,
    encode_integer,
    encode_list,
    encode_map,
    encode_text,
)
from .facts import SCALAR
from .flax_tree import ARRAY, CHUNKED
from .writing import NoValue, Text, facts_of, has_facts, leaves_of, nested, notes_of, walked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..core.chunks import Chunk
    from ..core.region import Extents
    from ..model.facts import Facts
    from ..model.reader import Format
    from ..model.writer import WriteTarget
    from ..store.ranges import Sum
    from ..store.remote.upload import Upload

_PIECE = 1 << 30
"""Bytes of an array, or of a piece of one that has more."""

_NUMBERS = {"int64": b"\xd3", "uint64": b"\xcf", "float64": b"\xcb"}


class _Headers(NamedTuple):
    """The bytes before each tensor of a file, by key, and after the last one."""

    before: dict[str, bytes]
    tail: bytes


class FlaxWriter(ShardWriter):
    """Writes files of a tree each."""

    suffix = FLAX
    folder_name = "flax_model" + FLAX
    is_resumable = True

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  as its base
        self._numbers = frozenset(
            spec.key for spec in target.specs if _is_number(spec, facts_of(target).types.get(spec.key))
        )
        super().__init__(format, target)
        self.notes += notes_of(target)

    def _plan_file(self, target: WriteTarget, name: str, specs: Sequence[TensorSpec]) -> PlannedFile:
        facts = facts_of(target)
        if len(specs) < len(target.specs):  # one of several shards, which have tensors alone
            facts = facts._replace(values={}, empty={})
        leaves = leaves_of(target._replace(specs=tuple(specs), facts=facts))
        tree = nested(leaves)
        before: dict[str, bytes] = {}
        text = encode_map(len(tree))
        for part, value in walked(tree):
            text += encode_text(part)
            if isinstance(value, TensorSpec):
                before[value.key] = text + self._header(value)
                text = b""
            elif isinstance(value, dict):
                text += encode_map(len(value))
            else:
                text += _encoded(value)
        ordered = [leaf for leaf in leaves.values() if isinstance(leaf, TensorSpec)]
        return PlannedFile(name, tuple(ordered), _Headers(before, text))

    def _header(self, spec: TensorSpec) -> bytes:
        """Return the header before the bytes of a tensor, or before its first piece."""
        if spec.key in self._numbers:
            return b""
        size = spec.nbytes or 0
        if size <= _PIECE:
            return _array_header(spec, spec.shape, size)
        shape = b"".join(encode_text(str(at)) + encode_integer(dim) for at, dim in enumerate(spec.shape))
        fields = encode_text(CHUNKED) + b"\xc3" + encode_text("shape") + encode_map(spec.rank) + shape
        pieces = encode_text("chunks") + encode_map(-(-size // _piece(spec)))
        return encode_map(3) + fields + pieces

    def _write_head(self, file: PlannedFile, staged: StagedFile | Upload) -> None:
        """Write nothing: the header of the file is part of the first tensor's."""

    def _write_tail(self, file: PlannedFile, staged: StagedFile | Upload) -> None:
        staged.write(file.head.tail)

    def _write(self, spec: TensorSpec, extents: Extents | None, chunks: Iterator[Chunk]) -> None:  # noqa: ARG002
        planned = self._file_of[spec.key]
        file = self._begin_file(planned)
        file.write(planned.head.before[spec.key])
        if spec.key in self._numbers:
            file.write(_number(spec, b"".join(bytes(view_of(chunk)) for chunk in chunks)))
        elif (spec.nbytes or 0) > _PIECE:
            self._write_pieces(file, spec, chunks)
        else:
            for chunk in chunks:
                file.write(chunk)

    @staticmethod
    def _write_pieces(file: StagedFile | Upload, spec: TensorSpec, chunks: Iterator[Chunk]) -> None:
        """Write an array in flat pieces, each with its number and its own header."""
        size, itemsize = spec.nbytes or 0, spec.dtype.itemsize or 1
        left, done, numbers = 0, 0, itertools.count()
        for chunk in chunks:
            view = view_of(chunk)
            while view:
                if not left:
                    left = min(_piece(spec), size - done)
                    header = _array_header(spec, (left // itemsize,), left)
                    file.write(encode_text(str(next(numbers))) + header)
                part = view[:left]
                file.write(bytes(part))
                view = view[len(part) :]
                left -= len(part)
                done += len(part)

    def _has_facts(self, found: Facts) -> bool:
        return has_facts(self.target, found)

    def _place(self, spec: TensorSpec) -> Placement | None:
        if spec.key in self._numbers or (spec.nbytes or 0) > _PIECE:
            return None
        planned = self._file_of[spec.key]
        file = self._begin_file(planned)
        assert isinstance(file, StagedFile)
        file.write(planned.head.before[spec.key])
        self._unfilled_in[planned.name] += 1
        return Placement(file, file.reserve(spec.nbytes or 0))

    def _filled(self, spec: TensorSpec, place: Placement, extents: Extents | None, found: Sum) -> None:  # noqa: ARG002
        self._unfilled_in[self._file_of[spec.key].name] -= 1


def _piece(spec: TensorSpec) -> int:
    """Return the bytes of a piece: whole elements."""
    itemsize = spec.dtype.itemsize or 1
    return _PIECE // itemsize * itemsize


def _is_number(spec: TensorSpec, kind: str | None) -> bool:
    """Whether a tensor was a number of Python's."""
    return kind == SCALAR and not spec.shape and (spec.dtype.name in _NUMBERS or spec.dtype.name == "bool")


def _number(spec: TensorSpec, data: bytes) -> bytes:
    """Return a number from its bytes in little-endian order."""
    code = _NUMBERS.get(spec.dtype.name)
    return (b"\xc3" if data != b"\0" else b"\xc2") if code is None else code + data[::-1]


def _array_header(spec: TensorSpec, shape: Sequence[int], size: int) -> bytes:
    """Return the header of an array whose bytes follow."""
    fields = encode_list(len(shape)) + b"".join(map(encode_integer, shape)) + encode_text(spec.dtype.name)
    inner = encode_list(3) + fields + encode_bytes_header(size)
    return encode_extension_header(ARRAY, len(inner) + size) + inner


def _encoded(leaf: Text | NoValue) -> bytes:
    """Return a text or an empty leaf."""
    if isinstance(leaf, Text):
        return encode_text(leaf.text)
    return NONE if leaf.type == "None" else encode_map(0)


def placeholders(names: Mapping[tuple[str, ...], str]) -> bytes:
    """Return a tree of texts, by path."""
    tree = nested({path: Text(text) for path, text in names.items()})
    data = encode_map(len(tree))
    for part, value in walked(tree):
        data += encode_text(part)
        data += encode_map(len(value)) if isinstance(value, dict) else encode_text(value.text)
    return data
