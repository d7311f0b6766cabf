"""Protocol buffer messages, described by tables.

    message:  (tag: varint, value)*      tag = field number << 3 | wire type
    value:    varint | fixed64 | length: varint, bytes | fixed32   by wire type 0 1 2 5

A message class lists its fields once, and that table both decodes and encodes:

    class VersionDef(Message):
        producer: int
        bad_consumers: list[int]
        FIELDS = fields(producer=Field(1, INT32), bad_consumers=Field(3, INT32, repeated=True))

Encoding produces the bytes of TensorFlow's C++ runtime: fields by ascending number, no scalars of default
value, repeated numbers in packed form, and set messages even if empty. Decoding accepts fields in any order,
packed and unpacked numbers, the last of a repeated scalar, and a repeated message, which is merged. It keeps
unknown fields, which encoding writes after the known ones. Malformed input raises ValueError.
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from .coding import decode_varint, encode_varint, signed64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "BOOL",
    "BYTES",
    "DOUBLE",
    "FIXED32",
    "FLOAT",
    "INT32",
    "INT64",
    "NAME",
    "TEXT",
    "Field",
    "Message",
    "Scalar",
    "fields",
    "iter_fields",
]

VARINT, FIXED64_TYPE, LENGTH, FIXED32_TYPE = 0, 1, 2, 5
_FIXED_SIZE = {FIXED64_TYPE: 8, FIXED32_TYPE: 4}

RawValue = int | bytes | memoryview
LARGE = 1 << 20
"""The size in bytes from which a field is not copied: a message within messages would be copied often."""


def iter_fields(data: bytes | memoryview) -> Iterator[tuple[int, int, RawValue, int, int]]:
    """Yield (number, wire type, value, start, end) of every field; ValueError where malformed.

    Varints come as unsigned numbers, everything else as bytes, or as a part of `data`
    where that is a memoryview and the part is large; `data[start:end]` is the field with its tag.
    """
    viewed = isinstance(data, memoryview)
    position, end = 0, len(data)
    while position < end:
        start = position
        tag = data[position]
        position += 1
        if tag >= 0x80:
            tag, position = decode_varint(data, start, end)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or number >= 1 << 29:
            raise ValueError(f"the field number {number} at offset {start} is invalid")
        value: RawValue
        if wire_type == LENGTH:
            length, position = decode_varint(data, position, end)
            if length > end - position:
                raise ValueError(f"field {number} has {length} bytes, but only {end - position} are left")
            value = data[position : position + length]
            if viewed and length < LARGE:
                value = bytes(value)
            position += length
        elif wire_type == VARINT:
            value, position = decode_varint(data, position, end)
        elif wire_type in _FIXED_SIZE:
            size = _FIXED_SIZE[wire_type]
            if size > end - position:
                raise ValueError(f"field {number} has {size} bytes, but only {end - position} are left")
            value = bytes(data[position : position + size])
            position += size
        else:
            raise ValueError(f"field {number} has unsupported wire type {wire_type}")
        yield number, wire_type, value, start, position


class Scalar(NamedTuple):
    """The wire encoding of one scalar type."""

    wire_type: int
    decode: Callable[[Any], Any]
    encode: Callable[[Any], bytes]
    default: Any


def _int32(value: int) -> int:
    return signed64(value & 0xFFFFFFFF | (0xFFFFFFFF00000000 if value >> 31 & 1 else 0))


def _bytes_with_length(value: bytes) -> bytes:
    return encode_varint(len(value)) + value


def _packed(code: str) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    packer = struct.Struct(code)
    return (lambda raw: packer.unpack(raw)[0]), packer.pack


INT32 = Scalar(VARINT, _int32, encode_varint, 0)
INT64 = Scalar(VARINT, signed64, encode_varint, 0)
BOOL = Scalar(VARINT, bool, encode_varint, False)
BYTES = Scalar(LENGTH, bytes, _bytes_with_length, b"")
MESSAGE = Scalar(*BYTES)
"""A message that its user decodes. Two of them are merged, as for any message."""


def _text(raw: bytes | memoryview) -> str:
    if len(raw) >= LARGE:
        raise ValueError(f"a string has {len(raw)} bytes, but at most {LARGE} are supported")
    assert isinstance(raw, bytes)
    return raw.decode("utf-8", "surrogateescape")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates
        return False
    return True


# Hostile or very old files hold strings that are not UTF-8; their bytes survive as lone surrogates.
TEXT = Scalar(
    LENGTH,
    _text,
    lambda text: _bytes_with_length(text.encode("utf-8", "surrogateescape")),
    "",
)
NAME = TEXT._replace(decode=lambda raw: sys.intern(_text(raw)))
"""Text that is the same in most messages of a file, and is kept once."""
FIXED32 = Scalar(FIXED32_TYPE, *_packed("<I"), 0)
FLOAT = Scalar(FIXED32_TYPE, *_packed("<f"), 0.0)
DOUBLE = Scalar(FIXED64_TYPE, *_packed("<d"), 0.0)


class Field(NamedTuple):
    """One row of a message's table: its number, its type, and how often it may occur.

    `explicit` keeps a scalar's presence: None when absent, written even when default.
    """

    number: int
    type: Scalar | type[Message]
    repeated: bool = False
    explicit: bool = False


def fields(**table: Field) -> dict[str, Field]:
    """Return a message's table; it must be in ascending order of field numbers."""
    numbers = [field.number for field in table.values()]
    assert numbers == sorted(set(numbers)), numbers
    return table


