"""Changing keys: rules that give tensors other names, and what the keys of a checkpoint are then.

Rules apply in this order, each to what the one before made of a name: the map, the
prefix to strip, the substitutions, the prefix to add.  In object-based checkpoints a
name is an object's path (of a slot `<variable> (<slot> of <optimizer>)`), and its keys
follow; elsewhere it is a key.  A slot that no rule changed itself follows its variable.
A rule that matches no path at all is tried on the keys, which are spelled otherwise.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from formats.core.spec import is_utf8
from formats.errors import (
    ConversionError,
    DuplicateKeyError,
)
from formats.model.name_kinds import NamedSlot, named_slots
from formats.model.object_keys import ATTRIBUTES, GRAPH_KEY, OPTIMIZER_SLOT, hides_attributes, unescape
from formats.tf.graph.edit import edit_graph
from formats.tf.graph.plan import escaped_paths, in_words, spell

from .name_map import NO_NAMES, names_of
from .selection import NothingSelectedError, close_keys, prove_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import FormatReader

    from .name_map import NameMap


_SLOT_PATH = re.compile(r"(?P<variable>.*) \((?P<name>.*) of (?P<optimizer>.*)\)", re.DOTALL)
_TAIL = f"/{ATTRIBUTES}/"

Step = tuple[str, "Callable[[str], str | None]"]
"""The name of a rule, and the rule: it returns a name's new name, or None if it does not apply."""


class Rules(NamedTuple):
    """How names change; without any, they stay."""

    subs: tuple[tuple[str, str], ...] = ()
    strip: str | None = None
    add: str | None = None
    names: NameMap = NO_NAMES

    @classmethod
    def make(
        cls,
        subs: Iterable[str] = (),
        strip: str | None = None,
        add: str | None = None,
        names: Mapping[str, str] = NO_NAMES,
    ) -> Rules:
        """Return the rules that options spell; ValueError for a malformed expression."""
        pairs = []
        for sub in subs:
            regex, arrow, replacement = sub.partition("=>")
            if not arrow:
                raise ValueError(f"--sub {sub!r}: expected the form REGEX=>REPLACEMENT")
            try:
                re.compile(regex).sub(replacement, "")
            except (re.error, IndexError) as error:
                raise ValueError(f"--sub {sub!r} is not a valid rule: {error}") from error
            pairs.append((regex, replacement))
        return cls(tuple(pairs), strip or None, add or None, names_of(names))

    def __bool__(self) -> bool:
        return bool(self.subs or self.strip or self.add or self.names.rows)

    def steps(self) -> list[Step]:
        """Return the rules in the order in which they apply."""
        steps: list[Step] = []
        if self.names:
            steps.append(("--map", self.names.get))
        if self.strip is not None:
            steps.append((f"--strip-prefix {self.strip!r}", _stripper(self.strip)))
        steps += [(f"--sub {f'{regex}=>{new}'!r}", _substituter(regex, new)) for regex, new in self.subs]
        if self.add is not None:
            prefix = self.add
            steps.append((f"--add-prefix {prefix!r}", lambda name: prefix + name))
        return steps


def _stripper(prefix: str) -> Callable[[str], str | None]:
    def strip(name: str) -> str | None:
        if not name.startswith(prefix) or name == prefix:
            return None
        # `bert` as well as `bert/` strips that component, because names must not begin with a slash.
        return name[len(prefix) :].removeprefix("" if prefix.endswith("/") else "/")

    return strip


def _substituter(regex: str, replacement: str) -> Callable[[str], str | None]:
    pattern = re.compile(regex)

    def substitute(name: str) -> str | None:
        new, count = pattern.subn(replacement, name)
        return new if count else None

    return substitute


