"""The objects that an export's keys were made of: paths, slots, attributes and the save counter."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...model.object_keys import ATTRIBUTES, TABLE, TABLE_SUFFIXES, VARIABLE_VALUE, unescape
from ...model.object_names import ObjectName, has_only_escapes, is_save_counter, object_name, plain_key
from .growing import GrowingNode, name_edges, node_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...core.spec import TensorSpec


_TABLE_ATTRIBUTES = tuple(TABLE + suffix for suffix in TABLE_SUFFIXES)


class Exported(NamedTuple):
    """A graph that has grown from an export: for each of its keys the node and the attribute."""

    root: GrowingNode
    nodes: dict[str, tuple[GrowingNode, str]]
    counter: GrowingNode | None

    def keys(self) -> dict[str, str]:
        """Return the key in an object-based checkpoint by that in the export."""
        return {
            name: f"{node.path}/{ATTRIBUTES}/{attribute}" for name, (node, attribute) in self.nodes.items()
        }


def grow_exported(specs: Mapping[str, TensorSpec]) -> Exported:
    """Return the nodes for these keys, each once."""
    names = {key: object_name(key) for key in specs}
    split = _Splitter(names.values())
    root = GrowingNode()
    nodes: dict[str, tuple[GrowingNode, str]] = {}
    counter = None
    for key, name in names.items():
        node = node_at(root, split(name.path))
        if name.slot:
            node_at(root, split(name.optimizer))
        else:
            nodes[key] = node, name.attribute
            _take_attribute(node, name.attribute, plain_key(key))
        if is_save_counter(key, specs[key]):
            counter = node
    # Slots come last: their nodes are none of the tree, and are called by those that are.
    slots = [(key, name, node_at(root, split(name.path))) for key, name in names.items() if name.slot]
    optimizers = {name.optimizer: node_at(root, split(name.optimizer)) for _, name, _ in slots}
    name_edges(root, counter, hidden=True)
    for key, name, variable in slots:
        slot = split.whole(name.slot)
        nodes[key] = optimizers[name.optimizer].add_slot(slot, variable, plain_key(key)), name.attribute
    return Exported(root, nodes, counter)


def _take_attribute(node: GrowingNode, attribute: str, full_name: str) -> None:
    if attribute == VARIABLE_VALUE:
        node.full_name = full_name
        return
    # A hash table is one attribute that produces two tensors.
    held = TABLE if attribute in _TABLE_ATTRIBUTES else attribute
    if held not in node.attributes:
        node.attributes = (*node.attributes, held)


class _Splitter:
    """Takes paths apart, and TensorFlow's escapes away where all paths of a file have none but such dots."""

    def __init__(self, names: Iterable[ObjectName]) -> None:
        self._escaped = has_only_escapes(names)

    def whole(self, part: str) -> str:
        return unescape(part) if self._escaped else part

    def __call__(self, path: str) -> list[str]:
        return [self.whole(part) for part in path.split("/")]
