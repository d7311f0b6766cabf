"""PyTorch files of a few kilobytes that do the same to something large, again and again."""

from __future__ import annotations

import struct
import zipfile
from typing import Any

from tests import torch_files
from tests.hostile.bombs import bomb, dcp, torch_file
from tests.torch_files import Opcodes, Piece

_TENSOR = torch_files.pickled(torch_files.tensor())[2:-1]
_KEEP, _KEPT = b"r\xff\xff\0\0", b"j\xff\xff\0\0"


def _text(size: int) -> bytes:
    return b"X" + struct.pack("<I", size) + b"k" * size


def _named(name: str) -> bytes:
    module, _, attribute = name.rpartition(".")
    return f"c{module}\n{attribute}\n".encode()


def _again(function: str, arguments: bytes, times: int) -> Opcodes:
    """Return a list of what calls with the same arguments make, each three opcodes in five bytes."""
    kept = b"(" + _named(function) + b"q\1" + arguments + b"q\2" + b"1"
    return Opcodes(kept + b"](" + b"h\1h\2R" * times + b"e")


def _beside(path: str, value: Any, method: int = zipfile.ZIP_STORED) -> str:
    """Write a file of a tensor and, in the same dictionary, something else."""
    return torch_file(path, {"w": torch_files.tensor(), "x": value}, method)


@bomb
def torch_bytes_encoded_again_and_again(path: str) -> str:
    return _beside(path, _again("_codecs.encode", _text(200_000) + b"X\6\0\0\0latin1\x86", 20_000))


@bomb
def torch_dictionary_copied_again_and_again(path: str) -> str:
    items = b"".join(b"M" + struct.pack("<H", number) + b"N" for number in range(20_000))
    return _beside(path, _again("collections.OrderedDict", b"}(" + items + b"u\x85", 20_000))


@bomb
def torch_dictionary_of_pairs_again_and_again(path: str) -> str:
    pairs = b"".join(b"](M" + struct.pack("<H", number) + b"Ne" for number in range(20_000))
    return _beside(path, _again("collections.OrderedDict", b"](" + pairs + b"e\x85", 20_000))


@bomb
def torch_size_of_many_again_and_again(path: str) -> str:
    return _beside(path, _again("torch.Size", b"(" + b"K\1" * 50_000 + b"t\x85", 20_000))


@bomb
def torch_metadata_of_a_tensor_gone_through_again_and_again(path: str) -> str:
    flags = b"}(" + b"X\3\0\0\0negN" * 100_000 + b"u"
    storage = torch_files.pickled(torch_files.storage())[2:-1]
    arguments = b"(" + storage + b"K\0K\6\x85K\1\x85\x89N" + flags + b"t"
    return _beside(path, _again("torch._utils._rebuild_tensor_v2", arguments, 5_000))


@bomb
def torch_tensors_of_254_dimensions_that_are_one_shape(path: str) -> str:
    storage = torch_files.pickled(torch_files.storage())[2:-1]
    counts = b"(" + b"K\1" * 254 + b"t"
    arguments = b"(" + storage + b"K\0" + counts + counts + b"\x89Nt"
    return torch_file(
        path, _again("torch._utils._rebuild_tensor_v2", arguments, 60_000), zipfile.ZIP_DEFLATED
    )


@bomb
def torch_tensors_of_a_few_opcodes(path: str) -> str:
    storage = torch_files.pickled(torch_files.storage())[2:-1]
    arguments = b"(" + storage + b"K\0K\6\x85K\1\x85\x89Nt"
    made = _again("torch._utils._rebuild_tensor_v2", arguments, 290_000)
    return torch_file(path, made, zipfile.ZIP_DEFLATED)


@bomb
def torch_keys_that_are_tuples_of_long_text(path: str) -> str:
    keys = (b"(" + _KEPT * 60 + b"M" + struct.pack("<H", number) + b"t" for number in range(2_000))
    items = b"".join(key + _TENSOR for key in keys)
    return torch_file(path, Opcodes(b"](" + _text(60_000) + _KEEP + b"e0}(" + items + b"u"))


@bomb
def torch_dictionary_shared_by_many_lists(path: str) -> str:
    """A dictionary with a tensor and much else, in so many places that each is a thousand more."""
    numbers = b"".join(b"M" + struct.pack("<H", number) + b"N" for number in range(60_000))
    shared = b"}(X\1\0\0\0t" + _TENSOR + numbers + b"u" + _KEEP
    return torch_file(path, Opcodes(b"](" + shared + _KEPT * 1_000 + b"e"))


@bomb
def torch_tensors_that_are_in_twenty_lists(path: str) -> str:
    shared = b"](" + _TENSOR * 10_000 + b"e" + _KEEP
    return torch_file(path, Opcodes(b"](" + shared + _KEPT * 20 + b"e"), zipfile.ZIP_DEFLATED)


@bomb
def torch_text_in_many_places(path: str) -> str:
    return _beside(path, Opcodes(b"](" + _text(1_000_000) + _KEEP + _KEPT * 20_000 + b"e"))


