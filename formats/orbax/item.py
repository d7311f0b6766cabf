"""One tree of an Orbax checkpoint: its leaves, what they are, and where their values are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.dtypes import INVALID
from ..core.spec import TensorSpec
from ..errors import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError
from ..location import looked_into
from ..model.expansion import expansion_flaw
from ..model.verification import Finding
from .files import TreeFiles
from .flax_tensors import NumberTensor, RangesTensor, spec_of
from .flax_tree import ArrayLeaf
from .names import key_of
from .tree import (
    AGGREGATED,
    METADATA,
    TreeLeaf,
    read_random_keys,
    read_shardings,
    read_strings,
    read_tree,
    shardings_of,
)
from .values import DATABASE, TreeValues
from .zarr import UnreadZarrError, ZarrArray, parse_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..location import Location
    from ..model.tensor import LazyTensor
    from .names import Path
    from .tree import Shardings

_UNMERGED = "ocdbt.process_"
_LARGEST_ARRAY_JSON = 1 << 20
_MUCH = 64 << 20
_MOST_LOOKED = 100_000
"""Chunks of an array whose sizes are added up."""


class TensorEntry(NamedTuple):
    """A leaf that is a tensor: by what it is stored, and its array, or its value where that is known."""

    path: Path
    leaf: TreeLeaf
    array: ZarrArray | None


class OrbaxItem:
    """A tree in a folder; keys begin with `prefix`."""

    def __init__(self, folder: Location, head: Location, prefix: Path, *, lenient: bool) -> None:
        self.files = TreeFiles(folder, head)
        self.findings: list[Finding] = []
        self.entries: dict[str, TensorEntry] = {}
        self.specs: dict[str, TensorSpec] = {}
        self.lacking: dict[str, CheckpointError] = {}
        self._prefix = prefix
        self._lenient = lenient
        self._shared: dict[str, str] = {}
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self.leaves, self._is_zarr3, self._stores_all = read_tree(self.files)
        self.values = self._opened_values()
        self.strings = read_strings(self.files)
        self.random_keys = read_random_keys(self.files)
        tensors = {
            path: leaf for path, leaf in self.leaves.items() if not leaf.is_empty and leaf.type != "string"
        }
        self._find_clashes(tensors)
        stored = {path: leaf for path, leaf in tensors.items() if leaf.value is None}
        arrays = self._arrays([leaf.name for leaf in stored.values()])
        for path, leaf in tensors.items():
            self._take(path, leaf, arrays.get(leaf.name) if leaf.value is None else None)
        self._check_expansion()

    def _opened_values(self) -> TreeValues:
        folder = self.files.folder
        values = TreeValues(self.files)
        if not values.has_database and folder.store.lists_first:
            parts = [name for name, _ in folder.listing() if name.startswith(_UNMERGED)]
            if parts:
                message = f"{DATABASE} is missing: the databases of {len(parts)} processes were not merged"
                raise CorruptCheckpointError(message, path=folder, code="shard-missing")
        return values

    def _find_clashes(self, tensors: Mapping[Path, TreeLeaf]) -> None:
        """Report leaves that Orbax stores by one name: one of them has overwritten the other."""
        first: dict[str, Path] = {}
        for path, leaf in tensors.items():
            if leaf.value is not None:
                continue
            other = first.setdefault(leaf.name, path)
            if other != path:
                one, two = self._key(other), self._key(path)
                self._shared |= {one: two, two: one}
                message = (
                    f"{one!r} and {two!r} are stored under the same "
                    f"name, {leaf.name!r}, so one overwrote the other"
                )
                self.findings.append(Finding("error", "overlap", message, two, self.files.location(METADATA)))

    def _key(self, path: Path) -> str:
        return key_of((*self._prefix, *path))

    def _arrays(self, names: Sequence[str]) -> dict[str, ZarrArray | CheckpointError]:
        """Return the arrays of these names, as far as they are there, or why they cannot be read."""
        order = ("zarr.json", ".zarray") if self._is_zarr3 else (".zarray", "zarr.json")
        found: dict[str, ZarrArray | CheckpointError] = {}
        parsed: dict[bytes, ZarrArray] = {}
        if self.values.has_database:
            places = {name: self._metadata_of(name, order) for name in names}
            self.values.expect(places.values())
            ordered = iter(places.items())
        else:
            heads = [(name, self.files.location(f"{name}/{order[0]}")) for name in names]
            looked = looked_into(heads, lambda each: each[1]) if heads else iter(())
            ordered = ((name, self._metadata_of(name, order)) for name, _ in looked)
        for name, value in ordered:
            if value is None:
                continue
            try:
                size = len(value) if isinstance(value, bytes) else value.size
                if size > _LARGEST_ARRAY_JSON:
                    raise ValueError(
                        f"the metadata has {size} bytes, but at most {_LARGEST_ARRAY_JSON} are supported"
                    )
                data = self.values.read(value)
                known = parsed.get(data)
                found[name] = parsed[data] = parse_array(data) if known is None else known
            except UnreadZarrError as error:
                found[name] = UnsupportedFeatureError(f"zarr: {error}", path=self.files.folder, code="dtype")
            except ValueError as error:
                message = f"metadata of its array: {error}"
                found[name] = CorruptCheckpointError(message, path=self.files.folder, code="entry")
            except CheckpointError as error:
                found[name] = error
        return found

    def _metadata_of(self, name: str, order: tuple[str, str]) -> Any:
        return self.values.find(f"{name}/{order[0]}") or self.values.find(f"{name}/{order[1]}")

    def _take(self, path: Path, leaf: TreeLeaf, array: ZarrArray | CheckpointError | None) -> None:
        """Take in a leaf that is a tensor, or note why it is not known what it is."""
        key = self._key(path)
        if leaf.value is not None:
            spec = spec_of(key, leaf.value)
            if spec is None:
                array = CorruptCheckpointError(
                    f"{AGGREGATED} has no array for it; its type is {leaf.type}",
                    path=self.files.folder,
                    code="entry",
                )
            else:
                self.entries[key], self.specs[key] = TensorEntry(path, leaf, None), spec
                return
        if array is None:
            message = f"no array {leaf.name!r:.200} is stored"
            array = CorruptCheckpointError(message, path=self.files.folder, code="shard-missing")
        if isinstance(array, CheckpointError):
            array.key = key
            if not self._lenient:
                raise array
            self.lacking[key] = array
            self.findings.append(Finding.of(array))
            self.specs[key] = TensorSpec(key, INVALID, ())
            return
        self.entries[key] = TensorEntry(path, leaf, array)
        self.specs[key] = TensorSpec(key, array.dtype, array.shape, array.nbytes)

    def _check_expansion(self) -> None:
        """Reject tensors that are far larger than what is stored of them."""
        arrays = {entry.leaf.name: entry.array for entry in self.entries.values() if entry.array is not None}
        total = sum(array.nbytes for array in arrays.values())
        if total <= _MUCH:
            return
        stored = self.values.nbytes
        for name, array in arrays.items():
            if expansion_flaw(total, stored) is None:
                return
            cells = 0 if self.values.has_database else min(array.count_files(), _MOST_LOOKED)
            for position in range(cells):
                stored += self.files.size(f"{name}/{array.chunk_key(array.file_at(position))}") or 0
                if expansion_flaw(total, stored) is None:
                    return
        flaw = expansion_flaw(total, stored)
        if flaw is not None:
            raise UnsupportedFeatureError(flaw, path=self.files.folder, code="tensor-size")

    def tensor(self, key: str) -> LazyTensor:
        """Return a tensor.  Raises CorruptCheckpointError where another one was stored in its place."""
        entry, spec = self.entries[key], self.specs[key]
        if key in self._shared:
            message = (
                "this tensor is stored under the same name as "
                f"{self._shared[key]!r}, so one overwrote the other"
            )
            raise CorruptCheckpointError(message, path=self.files.folder, key=key, code="overlap")
        if entry.array is not None:
            from .arrays import ZarrTensor

            array = entry.array._replace(fill=None) if self._stores_all else entry.array
            return ZarrTensor(self.values, spec, entry.leaf.name, array)
        if isinstance(entry.leaf.value, ArrayLeaf):
            return RangesTensor(self.files.file(AGGREGATED), spec, entry.leaf.value)
        return NumberTensor(spec, entry.leaf.value, self.files.folder, lambda: self.files.is_closed)

    # What is shown -------------------------------------------------------------------

    def texts(self) -> dict[str, str]:
        """Return texts by key."""
        found = {path: leaf for path, leaf in self.leaves.items() if leaf.type == "string"}
        return {
            self._key(path): str(leaf.value or self.strings.get(leaf.name, ""))
            for path, leaf in found.items()
        }

    def empty(self) -> dict[str, str]:
        """Return the types of leaves without a value, by key."""
        return {self._key(path): leaf.type for path, leaf in self.leaves.items() if leaf.is_empty}

    def types(self) -> dict[str, int]:
        """Return how many leaves there are of each type."""
        counts: dict[str, int] = {}
        for leaf in self.leaves.values():
            counts[leaf.type] = counts.get(leaf.type, 0) + 1
        return dict(sorted(counts.items()))

    def leaf_types(self) -> dict[str, str]:
        """Return the types of leaves, by key."""
        return {self._key(path): leaf.type for path, leaf in self.leaves.items()}

    def positions(self) -> dict[str, frozenset[int]]:
        """Return which parts of keys are positions in lists, of the keys that have some."""
        first = len(self._prefix)
        return {
            self._key(path): frozenset(at + first for at in leaf.positions)
            for path, leaf in self.leaves.items()
            if leaf.positions
        }

    def keys_by_name(self) -> dict[str, str]:
        return {entry.leaf.name: key for key, entry in self.entries.items()}

    def random(self) -> dict[str, str]:
        """Return the implementations of PRNG keys, by key."""
        keys = self.keys_by_name()
        return {keys[name]: each for name, each in self.random_keys.items() if name in keys}

    def sharding(self) -> Shardings:
        """Return how arrays were distributed over devices, by key.  Raises CorruptCheckpointError."""
        keys = self.keys_by_name()
        told = read_shardings(self.files)
        return shardings_of({keys.get(name, name): each for name, each in told.items()})

    def prove_random_keys(self) -> None:
        """Read all facts about PRNG keys. Raises CorruptCheckpointError."""
        read_random_keys(self.files, whole=True)

    def close(self) -> None:
        self.files.close()
