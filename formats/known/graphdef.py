"""GraphDef: a frozen TensorFlow graph, whose weights are constants.  Only read.

NAME.pb      see `formats.exports.graphdef`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.reader import Family, Format
from ..wire.beginnings import is_graph_def

if TYPE_CHECKING:
    from ..model.probe import Probe
    from ..model.reader import FormatReader


def _sniff(probe: Probe) -> bool:
    return not probe.is_table and is_graph_def(probe.head)


def _open(probe: Probe, lenient: bool) -> FormatReader:
    from ..exports.graphdef import GraphDefReader

    return GraphDefReader(probe, FORMAT, lenient=lenient)


FORMAT = Format(
    "graphdef",
    "frozen TensorFlow graph (GraphDef)",
    Family.ARRAYS,
    (".pb",),
    _sniff,
    _open,
    None,
    frozenset(),
    is_export=True,
)
