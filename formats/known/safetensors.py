"""safetensors: one file, or the shards of a Hugging Face folder with the index that names them.

NAME.safetensors                        see `formats.safetensors.reader`

NAME.safetensors.index.json             see `formats.safetensors.shards`
NAME-00001-of-00002.safetensors
NAME-00002-of-00002.safetensors
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.checkpoint_files import INDEX_SUFFIX
from ..model.reader import Family, Format
from ..model.shards import broken_index, refuse_without_index
from ..model.weight_map import SAFETENSORS, shard_suffix
from ..safetensors.reader import CARRIED, DTYPES_HELD, SafetensorsReader, begins_as_one

if TYPE_CHECKING:
    from ..errors import CheckpointError
    from ..model.probe import Probe
    from ..model.reader import FormatReader
    from ..model.writer import FormatWriter, WriteTarget


def _sniff(probe: Probe) -> bool:
    if probe.is_table:
        return False
    if begins_as_one(probe.head):
        refuse_without_index(probe.location)
        return True
    return shard_suffix(probe.json, probe.location.head) == SAFETENSORS


def _open(probe: Probe, lenient: bool) -> FormatReader:
    if begins_as_one(probe.head):
        return SafetensorsReader(probe, FORMAT, lenient=lenient)
    from ..safetensors.shards import SafetensorsShards

    return SafetensorsShards(probe, FORMAT, lenient=lenient)


def _refusal(probe: Probe) -> CheckpointError | None:
    return broken_index(probe.location.head, INDEX_SUFFIX)


def _create(target: WriteTarget) -> FormatWriter:
    from ..safetensors.writer import SafetensorsWriter

    return SafetensorsWriter(FORMAT, target)


FORMAT = Format(
    "safetensors",
    "safetensors file, or its shards",
    Family.ARRAYS,
    (".safetensors", INDEX_SUFFIX, ".sft"),
    _sniff,
    _open,
    _create,
    DTYPES_HELD,
    refusal=_refusal,
    carries=CARRIED,
)
