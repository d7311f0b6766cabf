"""The positions of a PyTorch file's pickle and storages, in its two forms.

    zip, since torch 1.6
        ROOT/data.pkl      the object, a pickle of protocol 2
        ROOT/data/KEY      a storage, which torch never deflates
        ROOT/byteorder     "little" or "big"; older files have none, and are little-endian
        ROOT/version, .format_version, .storage_alignment, .data/serialization_id

    legacy
        magic number, protocol version, facts of the system, object, list of keys: a pickle each
        for each key in the list: elements: uint64, their bytes; little-endian, wherever written

A storage is checked once: its CRC-32 is compared after all its bytes were read, and from then on parts of it
are read in place. A caller that reads all of it in ranges compares it itself. The legacy form has no
checksums. torch/serialization.py, caffe2/serialize/inline_container.cc, torch/csrc/generic/serialization.cpp
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ..core.chunks import PIECE
from ..errors import REFUSED, CorruptCheckpointError, UnsupportedFeatureError
from ..store.archive.reader import Cursor
from .objects import GLOBALS, Storage, storage_of
from .pickle import Machine, RejectedGlobalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..model.probe import Probe
    from ..store.archive.reader import Archive
    from ..store.base import File

LEGACY_MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""The first pickle of a legacy file: 0x1950a86a20f9469cfc6c."""

LONGEST_PICKLE = 100_000_000
LONGEST_DEFLATED = 8 << 20
"""Bytes of an object's pickle; torch deflates none, and one that is costs more memory than it has bytes."""

_LONGEST_ORDER = 16
_COUNT_SIZE = 8
_FIRST_READ = 1 << 16
"""Bytes of a legacy file that are read at first, to have its pickles, which do not say how long they are."""

_PICKLE, _DATA = "data.pkl", "data/"

_MODULE_FIELDS = (b"_parameters", b"_buffers")
"""Fields near the start of a torch.nn.Module's pickle that a state dict never has."""


class Container(ABC):
    """A file's object, and its storages; `file` holds the stored bytes."""

    file: File
    root: Any
    pickle_size: int
    is_swapped = False
    """Whether elements are big-endian."""

    @property
    def path(self) -> str:
        return self.file.path

    @abstractmethod
    def size_of(self, storage: Storage) -> int | None:
        """Return the size of a storage in the file in bytes, or None if it is missing."""

    @abstractmethod
    def pieces(self, storage: Storage) -> Iterator[bytes]:
        """Yield all bytes of a storage, and remember at their end that what checks it fits."""

    @abstractmethod
    def is_proved(self, storage: Storage) -> bool:
        """Whether that has been done."""

    @abstractmethod
    def prove(self, storage: Storage) -> None:
        """Do it, unless it has been done.  Raises ChecksumError, CorruptCheckpointError."""

    @abstractmethod
    def offset_of(self, storage: Storage) -> int | None:
        """Return the offset of a storage in the file, or None if it is deflated."""

    @abstractmethod
    def crc32(self, storage: Storage) -> int | None:
        """Return the CRC-32 of a whole storage for its reader, or None if none is stored.

        What else checks it is compared.  Raises CorruptCheckpointError.
        """

    @abstractmethod
    def source(self, storage: Storage) -> Callable[[int, int], bytes]:
        """Return what reads a storage's bytes at rising places."""

    def other_pieces(self, keys: set[str]) -> Iterator[Iterator[bytes]]:  # noqa: ARG002  there is nothing else
        """Yield what else has a checksum but the storages of these keys, each as its bytes."""
        return iter(())

    def close(self) -> None:
        self.file.close()

    def _run(self, machine: Machine, begin: int = 0) -> Any:
        """Return the result of a pickle at offset `begin` of the file."""
        try:
            return machine.run()
        except RejectedGlobalError as error:
            raise self._rejection(error.name, machine.data) from error
        except ValueError as error:
            message, offset = f"the pickle cannot be read: {error}", self.file.where(begin + machine.at)
            raise CorruptCheckpointError(message, path=self.path, offset=offset, code="header") from error

    def _rejection(self, name: str, data: bytes) -> UnsupportedFeatureError:
        """Return the error for a file with a name that is not part of a state dict."""
        is_module = all(field in data for field in _MODULE_FIELDS)
        what = (
            "this file contains a whole PyTorch module"
            if is_module
            else "this file contains more than tensors and plain values"
        )
        saved = "model.state_dict()" if is_module else "a dictionary of tensors and plain values"
        message = f"{what}; loading the file would run {name!r:.200}"
        hints = (f"in the program that made the file, save {saved} with torch.save",)
        return UnsupportedFeatureError(message, path=self.path, code=REFUSED, hints=hints)


