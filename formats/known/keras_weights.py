"""keras-weights: Keras 3's `.weights.h5`, which later versions of Keras 2 write, too, and its shards.

    NAME.weights.h5              see formats.h5.weights

    NAME.weights.json            {"metadata": {"total_size": bytes},
                                  "weight_map": {"/layers/dense/vars": file or [file, ...], ...}}
    NAME_00000.weights.h5        shards, each laid out as above; an object's variables may
                                 lie in several of them

A map may only name files in its own folder (`formats.model.weight_map`). keras/src/saving/saving_lib.py:
ShardedH5IOStore
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import CheckpointError, CheckpointNotFoundError, ConversionError, CorruptCheckpointError
from ..h5.facts import h5_facts
from ..h5.native.superblock import Superblock
from ..h5.safe import open_h5
from ..h5.weights import WeightsReader
from ..h5.weights_writer import WeightsWriter
from ..h5.writer import H5_DTYPES, MOST_DIMENSIONS
from ..location import Location, looked_into
from ..model.reader import Family, Format
from ..model.verification import Finding, missing_shard
from ..model.weight_map import KERAS, WEIGHT_MAP, files_by_name, shard_path, shard_suffix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..h5.safe import H5File
    from ..model.probe import Probe
    from ..model.reader import FormatReader
    from ..model.writer import FormatWriter, WriteTarget


class ShardedWeightsReader(WeightsReader):
    """Weights in several files, and the map that names them."""

    def files(self) -> Sequence[Location]:
        return [self.location.head, *(file.path for file in self._h5_files)]


def _open_shard(path: Location) -> H5File:
    with path.open() as file:
        superblock = Superblock.find(file.read(0, 4096))
        if superblock is None:
            raise CorruptCheckpointError("this is not an HDF5 file", path=path, offset=0, code="hdf5-read")
        return open_h5(path, file.size, superblock)


def _open_sharded(probe: Probe, *, lenient: bool) -> WeightsReader:
    files: list[H5File] = []
    findings: list[Finding] = []
    path = probe.location.head
    assert probe.json is not None
    groups: dict[str, list[str]] = {}
    for group, listed in files_by_name(probe.json, path).items():
        for name in listed:
            groups.setdefault(name, []).append(group)
    for name in looked_into(sorted(groups), lambda name: path.parent / name):
        try:
            files.append(_open_shard(shard_path(path, name)))
        except CheckpointError as error:
            if not lenient:
                for file in files:
                    file.close()
                raise
            if isinstance(error, CheckpointNotFoundError) and error.path is not None:
                findings.append(missing_shard(error.path, len(groups[name]), "group", groups[name][0]))
            else:
                findings.append(Finding.of(error))
    reader = ShardedWeightsReader(probe.location, FORMAT, files, lenient=lenient)
    reader.findings[:0] = findings
    if not findings:
        reader.findings += _map_findings(probe, reader)
    return reader


def _map_findings(probe: Probe, reader: WeightsReader) -> list[Finding]:
    """Return the groups that the map speaks of and no shard has, and the reverse."""
    assert probe.json is not None
    mapped = {group.strip("/") for group in probe.json[WEIGHT_MAP]}
    held = set(reader.by_group)
    path = probe.location.head
    out = [
        Finding("error", "header", f"weight_map lists {group!r}, but no shard has it", file=path)
        for group in sorted(mapped - held)
    ]
    surplus = sorted(held - mapped)
    return out + [
        Finding("warning", "header", f"weight_map does not list {group!r}", file=path) for group in surplus
    ]


def _sniff(probe: Probe) -> bool:
    facts = probe.result_of(h5_facts)
    if facts is not None and facts.is_keras_weights:
        return True
    return shard_suffix(probe.json, probe.location.head) == KERAS


def _open(probe: Probe, lenient: bool) -> WeightsReader:
    facts = probe.result_of(h5_facts)
    if facts is None:
        return _open_sharded(probe, lenient=lenient)
    return WeightsReader(probe.location, FORMAT, [facts.file], lenient=lenient)


def _salvage(probe: Probe, finding: Finding) -> FormatReader | None:  # noqa: ARG001  any damage is alike
    from ..h5.salvage import read_h5_remains

    return read_h5_remains(probe, FORMAT)


def _create(target: WriteTarget) -> FormatWriter:
    if target.path.endswith(".json"):
        hints = ("name it *.weights.h5",)
        raise ConversionError("writing weights in shards is not supported", path=target.path, hints=hints)
    return WeightsWriter(FORMAT, target)


FORMAT = Format(
    "keras-weights",
    "Keras weights (.weights.h5)",
    Family.KERAS,
    (".weights.h5", ".weights.json"),
    _sniff,
    _open,
    _create,
    H5_DTYPES,
    _salvage,
    most_dimensions=MOST_DIMENSIONS,
)
