"""Encode objects as pickles of protocol 2, the inverse of `formats.torch.pickle`.

Only the opcodes and globals that `torch.load(weights_only=True)` accepts are written. An object with several
references is written once, as are long texts and bytes, so nothing grows. Nested objects are walked without
recursion.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from .objects import STORAGE_OF, UNTYPED, TensorPosition
from .values import Bag, Global, Made, Pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..core.spec import TensorSpec

_PROTOCOL, _STOP = b"\x80\x02", b"."
_LONGEST_NUMBER = 255
_SHORT_TEXT = 4
"""Characters of text, and bytes of a number, that are written again in each place."""


class WholeStorage(NamedTuple):
    """A tensor that is all of a storage, in C order."""

    storage: str
    spec: TensorSpec


class _Code(NamedTuple):
    """Opcodes that follow what was put on the stack."""

    data: bytes
    keep: Any = None
    """The object that they make, which has a number from then on."""


def encode(root: Any, tensors: Mapping[str, WholeStorage]) -> bytes:
    """Return the pickle of an object, with these tensors in their places.

    It consists of what `formats.torch.pickle` makes, and of dictionaries as Python has them.
    ValueError for what has no place in a pickle.
    """
    return _TensorEncoder(tensors).encode(root)


class _TensorEncoder:
    def __init__(self, tensors: Mapping[str, WholeStorage]) -> None:
        self._tensors = tensors
        self._out = bytearray(_PROTOCOL)
        self._numbers: dict[Any, int] = {}
        self._kept: list[Any] = []
        self._left: list[Any] = []
        self._open: set[int] = set()

    def encode(self, root: Any) -> bytes:
        self._left = [root]
        while self._left:
            value = self._left.pop()
            if type(value) is _Code:
                self._out += value.data
                if value.keep is not None:
                    self._open.discard(id(value.keep))
                    self._keep(value.keep)
            elif id(value) in self._numbers and type(value) in _KEPT:
                self._get(id(value))
            elif id(value) in self._open:
                raise ValueError(f"a {type(value).__name__} contains itself")
            else:
                write = _WRITERS.get(type(value))
                if write is None:
                    raise ValueError(f"a {type(value).__name__} is not a plain value")
                write(self, value)
        return bytes(self._out + _STOP)

    def _close(self, code: bytes, value: Any) -> None:
        """Have these opcodes follow what a value is made of, from which on it has a number."""
        self._open.add(id(value))
        self._left.append(_Code(code, value))

    def _keep(self, value: Any) -> None:
        """Give what was just made a number, and let it live: its identity is its name."""
        self._kept.append(value)
        self._number(id(value))

    def _number(self, name: Any) -> None:
        number = self._numbers[name] = len(self._numbers)
        self._out += b"q%c" % number if number < 256 else b"r" + struct.pack("<I", number)

    def _get(self, name: Any) -> None:
        number = self._numbers[name]
        self._out += b"h%c" % number if number < 256 else b"j" + struct.pack("<I", number)

    def _constant(self, name: str, code: bytes) -> None:
        """Write what all tensors have in common, once."""
        if name in self._numbers:
            self._get(name)
        else:
            self._out += code
            self._number(name)

    # Plain values ---------------------------------------------------------------------

    def none(self, _: None) -> None:
        self._out += b"N"

    def truth(self, value: bool) -> None:
        self._out += b"\x88" if value else b"\x89"

    def integer(self, value: int) -> None:
        if 0 <= value < 256:
            self._out += b"K%c" % value
        elif -(1 << 31) <= value < 1 << 31:
            self._out += b"J" + struct.pack("<i", value)
        else:
            data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            if len(data) > _LONGEST_NUMBER:
                raise ValueError(f"an integer is too large: {len(data)} bytes")
            self._out += b"\x8a%c" % len(data) + data
            if len(data) > _SHORT_TEXT:
                self._keep(value)

    def number(self, value: float) -> None:
        self._out += b"G" + struct.pack(">d", value)

    def text(self, value: str) -> None:
        data = value.encode("utf-8", "surrogatepass")
        self._out += b"X" + struct.pack("<I", len(data)) + data
        if len(data) > _SHORT_TEXT:
            self._keep(value)

    def named(self, value: Global) -> None:
        module, _, name = value.name.rpartition(".")
        self._constant(value.name, f"c{module}\n{name}\n".encode())

    def complex_number(self, value: complex) -> None:
        self.named(Global("builtins.complex"))
        self.number(value.real)
        self.number(value.imag)
        self._out += b"\x86R"
        self._keep(value)

    def data(self, value: bytes) -> None:
        self.named(Global("_codecs.encode"))
        data = value.decode("latin1").encode("utf-8")
        self._out += b"X" + struct.pack("<I", len(data)) + data
        self._constant("latin1", b"X\6\0\0\0latin1")
        self._out += b"\x86R"
        self._keep(value)

    def made(self, value: Made) -> None:
        self._call(value.name, value.arguments, value)

    def _call(self, name: str, arguments: tuple[Any, ...], value: Any) -> None:
        """Write the call of a global that makes a value."""
        self.named(Global(name))
        self._close(b"R", value)
        self._left.append(arguments)

    # Containers -----------------------------------------------------------------------

    def dictionary(self, value: dict[Any, Any]) -> None:
        self._items(value, [*value.items()])

    def pairs(self, value: Pairs) -> None:
        self._items(value, value.items, value.name, value.attributes)

    def _items(
        self, of: Any, items: list[tuple[Any, Any]], name: str | None = None, attributes: Any = None
    ) -> None:
        if name is None:
            self._out += b"}"
        else:
            self.named(Global(name))
            self._out += b")R"
        self._keep(of)
        if attributes is not None:
            self._left += [_Code(b"b"), attributes]
        if items:
            self._out += b"("
            self._left.append(_Code(b"u"))
            for key, value in reversed(items):
                self._left += [value, key]

    def listed(self, value: list[Any]) -> None:
        self._out += b"]"
        self._keep(value)
        if value:
            self._out += b"("
            self._left += [_Code(b"e"), *reversed(value)]

    def tupled(self, value: tuple[Any, ...]) -> None:
        self._out += b"(" if value else b")"
        if value:
            self._close(b"t", value)
            self._left += reversed(value)

    def bag(self, value: Bag) -> None:
        self._call("builtins.set", (value.items,), value)

    # Tensors --------------------------------------------------------------------------

    def placed(self, value: TensorPosition) -> None:
        """Write a tensor as `torch.save` does: a call, and the storage that it is a view of."""
        storage, spec = self._tensors[value.key]
        kind = STORAGE_OF.get(spec.dtype.name)
        function = "_rebuild_tensor_v2" if kind else "_rebuild_tensor_v3"
        elements = spec.size if kind else spec.nbytes or 0
        self.named(Global(f"torch._utils.{function}"))
        self._out += b"(("
        self._constant("storage", b"X\x07\0\0\0storage")
        self.named(Global(kind or UNTYPED))
        self.text(storage)
        self._constant("cpu", b"X\x03\0\0\0cpu")
        self.integer(elements)
        self._out += b"tQK\0"
        self._counts(spec.shape)
        self._counts(_strides(spec.shape))
        self._out += b"\x89"  # requires_grad
        self.named(Global("collections.OrderedDict"))
        self._out += b")R"  # hooks
        if not kind:
            self.named(Global(f"torch.{spec.dtype.name}"))
        self._out += b"tR"

    def _counts(self, counts: tuple[int, ...]) -> None:
        self._out += b"(" if counts else b")"
        for count in counts:
            self.integer(count)
        self._out += b"t" if counts else b""


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, within = [], 1
    for count in reversed(shape):
        strides.append(within)
        within *= max(count, 1)
    return tuple(reversed(strides))


_WRITERS: dict[type, Callable[[_TensorEncoder, Any], None]] = {
    type(None): _TensorEncoder.none,
    bool: _TensorEncoder.truth,
    int: _TensorEncoder.integer,
    float: _TensorEncoder.number,
    str: _TensorEncoder.text,
    bytes: _TensorEncoder.data,
    complex: _TensorEncoder.complex_number,
    Global: _TensorEncoder.named,
    Made: _TensorEncoder.made,
    dict: _TensorEncoder.dictionary,
    Pairs: _TensorEncoder.pairs,
    list: _TensorEncoder.listed,
    tuple: _TensorEncoder.tupled,
    Bag: _TensorEncoder.bag,
    TensorPosition: _TensorEncoder.placed,
}

_KEPT = (Made, dict, Pairs, list, tuple, Bag, str, bytes, int, complex)
"""The types of objects that can have several references."""
