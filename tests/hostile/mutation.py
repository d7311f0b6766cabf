"""Changing files the way an attacker would: by their structure, checksums made right again.

A checksum reveals a flipped bit before the parsers behind it see the file. So each kind of structure is
parsed, changed and written again. Changed are fields of a message, entries of a table, members of an archive,
items of a JSON text, and fields of HDF5's own structures. One `random.Random` makes all choices, so that a
seed is a test case.
"""

from __future__ import annotations

import io
import json
import pickletools
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

from formats.wire.coding import encode_varint
from formats.wire.compression import compress
from formats.wire.protobuf import iter_fields
from formats.wire.sstable import BlockHandle, encode_block
from tests.support import stored_block, table_tail

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    Mutate = Callable[[random.Random, bytes], bytes]

__all__ = [
    "NASTY_TEXTS",
    "NUMBERS",
    "mutate_bytes",
    "mutate_entries",
    "mutate_h5",
    "mutate_json",
    "mutate_message",
    "mutate_table",
    "mutate_text",
    "mutate_zip",
    "pack_table",
    "unpack_table",
]

NUMBERS = (
    *(0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 63, 64, 100, 127, 128, 254, 255, 256, 511, 4095, 4096),
    *((1 << bits) + delta for bits in (15, 16, 24, 31, 32, 40, 48, 60, 62, 63, 64) for delta in (-1, 0, 1)),
)
"""Numbers at which something ends: a byte, a sign, a limit."""

NASTY_TEXTS = (
    "",
    "/",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "a" * 300,
    "a/" * 40,
    "\0",
    "k\0k",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\r\n",
    "a\tb",
    "\u202egnp.exe",
    "\u2028",
    "\x9b31m",
    "\udcff\udc80",
    "\ud800",
    "[bold]x[/bold]",
    "</text><script>alert(1)</script>",
    '"];x["',
    "%s%n{0}",
    "::add-mask::x",
    "  ::error file=a,line=1::x",
    "a ##[add-mask]x",
    "²",
    "vars",
    ".ATTRIBUTES",
    ".OPTIMIZER_SLOT",
    "save_counter",
    "_variables",
    "iter",
)
"""Texts that mean something to a terminal, a path, a markup, a runner of GitHub's, or TensorFlow."""

_WORDS = tuple(text.encode("utf-8", "surrogatepass") for text in NASTY_TEXTS)


def _twice_or_so(dice: random.Random) -> int:
    return dice.choice((1, 1, 1, 2, 3, 5))


# Any bytes ------------------------------------------------------------------------


def _flip(dice: random.Random, data: bytearray) -> None:
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _set(dice: random.Random, data: bytearray) -> None:
    data[dice.randrange(len(data))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))


def _cut(dice: random.Random, data: bytearray) -> None:
    del data[dice.randrange(len(data)) :]


def _delete(dice: random.Random, data: bytearray) -> None:
    at = dice.randrange(len(data))
    del data[at : at + dice.choice((1, 1, 2, 4, 8, dice.randrange(1, 64)))]


def _insert(dice: random.Random, data: bytearray) -> None:
    at = dice.randrange(len(data) + 1)
    data[at:at] = dice.choice((dice.randbytes(dice.randrange(1, 9)), dice.choice(_WORDS), b"\xff" * 12))


def _repeat(dice: random.Random, data: bytearray) -> None:
    at = dice.randrange(len(data))
    piece = data[at : at + dice.randrange(1, 65)]
    data[at:at] = piece * dice.choice((1, 1, 2, 50))


def _move(dice: random.Random, data: bytearray) -> None:
    at, to, size = dice.randrange(len(data)), dice.randrange(len(data)), dice.randrange(1, 33)
    data[to : to + size] = data[at : at + size]


