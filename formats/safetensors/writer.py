"""Writing safetensors: one file, or shards with the index that names them.

What is written, and under which names, is what the Hugging Face Hub's libraries write:

    target                          without --shard-size     with it
    NAME.safetensors                that file                that file, where all fits in one; else as below
    DIR/                            DIR/model.safetensors    the same of DIR/model.safetensors
    NAME.safetensors.index.json     it, with one shard       it, with NAME-00001-of-0000N.safetensors beside

Tensors go into shards by key, into a new one where the size would be passed; none is split.
Within a file they stand by falling item size, then by key, as the library writes them, so
that each lies aligned to its elements; the header is padded to eight bytes for that.

NAME.safetensors and its sharded form are one checkpoint, of which one replaces the other.
huggingface_hub/serialization/_base.py: split_state_dict_into_shards_factory
"""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.chunks import PIECE
from ..core.spec import key_bytes
from ..errors import CheckpointError, ConversionError
from ..model.location import INDEX_SUFFIX, Location, shards_beside
from ..model.probe import Probe
from ..model.weight_map import SAFETENSORS, WEIGHT_MAP, files_by_name, is_map
from ..model.writer import CheckpointWriter, Place, bounded
from ..safetensors.reader import SafetensorsFacts
from ..store.beside import SAFETENSORS_SHARD
from ..store.exchange import Exchange
from ..store.paths import is_file, is_folder, is_there
from ..store.staging import StagedFile, Staging
from .reader import LENGTH_SIZE, LONGEST_HEADER, METADATA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..core.chunks import Chunk
    from ..core.region import Extents
    from ..core.spec import TensorSpec
    from ..model.reader import Format
    from ..model.writer import Target
    from ..store.upload import Upload


_ALIGNMENT = 8
_FOLDER_NAME = "model" + SAFETENSORS


class _File(NamedTuple):
    """One file to be written: its name, its tensors in their order, its header."""

    name: str
    specs: tuple[TensorSpec, ...]
    header: bytes


class SafetensorsWriter(CheckpointWriter):
    """Writes file after file: the header first, since all specs are known, then data in its order."""

    has_shards = True

    def __init__(self, format: Format, target: Target) -> None:  # noqa: A002  as its base
        for spec in target.specs:
            _check_key(target, spec.key)
        target = _in_folder(target)
        target = target._replace(path=self.followed(target.path))  # which the names of the files are made of
        if _index_of(target.path) is not None:
            target = bounded(target)
        target, files = _planned(target)
        self._files = files
        self._file_of = {spec.key: file for file in files for spec in file.specs}
        self._begun_files: dict[str, StagedFile | Upload] = {}
        self._unfilled_in: Counter[str] = Counter()
        self.order = tuple(self._file_of)
        super().__init__(format, target)
        if self._has_index:
            shards = "one shard" if len(files) == 1 else f"{len(files):,} shards"
            self.notes.append(f"{shards} beside {target.path}")

    @property
    def _has_index(self) -> bool:
        return self.target.path.endswith(INDEX_SUFFIX)

    @property
    def is_one_object(self) -> bool:
        return not self._has_index

    @classmethod
    def existing(cls, path: str) -> list[str]:
        index = _index_of(path)
        if index is None:
            return super().existing(path)
        named = (index, index.removesuffix(".index.json"))
        return [name for name in named if is_there(name)] + shards_beside(index)

    def _begin_file(self, file: _File) -> StagedFile | Upload:
        """Return a file, begun with its header; those before it are closed when all of them is there."""
        staged = self._begun_files.get(file.name)
        if staged is None:
            for name in [name for name in self._begun_files if not self._unfilled_in[name]]:
                self._begun_files.pop(name).close()
            staged = self._begun_files[file.name] = self.staging.create(file.name)
            staged.write(len(file.header).to_bytes(LENGTH_SIZE, "little") + file.header)
        return staged

    def _write(self, spec: TensorSpec, extents: Extents | None, chunks: Iterator[Chunk]) -> None:  # noqa: ARG002
        file = self._begin_file(self._file_of[spec.key])
        for chunk in chunks:
            file.write(chunk)

    def _place(self, spec: TensorSpec) -> Place:
        name = self._file_of[spec.key].name
        file = self._begin_file(self._file_of[spec.key])
        assert isinstance(file, StagedFile)
        self._unfilled_in[name] += 1
        return Place(file, file.reserve(spec.nbytes or 0))

    def _filled(self, spec: TensorSpec, place: Place, extents: Extents | None, crc: int) -> None:  # noqa: ARG002
        self._unfilled_in[self._file_of[spec.key].name] -= 1

    def _finish(self) -> None:
        for file in self._files:
            if not file.specs:  # It has nothing but its header.
                self._begin_file(file)
        for staged in self._begun_files.values():
            staged.close()
        if self._has_index:
            index = self.staging.create(os.path.basename(self.target.path))
            index.write(_index_text(self._files))
            index.close()

    def _move_in(self) -> None:
        index = _index_of(self.target.path)
        if index is None:
            self.staging.move_in()
        elif isinstance(self.staging, Staging):
            _ShardExchange(self.staging, self.target.path, index, self._files).run()
        else:
            self.staging.move_in(_old_files(index))