@bomb
def torch_number_in_many_places(path: str) -> str:
    return _beside(
        path, Opcodes(b"](\x8a\xff" + b"\1" * 255 + _KEEP + _KEPT * 1_400_000 + b"e"), zipfile.ZIP_DEFLATED
    )


@bomb
def torch_complex_number_in_many_places(path: str) -> str:
    number = _named("builtins.complex") + b"G" + bytes(8) + b"G" + bytes(8) + b"\x86R"
    return _beside(path, Opcodes(b"](" + number + _KEEP + _KEPT * 1_400_000 + b"e"), zipfile.ZIP_DEFLATED)


@bomb
def torch_nothing_beside_a_tensor(path: str) -> str:
    return torch_file(path, Opcodes(b"](" + _TENSOR + b"N" * 1_400_000 + b"e"), zipfile.ZIP_DEFLATED)


@bomb
def torch_text_of_one_wide_character(path: str) -> str:
    size = 12 << 20
    text = b"X" + struct.pack("<I", size + 4) + b"k" * size + "𝄞".encode()
    return _beside(path, Opcodes(text))


@bomb
def torch_tensors_without_a_storage_of_a_long_key(path: str) -> str:
    storage = torch_files.pickled(torch_files.storage("k" * 1_000_000))[2:-1]
    arguments = b"(" + storage + b"K\0K\6\x85K\1\x85\x89Nt"
    return torch_file(path, _again("torch._utils._rebuild_tensor_v2", arguments, 20_000))


@bomb
def torch_tensors_that_are_not_read(path: str) -> str:
    storage = torch_files.pickled(torch_files.storage("0", 24, "torch.QInt8Storage"))[2:-1]
    arguments = b"(" + storage + b"K\0K\6\x85K\1\x85\x89Nt"
    made = _again("torch._utils._rebuild_tensor_v2", arguments, 290_000)
    return torch_file(path, made, zipfile.ZIP_DEFLATED)


@bomb
def torch_tuples_that_hold_themselves(path: str) -> str:
    """As what a dictionary has next to its items, which leads to no tensor."""
    lists = b"](" + b"]" * 2_000 + b"e"
    deep = lists + _KEEP + b"0" + _KEPT + b"\x85" * 100_000
    attributes = deep + b"r\xfe\xff\0\0" + _KEPT + b"j\xfe\xff\0\0" + b"a0"
    built = b"ccollections\nOrderedDict\n)R" + attributes + b"b"
    return _beside(path, Opcodes(built))


def _described(path: str, **more: Any) -> str:
    piece = Piece((0, 0), (2, 3), "__0_0.distcp", 0, 9)
    return dcp(path, torch_files.distributed_metadata({"w": ((2, 3), [piece])}, **more))


@bomb
def dcp_way_of_pairs_that_share_pairs(path: str) -> str:
    doubled = b"K\1q\0010" + b"h\1h\1\x86q\0010" * 1_900 + b"h\1\x85"
    return _described(path, ways={"w": Opcodes(doubled)})


@bomb
def dcp_way_of_nested_tuples(path: str) -> str:
    return _described(path, ways={"w": Opcodes(b")" + b"\x85" * 3_000)})


@bomb
def dcp_ways_of_long_text(path: str) -> str:
    way = Opcodes(b"(" + _text(500_000) + _KEEP + _KEPT * 60 + b"t")
    return _described(path, ways={"w": way})


@bomb
def dcp_chunks_of_many_tensors_in_one_list(path: str) -> str:
    """Each tensor has the chunks of all tensors; they are one list."""
    pieces = [Piece((number,), (1,), "__0_0.distcp", 0, 9) for number in range(3_000)]
    tensors = {f"w{number}": ((3_000,), pieces[:1]) for number in range(3_000)}
    chunks = b"".join(torch_files.chunk(piece) for piece in pieces)
    told = torch_files.distributed_metadata(tensors)
    single = b"](" + torch_files.chunk(pieces[0]) + b"e"
    first, rest = told.split(single, 1)
    return dcp(path, first + b"](" + chunks + b"e" + _KEEP + rest.replace(single, _KEPT))


@bomb
def dcp_tensors_that_are_one_place(path: str) -> str:
    piece = Piece((0,), (25_000_000,), "__0_0.distcp", 0, 100_000_000)
    return dcp(
        path, torch_files.distributed_metadata({f"w{n}": ((25_000_000,), [piece]) for n in range(2_000)})
    )


@bomb
def dcp_records_of_many_fields(path: str) -> str:
    fields = Opcodes(b"}(" + b"".join(b"X\5\0\0\0%05dN" % n for n in range(20_000)) + b"u")
    properties = torch_files.record("TensorProperties", fields).data
    piece = Piece((0,), (1,), "__0_0.distcp", 0, 9)
    told = torch_files.distributed_metadata({f"w{number}": ((1,), [piece]) for number in range(5_000)})
    single = torch_files.record(
        "TensorProperties", (torch_files.Named("torch.float32"), None, False, None, False)
    )
    first, rest = told.split(single.data, 1)
    return dcp(path, first + properties + _KEEP + rest.replace(single.data, _KEPT))