def _number(dice: random.Random, data: bytearray) -> None:
    size = dice.choice((1, 2, 4, 8))
    at = dice.randrange(len(data))
    at -= at % size if dice.random() < 0.7 else 0
    number = dice.choice((*NUMBERS, len(data), len(data) - at))
    data[at : at + size] = (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _varint(dice: random.Random, data: bytearray) -> None:
    at = dice.randrange(len(data))
    data[at : at + 1] = dice.choice((encode_varint(dice.choice(NUMBERS)), b"\x80" * 20, b"\xff" * 9 + b"\1"))


_BYTES = (_flip, _flip, _set, _set, _cut, _delete, _insert, _repeat, _move, _number, _number, _varint)


def mutate_bytes(dice: random.Random, data: bytes) -> bytes:
    """Return bytes with one to five things changed."""
    out = bytearray(data)
    for _ in range(_twice_or_so(dice)):
        if not out:
            return dice.randbytes(dice.randrange(32))
        dice.choice(_BYTES)(dice, out)
    return bytes(out)


def mutate_text(dice: random.Random, data: bytes) -> bytes:
    """Return text with words, numbers and punctuation changed."""
    words = data.replace(b"\n", b" \n ").split(b" ")
    for _ in range(_twice_or_so(dice)):
        at = dice.randrange(len(words))
        choice = dice.randrange(6)
        if choice == 0:
            words[at] = dice.choice(_WORDS)
        elif choice == 1:
            words[at] = b"%d" % dice.choice(NUMBERS) + dice.choice((b"", b"e400", b".5", b"9" * 5000, b"f"))
        elif choice == 2:
            words.insert(at, words[dice.randrange(len(words))])
        elif choice == 3 and len(words) > 1:
            del words[at]
        elif choice == 4:
            words[at] = words[at].replace(b'"', dice.choice((b"'", b'\\"', b"", b'"\\u0000')), 1)
        else:
            words[at] = mutate_bytes(dice, words[at])
    return b" ".join(words)


# Messages ---------------------------------------------------------------------------


def _encoded(number: int, wire_type: int, value: int | bytes) -> bytes:
    tag = encode_varint(number << 3 | wire_type)
    if isinstance(value, int):
        return tag + encode_varint(value)
    return tag + (encode_varint(len(value)) if wire_type == 2 else b"") + value


def mutate_message(dice: random.Random, data: bytes) -> bytes:
    """Return a protocol buffer message with one changed field, at any depth."""
    try:
        fields = [(number, kind, value) for number, kind, value, _, _ in iter_fields(data)]
    except ValueError:
        return mutate_bytes(dice, data)
    if not fields or dice.random() < 0.05:
        return mutate_bytes(dice, data)
    for _ in range(dice.choice((1, 1, 2))):
        at = dice.randrange(len(fields))
        number, kind, value = fields[at]
        choice = dice.random()
        if isinstance(value, bytes) and kind == 2 and value and choice < 0.7:
            fields[at] = number, kind, mutate_message(dice, value)
        elif isinstance(value, bytes) and choice < 0.8:
            text = dice.choice(_WORDS)
            fields[at] = number, kind, text if kind == 2 else text[: len(value)].ljust(len(value), b"\xff")
        elif isinstance(value, int) and choice < 0.8:
            fields[at] = number, kind, dice.choice(NUMBERS)
        elif choice < 0.86:
            fields.insert(dice.randrange(len(fields)), fields[at])
        elif choice < 0.92 and len(fields) > 1:
            del fields[at]
        elif choice < 0.96:
            fields[at] = dice.randrange(1, 16), kind, value
        else:
            fields += [fields[at]] * dice.choice((2, 20, 300))
    return b"".join(_encoded(*field) for field in fields)


# Tables -----------------------------------------------------------------------------

Entry = tuple[bytes, bytes]


def unpack_table(data: bytes) -> list[Entry]:
    """Return the entries of a sound table."""
    from formats.wire.sstable import Table

    return list(Table(lambda offset, size: data[offset : offset + size], len(data), "seed"))


def pack_table(dice: random.Random, entries: Sequence[Entry]) -> bytes:
    """Return a table of entries in any order: in one block or some, plain or snappy, checksums right."""
    cuts = sorted(dice.randrange(len(entries) + 1) for _ in range(dice.choice((0, 0, 0, 1, 3))))
    blocks = [entries[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(entries)], strict=True)]
    out = bytearray()
    index = []
    for entries_of_block in blocks:
        block = encode_block(list(entries_of_block), dice.choice((16, 16, 1)))
        kind = int(dice.random() < 0.1)
        block = compress(block) if kind else block
        last = entries_of_block[-1][0] if entries_of_block else b""
        index.append((last, BlockHandle(len(out), len(block))))
        out += stored_block(block, kind)
    return bytes(out) + table_tail(len(out), index)


