"""Writing PyTorch's files: a state dict, or the object that was read, as `torch.load` takes it.

    archive/data.pkl      the object
    archive/byteorder     "little"
    archive/data/N        a storage for each tensor; those that are tied share one
    archive/version       "3"

Every tensor is a storage of its own, in C order: views that overlap become tensors that do
not.  The names of members do not depend on the file's, so the same tensors make the same bytes.
Shards are flat state dicts, as Hugging Face's are.  torch/serialization.py: _save
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ..core.chunks import view_of
from ..core.words import FirstNames
from ..errors import ConversionError
from ..model.sharding import PlannedFile, ShardWriter
from ..model.weight_map import INDEX, PYTORCH
from ..model.writer import Placement
from ..store.archive.writer import Zipped
from ..store.local.staged_file import StagedFile
from .encoding import WholeStorage, encode
from .facts import TorchFacts
from .kinds import GROUPS, kinds_of
from .storages import LONGEST_PICKLE
from .structure import Arranged, NestedStructure, flat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..core.chunks import Chunk
    from ..core.region import Extents
    from ..core.spec import TensorSpec
    from ..model.reader import Format
    from ..model.writer import WriteTarget
    from ..store.ranges import Sum
    from ..store.remote.upload import Upload

_ROOT = "archive/"

_LARGEST = (1 << 63) - 1
"""Bytes that a file can have at most."""


class _Head(NamedTuple):
    """The parts of a file known before it is written: its pickle, and the positions of tensors by key."""

    pickle: bytes
    tensors: dict[str, WholeStorage]


class TorchWriter(ShardWriter):
    """Writes files of a pickle and storages."""

    suffix = PYTORCH
    folder_name = "pytorch_model" + PYTORCH

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  as its base
        self._zips: dict[str, Zipped] = {}
        self._sums: dict[str, int] = {}
        self._tied_sums: dict[str, int] = {}
        self._left_out = FirstNames()
        self._turned: list[str] = []
        self.tied = _tied(target)
        super().__init__(format, target)
        if self._left_out.count:
            why = (
                "a shard contains only tensors"
                if self._has_index
                else "the tensors next to it are not written"
            )
            self.notes.append(f"left out {self._left_out}: {why}")
        for path in self._turned:
            self.notes.append(
                f"{path or 'the list'} becomes a dictionary keyed by position, as some elements are left out"
            )

    def _plan_file(self, target: WriteTarget, name: str, specs: Sequence[TensorSpec]) -> PlannedFile:
        # A tied tensor is compared with the one it is tied to, which therefore goes first.
        ordered = sorted(specs, key=lambda spec: spec.key in self.tied)
        for spec in ordered:
            if (spec.nbytes or 0) > _LARGEST:
                raise ConversionError(
                    f"the tensor has {spec.nbytes} bytes, which is too large for one file",
                    path=target.path,
                    key=spec.key,
                )
        tensors: dict[str, WholeStorage] = {}
        for number, spec in enumerate(ordered):
            first = self.tied.get(spec.key)
            tensors[spec.key] = WholeStorage(str(number) if first is None else tensors[first].storage, spec)
        try:
            arranged = self._arranged(target, [spec.key for spec in specs])
            pickle = encode(arranged.root, tensors)
        except ValueError as error:
            raise ConversionError(str(error), path=target.path, hints=_HINTS) from error
        if len(pickle) > LONGEST_PICKLE:
            message = f"the pickle has {len(pickle)} bytes, over the limit of {LONGEST_PICKLE}"
            raise ConversionError(
                message, path=target.path, hints=("to write several files, pass --shard-size",)
            )
        return PlannedFile(name, tuple(ordered), _Head(pickle, tensors))

    def _arranged(self, target: WriteTarget, keys: Sequence[str]) -> Arranged:
        """Return the object of a file: what was read, or a state dict, as each shard is one."""
        structure = target.facts.structure if isinstance(target.facts, TorchFacts) else None
        if structure is None:
            return flat(keys)
        if target.path.endswith(INDEX):
            self._left_out = FirstNames(structure.beside())
            self._refuse_half(target, structure)
            return flat(keys)
        arranged = structure.arranged(keys)
        self._left_out.add_all(arranged.left_out)
        self._turned += arranged.turned
        return arranged

    def _refuse_half(self, target: WriteTarget, structure: NestedStructure) -> None:
        """Refuse an optimizer's tensors without what it says of them, which a shard has no place for."""
        groups = next((name for name in structure.beside() if name.rpartition("/")[2] == GROUPS), None)
        if groups is None:
            return
        kinds = kinds_of({spec.key: spec for spec in target.specs})
        key = next((key for key, kind in kinds.items() if kind in ("slot", "optimizer")), None)
        if key is not None:
            message = f"shards contain only tensors, so they cannot store {groups} of the optimizer state"
            hints = (
                "to write everything to one file, pass a DST that ends in .pt",
                "to leave out the optimizer state, pass --kind variable",
            )
            raise ConversionError(message, path=target.path, key=key, hints=hints)

    def _write_head(self, file: PlannedFile, staged: StagedFile | Upload) -> None:
        zipped = self._zips[file.name] = Zipped(staged)
        zipped.add(_ROOT + "data.pkl", file.head.pickle)
        zipped.add(_ROOT + "byteorder", b"little")

    def _write_tail(self, file: PlannedFile, staged: StagedFile | Upload) -> None:  # noqa: ARG002  as its base
        self._check_tied(file)
        zipped = self._zips.pop(file.name)
        zipped.add(_ROOT + "version", b"3\n")
        zipped.finish()

    def _write(self, spec: TensorSpec, extents: Extents | None, chunks: Iterator[Chunk]) -> None:  # noqa: ARG002
        file = self._file_of[spec.key]
        self._begin_file(file)
        if spec.key in self.tied:
            self._tied_sums[spec.key] = reduce(lambda crc, chunk: crc32(view_of(chunk), crc), chunks, 0)
            return
        zipped = self._zips[file.name]
        zipped.begin(_member(file, spec), spec.nbytes or 0)
        for chunk in chunks:
            zipped.write(chunk)
        self._sums[spec.key] = zipped.end()

    def _place(self, spec: TensorSpec) -> Placement | None:
        if spec.key in self.tied:
            return None
        file = self._file_of[spec.key]
        staged = self._begin_file(file)
        assert isinstance(staged, StagedFile)
        self._unfilled_in[file.name] += 1
        offset = self._zips[file.name].reserve(_member(file, spec), spec.nbytes or 0)
        return Placement(staged, offset, is_zipped=True)

    def _filled(self, spec: TensorSpec, place: Placement, extents: Extents | None, found: Sum) -> None:  # noqa: ARG002
        assert found.crc32 is not None
        file = self._file_of[spec.key]
        self._zips[file.name].fill(_member(file, spec), place.offset, found.crc32)
        self._sums[spec.key] = found.crc32
        self._unfilled_in[file.name] -= 1

    def _check_tied(self, file: PlannedFile) -> None:
        """Compare tied tensors with those that were written, once a file is complete."""
        for key in [spec.key for spec in file.specs if spec.key in self.tied]:
            if self._tied_sums[key] != self._sums[self.tied[key]]:
                message = (
                    f"the tensor is the same as {self.tied[key]!r} in the source, but has different values"
                )
                raise ConversionError(message, path=self.target.path, key=key)


def _member(file: PlannedFile, spec: TensorSpec) -> str:
    """Return the name of the storage that a tensor is."""
    return f"{_ROOT}data/{file.head.tensors[spec.key].storage}"


_HINTS = ("to change its key, pass --sub or --map; to leave this tensor out, pass --exclude",)


def _tied(target: WriteTarget) -> dict[str, str]:
    """Return, by key, the tensor that another one is, so that it is written once."""
    structure = target.facts.structure if isinstance(target.facts, TorchFacts) else None
    if structure is None:
        return {}
    specs = {spec.key: spec for spec in target.specs}
    found = structure.tied(specs)
    return {key: first for key, first in found.items() if specs[key][1:3] == specs[first][1:3]}
