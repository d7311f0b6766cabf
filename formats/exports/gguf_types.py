"""The tensor types of GGUF by number: name, elements and bytes of a block, and the dtype of plain ones.

The types that have decoders are named here, so that listing does not import numpy.
https://github.com/ggml-org/llama.cpp, gguf-py/gguf/constants.py
"""

from __future__ import annotations

from typing import NamedTuple

from ..core.dtypes import BY_NAME, DType, unmapped


class TensorType(NamedTuple):
    """A type: the elements and the bytes of a block."""

    name: str
    block: int
    nbytes: int
    dtype: DType
    """The dtype of values; an unmapped one where they cannot be read."""

    @property
    def is_plain(self) -> bool:
        """Whether values are stored as they are."""
        return self.block == 1


_PLAIN = """
    0 F32 float32   1 F16 float16   30 BF16 bfloat16   28 F64 float64
    24 I8 int8   25 I16 int16   26 I32 int32   27 I64 int64
"""
_DECODED = """
    2 Q4_0 32 18   3 Q4_1 32 20   6 Q5_0 32 22   7 Q5_1 32 24   8 Q8_0 32 34
    10 Q2_K 256 84   11 Q3_K 256 110   12 Q4_K 256 144   13 Q5_K 256 176   14 Q6_K 256 210
    20 IQ4_NL 32 18   23 IQ4_XS 256 136   34 TQ1_0 256 54   35 TQ2_0 256 66   39 MXFP4 32 17   40 NVFP4 64 36
"""
_LISTED = """
    9 Q8_1 32 40   15 Q8_K 256 292   41 Q1_0 128 18
    16 IQ2_XXS 256 66   17 IQ2_XS 256 74   22 IQ2_S 256 82   18 IQ3_XXS 256 98   21 IQ3_S 256 110
    19 IQ1_S 256 50   29 IQ1_M 256 56
"""
REMOVED = {4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8"} | {
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}
"""Types that llama.cpp has removed, and no longer reads."""


def _rows(text: str, width: int) -> list[list[str]]:
    words = text.split()
    return [words[at : at + width] for at in range(0, len(words), width)]


TYPES: dict[int, TensorType] = {
    **{
        int(number): TensorType(name, 1, BY_NAME[dtype].itemsize or 1, BY_NAME[dtype])
        for number, name, dtype in _rows(_PLAIN, 3)
    },
    **{
        int(number): TensorType(name, int(block), int(nbytes), BY_NAME["float32"])
        for number, name, block, nbytes in _rows(_DECODED, 4)
    },
    **{
        int(number): TensorType(name, int(block), int(nbytes), unmapped(name))
        for number, name, block, nbytes in _rows(_LISTED, 4)
    },
}
