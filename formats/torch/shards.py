"""The shards of a PyTorch checkpoint, and the index that names them: see formats.model.shards."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ..model.shards import ShardedReader
from .facts import TorchFacts
from .kinds import kinds_of
from .reader import TorchReader, open_torch
from .storages import is_torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model.probe import Probe
    from ..model.reader import FormatReader


class TorchShards(ShardedReader):
    """Shards in PyTorch files."""

    def open_shard(self, probe: Probe, *, lenient: bool) -> TorchReader | None:
        return open_torch(probe, self.format, lenient=lenient) if is_torch(probe) else None

    def index_size(self, shard: FormatReader) -> int:
        assert isinstance(shard, TorchReader)
        return shard.pickle_size

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        return kinds_of(self.specs)

    @property
    def facts(self) -> TorchFacts:
        return TorchFacts()
