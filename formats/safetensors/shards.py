"""The shards of a safetensors checkpoint, and the index that names them: see formats.model.shards."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ..model.name_kinds import name_kinds
from ..model.shards import ShardedReader
from .reader import SafetensorsFacts, SafetensorsReader, begins_as_one

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model.probe import Probe
    from ..model.reader import FormatReader


class SafetensorsShards(ShardedReader):
    """Shards in safetensors files."""

    has_checksums = False

    def open_shard(self, probe: Probe, *, lenient: bool) -> SafetensorsReader | None:
        return SafetensorsReader(probe, self.format, lenient=lenient) if begins_as_one(probe.head) else None

    def index_size(self, shard: FormatReader) -> int:
        assert isinstance(shard, SafetensorsReader)
        return shard.header_size

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        return name_kinds(self.specs)

    @property
    def facts(self) -> SafetensorsFacts:
        """The metadata on which all shards agree."""
        shards = [shard for shard in self.shards() if isinstance(shard, SafetensorsReader)]
        string_sets = [set(shard.strings.items()) for shard in shards]
        return SafetensorsFacts(dict(sorted(set.intersection(*string_sets))) if string_sets else {})