class ZipContainer(Container):
    """The zip form."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.file = archive.file
        archive.check()
        if archive.begin:
            message = f"the archive has {archive.begin} unexpected bytes before its first member"
            raise CorruptCheckpointError(message, path=self.path, code="header")
        pickled = pickle_of(archive)
        assert pickled is not None
        self._root = pickled.removesuffix(_PICKLE)
        self.is_swapped = self._is_big_endian()
        member = archive.member(pickled)
        data = archive.read(pickled, LONGEST_DEFLATED if member.deflated else LONGEST_PICKLE)
        self._proved, self.pickle_size = {pickled}, len(data)
        self.root = self._run(Machine(data, GLOBALS, storage_of, stored=member.stored), member.offset)

    def _is_big_endian(self) -> bool:
        name = self._root + "byteorder"
        if name not in self._archive.names:
            self._check_names()
            return False
        found = self._archive.read(name, _LONGEST_ORDER)
        if found not in (b"little", b"big"):
            shown = found.decode("ascii", "backslashreplace")
            message = f"the member byteorder contains {shown!r}; expected 'little' or 'big'"
            raise CorruptCheckpointError(message, path=self.path, code="header")
        return found == b"big"

    def _check_names(self) -> None:
        """Compare the names of members that are not storages with those at their data: one of them may be
        damaged.

        Raises CorruptCheckpointError.
        """
        for name in self._archive.names:
            if not name.startswith(self._root + _DATA):
                self._archive.member(name)

    def _name(self, storage: Storage) -> str:
        return f"{self._root}{_DATA}{storage.key}"

    def size_of(self, storage: Storage) -> int | None:
        return self._archive.declared_size(self._name(storage))

    def pieces(self, storage: Storage) -> Iterator[bytes]:
        yield from self._pieces_of(self._name(storage))

    def _pieces_of(self, name: str) -> Iterator[bytes]:
        yield from self._archive.pieces(self._archive.member(name))
        self._proved.add(name)

    def is_proved(self, storage: Storage) -> bool:
        return self._name(storage) in self._proved

    def prove(self, storage: Storage) -> None:
        if not self.is_proved(storage):
            for _ in self.pieces(storage):
                pass

    def offset_of(self, storage: Storage) -> int | None:
        member = self._archive.member(self._name(storage))
        return None if member.deflated else member.offset

    def crc32(self, storage: Storage) -> int | None:
        return self._archive.member(self._name(storage)).crc

    def source(self, storage: Storage) -> Callable[[int, int], bytes]:
        member = self._archive.member(self._name(storage))
        if member.deflated:
            return Cursor(self._archive, member).read
        return lambda offset, size: self.file.read_exactly(member.offset + offset, size)

    def other_pieces(self, keys: set[str]) -> Iterator[Iterator[bytes]]:
        named = {f"{self._root}{_DATA}{key}" for key in keys}
        yield from (self._pieces_of(name) for name in self._archive.names if name not in named)

    def close(self) -> None:
        self._archive.close()


def pickle_of(archive: Archive) -> str | None:
    """Return the member that is the object of a PyTorch file; None if this is no such archive.

    All members are in one folder of any name. TorchScript has constants as well.
    """
    found = [name for name in archive.names if name.count("/") == 1 and name.endswith("/" + _PICKLE)]
    is_one = len(found) == 1 and found[0].removesuffix(_PICKLE) + "constants.pkl" not in archive.names
    return found[0] if is_one else None


def is_torch(probe: Probe) -> bool:
    """Whether a file is one of PyTorch's, in either form."""
    is_zip = probe.zip is not None and pickle_of(probe.zip) is not None
    return is_zip or probe.head.startswith(LEGACY_MAGIC)