# The plan ---------------------------------------------------------------------------


def _in_folder(target: Target) -> Target:
    """Return a target with the file that a model in a folder has, where it names a folder."""
    if os.path.basename(target.path) and not is_folder(target.path):
        return target
    return target._replace(path=os.path.join(target.path, _FOLDER_NAME))


def _planned(target: Target) -> tuple[Target, list[_File]]:
    """Return the files to be written, and the target by the one of them that goes last."""
    index = _index_of(target.path)
    if index is None and target.shard_size is not None:
        message = "shards and their index have no names from this one"
        hints = (f"end it in {SAFETENSORS}, or in / for a folder",)
        raise ConversionError(message, path=target.path, hints=hints)
    shards = _split(target.specs, target.shard_size)
    if index is None or (len(shards) == 1 and target.path != index):
        return target, [_planned_file(target, os.path.basename(target.path), target.specs)]
    stem = os.path.basename(index).removesuffix(INDEX_SUFFIX)
    # In a store shards have names of their own, so that the old ones stay as long as the old index does.
    count = len(shards) if target.is_local else _unused(len(shards), shards_beside(index))
    names = [_shard_name(stem, number, count) for number in range(1, len(shards) + 1)]
    files = [_planned_file(target, name, specs) for name, specs in zip(names, shards, strict=True)]
    return target._replace(path=index), files


def _index_of(path: str) -> str | None:
    """Return the index of the sharded form of a target; None where its name leaves room for none."""
    if path.endswith(INDEX_SUFFIX):
        return path
    return path + ".index.json" if path.endswith(SAFETENSORS) else None


def _shard_name(stem: str, number: int, count: int) -> str:
    return f"{stem}-{number:05}-of-{count:05}{SAFETENSORS}"


def _split(specs: Sequence[TensorSpec], limit: int | None) -> list[list[TensorSpec]]:
    """Return the tensors of each shard; what is too large has one of its own, before the one begun."""
    if limit is None:
        return [list(specs)]
    shards: list[list[TensorSpec]] = []
    begun: list[TensorSpec] = []
    room = limit
    for spec in sorted(specs, key=lambda spec: key_bytes(spec.key)):
        size = spec.nbytes or 0
        if size > limit:
            shards.append([spec])
            continue
        if size > room:
            shards.append(begun)
            begun, room = [], limit
        begun.append(spec)
        room -= size
    return [*shards, begun] if begun or not shards else shards


def _planned_file(target: Target, name: str, specs: Sequence[TensorSpec]) -> _File:
    ordered = sorted(specs, key=lambda spec: (-(spec.dtype.itemsize or 0), key_bytes(spec.key)))
    strings = target.facts.strings if isinstance(target.facts, SafetensorsFacts) else {}
    header = _encode_header(ordered, strings)
    if len(header) > LONGEST_HEADER:
        message = f"a header of {len(header)} bytes, at most {LONGEST_HEADER} are allowed"
        raise ConversionError(message, path=target.path)
    return _File(name, tuple(ordered), header)


