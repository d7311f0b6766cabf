"""Pickles as data: an interpreter of the opcodes that builds plain objects, and calls nothing.

    pickle: opcode: uint8, its argument; ... up to STOP

A pickle is a program for a stack machine. Two of its instructions are harmful: GLOBAL, which imports a name
from the file, and REDUCE, which calls it. Here a global is looked up in a table that the caller passes, and a
missing one is rejected by name, before anything is made of it. REDUCE makes the table's entry build a record
of the arguments.

Memory and time are bounded: the number of objects is limited by the size in bytes, and nested objects are not
walked, so nothing recurses. An object can be an argument of many calls, so each call is charged by the size
of its arguments, which it reads and may copy. A dictionary becomes pairs, because hashing hostile keys can
take arbitrarily long. Python's Lib/pickletools.py describes the opcodes, torch/_weights_only_unpickler.py
those that torch accepts.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

from .values import BYTES_OF_PLACE, Bag, Global, Made, Pairs, PickledObject, places_read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MOST_OBJECTS = 360_000
_BYTES_OF_ONE = 4
"""Objects made of one pickle, and of how many bytes one more: a tensor of torch's is 24 in some 100 bytes."""

MOST_VALUES = 1_500_000
"""The same for numbers and other constants, which take only a place in a list."""

_WIDER_TEXT = 32 << 20
"""Bytes that text may take in memory beyond its UTF-8: one character can make all others four bytes wide."""

_WIDE = ((re.compile(b"[\xf0-\xff]"), 4), (re.compile(b"[\xc4-\xef]"), 2))
"""The first bytes of characters that are so wide."""

_COPIED_BEFORE_DECODING = 1 << 16
"""Bytes of text; longer text is decoded in place, which avoids a copy."""

_READ_FREELY = 32
"""The size up to which reading arguments is free: the shape and the strides of a tensor are smaller."""

_LONGEST_NAME = 512
_LONGEST_NUMBER = 255
"""Bytes of a global's module and name, and of an integer."""


