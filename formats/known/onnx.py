"""ONNX: a model whose weights are initializers and constants of its graphs.  Only read.

NAME.onnx             see `formats.exports.onnx`
NAME.onnx.data        external data, under any name that the model gives
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.reader import Family, Format
from ..wire.beginnings import is_onnx

if TYPE_CHECKING:
    from ..model.probe import Probe
    from ..model.reader import FormatReader


def _sniff(probe: Probe) -> bool:
    return not probe.is_table and is_onnx(probe.head)


def _open(probe: Probe, lenient: bool) -> FormatReader:
    from ..exports.onnx import OnnxReader

    return OnnxReader(probe, FORMAT, lenient=lenient)


FORMAT = Format(
    "onnx",
    "ONNX model",
    Family.ARRAYS,
    (".onnx",),
    _sniff,
    _open,
    None,
    frozenset(),
    is_export=True,
)