class Renamed:
    """A checkpoint's keys under rules: `keys` gives every key its new one, in the order of the file.

    `object_graph` is that of an object-based checkpoint with the new paths and keys.
    """

    def __init__(self, reader: FormatReader, keys: dict[str, str], graph: ObjectGraph | None) -> None:
        self._reader = reader
        self.keys = keys
        self.object_graph = graph
        self.notes: list[str] = []
        self.mapped: frozenset[str] = frozenset()
        """The old keys that a map mentions."""

    @property
    def changed(self) -> dict[str, str]:
        """The keys that change, old to new."""
        return {old: new for old, new in self.keys.items() if old != new}

    @cached_property
    def _owners(self) -> Mapping[str, tuple[int, str, str]]:
        return self.object_graph.tensors(dict.fromkeys(self.keys.values())) if self.object_graph else {}

    @cached_property
    def object_paths(self) -> Mapping[str, str]:
        """Object path by new key, for the keys that have one."""
        paths = self.object_graph.paths if self.object_graph else {}
        return {key: paths[node] for key, (node, _, _) in self._owners.items() if node in paths}

    @cached_property
    def full_names(self) -> Mapping[str, str]:
        """Full name by new key, for the keys that have one."""
        if self.object_graph is not None:
            return {key: full_name for key, (_, _, full_name) in self._owners.items() if full_name}
        given = self._reader.full_names
        # In a name-based checkpoint the key is the full name.
        return {
            new: new if given[old] == old else given[old] for old, new in self.keys.items() if old in given
        }


def renamed(reader: FormatReader, rules: Rules, *, full_names: bool = False) -> Renamed:
    """Return a checkpoint's keys under rules.

    With `full_names`, rules apply to the full names of an object graph, too.  Raises
    NothingSelectedError for a rule that matches nothing, DuplicateKeyError where two
    tensors end on one key, ConversionError for what an object graph cannot be.
    """
    try:
        if reader.format.has_object_graph:
            out = _in_graph(reader, rules, full_names=full_names)
        else:
            out = _by_key(reader, rules)
    except ConversionError as error:
        error.path = error.path or reader.location.path
        raise
    if rules.names:
        paths, names = reader.object_paths, rules.names
        out.mapped = frozenset(
            old for old, new in out.keys.items() if new != old or old in names or paths.get(old) in names
        )
    return out


class _Applied:
    """Rules applied to names, which are counted by rule."""

    def __init__(self, rules: Rules) -> None:
        self._steps = rules.steps()
        self._names = rules.names
        self._matched = [0] * len(self._steps)
        self._mapped: set[str] = set()

    def __call__(self, name: str) -> str:
        found = self._names.find(name)
        if found is not None:
            self._mapped.add(self._names.rows[found[0]].old.text)
        for number, (_, step) in enumerate(self._steps):
            new = step(name)
            if new is not None:
                self._matched[number] += 1
                name = new
        return name

    @property
    def nothing(self) -> bool:
        return not any(self._matched)

    def check(self, reader: FormatReader, what: str) -> list[str]:
        """Return notes on unused lines of a map; NothingSelectedError for a rule that matched nothing."""
        for (title, _), count in zip(self._steps, self._matched, strict=True):
            if not count:
                sample = (
                    next(iter(self._names), "") if title == "--map" else title.partition(" ")[2].strip("'")
                )
                hints = close_keys(reader, sample.partition("=>")[0], globs=False)
                message = f"{title} matches no {what}"
                raise NothingSelectedError(message, path=reader.location.path, hints=hints)
        unused = [name for name in self._names if name not in self._mapped]
        if not unused or self._names.is_both_ways:
            return []
        return [
            (f"{len(unused)} of {len(self._names)} lines of the map match no tensor, such as {unused[0]!r}")
        ]


# Keys alone -----------------------------------------------------------------------