def _encode_header(specs: list[TensorSpec], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    offset = 0
    for spec in specs:
        size = spec.nbytes or 0
        header[spec.key] = {
            "dtype": spec.dtype.safetensors,
            "shape": list(spec.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return text.ljust(-(-len(text) // _ALIGNMENT) * _ALIGNMENT)


def _check_key(target: Target, key: str) -> None:
    """Refuse the header's own key, and what is not UTF-8."""
    hints = ("give it another key in an earlier step, or leave it out: --exclude",)
    if key == METADATA:
        message = "the key under which a safetensors file keeps its metadata"
        raise ConversionError(message, path=target.path, key=key, hints=hints)
    if key_bytes(key) != key.encode("utf-8", "replace"):
        raise ConversionError("not UTF-8, which JSON is", path=target.path, key=key, hints=hints)


def _index_text(files: Sequence[_File]) -> bytes:
    weight_map = {spec.key: file.name for file in files for spec in file.specs}
    size = sum(spec.nbytes or 0 for file in files for spec in file.specs)
    return _encode_index({"metadata": {"total_size": size}, WEIGHT_MAP: weight_map})


def _encode_index(document: Mapping[str, Any]) -> bytes:
    """Return an index as transformers writes it."""
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


# Moving in --------------------------------------------------------------------------


class _ShardExchange(Exchange):
    """Moves one file, or shards and their index, in the place of either.

    Second names are those of a count that is not in use.  Where there are no hard links, they
    are copies.
    """

    def __init__(self, staging: Staging, target: str, index: str, files: Sequence[_File]) -> None:
        super().__init__(staging, target, target)
        self._sharded = index
        self._copies = 0
        names = [file.name for file in files] if target == index else []
        self._new = [staging.final(name) for name in names]
        whole = index.removesuffix(".index.json")
        is_whole = target == index and is_there(whole) and not is_there(index)
        self._whole = whole if is_whole else None
        """The one file that shards take the place of; it is what is read for as long as it is there."""

    def _shards(self) -> list[str]:
        return self._new

    def _second_name(self, path: str, second: str) -> None:
        try:
            super()._second_name(path, second)
        except OSError:
            self._copy(path, second)

    def _copy(self, path: str, second: str) -> None:
        """Give a file a second name where there are no links; what has the name is complete."""
        self._copies += 1
        name = f"copy-{self._copies}"
        file = self._staging.create(name)
        try:
            with open(path, "rb") as source:
                for piece in iter(lambda: source.read(PIECE), b""):
                    file.write(piece)
            file.sync()
        finally:
            file.close()
        self._staging.move(name, second)

    def _retire(self) -> None:
        if self._whole is not None:
            os.unlink(self._whole)

    def _is_done(self) -> bool:
        return super()._is_done() and not (self._whole is not None and is_there(self._whole))

    def _undo(self) -> None:
        if self._whole is not None and super()._is_done():
            os.unlink(self._index)
        super()._undo()

    def _keep_old(self) -> None:
        document = _document(self._sharded)
        if document is None or not any(map(is_there, self._new)):
            return
        spare = self._free_count()
        stem = os.path.basename(self._sharded).removesuffix(INDEX_SUFFIX)
        names = [os.path.basename(path) for path in self._new if is_there(path)]
        second = {name: _shard_name(stem, number, spare) for number, name in enumerate(names, 1)}
        final = self._staging.final
        self._give_second_names({final(name): final(other) for name, other in second.items()})
        weight_map = {key: second.get(name, name) for key, name in document[WEIGHT_MAP].items()}
        self._stand_in(lambda file: file.write(_encode_index({**document, WEIGHT_MAP: weight_map})))

    def _free_count(self) -> int:
        """Return a count of shards that no file here has in its name."""
        matches = map(SAFETENSORS_SHARD.fullmatch, [*shards_beside(self._sharded), *self._new])
        return max(int(match["count"]) for match in matches if match) + 1

    def _surplus(self) -> list[str]:
        return [path for path in _old_files(self._sharded) if path not in (self._index, *self._new)]


def _old_files(index: str) -> list[str]:
    """Return what is there of a checkpoint, sharded or not, in the order in which it is removed."""
    named = (index, index.removesuffix(".index.json"), *shards_beside(index))
    return [path for path in named if is_there(path)]


def _unused(least: int, shards: Sequence[str]) -> int:
    """Return the lowest count of shards, of `least` or more, that none of some names has in it."""
    used = {int(match["count"]) for match in map(SAFETENSORS_SHARD.fullmatch, shards) if match}
    return next(count for count in itertools.count(least) if count not in used)


def _document(index: str) -> dict[str, Any] | None:
    """Return what an index says; None where there is none, or nobody can read it."""
    if not is_file(index):
        return None
    try:
        document = Probe(Location(index, index)).json
        if document is None or not is_map(document) or not files_by_name(document, index):
            return None
    except CheckpointError:
        return None
    return document if all(isinstance(name, str) for name in document[WEIGHT_MAP].values()) else None
