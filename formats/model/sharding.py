"""Writing one file, or the shards of a Hugging Face folder with the index that names them.

    NAME.safetensors                that file, where all fits in one; else as below
    DIR/                            DIR/model.safetensors    the same of DIR/model.safetensors
    NAME.safetensors.index.json     it, with one shard       it, with NAME-00001-of-0000N.safetensors beside

and the same for NAME.bin and DIR/pytorch_model.bin in PyTorch's format. Tensors go into shards by key, and a
new shard begins when the size would be exceeded; none is split. `formats.model.shards` reads an index.

NAME and its sharded form are one checkpoint, and each replaces the other.
huggingface_hub/serialization/_base.py: split_state_dict_into_shards_factory
"""

from __future__ import annotations

import itertools
import json
import os
from abc import abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..core.chunks import PIECE
from ..core.spec import key_bytes
from ..errors import CheckpointError, ConversionError
from ..store.local.replacing import Exchange
from ..store.local.staging import Staging, remove_files
from ..store.remote.upload_journal import SentObject, UploadJournal
from ..store.siblings import hub_shard
from .checkpoint_files import CheckpointLocation, shards_of_index
from .probe import Probe
from .shards import ShardedReader
from .weight_map import INDEX, WEIGHT_MAP, files_by_name, is_map, named_files
from .writer import FormatWriter, bounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..core.region import Extents
    from ..core.spec import TensorSpec
    from ..location import Location
    from ..store.local.staged_file import StagedFile
    from ..store.remote.upload import Upload
    from .reader import Format, FormatReader
    from .writer import WriteTarget


class PlannedFile(NamedTuple):
    """One planned file: its name, its tensors in their order, and the bytes before them."""

    name: str
    specs: tuple[TensorSpec, ...]
    head: Any