def mutate_entries(dice: random.Random, entries: Sequence[Entry], value: Mutate) -> list[Entry]:
    """Return entries with one to five changes; `value` mutates the value of an entry."""
    out = list(entries)
    for _ in range(_twice_or_so(dice)):
        if not out:
            break
        at = dice.randrange(len(out))
        key, held = out[at]
        choice = dice.random()
        if choice < 0.7:
            out[at] = key, value(dice, held)
        elif choice < 0.8:
            out[at] = mutate_bytes(dice, key), held
        elif choice < 0.85:
            out[at] = dice.choice(_WORDS), held
        elif choice < 0.9:
            del out[at]
        elif choice < 0.95:
            out.insert(dice.randrange(len(out)), (key, held))
        else:
            out[at] = key, out[dice.randrange(len(out))][1]
    return sorted(out) if dice.random() < 0.8 else out


def mutate_table(dice: random.Random, data: bytes) -> bytes:
    """Return a table changed below its checksums: a block, a handle, or the entries it is packed from."""
    if dice.random() < 0.5:
        return pack_table(dice, mutate_entries(dice, unpack_table(data), mutate_bytes))
    block = encode_block(unpack_table(data))
    if dice.random() < 0.7:
        block = mutate_bytes(dice, block)
    kind = dice.choice((0, 0, 1, 2))
    packed = compress(block) if kind == 1 else block
    if kind == 1 and dice.random() < 0.5:
        packed = mutate_bytes(dice, packed)
    handle = BlockHandle(0, len(packed))
    if dice.random() < 0.3:
        handle = BlockHandle(dice.choice((0, *NUMBERS)), dice.choice((len(packed), *NUMBERS)))
    tail = table_tail(len(packed) + 5, [(b"\xff", handle)] * dice.choice((1, 1, 2)))
    return stored_block(packed, kind) + (mutate_bytes(dice, tail) if dice.random() < 0.3 else tail)


# JSON -------------------------------------------------------------------------------


def _nested(depth: int) -> Any:
    value: Any = 1
    for number in range(depth):
        value = [value] if number % 2 else {"config": value}
    return value


def _json_value(dice: random.Random) -> Any:
    return dice.choice(
        (None, True, -1, 0.5, 1e400, "", [], {}, [[]], dice.choice(NUMBERS), dice.choice(NASTY_TEXTS))
    )


def _change_json(dice: random.Random, value: Any) -> Any:
    """Return a JSON value with a change at any depth."""
    if isinstance(value, dict) and value and dice.random() < 0.9:
        out = dict(value)
        key = dice.choice(list(out))
        choice = dice.random()
        if choice < 0.75:
            out[key] = _change_json(dice, out[key])
        elif choice < 0.85:
            out[dice.choice(NASTY_TEXTS)] = out.pop(key)
        elif choice < 0.92:
            del out[key]
        else:
            out[dice.choice(NASTY_TEXTS)] = dice.choice(list(value.values()))
        return out
    if isinstance(value, list) and value and dice.random() < 0.9:
        items = list(value)
        at = dice.randrange(len(items))
        choice = dice.random()
        if choice < 0.75:
            items[at] = _change_json(dice, items[at])
        elif choice < 0.85:
            del items[at]
        else:
            items.insert(at, dice.choice(items))
        return items
    return _json_value(dice)


def mutate_json(dice: random.Random, data: bytes) -> bytes:
    """Return a JSON text with changed values, or now and then with changed spelling."""
    value = json.loads(data)
    for _ in range(_twice_or_so(dice)):
        value = _change_json(dice, value)
    text = json.dumps(value).encode()
    choice = dice.random()
    if choice < 0.05:
        deep = json.dumps(_nested(dice.choice((20, 100, 300, 450)))).encode()
        return text.replace(b":", b":" + deep + b',"x":', 1)
    if choice < 0.08:
        return text.replace(b"1", b"1" * 5000, 1)
    return mutate_bytes(dice, text) if choice < 0.25 else text


