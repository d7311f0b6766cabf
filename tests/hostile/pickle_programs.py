"""Pickles that no one's `torch.save` writes: random programs for the pickle machine, whose values are shared.

A program is a tree of values, written as opcodes. Its values are kept in the memo and used many times: as an
element, a key, a value, an argument of each global that may be called, as attributes. Repetition makes such a
program expensive: a few bytes copy a large value thousands of times, double it, or put it into itself.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from formats.torch.objects import GLOBALS
from tests import torch_files
from tests.torch_files import Opcodes, Piece

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_CALLED = sorted(name for name, one in GLOBALS.items() if one.make is not None)
_CONSTANTS = sorted(name for name, one in GLOBALS.items() if one.make is None)
_TENSOR = torch_files.pickled(torch_files.tensor())[2:-1]
_LENGTHS = (0, 1, 5, 40, 300, 5_000, 70_000, 250_000)
_TIMES = (2, 10, 100, 1_000, 5_000, 20_000)
_RECORDS = tuple(
    f"torch.distributed.checkpoint.metadata.{name}"
    for name in ("Metadata", "TensorStorageMetadata", "ChunkStorageMetadata", "BytesStorageMetadata")
)
_DEEP = (3, 20, 60, 300, 3_000)
_LARGEST = 400_000
"""Bytes of a program, after which it only ends."""


class Program:
    """Writes values as opcodes; `kept` are the numbers of those in the memo."""

    def __init__(self, dice: random.Random, *, has_records: bool = False) -> None:
        self._dice = dice
        self._shapes = (*_SHAPES, Program._record, Program._record) if has_records else _SHAPES
        self._out = bytearray()
        self._kept: list[int] = []
        self._functions: list[int] = []
        self._arguments: list[int] = []

    def written(self, root: Callable[[Program], None]) -> bytes:
        self._out += b"\x80\x04"
        root(self)
        return bytes(self._out) + b"."

    # The memo -----------------------------------------------------------------------------

    def _put(self) -> int:
        """Keep what is on top of the stack."""
        number = len(self._kept) + len(self._functions) + len(self._arguments)
        self._out += b"q%c" % number if number < 256 else b"r" + struct.pack("<I", number)
        return number

    def _get(self, number: int) -> bytes:
        return b"h%c" % number if number < 256 else b"j" + struct.pack("<I", number)

    # Values -------------------------------------------------------------------------------

    def value(self, depth: int = 0) -> None:
        """Push one value: a new one, or one that was kept."""
        dice = self._dice
        if self._kept and dice.random() < 0.4:
            self._out += self._get(dice.choice(self._kept))
            return
        if depth > 5 or len(self._out) > _LARGEST:
            self._plain()
        else:
            dice.choice(self._shapes)(self, depth)
        if dice.random() < 0.5:
            self._kept.append(self._put())

    def _plain(self) -> None:
        dice = self._dice
        self._out += dice.choice(
            (
                b"N",
                b"\x88",
                b"K%c" % dice.randrange(256),
                b"J" + struct.pack("<i", dice.choice((-1, 1, 1 << 30))),
                b"\x8a\xff" + dice.randbytes(255),
                b"G" + struct.pack(">d", dice.choice((0.0, 1.5, 1e308, float("nan")))),
                b")",
                b"]",
                b"}",
            )
        )

    def _plain_one(self, _: int) -> None:
        self._plain()

    def _text(self, _: int) -> None:
        size = self._dice.choice(_LENGTHS)
        letter = self._dice.choice(("k", "k", "/", ".", "é", "𝄞", "\x1b"))
        data = (letter * size)[:size].encode() if size < 70_000 else b"k" * size + letter.encode()
        self._out += b"X" + struct.pack("<I", len(data)) + data

    def _bytes(self, _: int) -> None:
        size = self._dice.choice(_LENGTHS)
        self._out += b"B" + struct.pack("<I", size) + bytes(size)

    def _tensor(self, _: int) -> None:
        self._out += _TENSOR

    def _several(self, depth: int) -> None:
        """A tuple, a list or a set of a few values, or of many that are one."""
        begin, end = self._dice.choice(((b"(", b"t"), (b"](", b"e"), (b"\x8f(", b"\x90")))
        self._out += begin
        self._elements(depth)
        self._out += end

    def _elements(self, depth: int) -> None:
        dice = self._dice
        if self._kept and dice.random() < 0.3:
            self._out += self._get(dice.choice(self._kept)) * dice.choice(_TIMES)
            return
        for _ in range(dice.randrange(5)):
            self.value(depth + 1)

    def _pair(self, depth: int) -> None:
        self.value(depth + 1)
        self.value(depth + 1)
        self._out += b"\x86"

    def _dictionary(self, depth: int) -> None:
        dice = self._dice
        self._out += dice.choice((b"}", b"ccollections\nOrderedDict\n)R"))
        number = self._put()
        self._kept.append(number)
        self._out += b"("
        if self._kept and dice.random() < 0.3:
            again = self._get(dice.choice(self._kept))
            for key in range(dice.choice(_TIMES[:-1])):
                self._out += b"M" + struct.pack("<H", key) + again
        else:
            for _ in range(dice.randrange(5)):
                self.value(depth + 1)
                self.value(depth + 1)
        self._out += b"u"
        if dice.random() < 0.1:  # what it holds may be itself
            self.value(depth + 1)
            self._out += b"b"

    def _doubled(self, depth: int) -> None:
        """Something that holds another twice, which does so, too."""
        dice = self._dice
        self.value(depth + 1)
        number = self._put()
        self._kept.append(number)
        get = self._get(number)
        again = (b"]" + get + b"a" + get + b"a") if dice.random() < 0.5 else get + get + b"\x86"
        put = b"r" + struct.pack("<I", number)
        self._out += (b"0" + again + put) * dice.choice(_DEEP)

    def _nested(self, depth: int) -> None:
        self.value(depth + 1)
        times = self._dice.choice(_DEEP)
        if self._dice.random() < 0.3:
            self._out += b"\x85" * times
            return
        # name -> name -> ..., which are one text
        self._text(depth)
        number = self._put()
        self._kept.append(number)
        kept = b"r" + struct.pack("<I", number + 1)
        self._out += b"0" + kept + b"0"
        self._kept.append(number + 1)
        self._out += (b"}" + self._get(number) + self._get(number + 1) + b"s" + kept + b"0") * times
        self._out += self._get(number + 1)

    # Calls --------------------------------------------------------------------------------

    def _call(self, depth: int) -> None:
        """Call a global, once or with the same arguments many times."""
        dice = self._dice
        name = dice.choice(_CALLED)
        module, _, attribute = name.rpartition(".")
        times = dice.choice((1, 1, *_TIMES))
        self._out += b"](" if times > 1 else b""
        self._out += f"c{module}\n{attribute}\n".encode()
        if times == 1:
            self._arguments_of(name, depth)
            self._out += b"R"
            return
        function = self._put()
        self._functions.append(function)
        self._arguments_of(name, depth)
        arguments = self._put()
        self._arguments.append(arguments)
        self._out += b"00"
        self._out += (self._get(function) + self._get(arguments) + b"R") * times + b"e"

    def _arguments_of(self, name: str, depth: int) -> None:
        dice = self._dice
        shapes = _ARGUMENTS.get(name)
        if shapes is None or dice.random() < 0.1:
            self._out += b"("
            self._elements(depth)
            self._out += b"t"
            return
        self._out += b"("
        for shape in shapes:
            shape(self, depth + 1)
        self._out += b"t"

    def _storage(self, _: int) -> None:
        kind = self._dice.choice(_CONSTANTS)
        key = self._dice.choice(("0", "0", "1", "k" * 400))
        saved = torch_files.storage(key, self._dice.choice((6, 6, 6, 0, 1 << 40)), kind)
        if self._dice.random() < 0.7:
            saved = torch_files.storage()
        self._out += torch_files.pickled(saved)[2:-1]

    def _count(self, _: int) -> None:
        self._out += b"K\0" if self._dice.random() < 0.8 else b"J" + struct.pack("<i", 1 << 20)

    def _counts(self, _: int) -> None:
        """A shape, or strides."""
        size = self._dice.choice((0, 1, 2, 2, 254, 300, 20_000))
        self._out += b"(" + self._dice.choice((b"K\1", b"K\0", b"K\2")) * size + b"t"

    def _constant(self, _: int) -> None:
        module, _, attribute = self._dice.choice(_CONSTANTS).rpartition(".")
        self._out += f"c{module}\n{attribute}\n".encode()

    def _flags(self, _: int) -> None:
        pairs = b"X\3\0\0\0negNX\4\0\0\0conj\x88" * self._dice.choice((0, 1, 1, 1_000, 10_000))
        self._out += b"}(" + pairs + b"u"

    def _latin1(self, _: int) -> None:
        self._out += b"X\6\0\0\0latin1"

    def _record(self, depth: int) -> None:
        """A record of a distributed checkpoint's, or what is called as one."""
        module, _, attribute = self._dice.choice(_RECORDS).rpartition(".")
        self._out += f"c{module}\n{attribute}\n)\x81".encode()
        self.value(depth + 1)
        self._out += b"b"

    # Roots --------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Push a dictionary with a tensor, and values next to it."""
        self._out += b"}(X\1\0\0\0w" + _TENSOR
        for number in range(self._dice.randrange(1, 5)):
            self._out += b"X\1\0\0\0%c" % (97 + number)
            self.value()
        self._out += b"u"

    def optimizer(self) -> None:
        """Push an optimizer's dictionary with random parts."""
        self._out += b"}(X\5\0\0\0state}("
        for number in range(self._dice.randrange(1, 4)):
            self._out += b"K%c" % number
            self.value() if self._dice.random() < 0.5 else self._dictionary(0)
        self._out += b"uX\x0c\0\0\0param_groups]("
        self._elements(0) if self._dice.random() < 0.5 else self._dictionary(0)
        self._out += b"eu"

    def metadata(self) -> None:
        """Push the metadata of a distributed checkpoint with a random part."""
        self.value()
        self._kept.append(self._put())
        self._out += b"0"
        again = Opcodes(self._get(self._dice.choice(self._kept)))
        pieces = [Piece((0, 0), (2, 3), "__0_0.distcp", 0, 9)]
        times = self._dice.choice((1, 1, 3, 1_000))
        tensors = {f"w{number}": ((2, 3), pieces) for number in range(times)}
        place = self._dice.randrange(4)
        ways = (
            {f"w{number}": Opcodes(again.data + b"\x85") for number in range(times)} if place == 0 else None
        )
        more = {"transform_descriptors": again} if place == 1 else {}
        told = torch_files.distributed_metadata(tensors, ways=ways, **more)[2:-1]
        old, new = {
            2: (b"](" + torch_files.chunk(pieces[0]) + b"e", again.data),
            3: (b"ctorch\nSize\n((J\2\0\0\0J\3\0\0\0ttR", again.data),
        }.get(place, (b"", b""))
        self._out += told.replace(old, new) if old else told


