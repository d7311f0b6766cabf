"""The tree of an Orbax checkpoint: which leaves there are, and by which names they are stored.

    _METADATA       JSON: tree_metadata: text -> {key_metadata: [{key, key_type}, ...],
                    value_metadata: {value_type, skip_deserialize, ...}}; use_zarr3, ...
    checkpoint      msgpack of Orbax before 0.5: the tree, and values that are stored in it
    _strings.json   texts, by stored name
    _sharding       base64 of the stored name -> JSON in a text: mesh and partition
    array_metadatas/process_N
                    {array_metadatas: [{array_metadata: {param_name, ext_metadata, ...}}, ...]}

The keys of `tree_metadata` are Python tuples.  They are not parsed, for `key_metadata` says the same.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import CorruptCheckpointError
from ..wire.jsontext import parse_object
from ..wire.limits import KeySizes
from ..wire.msgpack import MalformedError
from .flax_tree import PLACEHOLDER, leaves_of
from .names import stored_name

if TYPE_CHECKING:
    from ..location import Location
    from .files import TreeFiles
    from .names import Path

METADATA, AGGREGATED, STRINGS, SHARDING = "_METADATA", "checkpoint", "_strings.json", "_sharding"
_ARRAYS = "array_metadatas"
_STORES_ALL = "store_array_data_equal_to_fill_value"
_DEEPEST = 100
POSITION, NAME = 1, 2
"""Types of a path's parts: in a list or tuple, in a dictionary or of an attribute."""

_LARGEST_JSON = 256 << 20
_LARGEST_EXTRA = 64 << 20
_MOST_PROCESSES = 10_000
_EMPTY = frozenset(("None", "Dict", "List", "Tuple", "NamedTuple"))


class TreeLeaf(NamedTuple):
    """A leaf: the type that Orbax gives it, and by what it is stored; its value, if `checkpoint` has that."""

    type: str
    name: str
    value: Any = None
    is_skipped: bool = False
    positions: frozenset[int] = frozenset()
    """The parts of its path that are positions in lists."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no value; one that Orbax passes over has one only in `checkpoint`."""
        return self.type in _EMPTY or (self.is_skipped and self.value is None)


class Tree(NamedTuple):
    """Leaves by path; whether arrays are zarr 3, and whether chunks of the fill value are stored."""

    leaves: dict[Path, TreeLeaf]
    is_zarr3: bool
    stores_all: bool


def read_tree(files: TreeFiles) -> Tree:
    """Return the tree in a folder.  Raises CorruptCheckpointError."""
    values = _aggregated(files)
    document = read_json(files, METADATA, _LARGEST_JSON)
    if document is None:
        return Tree({path: _leaf_of_value(path, value) for path, value in values.items()}, False, False)
    listed = document.get("tree_metadata")
    if not isinstance(listed, dict):
        raise corrupt(files, METADATA, "no tree_metadata")
    leaves: dict[Path, TreeLeaf] = {}
    for text, entry in listed.items():
        path, leaf = _leaf(files, text, entry)
        if path in leaves:
            raise corrupt(files, METADATA, f"{'/'.join(path)!r:.200} occurs twice")
        value = values.get(path)
        is_elsewhere = value is None or (isinstance(value, str) and value.startswith(PLACEHOLDER))
        leaves[path] = leaf if is_elsewhere else leaf._replace(value=value)
    try:
        KeySizes().add([leaf.name for leaf in leaves.values()])
    except ValueError as error:
        raise corrupt(files, METADATA, str(error)) from error
    return Tree(leaves, document.get("use_zarr3") is True, document.get(_STORES_ALL) is True)


def _leaf(files: TreeFiles, text: str, entry: Any) -> tuple[Path, TreeLeaf]:
    keys = entry.get("key_metadata") if isinstance(entry, dict) else None
    told = entry.get("value_metadata") if isinstance(entry, dict) else None
    is_told = isinstance(keys, list) and keys and len(keys) <= _DEEPEST and isinstance(told, dict)
    if not is_told or not all(
        isinstance(key, dict) and isinstance(key.get("key"), str | int) for key in keys or ()
    ):
        raise corrupt(files, METADATA, f"{text!r:.200}: expected key_metadata and value_metadata")
    assert isinstance(keys, list)
    assert isinstance(told, dict)
    path = tuple(str(key["key"]) for key in keys)
    kind = told.get("value_type")
    if not isinstance(kind, str):
        raise corrupt(files, METADATA, f"{text!r:.200}: expected a value_type")
    positions = frozenset(at for at, key in enumerate(keys) if key.get("key_type") == POSITION)
    return path, TreeLeaf(kind, stored_name(path), None, told.get("skip_deserialize") is True, positions)