class ShardWriter(FormatWriter):
    """Writes file after file, tensors in their order; a subclass says what a file is."""

    has_shards = True

    suffix: ClassVar[str]
    """The suffix of files that have a sharded form, and of shards."""

    folder_name: ClassVar[str]
    """The file name inside a folder."""

    tied: Mapping[str, str] = {}
    """By key, the tensor that another one is as well: both go into one shard."""

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  as its base
        target = self._in_folder(target)
        target = target._replace(path=self.followed(target.path))  # the file names derive from it
        if self._index_of(target.path) is not None:
            target = bounded(target)
        target, files = self._planned(target)
        self._files = files
        self._file_of = {spec.key: file for file in files for spec in file.specs}
        self._begun_files: dict[str, StagedFile | Upload] = {}
        self._unfilled_in: Counter[str] = Counter()
        self.order = tuple(self._file_of)
        super().__init__(format, target)
        if self._has_index:
            shards = "one shard" if len(files) == 1 else f"{len(files):,} shards"
            self.notes.append(f"the tensors are in {shards} next to {target.path}")

    @abstractmethod
    def _plan_file(self, target: WriteTarget, name: str, specs: Sequence[TensorSpec]) -> PlannedFile:
        """Return how tensors make a file; ConversionError if they do not."""

    @abstractmethod
    def _write_head(self, file: PlannedFile, staged: StagedFile | Upload) -> None:
        """Write the bytes before the tensors of a file."""

    def _write_tail(self, file: PlannedFile, staged: StagedFile | Upload) -> None:
        """Write the bytes after them."""

    @property
    def _has_index(self) -> bool:
        return self.target.path.endswith(INDEX)

    @property
    def is_one_object(self) -> bool:
        return not self._has_index

    @classmethod
    def existing(cls, path: Location) -> list[Location]:
        index = cls._index_of(path)
        return super().existing(path) if index is None else _there(index) + shards_of_index(index)

    def was_sent(self, key: str, extents: Extents | None = None) -> bool:  # noqa: ARG002  it has no slices
        if not isinstance(self.target.journal, UploadJournal):
            return False
        spec = self._begin(key)
        staged = self._begin_file(self._file_of[key])
        if not isinstance(staged, SentObject):
            return False
        staged.skip(spec.nbytes or 0)
        self._end(key)
        return True

    def _begin_file(self, file: PlannedFile) -> StagedFile | Upload:
        """Return a file, begun with its head; those before it are ended when all of them is there."""
        staged = self._begun_files.get(file.name)
        if staged is None:
            self._end_files([name for name in self._begun_files if not self._unfilled_in[name]])
            staged = self._begun_files[file.name] = self.staging.create(file.name)
            self._write_head(file, staged)
        return staged

    def _end_files(self, names: Sequence[str]) -> None:
        planned = {file.name: file for file in self._files} if names else {}
        for name in names:
            staged = self._begun_files.pop(name)
            self._write_tail(planned[name], staged)
            staged.close()

    def _finish(self) -> None:
        for file in self._files:
            if not file.specs:  # It has nothing but its head.
                self._begin_file(file)
        self._end_files([*self._begun_files])
        if self._has_index:
            index = self.staging.create(self.target.path.name)
            index.write(_encode_index(_index(self._files)))
            index.close()

    def _move_in(self) -> None:
        index = self._index_of(self.target.path)
        if index is None:
            self.staging.move_in()
        elif isinstance(self.staging, Staging):
            _ShardExchange(self.staging, self.target.path, index, self._files).run()
        else:
            self.staging.move_in(_old_files(index))

    def is_described_by(self, found: FormatReader) -> bool:
        shards = found.shards() if isinstance(found, ShardedReader) else [found]
        cut = {frozenset(shard.specs) for shard in shards}
        is_cut = cut == {frozenset(spec.key for spec in file.specs) for file in self._files}
        return super().is_described_by(found) and is_cut and (not self._has_index or self._is_index_there())

    def _is_index_there(self) -> bool:
        """Whether the existing index equals the planned one; its shards may have other names."""
        there = _document(self.target.path)
        return there is not None and there == {**_index(self._files), WEIGHT_MAP: there[WEIGHT_MAP]}

    def tidy(self) -> None:
        """Keep the files that the existing index names, because their names may differ from the plan."""
        head, index = self.target.path, self._index_of(self.target.path)
        own = [head, *(named_files(head) if head == index else [])]
        old = _old_files(index) if index is not None else []
        remove_files([path for path in old if path not in own], head)

    # The plan -----------------------------------------------------------------------

    def _in_folder(self, target: WriteTarget) -> WriteTarget:
        """Return a target with the file that a model in a folder has, where it names a folder."""
        if target.path.name and not target.path.is_folder():
            return target
        return target._replace(path=target.path / self.folder_name)

    def _planned(self, target: WriteTarget) -> tuple[WriteTarget, list[PlannedFile]]:
        """Return the files to be written, and the target by the one of them that goes last."""
        index = self._index_of(target.path)
        if index is None and target.shard_size is not None:
            message = "cannot derive names for the shards and their index from this name"
            hints = (f"end it in {self.suffix}, or in / for a folder",)
            raise ConversionError(message, path=target.path, hints=hints)
        shards = _split(target.specs, target.shard_size, self.tied)
        if index is None or (len(shards) == 1 and target.path != index):
            return target, [self._plan_file(target, target.path.name, target.specs)]
        # In a store shards have names of their own, so that the old ones stay as long as the old index does.
        count = len(shards) if target.is_local else _unused(len(shards), shards_of_index(index))
        if isinstance(target.journal, UploadJournal):
            count = target.journal.counted(count)
        target = target._replace(path=index)
        names = [_shard_name(index.name, number, count) for number in range(1, len(shards) + 1)]
        return target, [
            self._plan_file(target, name, specs) for name, specs in zip(names, shards, strict=True)
        ]

    @classmethod
    def _index_of(cls, path: Location) -> Location | None:
        """Return the index of the sharded form of a target; None if its name leaves room for none."""
        if path.endswith(cls.suffix + INDEX):
            return path
        return path + INDEX if path.endswith(cls.suffix) else None


def _shard_name(index: str, number: int, count: int) -> str:
    stem, suffix = os.path.splitext(index.removesuffix(INDEX))
    return f"{stem}-{number:05}-of-{count:05}{suffix}"


def _split(specs: Sequence[TensorSpec], limit: int | None, tied: Mapping[str, str]) -> list[list[TensorSpec]]:
    """Return the tensors of each shard; what is too large has one of its own, before the one begun.

    A tensor tied to another one takes no space, and joins its shard.
    """
    if limit is None:
        return [list(specs)]
    shards: list[list[TensorSpec]] = []
    begun: list[TensorSpec] = []
    room = limit
    for spec in sorted(specs, key=lambda spec: key_bytes(spec.key)):
        size = spec.nbytes or 0
        if spec.key in tied:
            continue
        if size > limit:
            shards.append([spec])
            continue
        if size > room:
            shards.append(begun)
            begun, room = [], limit
        begun.append(spec)
        room -= size
    shards = [*shards, begun] if begun or not shards else shards
    home = {spec.key: shard for shard in shards for spec in shard}
    for spec in specs:
        if spec.key in tied:
            home[tied[spec.key]].append(spec)
    return shards


