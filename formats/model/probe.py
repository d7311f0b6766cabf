"""One look at a file, shared by everything that asks what it is."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ..errors import CorruptCheckpointError
from ..store.content_cache import whole
from ..wire.magic import EMPTY_ZIP, ZIP

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..store.archive.reader import Archive
    from ..store.base import File
    from ..wire.sstable import Table
    from .checkpoint_files import CheckpointLocation


T = TypeVar("T")

HEAD_SIZE = 4096
TAIL_SIZE = 64
_JSON_SPACE = b" \t\r\n"
_INDEXES = (".index", ".json")
_AT_ONCE = 64 << 20
"""Bytes of an index, by its name, that are read at one stroke; a larger one block by block."""

_V1_META_TAG = 0x0A  # SavedTensorSlices.meta; a bundle's header has no field of this number and type.


class Probe:
    """The part of a file or directory that sniffers see: first and last bytes, and the container, if any.

    Everything is read once. Containers (`table`, `zip`, `json`, results of `result_of`) open when a sniffer
    needs them, and a reader continues with the open one. `known` answers questions beforehand, with a
    container that was repaired. A probe reads the file that identifies the checkpoint: a bundle's index, a V1
    file or its first shard, any other file itself.
    """

    def __init__(
        self, location: CheckpointLocation, known: Mapping[Callable[[Probe], Any], Any] = {}
    ) -> None:
        self.location = location
        self._answers: dict[Callable[[Probe], Any], Any] = dict(known)
        self._whole: bytes | None = None
        self._file: File | None = None
        with location.head.open() as file:
            self.size = file.size
            if file.size <= _AT_ONCE and location.head.endswith(_INDEXES):
                self._whole = whole(file)
                self.head, self.tail = self._whole[:HEAD_SIZE], self._whole[-TAIL_SIZE:]
                return
            self.head = file.read(0, HEAD_SIZE)
            is_all = file.size <= HEAD_SIZE
            self.tail = self.head[-TAIL_SIZE:] if is_all else file.read(file.size - TAIL_SIZE, TAIL_SIZE)

    @property
    def is_table(self) -> bool:
        from ..wire.sstable import MAGIC

        return self.tail.endswith(MAGIC)

    @cached_property
    def table(self) -> Table | None:
        """The open table; None if this is none, or its footer or index block is damaged."""
        from ..wire.sstable import Table

        if not self.is_table:
            return None
        try:
            return Table(self._read_of_table(), self.size, self.location.head)
        except CorruptCheckpointError:
            return None

    def _read_of_table(self) -> Callable[[int, int], bytes]:
        """Return what a table reads with: an index has been read, unless it is very large.

        A V1 checkpoint is a table that holds its tensors; opening it reads a few blocks.
        """
        data = self._whole
        if data is None:
            self._file = self.location.head.open()
            return self._file.read
        return lambda offset, size: data[offset : offset + size]

    @property
    def is_bundle(self) -> bool:
        """Whether this is a bundle's index, under the name by which its shards are found."""
        return self._is_index and self.location.head == self.location.path + ".index"

    @property
    def is_renamed_index(self) -> bool:
        """Whether this is a bundle's index under a name of its own, which says nothing of its shards."""
        return self._is_index and not self.is_bundle

    @cached_property
    def _is_index(self) -> bool:
        """Whether this is a table whose first value is not V1 metadata.

        A table too damaged to tell is what its name says.
        """
        if not self.is_table:
            return False
        try:
            _, value = next(iter(self.table or ()), (b"", b""))
        except CorruptCheckpointError:
            value = b""
        if not value:
            return self.location.head.endswith(".index")
        return value[0] != _V1_META_TAG

    @property
    def is_v1(self) -> bool:
        return self.is_table and not self._is_index

    def result_of(self, question: Callable[[Probe], T]) -> T:
        """Return what a function says of this probe, which is called once.

        So the sniffers and readers of a family share an open container. A result other than None can be
        closed.
        """
        if question not in self._answers:
            self._answers[question] = question(self)
        answer: T = self._answers[question]
        return answer

    def close(self) -> None:
        """Close what it opened, after sniffing without a reader."""
        if self._file is not None:
            self._file.close()
        for answer in self._answers.values():
            if answer is not None:
                answer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def zip(self) -> Archive | None:
        """The open zip archive; None if this is none.

        Raises CorruptCheckpointError if it is one that cannot be opened.
        """
        return self.result_of(zip_archive)

    @cached_property
    def json(self) -> dict[str, Any] | None:
        """The file's JSON object; None if this is no such text."""
        if self.is_table or not self.head.lstrip(_JSON_SPACE).startswith(b"{"):
            return None
        from ..wire.jsontext import parse_object

        try:
            return parse_object(self._content())  # without a name here, so that parsing can free it
        except ValueError:
            return None

    def _content(self) -> bytes:
        """Return the content of the file; a large one is not kept."""
        if self._whole is not None:
            return self._whole
        with self.location.head.open() as file:
            return file.read(0, file.size)

    def has_key(self, key: bytes) -> bool:
        """Whether a table has a key. False if this is not a table, or cannot be read."""
        try:
            return self.table is not None and self.table.get(key) is not None
        except CorruptCheckpointError:
            return False


def zip_archive(probe: Probe) -> Archive | None:
    """Return the open zip archive of a probe, for `Probe.result_of`; None if it is none."""
    if probe.is_table or not probe.head.startswith((ZIP, EMPTY_ZIP)):
        return None
    from ..store.archive.reader import Archive

    return Archive(probe.location.head)