def _leaf_of_value(path: Path, value: Any) -> TreeLeaf:
    """Return a leaf that only `checkpoint` describes."""
    if isinstance(value, str) and value.startswith(PLACEHOLDER):
        return TreeLeaf("jax.Array", value.removeprefix(PLACEHOLDER))
    if isinstance(value, str):
        return TreeLeaf("string", stored_name(path), value)
    if isinstance(value, dict | list):
        return TreeLeaf("Dict" if isinstance(value, dict) else "List", stored_name(path))
    return TreeLeaf("None" if value is None else "np.ndarray", stored_name(path), value)


def _aggregated(files: TreeFiles) -> dict[Path, Any]:
    """Return the leaves of `checkpoint`, or none if it is missing."""
    size = files.size(AGGREGATED)
    if not size:
        return {}
    try:
        return leaves_of(lambda offset, count: files.read(AGGREGATED, offset, count), size)
    except MalformedError as error:
        path = files.location(AGGREGATED)
        message = f"msgpack: {error}"
        raise CorruptCheckpointError(message, path=path, offset=error.offset, code="header") from error


def corrupt(files: TreeFiles, name: str, message: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(message, path=files.location(name), code="header")


def read_json(
    files: TreeFiles, name: str, most: int = _LARGEST_EXTRA, unless_without: bytes | None = None
) -> dict[str, Any] | None:
    """Return a JSON file of the tree: None if it is missing, empty if a required word is absent.

    Raises CorruptCheckpointError.
    """
    size = files.size(name)
    if size is None:
        return None
    if size > most:
        raise corrupt(files, name, f"the tree has {size} bytes, but at most {most} are supported")
    data = files.read(name, 0, size)
    if unless_without is not None and unless_without not in data:
        return {}
    try:
        return parse_object(data, spells_bytes=False)
    except ValueError as error:
        raise corrupt(files, name, str(error)) from error


def read_strings(files: TreeFiles) -> dict[str, str]:
    """Return the texts of a tree, by stored name."""
    found = read_json(files, STRINGS) or {}
    if not all(isinstance(text, str) for text in found.values()):
        raise corrupt(files, STRINGS, "a value is not text")
    return found


def read_shardings(files: TreeFiles) -> dict[str, dict[str, Any]]:
    """Return how arrays were distributed over devices, by stored name."""
    found = {}
    for name, text in (read_json(files, SHARDING) or {}).items():
        try:
            stored = base64.b64decode(name, validate=True).decode()
            found[stored] = parse_object(text) if isinstance(text, str) else {}
        except (ValueError, binascii.Error) as error:
            raise corrupt(files, SHARDING, f"{name!r:.80}: {error}") from error
    return found


def read_random_keys(files: TreeFiles, *, whole: bool = False) -> dict[str, str]:
    """Return the implementations of PRNG keys, by stored name; files without any are read if `whole`."""
    found: dict[str, str] = {}
    for number in range(_MOST_PROCESSES):
        name = f"{_ARRAYS}/process_{number}"
        document = read_json(files, name, unless_without=None if whole else b"random_key_impl")
        if document is None:
            break
        for each in document.get("array_metadatas") or ():
            told = each.get("array_metadata") if isinstance(each, dict) else None
            extra = told.get("ext_metadata") if isinstance(told, dict) else None
            if isinstance(extra, dict) and isinstance(told, dict) and "random_key_impl" in extra:
                found[str(told.get("param_name"))] = str(extra["random_key_impl"])
    return found


def read_json_item(path: Location) -> dict[str, Any] | None:
    """Return what a JSON item holds; None where it cannot be read."""
    try:
        with path.open() as file:
            return parse_object(file.read_exactly(0, file.size)) if file.size <= _LARGEST_EXTRA else None
    except ValueError:
        return None


class Shardings(NamedTuple):
    """How arrays were distributed: how many on each mesh, and the partition of each array that has one."""

    meshes: dict[str, int]
    partitions: dict[str, str]


def shardings_of(told: dict[str, dict[str, Any]]) -> Shardings:
    """Return what `_sharding` says in short."""
    meshes: Counter[str] = Counter()
    partitions = {}
    for name, each in told.items():
        axes, sizes = each.get("axis_names"), each.get("shape")
        mesh = str(each.get("sharding_type", "sharding"))
        if isinstance(axes, list) and isinstance(sizes, list) and len(axes) == len(sizes):
            mesh += " " + " x ".join(f"{axis}={size}" for axis, size in zip(axes, sizes, strict=True))
        meshes[mesh] += 1
        if each.get("partition_spec"):
            partitions[name] = json.dumps(each["partition_spec"])
    return Shardings(dict(meshes), partitions)