def _decode_scalars(scalar: Scalar, wire_type: int, value: RawValue) -> list[Any]:
    """Return the value, or the values of a packed field."""
    if wire_type == scalar.wire_type:
        return [scalar.decode(value)]
    if wire_type != LENGTH or isinstance(value, int):
        raise ValueError(f"the wire type is {wire_type}; expected {scalar.wire_type}")
    if scalar.wire_type == VARINT:
        out, position = [], 0
        while position < len(value):
            number, position = decode_varint(value, position)
            out.append(scalar.decode(number))
        return out
    size = _FIXED_SIZE[scalar.wire_type]
    if len(value) % size:
        raise ValueError(f"a packed field has {len(value)} bytes; expected a multiple of {size}")
    return [scalar.decode(value[at : at + size]) for at in range(0, len(value), size)]


class _Slotted(type):
    """Gives a message a slot for each field: a graph has a hundred thousand, and dicts are larger."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _Slotted:
        slots = tuple(namespace.get("FIELDS", ())) if bases else ("unknown",)
        return super().__new__(mcs, name, bases, {**namespace, "__slots__": slots})


def _absent(field: Field) -> Any:
    """Return the value of an absent field."""
    if field.repeated:
        return ()
    return field.type.default if isinstance(field.type, Scalar) and not field.explicit else None


def _either(kind: Scalar | type[Message]) -> tuple[Scalar | None, type[Message] | None]:
    """Return a type as a scalar or as a message, the other being None."""
    return (kind, None) if isinstance(kind, Scalar) else (None, kind)


class _Occurs(Enum):
    """When a field is written."""

    IF_THERE = "unless it is None"
    UNLESS_DEFAULT = "unless it is its default: zero, empty or false"
    REPEATED = "once per item"


class _Encoder(NamedTuple):
    """How a field is written: its tag, and what makes the bytes behind that."""

    name: str
    tag: bytes
    encode: Callable[[Any], bytes]
    occurs: _Occurs


def _encoder(name: str, field: Field) -> _Encoder:
    if not isinstance(field.type, Scalar):
        occurs = _Occurs.REPEATED if field.repeated else _Occurs.IF_THERE
        tag = encode_varint(field.number << 3 | LENGTH)
        return _Encoder(name, tag, lambda child: _bytes_with_length(child.encode()), occurs)
    scalar, wire_type, encode = field.type, field.type.wire_type, field.type.encode
    occurs = _Occurs.IF_THERE if field.explicit else _Occurs.UNLESS_DEFAULT
    if field.repeated and wire_type == LENGTH:
        occurs = _Occurs.REPEATED
    elif field.repeated:  # packed
        wire_type, occurs = LENGTH, _Occurs.UNLESS_DEFAULT
        encode = lambda items: _bytes_with_length(b"".join(map(scalar.encode, items)))  # noqa: E731
    return _Encoder(name, encode_varint(field.number << 3 | wire_type), encode, occurs)


class Message(metaclass=_Slotted):
    """Base of all messages; a subclass is annotations for people and a table for the codec."""

    FIELDS: ClassVar[dict[str, Field]] = {}
    _by_number: ClassVar[dict[int, tuple[str, bool, Scalar | None, type[Message] | None]]] = {}
    _absent: ClassVar[dict[str, Any]] = {}
    _encoders: ClassVar[tuple[_Encoder, ...]] = ()
    unknown: bytes

    def __init_subclass__(cls) -> None:
        cls._by_number = {
            field.number: (name, field.repeated, *_either(field.type)) for name, field in cls.FIELDS.items()
        }
        cls._absent = {**{name: _absent(field) for name, field in cls.FIELDS.items()}, "unknown": b""}
        cls._encoders = tuple(_encoder(name, field) for name, field in cls.FIELDS.items())

    def __init__(self, **values: Any) -> None:
        absent = self._absent
        for name, value in absent.items():
            # Not by ==: a message would compare itself, and large graphs are made of a million.
            given = values.get(name, value)
            setattr(self, name, [] if type(given) is tuple and not given else given)
        assert values.keys() <= absent.keys(), f"{type(self).__name__} has no field {sorted(values)}"

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Self:
        """Return the message in `data`; ValueError if it is malformed.

        Read only: an empty repeated field is a tuple that all messages share.
        """
        message = cls.__new__(cls)
        for name, absent in cls._absent.items():
            setattr(message, name, absent)
        message._merge(data)
        return message

    def _merge(self, data: bytes | memoryview) -> None:
        """Add the fields in `data`: a message given twice is both put together.

        The last of two scalars counts. A text's UTF-8 is checked when it is read, and at once if a later one
        replaces it, because protobuf rejects that as well.
        """
        unknown = []
        if len(data) >= LARGE:
            data = memoryview(data)
        for number, wire_type, value, start, end in iter_fields(data):
            known = self._by_number.get(number)
            if known is None:
                unknown.append(data[start:end])
                continue
            name, is_repeated, scalar, message = known
            if scalar is not None:
                if is_repeated:
                    self._add(name, _decode_scalars(scalar, wire_type, value))
                else:
                    self._merge_scalar(name, scalar, wire_type, value)
                continue
            if message is None or isinstance(value, int) or wire_type != LENGTH:
                raise ValueError(
                    f"{type(self).__name__}.{name} has wire type {wire_type}; expected a message"
                )
            if is_repeated:
                self._add(name, [message.decode(value)])
            elif (child := getattr(self, name)) is not None:
                child._merge(value)
            else:
                setattr(self, name, message.decode(value))
        if unknown:
            self.unknown += b"".join(unknown)

    def _merge_scalar(self, name: str, scalar: Scalar, wire_type: int, value: Any) -> None:
        """Set a field that is not repeated; the last of several counts, of messages' bytes all do."""
        if wire_type != scalar.wire_type:
            raise ValueError(
                f"{type(self).__name__}.{name} has wire type {wire_type}; expected {scalar.wire_type}"
            )
        there, decoded = getattr(self, name), scalar.decode(value)
        if there and scalar is MESSAGE:
            decoded = there + decoded
        elif there and isinstance(there, str) and not _is_utf8(there):
            raise ValueError(f"{type(self).__name__}.{name}: given twice, and the first one is not UTF-8")
        setattr(self, name, decoded)

    def _add(self, name: str, values: list[Any]) -> None:
        """Add to a repeated field."""
        there = getattr(self, name)
        if there:
            there += values
        else:
            setattr(self, name, values)

    def encode(self) -> bytes:
        """Return the message as TensorFlow's protobuf runtime writes it, unknown fields last."""
        out = bytearray()  # of a large graph, the bytes of all nodes one by one would take as much again
        for name, tag, encode, occurs in self._encoders:
            value = getattr(self, name)
            if occurs is _Occurs.REPEATED:
                for item in value:
                    out += tag + encode(item)
            elif value if occurs is _Occurs.UNLESS_DEFAULT else value is not None:
                out += tag + encode(value)
        out += self.unknown
        return bytes(out)

    def replace(self, **values: Any) -> Self:
        """Return a message with these fields; all others are shared with this one."""
        new = object.__new__(type(self))
        for name in self._absent:
            setattr(new, name, values[name] if name in values else getattr(self, name))
        return new

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        pairs = ((getattr(self, name), getattr(other, name)) for name in self._absent)
        return all(mine == its or (mine in ((), []) and its in ((), [])) for mine, its in pairs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ((name, getattr(self, name)) for name in (*self.FIELDS, "unknown"))
        shown = ", ".join(f"{name}={value!r}" for name, value in values if value not in (b"", None, [], ()))
        return f"{type(self).__name__}({shown})"