class LegacyContainer(Container):
    """The form before torch 1.6."""

    def __init__(self, file: File) -> None:
        self.file = file
        read = _FIRST_READ
        while True:
            data = file.read(0, min(read, LONGEST_PICKLE))
            try:
                begin, keys = self._pickles(data)
                break
            except CorruptCheckpointError:
                if len(data) == file.size or read >= LONGEST_PICKLE:
                    raise
                read *= 8
        self._keys, self._begin, self.pickle_size = keys, begin, begin
        self._offsets: dict[str, int] = {}
        self._proved: set[str] = set()

    def _pickles(self, data: bytes) -> tuple[int, list[str]]:
        """Take the object from the pickles at the beginning; return where they end, and storages' keys."""
        machine = Machine(data, {}, storage_of, at=len(LEGACY_MAGIC))
        for _ in ("protocol version", "facts of the system"):
            self._run(machine)
        self._storages: dict[str, Storage] = {}
        machine = Machine(data, GLOBALS, self._storage_of, at=machine.at)
        self.root = self._run(machine)
        machine = Machine(data, {}, storage_of, at=machine.at)
        keys = self._run(machine)
        if type(keys) is not list or not all(type(key) is str for key in keys) or len(set(keys)) != len(keys):
            raise CorruptCheckpointError("the list of its storages is missing", path=self.path, code="header")
        return machine.at, keys

    def _storage_of(self, saved: Any) -> Storage:
        """Note a storage of any type: its bytes precede those of the next."""
        storage = storage_of(saved)
        first = self._storages.setdefault(storage.key, storage)
        if (first.whole, first.nbytes) != (storage.whole, storage.nbytes):
            raise ValueError(f"storage {storage.key!r:.60} has two sizes")
        return storage

    def place(self) -> CorruptCheckpointError | None:
        """Find the offsets of consecutive storages from the sizes that the object states.

        Returns what is wrong where the file is not as long as they are together.
        """
        at = self._begin
        for key in self._keys:
            if key not in self._storages:
                raise self._corrupt(f"the object does not name storage {key!r:.60}, so its size is unknown")
            self._offsets[key] = at + _COUNT_SIZE
            at += _COUNT_SIZE + self._storages[key].nbytes
        if at != self.file.size:
            message = f"the file has {self.file.size} bytes, but the storages end at byte {at}"
            hints = ("copy the file again; the copy or the save was interrupted",)
            return CorruptCheckpointError(
                message, path=self.path, offset=min(at, self.file.size), code="shard-short", hints=hints
            )
        return None

    def _corrupt(self, message: str, offset: int | None = None) -> CorruptCheckpointError:
        return CorruptCheckpointError(message, path=self.path, offset=offset, code="header")

    def size_of(self, storage: Storage) -> int | None:
        offset = self._offsets.get(storage.key)
        whole = self._storages[storage.key].nbytes if offset is not None else 0
        return None if offset is None else max(0, min(whole, self.file.size - offset))

    def pieces(self, storage: Storage) -> Iterator[bytes]:
        self.prove(storage)
        offset, size = self._offsets[storage.key], storage.nbytes
        for at in range(0, size, PIECE):
            yield self.file.read_exactly(offset + at, min(PIECE, size - at))

    def is_proved(self, storage: Storage) -> bool:
        return storage.key in self._proved

    def prove(self, storage: Storage) -> None:
        """Compare the number of elements before a storage; no other stored value checks it."""
        if self.is_proved(storage):
            return
        offset = self._offsets[storage.key] - _COUNT_SIZE
        count = int.from_bytes(self.file.read_exactly(offset, _COUNT_SIZE), "little")
        if count != storage.whole:
            raise self._corrupt(
                f"the storage has {count} elements, but the object says {storage.whole}", offset
            )
        self._proved.add(storage.key)

    def offset_of(self, storage: Storage) -> int | None:
        return self._offsets[storage.key]

    def crc32(self, storage: Storage) -> int | None:
        self.prove(storage)
        return None

    def source(self, storage: Storage) -> Callable[[int, int], bytes]:
        begin = self._offsets[storage.key]
        return lambda offset, size: self.file.read_exactly(begin + offset, size)
