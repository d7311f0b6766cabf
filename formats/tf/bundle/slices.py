"""Pieces of a partitioned tensor in a bundle: their keys, and how entries spell their extents.

The key of a slice entry is made of the spelling that the full tensor's entry stores:

    slice key:  num(0), str(name), num(rank), (snum(start), snum(length)) a dimension

in the ordered code of `formats.wire.ordered_code`
(tensorflow/core/util/saved_tensor_slice_util.cc, tensorflow/core/framework/tensor_slice.cc).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...wire.ordered_code import decode_num, decode_snum, decode_str, encode_num, encode_snum, encode_str

if TYPE_CHECKING:
    from ...wire.messages import TensorSliceProto
from ...core.region import WHOLE, Extents


def extents_of(proto: TensorSliceProto) -> Extents:
    """Return extents as stored; an extent without a length is the whole dimension."""
    return tuple((e.start, WHOLE if e.length is None else e.length) for e in proto.extent)


def slice_proto(extents: Extents) -> TensorSliceProto:
    """Return the message for some extents; `extents_of` is the inverse."""
    from ...wire.messages import Extent, TensorSliceProto

    return TensorSliceProto(
        extent=[Extent(start=start, length=None if length == WHOLE else length) for start, length in extents]
    )


def slice_key(name: bytes, extents: Extents) -> bytes:
    """Return the key of a slice entry."""
    parts = [encode_num(0), encode_str(name), encode_num(len(extents))]
    parts += [encode_snum(number) for extent in extents for number in extent]
    return b"".join(parts)


def decode_slice_key(key: bytes) -> tuple[bytes, Extents]:
    """Return the name and the extents in a slice key; ValueError if it is none."""
    zero, position = decode_num(key, 0)
    if zero != 0:
        raise ValueError(f"the slice key starts with {zero}; expected 0")
    name, position = decode_str(key, position)
    rank, position = decode_num(key, position)
    numbers = []
    while position < len(key):
        number, position = decode_snum(key, position)
        numbers.append(number)
    if len(numbers) != 2 * rank:
        raise ValueError(f"the slice key of rank {rank} has {len(numbers)} numbers; expected {2 * rank}")
    return name, tuple(zip(numbers[::2], numbers[1::2], strict=True))