def _by_key(reader: FormatReader, rules: Rules) -> Renamed:
    applied = _Applied(rules)
    keys = {key: applied(key) for key in reader.specs}
    notes = applied.check(reader, "key")
    for key, slot in _slots(reader).items():
        if keys[key] == key and keys[slot.variable] != slot.variable:
            keys[key] = slot.prefix + keys[slot.variable] + slot.suffix
    owners: dict[str, str] = {}
    for old, new in keys.items():
        if not new and old:
            raise ConversionError("the new key of this tensor would be empty", key=old)
        _check_utf8(old, new)
        if new == GRAPH_KEY != old:
            raise ConversionError("the new key of this tensor is reserved for the object graph", key=old)
        if owners.setdefault(new, old) != old:
            raise DuplicateKeyError(f"{owners[new]!r} and {old!r} would both become this key", key=new)
    out = Renamed(reader, keys, None)
    out.notes = notes
    return out


def _check_utf8(old: str, new: str) -> None:
    """Reject a rule that makes a name invalid: no program looks for one that is not UTF-8."""
    if is_utf8(old) and not is_utf8(new):
        raise ConversionError(f"this tensor cannot become {new!r}, because that is not UTF-8", key=old)


def _check_edges(old: str, new: str) -> None:
    """Refuse a rule that gives an edge a name below which TensorFlow restores nothing."""
    if not hides_attributes(new) and f"{ATTRIBUTES}/" not in new:
        return
    hiding = [edge for edge in new.split("/") if hides_attributes(edge)]
    if hiding and not any(map(hides_attributes, old.split("/"))):
        message = (
            f"this tensor cannot become {new!r}: TensorFlow restores nothing below an edge {hiding[0]!r}"
        )
        raise ConversionError(message, key=old)


def _slots(reader: FormatReader) -> dict[str, NamedSlot]:
    """Return the slots by key, with what surrounds their variable's key in theirs."""
    slots = named_slots(reader.specs)
    if reader.format.is_by_name:  # its kinds have no other slots
        return slots
    for key, kind in reader.kinds.items():
        if kind != "slot" or key in slots:
            continue
        # optimizer_weights/Adam/m/dense/kernel: the variable's key comes last.
        at = key.find("/")
        while at >= 0:
            spec = reader.specs.get(key[at + 1 :])
            if spec is not None and spec.shape == reader.specs[key].shape:
                slots[key] = NamedSlot(spec.key, key[: at + 1], "")
                break
            at = key.find("/", at + 1)
    return slots


# Objects --------------------------------------------------------------------------


def path_of(key: str) -> str:
    """Return the path that a key of an object-based checkpoint is spelled after; a path as it is."""
    stem, tail, _ = key.rpartition(_TAIL)
    if not tail:
        return key
    variable, slot, below = stem.partition(f"/{OPTIMIZER_SLOT}/")
    if not slot:
        return in_words(stem)
    optimizer, _, name = below.rpartition("/")
    return f"{in_words(variable)} ({unescape(name)} of {in_words(optimizer)})"


def _attribute_of(key: str) -> str:
    return key.rpartition(_TAIL)[2] if _TAIL in key else ""


def object_graph_of(reader: FormatReader) -> ObjectGraph | None:
    """Return the object graph; None if the format has none.

    Raises CorruptCheckpointError if it is damaged, InaccessibleError if its file may not be read.
    """
    prove_graph(reader)
    return reader.object_graph


def _in_graph(reader: FormatReader, rules: Rules, *, full_names: bool) -> Renamed:
    graph = object_graph_of(reader)
    assert graph is not None
    owners = graph.tensors(reader.specs) if rules.names else {}
    paths = {node: path for node, path in graph.paths.items() if path}
    applied = _Applied(rules._replace(names=_by_path(rules.names, owners, paths)))
    new_paths = {node: applied(path) for node, path in paths.items()}
    if applied.nothing:
        applied = _Applied(rules)
        for key, (node, _, _) in graph.tensors(reader.specs).items():
            new = applied(key)
            if new != key and node in paths:
                _same_attribute(key, new)
                new_paths[node] = path_of(new)
    notes = applied.check(reader, "object path or key")
    moves, slot_names = _moves(graph, paths, new_paths)
    del paths, new_paths
    names = _full_names(graph, rules) if full_names else {}
    edited = edit_graph(graph, reader.specs, moves, slot_names=slot_names, full_names=names)
    out = Renamed(reader, edited.keys, edited.graph)
    out.notes = notes
    return out


