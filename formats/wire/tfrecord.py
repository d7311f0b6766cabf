"""Records one behind the other, each with its length and two checksums: TFRecord framing.

    record:  length: fixed64, masked crc32c of the 8 bytes of the length: fixed32,
             payload: char[length], masked crc32c of the payload: fixed32

repeated to the end of the file. The length has a checksum of its own, so reading continues after a damaged
payload. After a damaged length no record can be found. A file that ends within a record was cut off, or is
still being written; the records before it are complete. tensorflow/core/lib/io/record_writer.h
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from .crc32c import masked_crc32c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Record", "encode_record", "iter_records"]

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
HEADER_SIZE, FOOTER_SIZE = 12, 4


class Record(NamedTuple):
    """One record, or what there is instead of it.

    `payload` is None if `flaw` says why it cannot be read, or, without a flaw, if it is larger than
    requested.
    """

    offset: int
    payload: bytes | None
    flaw: str | None = None


def encode_record(payload: bytes) -> bytes:
    """Return a payload as a record of a file."""
    length = _LENGTH.pack(len(payload))
    return b"".join(
        (length, _CHECKSUM.pack(masked_crc32c(length)), payload, _CHECKSUM.pack(masked_crc32c(payload)))
    )


def iter_records(read: Callable[[int, int], bytes], size: int, largest: int) -> Iterator[Record]:
    """Yield the records of a file of `size` bytes, which `read(offset, size)` reads, less where it ends.

    Payloads of more than `largest` bytes are skipped. If the rest of the file cannot be read, the last record
    says why.
    """
    offset = 0
    while offset < size:
        header = read(offset, HEADER_SIZE)
        if len(header) < HEADER_SIZE:
            yield Record(
                offset, None, f"the file ends {len(header)} bytes into a record, inside its length field"
            )
            return
        (length,) = _LENGTH.unpack_from(header)
        (stored,) = _CHECKSUM.unpack_from(header, _LENGTH.size)
        computed = masked_crc32c(header[: _LENGTH.size])
        if stored != computed:
            yield Record(
                offset,
                None,
                f"a record's length has checksum {computed:#010x}, but the stored one is {stored:#010x}",
            )
            return
        start = offset + HEADER_SIZE
        end = start + length + FOOTER_SIZE
        if end > size:
            yield Record(
                offset, None, f"the file ends {size - offset} bytes into a record of {end - offset} bytes"
            )
            return
        yield _record(read, offset, start, length) if length <= largest else Record(offset, None)
        offset = end


def _record(read: Callable[[int, int], bytes], offset: int, start: int, length: int) -> Record:
    data = read(start, length + FOOTER_SIZE)
    if len(data) < length + FOOTER_SIZE:  # it was truncated since it was opened
        return Record(offset, None, f"the file ends {HEADER_SIZE + len(data)} bytes into a record")
    payload = data[:length]
    (stored,) = _CHECKSUM.unpack_from(data, length)
    computed = masked_crc32c(payload)
    if stored != computed:
        return Record(
            offset, None, f"a record has checksum {computed:#010x}, but the stored one is {stored:#010x}"
        )
    return Record(offset, payload)
