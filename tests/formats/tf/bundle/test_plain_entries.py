"""Plain entries, as TensorFlow writes nearly all, are decoded without a message, with the same result."""

from __future__ import annotations

import random

import pytest

from formats.core.dtypes import BY_NUMBER
from formats.location import local_location
from formats.tf.bundle import index
from formats.tf.bundle.index import BundleEntry, EntryError, decode_entry, encode_entry
from formats.tf.bundle.index_salvage import SalvagedIndex
from formats.wire.messages import BundleHeaderProto

DIMS = (0, 1, 2, 3, 127, 128, 300, 1 << 20, 1 << 31, 1 << 62, (1 << 63) - 1)
BYTES = (0, 1, 2, 3, 8, 0x12, 0x18, 0x20, 0x7F, 0x80, 0xFF)
OWN_SHAPE = tuple(number % 2 + 1 for number in range(31))


def made(random_: random.Random) -> bytes:
    """Return an entry, perhaps with bytes changed, added or removed."""
    shape = tuple(random_.choice(DIMS) for _ in range(random_.randrange(6)))
    dtype = random_.choice(list(BY_NUMBER.values()))
    place = random_.choice((0, 0, 1, 200)), random_.choice((0, 5, 1 << 40)), random_.choice((0, 4, 1000))
    value = bytearray(encode_entry(BundleEntry(dtype, shape, *place, random_.choice((0, 1, 0xDEADBEEF)))))
    for _ in range(random_.randrange(4)):
        at = random_.randrange(len(value) + 1)
        value[at : at + random_.randrange(2)] = bytes([random_.choice(BYTES)] * random_.randrange(2))
    return bytes(value)


def told(value: bytes) -> BundleEntry | tuple[str, str]:
    try:
        return decode_entry(value)
    except EntryError as error:
        return error.code, str(error)


@pytest.mark.parametrize("seed", range(8))
def test_an_entry_says_what_its_message_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(seed)
    values = [made(random_) for _ in range(1000)] + [b"", b"\x08", b"\x08\x01\x12\x08", b"\x08\x01\x12\x00"]
    found = list(map(told, values))
    monkeypatch.setattr(index, "_plain_shape", lambda _: None)
    assert found == list(map(told, values))
    assert any(isinstance(entry, BundleEntry) for entry in found)
    assert any(isinstance(entry, tuple) and entry[0] == "entry" for entry in found)


def test_no_message_is_made_for_a_shape_that_no_other_tensor_has(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = BundleEntry(BY_NUMBER[1], OWN_SHAPE, 0, 24, 96, 7)
    value = encode_entry(entry)
    monkeypatch.setattr(index.BundleEntryProto, "decode", None)
    assert decode_entry(value) == entry


def test_an_entry_is_plain_once_another_with_its_head_was_decoded() -> None:
    float32 = BY_NUMBER[1]
    one, other = (BundleEntry(float32, OWN_SHAPE, 0, offset, 96, 7) for offset in (0, 96))
    sliced = BundleEntry(float32, OWN_SHAPE, 0, 192, 96, 7, slices=(((0, 1),) * len(OWN_SHAPE),))
    entries = dict(zip((b"a", b"b", b"c"), map(encode_entry, (one, other, sliced)), strict=True))
    found = SalvagedIndex(local_location("ckpt"), BundleHeaderProto(num_shards=1), entries)
    assert not found.is_plain(1)
    assert found.entry(0) == one
    assert found.is_plain(1)
    assert not found.is_plain(2)
