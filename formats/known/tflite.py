"""TFLite: a flatbuffer with a model's graphs and the data of its constant tensors.  Only read.

NAME.tflite      see `formats.exports.tflite`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.reader import Family, Format

if TYPE_CHECKING:
    from ..model.probe import Probe
    from ..model.reader import FormatReader


def _sniff(probe: Probe) -> bool:
    return probe.head[4:8] == b"TFL3" and not probe.is_table


def _open(probe: Probe, lenient: bool) -> FormatReader:
    from ..exports.tflite import TfliteReader

    return TfliteReader(probe, FORMAT, lenient=lenient)


FORMAT = Format(
    "tflite",
    "TFLite model",
    Family.ARRAYS,
    (".tflite",),
    _sniff,
    _open,
    None,
    frozenset(),
    is_export=True,
)
