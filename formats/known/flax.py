"""Flax: one file of msgpack, or the shards of a Hugging Face folder with the index that names them.

flax_model.msgpack, checkpoint_N        see `formats.orbax.flax_tree`

flax_model.msgpack.index.json           see `formats.model.shards`
flax_model-00001-of-00002.msgpack
flax_model-00002-of-00002.msgpack
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.dtypes import DTYPES
from ..model.checkpoint_files import FLAX_INDEX_SUFFIX
from ..model.orbax_files import is_orbax
from ..model.reader import Family, Format
from ..model.shards import broken_index, refuse_without_index
from ..model.weight_map import FLAX, shard_suffix
from ..orbax.flax_tree import begins_as_tree

if TYPE_CHECKING:
    from ..errors import CheckpointError
    from ..model.probe import Probe
    from ..model.reader import FormatReader
    from ..model.writer import FormatWriter, WriteTarget


def _sniff(probe: Probe) -> bool:
    if probe.is_table or is_orbax(probe.location):
        return False
    if begins_as_tree(probe.head, probe.size):
        refuse_without_index(probe.location)
        return True
    return shard_suffix(probe.json, probe.location.head) == FLAX


def _open(probe: Probe, lenient: bool) -> FormatReader:
    from ..orbax.flax_reader import FlaxReader, FlaxShards

    if begins_as_tree(probe.head, probe.size):
        return FlaxReader(probe, FORMAT, lenient=lenient)
    return FlaxShards(probe, FORMAT, lenient=lenient)


def _create(target: WriteTarget) -> FormatWriter:
    from ..orbax.flax_writer import FlaxWriter

    return FlaxWriter(FORMAT, target)


def _refusal(probe: Probe) -> CheckpointError | None:
    return broken_index(probe.location.head, FLAX_INDEX_SUFFIX)


FORMAT = Format(
    "flax",
    "Flax msgpack file, or its shards",
    Family.ARRAYS,
    (".msgpack", FLAX_INDEX_SUFFIX),
    _sniff,
    _open,
    _create,
    frozenset(dtype.name for dtype in DTYPES if dtype.is_number and not dtype.is_quantized),
    refusal=_refusal,
    is_tree=True,
)
