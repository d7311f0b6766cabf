"""safetensors: one file, or the shards of a Hugging Face folder with the index that names them.

NAME.safetensors                        see `formats.safetensors.reader`

NAME.safetensors.index.json             see `formats.safetensors.shards`
NAME-00001-of-00002.safetensors
NAME-00002-of-00002.safetensors
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.words import command_line
from ..errors import CorruptCheckpointError
from ..model.location import INDEX_SUFFIX
from ..model.reader import Family, Format
from ..model.weight_map import SAFETENSORS, shard_suffix
from ..safetensors.reader import DTYPES_HELD, SafetensorsReader, begins_as_one
from ..store.beside import SAFETENSORS_SHARD

if TYPE_CHECKING:
    from ..model.probe import Probe
    from ..model.reader import CheckpointReader
    from ..model.writer import CheckpointWriter, Target


def _sniff(probe: Probe) -> bool:
    if probe.is_table:
        return False
    if begins_as_one(probe.head):
        _refuse_without_index(probe)
        return True
    return shard_suffix(probe.json, probe.location.head) == SAFETENSORS


def _refuse_without_index(probe: Probe) -> None:
    """Refuse the shards of a folder, which a directory has found without the index that names them."""
    location = probe.location
    shard = SAFETENSORS_SHARD.fullmatch(location.head)
    if location.path == location.head or shard is None:
        return
    from ..model.location import beside_index, lone_shards

    there, count = lone_shards(location.head), int(shard["count"])
    message = f"{len(there)} of {count} shards are there, but not {beside_index(location.head)}"
    hints = (
        "the index says which tensors there are: fetch it from where the shards came from",
        f"to read one shard by itself, name it: {command_line('ls', location.head)}",
    )
    raise CorruptCheckpointError(message, path=location.path, code="shard-missing", hints=hints)


def _open(probe: Probe, lenient: bool) -> CheckpointReader:
    if begins_as_one(probe.head):
        return SafetensorsReader(probe, FORMAT, lenient=lenient)
    from ..safetensors.shards import ShardedReader

    return ShardedReader(probe, FORMAT, lenient=lenient)


def _create(target: Target) -> CheckpointWriter:
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
)