def _index(files: Sequence[PlannedFile]) -> dict[str, Any]:
    weight_map = {spec.key: file.name for file in files for spec in file.specs}
    size = sum(spec.nbytes or 0 for file in files for spec in file.specs)
    return {"metadata": {"total_size": size}, WEIGHT_MAP: weight_map}


def _encode_index(document: Mapping[str, Any]) -> bytes:
    """Return an index as transformers writes it."""
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


# Moving in --------------------------------------------------------------------------


class _ShardExchange(Exchange):
    """Moves one file, or shards and their index, in the place of either.

    Second names have a count that is not in use. Without hard links they are copies.
    """

    def __init__(
        self, staging: Staging, target: Location, index: Location, files: Sequence[PlannedFile]
    ) -> None:
        super().__init__(staging, target, target)
        self._sharded = index
        self._copies = 0
        names = [file.name for file in files] if target == index else []
        self._new = [staging.final(name) for name in names]
        whole = index.removesuffix(INDEX)
        is_whole = target == index and whole.exists() and not index.exists()
        self._whole = whole if is_whole else None
        """The one file that shards take the place of; it is what is read for as long as it is there."""

    def _shards(self) -> Sequence[Location]:
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
        with self._staging.create(name) as file, open(path, "rb") as source:
            for piece in iter(lambda: source.read(PIECE), b""):
                file.write(piece)
            file.sync()
        self._staging.move(name, second)

    def _retire(self) -> None:
        if self._whole is not None:
            os.unlink(self._whole)

    def _is_done(self) -> bool:
        return super()._is_done() and not (self._whole is not None and self._whole.exists())

    def _undo(self) -> None:
        if self._whole is not None and super()._is_done():
            os.unlink(self._index)
        super()._undo()

    def _keep_old(self) -> None:
        document = _document(self._sharded)
        if document is None or not any(os.path.lexists(path) for path in self._new):
            return
        spare = self._free_count()
        base = os.path.basename(self._sharded)
        names = [os.path.basename(path) for path in self._new if os.path.lexists(path)]
        second = {name: _shard_name(base, number, spare) for number, name in enumerate(names, 1)}
        final = self._staging.final
        self._give_second_names({final(name): final(other) for name, other in second.items()})
        weight_map = {key: second.get(name, name) for key, name in document[WEIGHT_MAP].items()}
        self._stand_in(lambda file: file.write(_encode_index({**document, WEIGHT_MAP: weight_map})))

    def _free_count(self) -> int:
        """Return a count of shards that no file here has in its name."""
        return max(_counts([*shards_of_index(self._sharded), *self._new])) + 1

    def _surplus(self) -> list[str]:
        return [path for path in _old_files(self._sharded) if path not in (self._index, *self._new)]


def _there(index: Location) -> list[Location]:
    """Return the existing files among an index and the one file that replaces it."""
    return [name for name in (index, index.removesuffix(INDEX)) if name.exists()]


def _old_files(index: Location) -> list[Location]:
    """Return what is there of a checkpoint, sharded or not, in the order in which it is removed."""
    return _there(index) + [path for path in shards_of_index(index) if path.exists()]


def _counts(shards: Sequence[str]) -> set[int]:
    """Return the counts of shards that names have in them."""
    return {int(match["count"]) for match in map(hub_shard, shards) if match}


def _unused(least: int, shards: Sequence[str]) -> int:
    """Return the lowest count of shards, of `least` or more, that none of some names has in it."""
    used = _counts(shards)
    return next(count for count in itertools.count(least) if count not in used)


def _document(index: Location) -> dict[str, Any] | None:
    """Return the content of an index, or None if there is none, or it cannot be read."""
    if not index.is_file():
        return None
    try:
        document = Probe(CheckpointLocation(index, index)).json
        if document is None or not is_map(document) or not files_by_name(document, index):
            return None
    except CheckpointError:
        return None
    return document if all(isinstance(name, str) for name in document[WEIGHT_MAP].values()) else None