# Archives ---------------------------------------------------------------------------


def unpack_zip(data: bytes) -> dict[str, bytes]:
    """Return the members of a sound archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack_zip(members: Sequence[tuple[str, bytes]], *, deflated: bool = False) -> bytes:
    """Return an archive whose checksums are right."""
    out = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore")  # of names that come twice, on purpose
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return out.getvalue()


def _change_directory(dice: random.Random, data: bytes) -> bytes:
    """Return an archive with a changed number in the central directory or at the end."""
    out = bytearray(data)
    start = out.find(b"PK\1\2")
    if start < 0:
        return mutate_bytes(dice, data)
    for _ in range(_twice_or_so(dice)):
        at = dice.randrange(start, len(out))
        size = dice.choice((1, 2, 4))
        out[at : at + size] = (dice.choice(NUMBERS) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return bytes(out)


def mutate_zip(dice: random.Random, data: bytes, member: Mutate) -> bytes:
    """Return an archive with a changed member, name, directory or order."""
    choice = dice.random()
    if choice < 0.25:
        return _change_directory(dice, data)
    if choice < 0.35:
        return mutate_bytes(dice, data)
    members = list(unpack_zip(data).items())
    at = dice.randrange(len(members))
    name, content = members[at]
    if choice < 0.8:
        members[at] = name, member(dice, content)
    elif choice < 0.9:
        texts = [text for text in NASTY_TEXTS if not any("\ud800" <= c <= "\udfff" for c in text)]
        members[at] = dice.choice(texts), content
    else:
        members[at:at] = [members[dice.randrange(len(members))]]
    return pack_zip([(name, content) for name, content in members if name], deflated=dice.random() < 0.3)


# Pickles ----------------------------------------------------------------------------

_OPCODES = tuple(opcode.code.encode("latin-1") for opcode in pickletools.opcodes)
_NAMES = (b"os\nsystem\n", b"builtins\neval\n", b"torch\nfloat32\n", b"collections\nOrderedDict\n")


def mutate_pickle(dice: random.Random, data: bytes) -> bytes:
    """Return a pickle with an opcode replaced, removed or inserted, or with any byte changed."""
    if dice.random() < 0.4:
        return mutate_bytes(dice, data)
    places = [place for _, _, place in pickletools.genops(data) if place is not None]
    for _ in range(_twice_or_so(dice)):
        at = dice.choice(places)
        put = dice.choice((b"", dice.choice(_OPCODES), b"c" + dice.choice(_NAMES), b"h" + dice.randbytes(1)))
        data = data[:at] + put + data[at + dice.randrange(2) :]
    return data


# HDF5 -------------------------------------------------------------------------------

_H5_MARKS = (b"OHDR", b"TREE", b"HEAP", b"SNOD", b"GCOL", b"OCHK", b"BTHD", b"FRHP", b"FSHD", b"\x89HDF")


def mutate_h5(dice: random.Random, data: bytes) -> bytes:
    """Return an HDF5 file with a changed number near the beginning of a structure, or with any byte
    changed.
    """
    out = bytearray(data)
    for _ in range(_twice_or_so(dice)):
        mark = dice.choice(_H5_MARKS)
        at = out.find(mark, dice.randrange(len(out)))
        at = at if at >= 0 else out.find(mark)
        if at < 0 or dice.random() < 0.4:
            # Headers of objects bear no mark in files of the oldest kind: anywhere, on a boundary of 8.
            at = dice.randrange(len(out)) & ~7
        at += dice.choice((0, 4, 5, 6, 7, 8, 12, 16, 20, 24, 32, 40, 48))
        size = dice.choice((1, 1, 2, 4, 8))
        number = dice.choice((*NUMBERS, len(data), dice.randrange(len(data)), dice.randrange(256)))
        if at + size <= len(out):
            out[at : at + size] = (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return bytes(out)
