"""GGUF: the models of llama.cpp, with quantized weights.  Only read.

NAME.gguf                      see `formats.exports.gguf_file`

NAME-00001-of-00003.gguf       the same, split; metadata are in the first part
NAME-00002-of-00003.gguf
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.reader import Family, Format

if TYPE_CHECKING:
    from ..model.probe import Probe
    from ..model.reader import FormatReader


def _sniff(probe: Probe) -> bool:
    return probe.head.startswith(b"GGUF")


def _open(probe: Probe, lenient: bool) -> FormatReader:
    from ..exports.gguf import GgufReader

    return GgufReader(probe, FORMAT, lenient=lenient)


FORMAT = Format(
    "gguf",
    "GGUF model of llama.cpp",
    Family.ARRAYS,
    (".gguf",),
    _sniff,
    _open,
    None,
    frozenset(),
    magic=("a GGUF file", b"GGUF"),
    is_export=True,
)
