"""Digests of tensors' values, by which a saved listing knows them again: `crc32c:` or `sha256:`, hex digits.

    numbers:            the elements' bytes, little-endian, in C order
    strings, variants:  of each element its length as a little-endian uint64, then its bytes

    types not mapped:   the stored bytes

Digests do not depend on how a format stores values, so a tensor has the same digest in every format. A bundle
stores the CRC-32C of exactly these bytes for most of its tensors, and that one is used. An index without its
shards has checksums of other bytes for the rest. They have a prefix: `stored:` is the stored, masked sum;
`slices:` is the CRC-32C of the keys and stored sums of a partitioned tensor's slices, in the order of the
keys.
"""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from ..core.chunks import PIECE, view_of
from ..errors import CheckpointError, UnsupportedFeatureError
from ..store.ranges import Sum, buffers, cut
from ..store.work.workers import SERIAL, Workers
from ..wire.crc32c import spelled

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from ..store.ranges import FileRange
    from .reader import FormatReader
    from .tensor import LazyTensor


ALGORITHMS = ("crc32c", "sha256")

OF_INDEX = ("stored", "slices")
"""The words of what an index says, which can be compared with another index alone."""


class DigestTask(NamedTuple):
    """A range of a tensor that a file stores unchanged; plain data."""

    values: FileRange
    algorithm: str
    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        return self.end - self.begin


class _Found(NamedTuple):
    """The result of a task: the checksum of its range, and the SHA-256 if it was requested."""

    sum: Sum
    sha256: str


class _DigestStep(NamedTuple):
    """A tensor's digest, or a task of it, or neither, where it is read when it is its turn."""

    key: str
    known: str | None = None
    task: DigestTask | None = None
    is_last: bool = True


def digests(
    reader: FormatReader,
    keys: Iterable[str],
    algorithm: str,
    workers: Workers = SERIAL,
    *,
    exact: bool = False,
    of_index: bool = False,
) -> Generator[tuple[str, str | None]]:
    """Yield the digests of tensors, in this order; None if an entry cannot be decoded.

    Values are checked as by `LazyTensor.read`. `exact` also computes digests that are stored; `of_index` uses
    the index alone, for data in other files. Raises ChecksumError, CorruptCheckpointError,
    UnsupportedFeatureError.
    """
    waiting: deque[_DigestStep] = deque()

    def tasks() -> Iterator[DigestTask | None]:
        for key in keys:
            for step in _steps(reader, key, algorithm, workers.task_bytes, exact=exact, of_index=of_index):
                waiting.append(step)
                yield step.task

    total = Sum()
    mapped = workers.map(_work, tasks(), lambda task: task.nbytes if task else 0, local=reader.is_local)
    with closing(mapped) as results:
        for found in results:
            key, known, task, is_last = waiting.popleft()
            if task is None or found is None:
                is_known = known is not None or reader.is_unread(key)
                if not is_known:
                    workers.keep(reader.specs[key].nbytes or 0)
                yield key, known if is_known else _streamed(reader[key], algorithm)
                continue
            total.add(found.sum)
            if is_last:
                task.values.check(total)
                yield key, f"sha256:{found.sha256}" if found.sha256 else spelled("crc32c", total.crc)
                total = Sum()


def _steps(
    reader: FormatReader, key: str, algorithm: str, step: int, *, exact: bool, of_index: bool
) -> Iterator[_DigestStep]:
    if reader.is_unread(key):
        yield _DigestStep(key)
        return
    tensor = reader[key]
    known = tensor.index_digest() if of_index else tensor.known_digest(algorithm)
    if known is not None and not (exact and tensor.has_values and not of_index):
        yield _DigestStep(key, known)
        return
    try:
        values = tensor.digest_range()
    except CheckpointError:
        # Raised when it is its turn, so that messages do not depend on how far the reader is ahead.
        values = None
    if values is None:
        yield _DigestStep(key)
        return
    ranges = [(0, values.size)] if algorithm == "sha256" else [*cut(values.size, step)]
    for begin, end in ranges:
        yield _DigestStep(key, None, DigestTask(values, algorithm, begin, end), end == values.size)


def _work(task: DigestTask | None) -> _Found | None:
    """Do one task; None, which keeps a place among tasks, comes to nothing."""
    if task is None:
        return None
    values, is_sha = task.values, task.algorithm == "sha256"
    found, sha, room = values.sum(), hashlib.sha256(), buffers()[0]
    values.expect(task.begin, task.end)
    for begin in range(task.begin, task.end, PIECE):
        piece = values.read(begin, min(begin + PIECE, task.end), room)
        if not is_sha or values.is_checked:
            found.extend(piece)
        if is_sha:
            sha.update(piece.data)
    return _Found(found, sha.hexdigest() if is_sha else "")


def _streamed(tensor: LazyTensor, algorithm: str) -> str:
    """Return the digest of a tensor that is read from its beginning to its end."""
    found, sha = Sum(), hashlib.sha256()
    has_lengths, is_sha = tensor.spec.dtype.itemsize is None, algorithm == "sha256"
    for chunk in tensor.chunks():
        length = struct.pack("<Q", len(chunk)) if has_lengths else b""
        for piece in (length, chunk):
            if is_sha:
                sha.update(view_of(piece))
            else:
                found.extend(piece)
    return f"sha256:{sha.hexdigest()}" if is_sha else spelled("crc32c", found.crc)


def digests_like(
    reader: FormatReader,
    listed: Mapping[str, str],
    workers: Workers = SERIAL,
    *,
    exact: bool = False,
) -> Generator[tuple[str, str]]:
    """Yield digests of tensors that can be compared with those that are listed, of the same algorithms.

    Raises what `digests` does, and UnsupportedFeatureError if this checkpoint has no such digest.
    """
    words = {key: text.partition(":")[0] for key, text in listed.items()}
    for algorithm in ALGORITHMS:
        keys = [key for key, word in words.items() if word == algorithm]
        for key, found in digests(reader, keys, algorithm, workers, exact=exact):
            if found is None:
                raise reader.undecoded(key)
            yield key, found
    for key in (key for key, word in words.items() if word in OF_INDEX):
        found = reader[key].index_digest()
        if found is None or found.partition(":")[0] != words[key]:
            hints = ("list the checkpoint again in a folder that has its index and its data shards",)
            message = f"the listing's {listed[key]} comes from an index; nothing here can be compared with it"
            raise UnsupportedFeatureError(message, path=reader.location.path, key=key, hints=hints)
        yield key, found
