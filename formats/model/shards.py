"""A sharded checkpoint: Hugging Face's index, and the shards it names.

    NAME.safetensors.index.json        {"metadata": {"total_size": bytes},
                                        "weight_map": {key: file, ...}}
    NAME-00001-of-0000N.safetensors    shards, each a file of its own

and the same with `.bin` for PyTorch's files. The index lists the tensors and their shards, the shards
describe them, and the two must agree. These keys are rejected: one that its shard lacks, one that two shards
have, and one that a shard has and the index does not name. Libraries differ on the last: some load whole
shards, others only what the index names. `total_size` is not compared, because its meaning has changed over
the years. https://huggingface.co/docs/safetensors, huggingface_hub/serialization/_base.py
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..core.dtypes import INVALID
from ..core.spec import TensorSpec, key_bytes
from ..core.words import command_line, counted
from ..errors import (
    CheckpointError,
    CheckpointNotFoundError,
    CorruptCheckpointError,
    UnknownFormatError,
    UnsupportedFeatureError,
    forget_locals,
)
from ..location import Location, looked_into
from ..store.siblings import hub_shard
from ..store.work.workers import SERIAL, Workers
from .checkpoint_files import CheckpointLocation, index_of_shard_name, lone_shards, shards_of_index
from .foreign import Foreign, recognise
from .probe import Probe
from .reader import FormatReader
from .verification import Finding, Verification, missing_shard
from .weight_map import WEIGHT_MAP, files_by_name, shard_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .reader import Format
    from .tensor import LazyTensor


_MOST_FLAWS = 20_000
"""The most keys on which index and shards may disagree when a damaged checkpoint is read."""

MOST_OF_INDEXES = 100_000_000
"""Bytes that say which tensors there are, in all shards together."""


def broken_index(path: Location, suffix: str) -> CheckpointError | None:
    """Return what is wrong with a file that no format takes and that is called an index of shards."""
    if not path.endswith(suffix):
        return None
    hint = "copy the index again, or read its shards one by one"
    return Foreign("this is not a shard index: it is not JSON with a weight_map", hint).error(path)


class ShardedReader(FormatReader):
    """Shards, each read as a file of its own, and the index that makes them one checkpoint."""

    lists_all = True  # a shard names all its tensors, or is rejected

    def __init__(self, probe: Probe, format: Format, *, lenient: bool) -> None:  # noqa: A002  the word of the field
        self.location = probe.location
        self.format = format
        self._path = probe.location.head
        self._lenient = lenient
        self._flaws: list[Finding] = []
        self._shards: dict[str, FormatReader] = {}
        self._closed_to_us: dict[str, CheckpointError] = {}
        self._lost: dict[str, CheckpointError] = {}
        self._without: dict[str, CheckpointError] = {}
        self._homes: dict[str, FormatReader] = {}
        assert probe.json is not None
        mapped = self._mapped(probe.json)
        try:
            self._open_shards(sorted(set(mapped.values())))
            self._take(mapped)
        except BaseException:
            self.close()
            raise
        self._specs = {key: self._spec(key) for key in sorted([*self._homes, *self._lost], key=key_bytes)}
        self.findings = [
            *self._flaws,
            *(each for shard in self._shards.values() for each in shard.findings),
        ]

    def _mapped(self, document: dict[str, Any]) -> dict[str, str]:
        """Return the file of each key; a tensor is not split over several."""
        for key, file in document[WEIGHT_MAP].items():
            if not isinstance(file, str):
                message = f"weight_map must name one file, but has {file!r:.60}"
                raise CorruptCheckpointError(message, path=self._path, key=key, code="header")
        files_by_name(document, self._path)
        mapped: dict[str, str] = document[WEIGHT_MAP]
        return mapped

    def _open_shards(self, files: list[str]) -> None:
        size = 0
        for file in looked_into(files, self._path.beside):
            path = shard_path(self._path, file)
            try:
                self._shards[file] = shard = self._opened(path)
            except CheckpointError as error:
                forget_locals(error)
                if not self._lenient:
                    error.hints = error.hints or (
                        f"to save the other shards' tensors: {command_line('rescue', self._path, 'OUT')}",
                    )
                    raise
                self._closed_to_us[file] = error
                continue
            size += self.index_size(shard)
            if size > MOST_OF_INDEXES:
                message = f"the shards' headers have more than {MOST_OF_INDEXES} bytes in total"
                raise UnsupportedFeatureError(message, path=self._path, code="header")

    def _opened(self, path: Location) -> FormatReader:
        probe = Probe(CheckpointLocation(path, path))
        try:
            shard = self.open_shard(probe, lenient=self._lenient)
            if shard is None:
                raise self._refusal(probe, path)
        except CheckpointError:
            probe.close()
            raise
        return shard

    def _refusal(self, probe: Probe, path: Location) -> CheckpointError:
        """Return what a shard is instead of a file of this format."""
        foreign = recognise(probe)
        if foreign is not None:
            return foreign.error(path, "header")
        return UnknownFormatError(f"this is not a {self.format.name} file", path=path, code="header")

    @abstractmethod
    def open_shard(self, probe: Probe, *, lenient: bool) -> FormatReader | None:
        """Return a reader of a shard; None if the file is another format's."""

    @abstractmethod
    def index_size(self, shard: FormatReader) -> int:
        """Return how many bytes of a shard say which tensors it has."""

    def shards(self) -> list[FormatReader]:
        """Return the shards that are open."""
        return [*self._shards.values()]

    def _take(self, mapped: dict[str, str]) -> None:
        """Compare the index with the content of the shards."""
        holders: dict[str, tuple[str, ...]] = {}
        for file, shard in self._shards.items():
            alone = (file,)  # one for all of its keys
            for key in shard.specs:
                holders[key] = holders[key] + alone if key in holders else alone
        for key, file in mapped.items():
            self._place(key, file, holders.pop(key, ()))
        for key, files in holders.items():
            other = f" and in {files[1]}" if len(files) > 1 else ""
            self._flaw(key, f"the tensor is in {files[0]}{other}, but weight_map does not name it")
            self._homes[key] = self._shards[files[0]]
        counts = Counter(mapped.values())
        firsts = {file: key for key, file in reversed(mapped.items())}
        for file, error in self._closed_to_us.items():
            if isinstance(error, CheckpointNotFoundError) and error.path is not None:
                self._flaws.append(missing_shard(error.path, counts[file], "tensor", firsts[file]))
                continue
            what = counted(counts[file], "tensor")
            message = f"{error.message}; it has {what}, for example {firsts[file]!r}"
            self._flaws.append(Finding("error", error.code, message, None, error.path, error.offset))

    def _place(self, key: str, file: str, holders: tuple[str, ...]) -> None:
        """Find the shard of a key that the index says to be in `file` and that `holders` have."""
        if file in holders:
            self._homes[key] = self._shards[file]
            others = [other for other in holders if other != file]
            if others:
                self._flaw(key, f"the tensor is in {file}, as weight_map says, but also in {others[0]}")
        elif holders:
            self._flaw(key, f"weight_map says {file}, but the tensor is in {holders[0]}")
            self._homes[key] = self._shards[holders[0]]
        elif file in self._closed_to_us:
            self._lost[key] = self._closed_to_us[file]
        else:
            message = f"weight_map says {file}, but the tensor is not in that file"
            self._flaw(key, message)
            if file not in self._without:
                self._without[file] = self._error(key, message)
            self._lost[key] = self._without[file]

    def _flaw(self, key: str, message: str) -> None:
        """Raise what contradicts the index, or take note of it where what can be listed shall be."""
        if not self._lenient or len(self._flaws) == _MOST_FLAWS:
            raise self._error(key, message)
        self._flaws.append(Finding("error", "entry", message, key, self._path))

    def _error(self, key: str, message: str) -> CorruptCheckpointError:
        hints = (f"to save the shards' tensors: {command_line('rescue', self._path, 'OUT')}",)
        return CorruptCheckpointError(message, path=self._path, key=key, code="entry", hints=hints)

    def _spec(self, key: str) -> TensorSpec:
        return self._homes[key].specs[key] if key in self._homes else TensorSpec(key, INVALID, ())

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        return self._specs

    def files(self) -> Sequence[Location]:
        return [self._path, *(shard.location.head for shard in self._shards.values())]

    def tensor(self, key: str) -> LazyTensor:
        return self._homes[key].tensor(key)

    def undecoded(self, key: str) -> CheckpointError:
        lost = self._lost.get(key)
        if lost is None:
            return super().undecoded(key)
        return CorruptCheckpointError(
            lost.message,
            path=lost.path,
            key=key,
            offset=lost.offset,
            code=lost.code,
            hints=lost.hints,
        )

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:
        """Check the index against the shards, then every shard."""
        yield Verification(findings=(*self._flaws, *self._surplus()))
        for shard in self._shards.values():
            yield from shard.verify(workers)

    def _surplus(self) -> Iterator[Finding]:
        """Yield shards next to the index that it does not name."""
        named = {*self._shards, *self._closed_to_us}
        for path in shards_of_index(self._path):
            if path.name not in named:
                yield Finding(
                    "warning",
                    "shard-surplus",
                    "the index does not name this shard",
                    None,
                    path,
                )

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()


def refuse_without_index(location: CheckpointLocation) -> None:
    """Refuse the shards of a folder, which a directory has found without the index that names them."""
    shard = hub_shard(location.head)
    if location.path == location.head or shard is None:
        return
    there, count = lone_shards(location.head, shard), int(shard["count"])
    message = f"found {len(there)} of {count} shards, but not {index_of_shard_name(location.head)}"
    hints = (
        "copy the index, which lists the tensors, from the source of the shards",
        f"to read one shard on its own: {command_line('ls', location.head)}",
    )
    raise CorruptCheckpointError(message, path=location.path, code="shard-missing", hints=hints)
