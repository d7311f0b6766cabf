"""A file of Flax's: a tree in msgpack, as `flax.serialization.to_bytes` writes it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..core.spec import key_bytes
from ..errors import CorruptCheckpointError
from ..model.reader import FormatReader
from ..model.shards import ShardedReader
from ..model.verification import Verification, verified_in_pieces
from ..store.work.workers import SERIAL, Workers
from ..wire.msgpack import ByteRange, MalformedError
from .facts import SCALAR, TreeFacts
from .flax_tensors import NumberTensor, RangesTensor, spec_of
from .flax_tree import ArrayLeaf, begins_as_tree, leaves_of
from .kinds import kinds_of
from .names import key_of, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..core.spec import TensorSpec
    from ..model.probe import Probe
    from ..model.reader import Format
    from ..model.tensor import LazyTensor
    from ..model.verification import Finding

PRODUCER = "Flax"


def empty_name(leaf: Any) -> str:
    """Return the type of a leaf without a value, as Orbax calls it."""
    return "Dict" if isinstance(leaf, dict) else "List" if isinstance(leaf, list) else "None"


class FlaxReader(FormatReader):
    """A tree in one file."""

    has_checksums = False
    lists_all = True  # the whole tree is read, or the file is rejected

    def __init__(self, probe: Probe, format: Format, *, lenient: bool) -> None:  # noqa: A002  the word of the field
        del lenient  # a tree that cannot be read to its end says nothing of the rest
        self.location = probe.location
        self.format = format
        self.findings: list[Finding] = []
        self._file = probe.location.head.open()
        try:
            leaves = leaves_of(self._file.read_exactly, self._file.size)
        except MalformedError as error:
            message = f"msgpack: {error}"
            raise CorruptCheckpointError(
                message, path=self._file.path, offset=error.offset, code="header"
            ) from error
        named = {key_of(path): leaf for path, leaf in leaves.items()}
        self._leaves = {key: named[key] for key in sorted(named, key=key_bytes)}
        found = ((key, spec_of(key, leaf)) for key, leaf in self._leaves.items())
        self._specs = {key: spec for key, spec in found if spec is not None}

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        return self._specs

    @property
    def header_size(self) -> int:
        """The bytes that say which tensors there are: all but their values."""
        values = sum(leaf.nbytes for leaf in self._leaves.values() if isinstance(leaf, ArrayLeaf))
        return self._file.size - values

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        return kinds_of({key: tuple(parts_of(key)) for key in self._specs}, self._specs)

    @property
    def facts(self) -> TreeFacts:
        others = {key: leaf for key, leaf in self._leaves.items() if key not in self._specs}
        texts = {key: leaf for key, leaf in others.items() if isinstance(leaf, str)}
        texts |= {key: f"{leaf.size} bytes" for key, leaf in others.items() if isinstance(leaf, ByteRange)}
        empty = {key: empty_name(leaf) for key, leaf in others.items() if key not in texts}
        raw = frozenset(key for key, leaf in others.items() if isinstance(leaf, ByteRange))
        types = {
            key: SCALAR if isinstance(self._leaves[key], bool | int | float) else "np.ndarray"
            for key in self._specs
        }
        return TreeFacts(PRODUCER, texts, empty, types=types, raw=raw)

    def tensor(self, key: str) -> LazyTensor:
        leaf, spec = self._leaves[key], self._specs[key]
        if isinstance(leaf, ArrayLeaf):
            return RangesTensor(self._file, spec, leaf)
        return NumberTensor(spec, leaf, self._file.path, lambda: self._file.closed)

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:  # noqa: ARG002  checked in order
        """Check that every byte can be read; the format has no checksums."""
        yield Verification(findings=tuple(self.findings))
        for key in self._specs:
            yield from verified_in_pieces(key, map(len, self.tensor(key).chunks()))

    def close(self) -> None:
        self._file.close()


class FlaxShards(ShardedReader):
    """Shards in such files, and the index that names them."""

    has_checksums = False

    def open_shard(self, probe: Probe, *, lenient: bool) -> FlaxReader | None:
        is_one = begins_as_tree(probe.head, probe.size)
        return FlaxReader(probe, self.format, lenient=lenient) if is_one else None

    def index_size(self, shard: FormatReader) -> int:
        assert isinstance(shard, FlaxReader)
        return shard.header_size

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        return kinds_of({key: tuple(parts_of(key)) for key in self.specs}, self.specs)

    @property
    def facts(self) -> TreeFacts:
        return TreeFacts(PRODUCER)
