"""Orbax checkpoints: a tree in a folder, or a step of several items."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..core.dtypes import INVALID
from ..core.spec import key_bytes
from ..core.words import counted
from ..errors import CheckpointError, CorruptCheckpointError
from ..model.orbax_files import (
    JSON_ITEM,
    STEP,
    files_below,
    is_unfinished,
    item_folders,
    tree_head,
)
from ..model.reader import FormatReader
from ..model.verification import Finding, Verification, verified_in_pieces
from ..store.work.workers import SERIAL, Workers
from ..wire.jsontext import parse_object
from .facts import METRICS, Items, TreeFacts
from .item import OrbaxItem
from .kinds import kinds_of
from .names import parts_of
from .tree import Shardings, read_json_item

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..core.spec import TensorSpec
    from ..location import Location
    from ..model.probe import Probe
    from ..model.reader import Format
    from ..model.tensor import LazyTensor

PRODUCER = "Orbax"
_LARGEST_STEP = 16 << 20


class OrbaxReader(FormatReader):
    """A tree, or the trees of a step, each item's keys below its name where there are several."""

    has_checksums = False
    lists_all = True

    def __init__(self, probe: Probe, format: Format, *, lenient: bool) -> None:  # noqa: A002  the word of the field
        self.location = probe.location
        self.format = format
        self._folder = probe.location.path
        self._lenient = lenient
        self._items: list[OrbaxItem] = []
        self._json: dict[str, Any] = {}
        self._json_files: dict[str, str] = {}
        self._others: list[str] = []
        self._tree_names: tuple[str, ...] = ()
        self._step = self._described()
        head = tree_head(self._folder)
        try:
            if head is not None:
                self._items.append(OrbaxItem(self._folder, head, (), lenient=lenient))
            else:
                self._open_items()
        except BaseException:
            self.close()
            raise
        self.findings = [finding for item in self._items for finding in item.findings]
        if is_unfinished(self._folder):
            message = (
                "the save is unfinished: commit_success.txt, which Orbax writes last in a bucket, is missing"
            )
            self.findings.append(Finding("warning", "shard-missing", message, None, self._folder))
        self._homes = {key: item for item in self._items for key in item.specs}
        self._specs = {key: self._homes[key].specs[key] for key in sorted(self._homes, key=key_bytes)}

    def _described(self) -> dict[str, Any]:
        """Return what the step says of itself.  Raises CorruptCheckpointError."""
        path = self._folder / STEP
        if not path.is_file():
            return {}
        with path.open() as file:
            if file.size > _LARGEST_STEP:
                message = f"the file has {file.size} bytes, but at most {_LARGEST_STEP} are supported"
                raise CorruptCheckpointError(message, path=path, code="header")
            try:
                return parse_object(file.read_exactly(0, file.size), spells_bytes=False)
            except ValueError as error:
                raise CorruptCheckpointError(str(error), path=path, code="header") from error

    def _open_items(self) -> None:
        folders = self._item_folders()
        trees = [(folder, tree_head(folder)) for folder in folders]
        for folder, head in trees:
            if head is not None:
                prefix = (folder.name,) if len(folders) > 1 else ()
                self._items.append(OrbaxItem(folder, head, prefix, lenient=self._lenient))
                self._tree_names += (folder.name,)
            elif (path := _json_file(folder)) is not None:
                self._json[folder.name] = read_json_item(path)
                if path.name != JSON_ITEM:
                    self._json_files[folder.name] = path.name
            else:
                self._others.append(folder.name)
        if not self._items:
            message = f"the step has no tree: none of its {len(folders)} items has _METADATA"
            raise CorruptCheckpointError(message, path=self._folder, code="shard-missing")

    def _item_folders(self) -> list[Location]:
        handlers = self._step.get("item_handlers")
        named = handlers if isinstance(handlers, dict) else {}
        if not self._folder.store.lists_first:
            return [self._folder / name for name in named if "/" not in name and name not in ("", ".", "..")]
        return item_folders(self._folder)

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        return self._specs

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        found = kinds_of({key: tuple(parts_of(key)) for key in self._specs}, self._specs)
        random = {key for item in self._items for key in item.random()}
        return {key: "state" if key in random else kind for key, kind in found.items()}

    @property
    def facts(self) -> TreeFacts:
        items = self._items
        values: dict[str, Any] = {key: text for item in items for key, text in item.texts().items()}
        empty = {key: each for item in items for key, each in item.empty().items()}
        types: Counter[str] = Counter()
        for item in items:
            types.update(item.types())
        shardings = [self._sharding(item) for item in items]
        random = {key: each for item in items for key, each in item.random().items()}
        told = {
            "types": dict(sorted(types.items())),
            "meshes": {mesh: count for each in shardings for mesh, count in each.meshes.items()},
            "partitions": {key: text for each in shardings for key, text in each.partitions.items()},
            "random_keys": random,
            "items": self._json,
            "items_not_read": self._others,
            "item_handlers": self._step.get("item_handlers"),
            "metrics": self._step.get("metrics"),
        }
        return TreeFacts(
            PRODUCER,
            values,
            empty,
            {name: each for name, each in told.items() if each},
            {key: kind for item in items for key, kind in item.leaf_types().items()},
            {key: found for item in items for key, found in item.positions().items()},
            random,
            items=Items(self._tree_names, self._json, self._json_files),
        )

    def _sharding(self, item: OrbaxItem) -> Shardings:
        try:
            return item.sharding()
        except CheckpointError:  # `verify` reports it; nothing that is read depends on it
            return Shardings({}, {})

    def facts_findings(self) -> Sequence[Finding]:
        found = []
        for item in self._items:
            for prove in (item.sharding, item.prove_random_keys):
                try:
                    prove()
                except CheckpointError as error:
                    found.append(Finding.of(error))
        return found

    def tensor(self, key: str) -> LazyTensor:
        return self._homes[key].tensor(key)

    def undecoded(self, key: str) -> CheckpointError:
        return self._homes[key].lacking[key]

    def files(self) -> Sequence[Location]:
        if not self.location.store.lists_first:
            return [self.location.head]
        return [
            self.location.head,
            *(path for path in files_below(self._folder) if path != self.location.head),
        ]

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:  # noqa: ARG002  checked in order
        """Check the tree and every chunk's size; values carry no checksums."""
        from .arrays import ZarrTensor

        yield Verification(findings=(*self.findings, *self.facts_findings()))
        for key, spec in self._specs.items():
            if spec.dtype is INVALID:
                continue
            try:
                tensor = self.tensor(key)
            except CheckpointError:  # of a name that two leaves share, which is among the findings
                continue
            yield from verified_in_pieces(key, map(len, tensor.chunks()))
            unstored = tensor.unstored if isinstance(tensor, ZarrTensor) else 0
            if unstored:
                chunks = counted(unstored, "chunk is", "chunks are")
                which = "the chunk" if unstored == 1 else "the chunks"
                message = f"{chunks} not stored, so ckpt reads the fill value; {which} may be lost"
                yield Verification(
                    findings=(Finding("warning", "shard-missing", message, key, self._folder),)
                )

    def close(self) -> None:
        for item in self._items:
            item.close()


def _json_file(folder: Location) -> Location | None:
    """Return the file of an item that is JSON; None of another one."""
    names = (JSON_ITEM, METRICS) if folder.name == METRICS else (JSON_ITEM,)
    return next((path for name in names if (path := folder / name).is_file()), None)
