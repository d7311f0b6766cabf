"""The metadata of a tree: everything but its chunks, for Orbax of today and before 0.5.

    _METADATA       the tree, for Orbax from 0.5 on       see `formats.orbax.tree`
    checkpoint      msgpack: the same tree, for the Orbax before it
    _strings.json   texts, by stored name
    array_metadatas/process_0
                    how typed PRNG keys are made

Tensors are of the type `np.ndarray`, which needs no devices to be restored.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.spec import TensorSpec
from ..errors import ConversionError
from ..model.orbax_files import AGGREGATED, COMMITTED, TREE
from ..model.writer import ANOTHER_KEY
from ..wire.msgpack_encoding import NONE, encode_list, encode_map, encode_text
from .facts import SCALAR
from .flax_tree import PLACEHOLDER
from .names import key_of, stored_name
from .tree import NAME, POSITION, STRINGS
from .writing import NoValue, Text, nested

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..location import Location
    from .facts import TreeFacts
    from .names import Path
    from .writing import Leaf

_LONGEST_NAME = 255
"""Bytes of a file's name on most systems."""

_FLAGS = {"use_ocdbt": False, "use_zarr3": False, "store_array_data_equal_to_fill_value": True}


class PlannedTree(NamedTuple):
    """A tree to be written: its folder in the checkpoint, its leaves, and how many parts lead their paths."""

    folder: str
    leaves: Mapping[Path, Leaf]
    leading: int = 0

    def own(self, path: Path) -> Path:
        """Return a path within this tree."""
        return path[self.leading :]

    def names(self, about: Location) -> dict[str, str]:
        """Return by key the folder of each tensor.  Raises ConversionError for what can have none."""
        names: dict[str, str] = {}
        taken: dict[str, Path] = {}
        for path, leaf in self.leaves.items():
            if isinstance(leaf, NoValue):
                continue
            name = stored_name(self.own(path))
            other = taken.setdefault(name, path)
            if other != path:
                message = f"Orbax would store it under the same name as {key_of(other)!r}: {name!r}"
                raise ConversionError(message, path=about, key=key_of(path), hints=ANOTHER_KEY)
            if isinstance(leaf, TensorSpec):
                _check_name(name, about, leaf.key)
                names[leaf.key] = name
        return names


_RESERVED = frozenset((TREE, AGGREGATED, STRINGS, COMMITTED, "_sharding", "array_metadatas", "d", ".", ".."))


def _check_name(name: str, about: Location, key: str) -> None:
    is_odd = "/" in name or "\0" in name or "\\" in name or name in _RESERVED
    if is_odd or name.startswith(("manifest.", "ocdbt.process_")) or len(name.encode()) > _LONGEST_NAME:
        message = f"Orbax would store it in the folder {name!r:.100}, which is not a valid name for that"
        raise ConversionError(message, path=about, key=key, hints=ANOTHER_KEY)


def documents(tree: PlannedTree, names: Mapping[str, str], facts: TreeFacts) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the files that describe a tree."""
    types = _container_types(tree, facts)
    yield (
        TREE,
        _json({"tree_metadata": dict(_entries(tree, facts, types)), **_FLAGS, "custom_metadata": None}),
    )
    yield AGGREGATED, _aggregated(nested(_own_leaves(tree)), (), types)
    texts = {
        stored_name(tree.own(path)): leaf.text for path, leaf in tree.leaves.items() if isinstance(leaf, Text)
    }
    if texts:
        yield STRINGS, _json(texts)
    random = {key: each for key, each in facts.random.items() if key in names}
    if random:
        yield "array_metadatas/process_0", _json({"array_metadatas": [*_random(tree, names, random)]})
    yield COMMITTED, b""


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def _own_leaves(tree: PlannedTree) -> dict[Path, Leaf]:
    return {tree.own(path): leaf for path, leaf in tree.leaves.items()}


def _container_types(tree: PlannedTree, facts: TreeFacts) -> dict[Path, int]:
    """Return of each container whether its parts are positions: all of them are, and none is missing."""
    parts: dict[Path, dict[str, bool]] = {}
    for path in tree.leaves:
        found = facts.positions.get(key_of(path), frozenset())
        for at in range(tree.leading, len(path)):
            is_position = at in found
            seen = parts.setdefault(path[tree.leading : at], {})
            seen[path[at]] = seen.get(path[at], True) and is_position
    return {
        container: POSITION
        if all(children.values()) and set(children) == {str(at) for at in range(len(children))}
        else NAME
        for container, children in parts.items()
    }


def _entries(
    tree: PlannedTree, facts: TreeFacts, types: Mapping[Path, int]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, leaf in _own_leaves(tree).items():
        keys = [{"key": part, "key_type": types[path[:at]]} for at, part in enumerate(path)]
        value: dict[str, Any] = {
            "value_type": _type(leaf, facts),
            "skip_deserialize": isinstance(leaf, NoValue),
        }
        yield repr(path), {"key_metadata": keys, "value_metadata": value}


def _type(leaf: Leaf, facts: TreeFacts) -> str:
    if isinstance(leaf, NoValue):
        return leaf.type
    if isinstance(leaf, Text):
        return "string"
    if leaf.key in facts.random:
        return "jax.Array"
    return SCALAR if facts.types.get(leaf.key) == SCALAR and not leaf.shape else "np.ndarray"


def _aggregated(value: Any, path: Path, types: Mapping[Path, int]) -> bytes:
    """Return a tree in msgpack, with the name of each leaf in its place."""
    if isinstance(value, NoValue):
        return NONE if value.type == "None" else encode_list(0) if value.type in _LISTS else encode_map(0)
    if not isinstance(value, dict):
        return encode_text(PLACEHOLDER + stored_name(path))
    parts = {part: _aggregated(each, (*path, part), types) for part, each in value.items()}
    if types.get(path) == POSITION:
        return encode_list(len(parts)) + b"".join(parts[str(at)] for at in range(len(parts)))
    return encode_map(len(parts)) + b"".join(encode_text(part) + data for part, data in parts.items())


_LISTS = ("List", "Tuple")


def _random(
    tree: PlannedTree, names: Mapping[str, str], random: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    for leaf in tree.leaves.values():
        if isinstance(leaf, TensorSpec) and leaf.key in random:
            shape = list(leaf.shape)
            extra = {"random_key_impl": random[leaf.key]}
            told = {"param_name": names[leaf.key], "write_shape": shape, "chunk_shape": shape}
            yield {"array_metadata": {**told, "ext_metadata": extra}}