def _moves(
    graph: ObjectGraph, paths: Mapping[int, str], new_paths: Mapping[int, str]
) -> tuple[dict[int, str], dict[int, str]]:
    """Return the new paths of the nodes that change, as keys spell them, and the new names of slots."""
    for node, new_path in new_paths.items():
        _check_utf8(paths[node], new_path)
        _check_edges(paths[node], new_path)
    escaped = escaped_paths(graph)
    moves = {
        node: spell(new_paths[node], escaped[node])
        for node, path in paths.items()
        if node in escaped and new_paths[node] != path
    }
    return moves, _slot_names(graph, escaped, paths, new_paths)


def _by_path(names: NameMap, owners: Mapping[str, tuple[int, str, str]], paths: Mapping[int, str]) -> NameMap:
    """Return a map in which keys are replaced by the paths of their objects."""

    def spell(old: str, new: str) -> tuple[str, str]:
        if old not in owners or owners[old][0] not in paths:
            return old, new
        _same_attribute(old, new)
        return paths[owners[old][0]], path_of(new)

    return names.respelled(spell)


def _same_attribute(old: str, new: str) -> None:
    if _attribute_of(new) and _attribute_of(new) != _attribute_of(old):
        message = (
            f"this tensor cannot become {new!r}: the part after {_TAIL!r} belongs to the program's object"
        )
        raise ConversionError(message, key=old)


def _slot_names(
    graph: ObjectGraph, escaped: Mapping[int, str], paths: Mapping[int, str], new_paths: Mapping[int, str]
) -> dict[int, str]:
    """Return the slot variables that rules give another slot name.

    A slot is its variable's and its optimizer's: nothing else about it can be changed.
    """
    names = {}
    for slot in graph.slots:
        old, new = paths.get(slot.node), new_paths.get(slot.node)
        if slot.node in escaped or old is None or new is None or new == old:
            continue
        around = {node: {paths.get(node), new_paths.get(node)} for node in (slot.variable, slot.optimizer)}
        match = _SLOT_PATH.fullmatch(new)
        fits = (
            match is not None
            and match["variable"] in around[slot.variable]
            and match["optimizer"] in around[slot.optimizer]
        )
        if match is not None and fits:
            if not match["name"]:
                raise ConversionError(f"{old!r} cannot become {new!r}: a slot needs a name")
            if match["name"] != slot.name:
                names[slot.node] = match["name"]
        elif not any(len(both) > 1 for both in around.values()):
            message = f"{old!r} cannot become {new!r}: a slot variable follows its variable"
            raise ConversionError(message, hints=("rename the variable; its slots are renamed with it",))
    return names


def _full_names(graph: ObjectGraph, rules: Rules) -> dict[str, str]:
    """Return new full names; those of slots that no rule changed follow their variables'."""
    applied = _Applied(rules)
    of_nodes = {
        number: [attribute.full_name for attribute in node.attributes if attribute.full_name]
        for number, node in enumerate(graph.nodes)
    }
    names = {name: applied(name) for found in of_nodes.values() for name in found}
    for slot in graph.slots:
        for variable in of_nodes[slot.variable]:
            for name in of_nodes[slot.node]:
                # Adam/dense/kernel/m: the variable's name is between slashes in it.
                within = f"/{name}/".find(f"/{variable}/")
                if names[name] == name and names[variable] != variable and within >= 0:
                    names[name] = name[:within] + names[variable] + name[within + len(variable) :]
    for name, new in names.items():
        _check_utf8(name, new)
    return names