_SHAPES = (
    *(Program._plain_one, Program._text, Program._text, Program._bytes, Program._tensor, Program._tensor),
    *(Program._several, Program._several, Program._pair, Program._dictionary, Program._dictionary),
    *(Program._doubled, Program._nested, Program._call, Program._call, Program._call),
)

_VIEW = (Program._storage, Program._count, Program._counts, Program._counts)
_ARGUMENTS: dict[str, tuple[Callable[[Program, int], None], ...]] = {
    "_codecs.encode": (Program._text, Program._latin1),
    "collections.OrderedDict": (Program.value,),
    "builtins.set": (Program._several,),
    "torch.Size": (Program._counts,),
    "torch._utils._rebuild_tensor": _VIEW,
    "torch._utils._rebuild_tensor_v2": (*_VIEW, Program._count, Program._dictionary, Program._flags),
    "torch._utils._rebuild_tensor_v3": (
        *(*_VIEW, Program._count, Program._dictionary, Program._constant, Program._flags),
    ),
    "torch._utils._rebuild_parameter": (Program._tensor, Program._count, Program._dictionary),
    "torch._utils._rebuild_qtensor": (*_VIEW, Program._count, Program._count, Program._count),
    "torch._utils._rebuild_meta_tensor_no_storage": (
        *(Program._constant, Program._counts, Program._counts, Program._count),
    ),
    "torch._utils._rebuild_nested_tensor": (Program.value,),
}
"""Usual arguments of a call; other calls get random ones."""


def program(dice: random.Random) -> bytes:
    """Return the pickle of a PyTorch file."""
    roots = (Program.checkpoint, Program.checkpoint, Program.optimizer, Program.value)
    return Program(dice).written(dice.choice(roots))


def metadata_program(dice: random.Random) -> bytes:
    """Return the `.metadata` of a distributed checkpoint."""
    return Program(dice, has_records=True).written(Program.metadata)
