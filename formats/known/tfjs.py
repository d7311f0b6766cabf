"""TensorFlow.js: a layers or graph model, whose weights are in shards.  Only read.

model.json                   see `formats.exports.tfjs`
group1-shard1of2.bin
group1-shard2of2.bin
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.reader import Family, Format

if TYPE_CHECKING:
    from ..model.probe import Probe
    from ..model.reader import FormatReader


def _sniff(probe: Probe) -> bool:
    document = probe.json
    return document is not None and isinstance(document.get("weightsManifest"), list)


def _open(probe: Probe, lenient: bool) -> FormatReader:
    from ..exports.tfjs import TfjsReader

    return TfjsReader(probe, FORMAT, lenient=lenient)


FORMAT = Format(
    "tfjs",
    "TensorFlow.js model",
    Family.ARRAYS,
    (),
    _sniff,
    _open,
    None,
    frozenset(),
    is_export=True,
)