class RejectedGlobalError(ValueError):
    """A pickle names what is not on the list of what may be in it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"it names {name!r}, which is not part of a state dict")
        self.name = name


class Machine:
    """The stack, and the objects that have numbers; `run` returns what is on top at the end.

    `globals` are those that may be named, by `module.name`; `persistent` makes of a
    persistent id what it stands for.  `stored` is how many bytes the pickle takes in its file.
    """

    def __init__(
        self,
        data: bytes,
        globals: Mapping[str, Global],  # noqa: A002  the word of the field
        persistent: Callable[[Any], Any],
        *,
        at: int = 0,
        stored: int | None = None,
    ) -> None:
        self.data = data
        self.at = at
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self._below: list[list[Any]] = []
        self._globals = globals
        self._persistent = persistent
        size = len(data) - at if stored is None else stored
        self._left = MOST_OBJECTS + size // _BYTES_OF_ONE
        self._places = MOST_VALUES + size // BYTES_OF_PLACE
        self._wider = _WIDER_TEXT

    def run(self) -> Any:
        """Return the object. Raises ValueError for bytes that are not a pickle, or beyond the limits."""
        try:
            self._run()
            found = self.stack.pop()
        except (IndexError, struct.error) as error:
            raise ValueError("it is truncated or damaged") from error
        if self.stack or self._below:  # A pickle that is cut by one wrong byte gives a part of its object.
            raise ValueError("the pickle ends before its object is complete")
        return found

    def _run(self) -> None:
        """Carry out opcodes up to STOP.

        Those that most of a pickle consists of are spelled out here, for a call of each would take longer
        than what it does: 20,000 tensors are 800,000 of them.  They count as those in the table do.
        """
        data, stack, memo, operations = self.data, self.stack, self.memo, _OPERATIONS
        at, left, places = self.at, self._left, self._places
        unpack = _FORMS["I"].unpack_from
        while (code := data[at]) != _STOP:
            if code == _PUT:
                memo[data[at + 1]] = stack[-1]
                at += 2
                left -= 1
            elif code == _PUT_FAR:
                memo[unpack(data, at + 1)[0]] = stack[-1]
                at += 5
                left -= 1
            elif code == _NUMBER:
                stack.append(data[at + 1])
                at += 2
                places -= 1
            elif code == _GET and data[at + 1] in memo:
                stack.append(memo[data[at + 1]])
                at += 2
                places -= 1
            elif code == _TEXT and (end := at + 5 + unpack(data, at + 1)[0]) <= len(data):
                stack.append(self.text(at + 5, end))
                at = end
                left -= 1
            elif code == _MARK:
                self._below.append(stack)
                self.stack = stack = []
                at += 1
                left -= 1
            elif code == _TUPLE:
                made = tuple(stack)
                self.stack = stack = self._below.pop()
                stack.append(made)
                at += 1
                left -= 1
            else:
                self.at, self._left, self._places = at + 1, left, places
                operations[code](self)
                at, left, places, stack = self.at, self._left, self._places, self.stack
            if left < 0 or places < 0:
                self.at = at
                raise ValueError("the pickle makes too many objects or values for its size")
        self.at = at + 1

    def byte(self) -> int:
        """Return the next byte, which is an argument."""
        found = self.data[self.at]
        self.at += 1
        return found

    def count(self, objects: int = 1) -> None:
        """Count what was made, or is kept by a number."""
        self._left -= objects
        if self._left < 0:
            raise ValueError("the pickle makes too many objects for its size")

    def made(self, value: Any) -> None:
        """Push an object that takes memory of its own."""
        self.count()
        self.stack.append(value)

    def push(self, value: Any) -> None:
        """Push a value that takes no memory except its place; there may be more of them."""
        self.charge(1)
        self.stack.append(value)

    def charge(self, places: int) -> None:
        """Count values that are read again, or get another place."""
        self._places -= places
        if self._places < 0:
            raise ValueError("the pickle makes too many values for its size")

    def take(self, size: int) -> bytes:
        """Return the next bytes, which are an argument."""
        found = self.data[self.at : self.at + size]
        if len(found) != size:
            raise ValueError(f"an argument needs {size} bytes, but only {len(found)} are left")
        self.at += size
        return found

    def sized(self, code: str) -> bytes:
        """Return bytes that follow their length."""
        form = _FORMS[code]
        (size,) = form.unpack(self.take(form.size))
        return self.take(size)

    def text(self, begin: int, end: int) -> str:
        """Return the text of these bytes."""
        is_long = end - begin > _COPIED_BEFORE_DECODING
        if is_long:
            self._widen(begin, end)
        try:
            stored = memoryview(self.data)[begin:end] if is_long else self.data[begin:end]
            return str(stored, "utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise ValueError("a text is not UTF-8") from error

    def _widen(self, begin: int, end: int) -> None:
        """Count what text takes in memory beyond its bytes: each character as much as the widest."""
        for begins, width in _WIDE:
            if begins.search(self.data, begin, end):
                self._wider -= (width - 1) * (end - begin)
                break
        if self._wider < 0:
            raise ValueError(f"a text of {end - begin} bytes takes too much memory")

    def sized_text(self, code: str) -> None:
        """Push text that follows its length in bytes."""
        form = _FORMS[code]
        (size,) = form.unpack(self.take(form.size))
        begin = self.at
        if size > len(self.data) - begin:
            raise ValueError(f"an argument needs {size} bytes, but only {len(self.data) - begin} are left")
        self.at += size
        self.made(self.text(begin, self.at))

    def line(self) -> str:
        end = self.data.find(b"\n", self.at, self.at + _LONGEST_NAME)
        if end < 0:
            raise ValueError("a global has no name")
        found = self.data[self.at : end].decode("utf-8", "backslashreplace")
        self.at = end + 1
        return found

    def marked(self) -> list[Any]:
        """Take off all that was pushed since the last mark."""
        found, self.stack = self.stack, self._below.pop()
        return found

    def mark(self) -> None:
        self.count()
        self._below.append(self.stack)
        self.stack = []

    def tuple_of(self, count: int) -> None:
        if len(self.stack) < count:
            raise ValueError("a tuple needs more values than there are")
        found = tuple(self.stack[-count:])
        del self.stack[-count:]
        self.made(found)

    def put(self, number: int) -> None:
        self.count()
        self.memo[number] = self.stack[-1]

    def get(self, number: int) -> None:
        if number not in self.memo:
            raise ValueError(f"memo entry {number} does not exist")
        self.push(self.memo[number])

    def name(self, module: str, name: str) -> None:
        """Push a global that is on the list; RefusedGlobalError for any other."""
        wanted = f"{_RENAMED.get(module, module)}.{name}"
        found = self._globals.get(wanted)
        if found is None:
            raise RejectedGlobalError(wanted)
        self.push(found)

    def named_on_stack(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if (type(module), type(name)) != (str, str):
            raise ValueError("the name of a global is not text")
        self.name(module[:_LONGEST_NAME], name[:_LONGEST_NAME])

    def call(self) -> None:
        """Have a global make its record: of REDUCE, and of NEWOBJ, which only differs in Python."""
        arguments, called = self.stack.pop(), self.stack.pop()
        if type(called) is not Global or called.make is None or type(arguments) is not tuple:
            what = (
                f"{called.name!r}, a constant" if type(called) is Global else "something that is not a global"
            )
            raise ValueError(f"it calls {what}")
        self.charge(max(0, places_read(arguments, self._places + _READ_FREELY) - _READ_FREELY))
        self.count(called.objects)
        self.stack.append(called.make(arguments))

    def build(self) -> None:
        """Take the attributes that an OrderedDict has, as those of `Module.state_dict()` do, or a record."""
        attributes, of = self.stack.pop(), self.stack[-1]
        if type(of) is Pairs:
            of.attributes = attributes
        elif type(of) is PickledObject:
            of.fields = attributes
        else:
            raise ValueError(f"a {type(of).__name__} cannot have attributes")

    def refer(self) -> None:
        self.made(self._persistent(self.stack.pop()))

    def append(self, items: list[Any]) -> None:
        into = self.stack[-1]
        if type(into) is not list:
            raise ValueError(f"it appends to a {type(into).__name__}; expected a list")
        into.extend(items)

    def add(self, items: list[Any]) -> None:
        into = self.stack[-1]
        if type(into) is not Bag:
            raise ValueError(f"it adds to a {type(into).__name__}; expected a set")
        into.items.extend(items)

    def set(self, items: list[Any]) -> None:
        into = self.stack[-1]
        if type(into) is not Pairs:
            raise ValueError(f"it sets items of a {type(into).__name__}; expected a dictionary")
        if len(items) % 2:
            raise ValueError("a key has no value")
        self.count(len(items) // 2)
        into.items.extend(zip(items[::2], items[1::2], strict=True))

    def set_one(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set([key, value])

    def dictionary(self) -> None:
        items = self.marked()
        self.made(Pairs())
        self.set(items)


_RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg"}
"""The names of modules in Python 2, which pickles of protocol 2 still use."""

_STOP = ord(".")
_PUT, _PUT_FAR, _NUMBER, _GET, _TEXT, _MARK, _TUPLE = b"qrKhX(t"
_FORMS = {code: struct.Struct("<" + code) for code in "BHIQiq"}
_DOUBLE = struct.Struct(">d")


def _number(machine: Machine, code: str) -> Any:
    form = _FORMS[code]
    found = form.unpack_from(machine.data, machine.at)[0]
    machine.at += form.size
    return found


def _long(data: bytes) -> int:
    if len(data) > _LONGEST_NUMBER:
        raise ValueError(f"an integer is too large: {len(data)} bytes")
    return int.from_bytes(data, "little", signed=True)


def _double(machine: Machine) -> float:
    found: float = _DOUBLE.unpack(machine.take(8))[0]
    return found


def _unknown(machine: Machine) -> None:
    raise ValueError(f"opcode {machine.data[machine.at - 1]:#04x} does not occur in state dicts")


def _kept(machine: Machine) -> None:
    machine.put(len(machine.memo))


_BY_CODE: dict[bytes, Callable[[Machine], Any]] = {
    b"\x80": lambda machine: machine.take(1),  # PROTO
    b"\x95": lambda machine: machine.take(8),  # FRAME
    b"(": Machine.mark,
    b"0": lambda machine: machine.stack.pop(),
    b"1": Machine.marked,
    b"2": lambda machine: machine.made(machine.stack[-1]),
    b"N": lambda machine: machine.push(None),
    b"\x88": lambda machine: machine.push(True),
    b"\x89": lambda machine: machine.push(False),
    b"K": lambda machine: machine.push(machine.byte()),
    b"M": lambda machine: machine.push(_number(machine, "H")),
    b"J": lambda machine: machine.push(_number(machine, "i")),
    b"\x8a": lambda machine: machine.made(_long(machine.sized("B"))),
    b"\x8b": lambda machine: machine.made(_long(machine.sized("I"))),
    b"G": lambda machine: machine.made(_double(machine)),
    b"X": lambda machine: machine.sized_text("I"),
    b"\x8c": lambda machine: machine.sized_text("B"),
    b"\x8d": lambda machine: machine.sized_text("Q"),
    b"U": lambda machine: machine.sized_text("B"),  # strings of Python 2
    b"T": lambda machine: machine.sized_text("I"),
    b"C": lambda machine: machine.made(machine.sized("B")),
    b"B": lambda machine: machine.made(machine.sized("I")),
    b"\x8e": lambda machine: machine.made(machine.sized("Q")),
    b"\x96": lambda machine: machine.made(Made("builtins.bytearray", (machine.sized("Q"),))),
    b")": lambda machine: machine.push(()),
    b"\x85": lambda machine: machine.tuple_of(1),
    b"\x86": lambda machine: machine.tuple_of(2),
    b"\x87": lambda machine: machine.tuple_of(3),
    b"t": lambda machine: machine.made(tuple(machine.marked())),
    b"]": lambda machine: machine.made([]),
    b"l": lambda machine: machine.made(machine.marked()),
    b"}": lambda machine: machine.made(Pairs()),
    b"d": Machine.dictionary,
    b"\x8f": lambda machine: machine.made(Bag([])),
    b"\x91": lambda machine: machine.made(Bag(machine.marked())),
    b"a": lambda machine: machine.append([machine.stack.pop()]),
    b"e": lambda machine: machine.append(machine.marked()),
    b"s": Machine.set_one,
    b"u": lambda machine: machine.set(machine.marked()),
    b"\x90": lambda machine: machine.add(machine.marked()),
    b"c": lambda machine: machine.name(machine.line(), machine.line()),
    b"\x93": Machine.named_on_stack,
    b"R": Machine.call,
    b"\x81": Machine.call,
    b"b": Machine.build,
    b"Q": Machine.refer,
    b"q": lambda machine: machine.put(machine.byte()),
    b"r": lambda machine: machine.put(_number(machine, "I")),
    b"\x94": _kept,
    b"h": lambda machine: machine.get(machine.byte()),
    b"j": lambda machine: machine.get(_number(machine, "I")),
}
"""The opcodes of protocols 2 to 5 that make data; of older ones, those of `cPickle` in Python 2."""

_OPERATIONS = tuple(_BY_CODE.get(bytes((code,)), _unknown) for code in range(256))
