"""A bundle's index made of what is left of one, and where a sibling has to help.

Three sources say where the data shards hold which tensor, in falling order of trust:

    sound blocks of the index     their checksum holds, so their entries are right
    damaged blocks                an entry that can be read may be right in part; that the data
                                  agree with its checksum shows where the bytes are and that
                                  they are sound, not that key, dtype and shape are right
    a sibling's index             another checkpoint of the same run: same keys, dtypes, shapes,
                                  and the same order in the shards

Between saves of one run only strings and variants change their size (an iterator's state
for one), and these say themselves how long they are, under a checksum of their own.  So a
shard is walked in the sibling's order, and the walk has to end where the file ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...core.dtypes import VARIANT
from ...core.spec import key_text
from ...errors import CheckpointError
from ...model.verification import Finding
from ...wire.crc32c import mask
from . import payload
from .index import BundleEntry, BundleIndex, EntryError, IndexValues, data_shard, decode_entry, encode_entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...location import Location
    from ...store.base import File
    from ...wire.messages import BundleHeaderProto
    from .index_fragments import Remains


CHECKSUM, UNCHANGED = "checksum", "sibling"
"""The proof of a tensor: its stored checksum, or equality with the sibling to the last bit."""


class ProvenEntry(NamedTuple):
    """An entry, what proves the bytes it names, and if nothing does, why."""

    entry: BundleEntry
    proof: str | None
    doubt: str | None = None


class SalvagedIndex(BundleIndex):
    """An index made of entries instead of a file."""

    def __init__(self, prefix: Location, header: BundleHeaderProto, entries: Mapping[bytes, bytes]) -> None:
        self.prefix = prefix
        self.path = prefix + ".index"
        self.findings = []
        keys = sorted(entries)
        self.values = IndexValues(entries[key] for key in keys)
        self.size = sum(map(len, entries.values()))
        self.header = header
        self.big_endian = header.endianness == 1
        self._begin(lenient=True)
        self._sort_out([*map(key_text, keys)])


class _Shards:
    """The data shards of a prefix, opened when they are read."""

    def __init__(self, prefix: Location, count: int, *, big_endian: bool) -> None:
        self._prefix = prefix
        self._count = count
        self._big_endian = big_endian
        self._files: dict[int, File | None] = {}

    def file(self, shard: int) -> File | None:
        if shard not in self._files:
            try:
                self._files[shard] = data_shard(self._prefix, shard, self._count).open()
            except CheckpointError:
                self._files[shard] = None
        return self._files[shard]

    def crc(self, entry: BundleEntry) -> int | None:
        """Return the masked checksum of what an entry names; None if it cannot be so."""
        file = self.file(entry.shard)
        if file is None or entry.offset + entry.size > file.size:
            return None
        count = _elements(entry)
        if entry.dtype.itemsize is not None and entry.size != count * entry.dtype.itemsize:
            return None
        try:
            found = payload.checksum(
                lambda offset, size: file.read_exactly(entry.offset + offset, size),
                entry.dtype,
                count,
                entry.size,
                big_endian=self._big_endian,
            )
        except (CheckpointError, ValueError):
            return None
        return mask(found)

    def length(self, entry: BundleEntry, place: int) -> int | None:
        """Return how many bytes a tensor of strings or variants at a place says that it has."""
        file = self.file(entry.shard)
        if file is None or place > file.size:
            return None
        count = _elements(entry)
        if not count:
            return entry.size
        try:
            found = payload.elements(
                lambda offset, size: file.read_exactly(place + offset, size),
                entry.dtype,
                count,
                file.size - place,
                big_endian=self._big_endian,
            )
        except (CheckpointError, ValueError):
            return None
        return found[-1].offset + found[-1].size + (4 if entry.dtype is VARIANT else 0)

    def close(self) -> None:
        for file in self._files.values():
            if file is not None:
                file.close()


def _elements(entry: BundleEntry) -> int:
    count = 1
    for dim in entry.shape:
        count *= dim
    return count


def place_by(
    sibling: BundleIndex, prefix: Location, remains: Remains
) -> tuple[dict[bytes, ProvenEntry], list[Finding]]:
    """Return the entries that a sibling has and intact blocks lack, placed in these shards.

    Findings name the sibling's tensors that cannot be placed, with the reason.
    """
    header = remains.header
    known = {key for key, value in remains.sound.items() if _decoded(value) is not None}
    entries = {key: entry for key, entry in _entries(sibling) if key not in known}
    shards = _Shards(prefix, header.num_shards, big_endian=header.endianness == 1)
    placed: dict[bytes, ProvenEntry] = {}
    findings: list[Finding] = []
    try:
        places = {
            shard: _walk(sibling, shard, shards)
            for shard in {entry.shard for entry in entries.values() if not entry.slices}
        }
        for key, entry in entries.items():
            doubtful = _decoded(remains.doubtful.get(key, b""))
            if entry.slices:
                placed[key] = ProvenEntry(entry, CHECKSUM)  # it holds no data; its pieces tell
                continue
            found = _prove(entry, doubtful, places[entry.shard], shards)
            if isinstance(found, ProvenEntry):
                placed[key] = found
            else:
                path = data_shard(prefix, entry.shard, header.num_shards)
                findings.append(Finding("error", "entry", found, key_text(key), path))
    finally:
        shards.close()
    return placed, findings


def _decoded(value: bytes) -> BundleEntry | None:
    if not value:
        return None
    try:
        return decode_entry(value)
    except EntryError:
        return None


def _entries(index: BundleIndex) -> Iterator[tuple[bytes, BundleEntry]]:
    for position, key in enumerate(index.keys):
        entry = index.entry_or_none(position)
        if entry is not None:
            yield key, entry


def _prove(
    entry: BundleEntry, doubtful: BundleEntry | None, layout: _SiblingLayout, shards: _Shards
) -> ProvenEntry | str:
    """Return the placement of a sibling's tensor in these shards with its proof, or the reason why there is
    none.
    """
    if shards.file(entry.shard) is None:
        return "its data shard is missing"
    if doubtful is not None and (doubtful.dtype, doubtful.shape) == (entry.dtype, entry.shape):
        if shards.crc(doubtful) == doubtful.crc32c:
            return ProvenEntry(doubtful, CHECKSUM)
    else:
        doubtful = None
    place = layout.places.get((entry.offset, entry.size))
    if place is None:
        return "the position of this tensor is unknown, because strings before it are damaged"
    here = entry._replace(offset=place[0], size=place[1])
    crc = shards.crc(here)
    if crc is None:
        return "its bytes are inconsistent or truncated"
    here = here._replace(crc32c=crc)
    if doubtful is not None and crc == doubtful.crc32c:
        return ProvenEntry(here, CHECKSUM)
    if crc == entry.crc32c and here.size == entry.size:
        return ProvenEntry(here, UNCHANGED)
    if doubtful is not None and not layout.fits:
        return "its bytes do not match its checksum"
    if not layout.fits:
        return "its checksum is unknown, and this shard does not end where the sibling's does"
    return ProvenEntry(here, None, "its checksum is unknown; its position is taken from the sibling")


class _SiblingLayout(NamedTuple):
    """Place and size here, by offset and size in the sibling; whether it all ends with the file."""

    places: dict[tuple[int, int], tuple[int, int]]
    fits: bool


def _walk(sibling: BundleIndex, shard: int, shards: _Shards) -> _SiblingLayout:
    """Return where this shard holds the tensors of the sibling's shard."""
    file = shards.file(shard)
    found = (entry for _, entry in _entries(sibling) if not entry.slices and entry.shard == shard)
    places: dict[tuple[int, int], tuple[int, int]] = {}
    shift = end = theirs = 0
    adrift = False
    size_there = _size(data_shard(sibling.prefix, shard, sibling.header.num_shards))
    for entry in sorted(found, key=lambda entry: (entry.offset, entry.size)):
        span = entry.offset, entry.size
        if span in places or file is None:
            continue
        theirs = max(theirs, entry.offset + entry.size)
        if adrift:
            continue
        size: int | None = entry.size
        if entry.dtype.itemsize is None:
            size = shards.length(entry, entry.offset + shift)
        if size is None:
            adrift = file.size != size_there
            continue
        places[span] = entry.offset + shift, size
        end = max(end, entry.offset + shift + size)
        shift += size - entry.size
    tail = max(0, size_there - theirs) if size_there is not None else 0
    fits = file is not None and not adrift and file.size in (end + tail, size_there)
    return _SiblingLayout(places, fits)


def _size(path: Location) -> int | None:
    try:
        with path.open() as file:
            return file.size
    except CheckpointError:
        return None


def encoded(placed: Mapping[bytes, ProvenEntry]) -> dict[bytes, bytes]:
    """Return entries as an index stores them."""
    return {key: encode_entry(found.entry) for key, found in placed.items()}
