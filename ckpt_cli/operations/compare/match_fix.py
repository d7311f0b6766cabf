"""Find likely renames, and a command that makes a restore work, tried on the graphs.

A rename is likely if an unused value and an object without a value have the same dtype and shape, and similar
ends of their paths. A command is proposed if its output, planned as the command itself plans it, would
restore.
"""

from __future__ import annotations

import itertools
import os
import shlex
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import CheckpointError
from formats.find.resolve import spelling
from formats.location import local_location
from formats.model.object_names import is_step

from ..convert.pairing import Strictness, pair, plan_pairs
from ..select.keys import Renamed, Rules, renamed
from .match import graph_of, match_names, match_objects, match_trees
from .renames import pairs_by_ending

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from formats.core.spec import TensorSpec
    from formats.model.reader import FormatReader

    from .match import Match
    from .match_optimizers import Fate


_MOST_SUBSTITUTIONS = 8
"""More than a person wants to read in a command; a map file is better then."""

_SPECIAL = frozenset("\\.^$*+?{}[]|()")


class LikelyRename(NamedTuple):
    """A value that TARGET has under another name: keys, and paths as people and rules see them."""

    target: str
    checkpoint: str
    target_path: str
    checkpoint_path: str


def _path(reader: FormatReader, key: str) -> str:
    return reader.object_paths.get(key) or key


def likely_renames(found: Match, checkpoint: FormatReader, target: FormatReader) -> list[LikelyRename]:
    """Return the variables without a value whose value seems to be there under another name."""
    groups: dict[tuple[str, tuple[int, ...]], tuple[list[str], list[str]]] = {}
    for side, (reader, keys) in enumerate(
        ((checkpoint, found.unused_checkpoint), (target, found.unmatched_target))
    ):
        for key in keys:
            spec = reader.specs.get(key)
            if spec is not None and reader.kinds.get(key) == "variable":
                groups.setdefault((spec.dtype.name, spec.shape), ([], []))[side].append(key)
    renames = []
    for mine, theirs in groups.values():
        of_path = ({_path(checkpoint, k): k for k in mine}, {_path(target, k): k for k in theirs})
        alone = len(mine) == len(theirs) == 1
        endings = tuple(Counter(map(_ending, paths)) for paths in of_path)
        for old, new in pairs_by_ending(list(of_path[0]), list(of_path[1])):
            if alone or _is_likely(old, new, endings):
                renames.append(LikelyRename(of_path[1][new], of_path[0][old], new, old))
    return sorted(renames)


def _ending(path: str) -> str:
    return path.rpartition("/")[2]


def _is_likely(old: str, new: str, endings: tuple[Counter[str], ...]) -> bool:
    """Whether two paths of one shape can be meant: they end alike as no others do.

    `endings` counts the last edges of all that could be meant, on either side.
    """
    ending = _ending(old)
    if ending != _ending(new):
        return False
    if old.split("/")[-2:] == new.split("/")[-2:]:
        return True
    return all(counts[ending] == 1 for counts in endings)


# The command -----------------------------------------------------------------------


_WEIGHTS, _KEEP, _PARTIAL = "--weights-only", "--keep-optimizer", "--partial"


class Remedy(NamedTuple):
    """A command whose output restores into TARGET, and what of TARGET keeps its own values then.

    `carries_state` says whether all slots of CHECKPOINT go with it, `is_whole` whether the output has values
    for all of TARGET, those that it keeps among them.
    """

    command: str
    keeps: tuple[str, ...] = ()
    carries_state: bool = True
    is_whole: bool = True


def fix(
    found: Match,
    renames: list[LikelyRename],
    optimizers: Sequence[Fate],
    checkpoint: FormatReader,
    target: FormatReader,
) -> Remedy | None:
    """Return the command whose output restores most into TARGET, None where none is known or needed.

    None, too, where a variable of CHECKPOINT that has no place could be one of TARGET's that gets no value:
    that is for a person to say.
    """
    if _is_whole(found) and not any(fate.mistaken for fate in optimizers):
        return None
    if checkpoint.format.writer is None:
        return None
    ours, theirs = spelling(checkpoint.location), spelling(target.location)
    output = local_location("fixed") / os.path.basename(found.checkpoint)
    subs = _substitutions(renames)
    rules = [f"^{_regex(old)}(?=/|$)=>{_replacement(new)}" for old, new in subs]
    options = [part for rule in rules for part in ("--sub", rule)]
    changed = _renamed(checkpoint, rules)
    by_path = _restores(changed, checkpoint, target, read=found.read) if changed is not None else None
    rename = ["ckpt", "rename", ours, output, *options]
    if by_path is not None and by_path.existing_matched:
        return _remedy(rename)
    best: _Way | None = None
    is_convertible = not target.format.is_tree and _restores_into_itself(target)
    ways = [(None, []), (changed, options)] if changed is not None else [(None, [])]
    for (names, more), flags in itertools.product(ways, _FLAGS if is_convertible else ()):
        way = _way(checkpoint, target, names, renames, flags)
        if way is not None and (best is None or way.carried > best.carried):
            best = way._replace(options=[*more, *flags])
    carried = _restored(found, optimizers, checkpoint)
    if best is not None:
        carried = max(carried, best.carried)
    slots = _count(checkpoint, checkpoint.kinds, "slot")
    if by_path is not None and takes_all(by_path, checkpoint, target):
        by_rename = _restored(by_path, optimizers, checkpoint)
        if by_rename > carried:
            keeps = tuple(key for key in by_path.unmatched_target if _is_value(target, key))
            return _remedy(rename, keeps, carries_state=by_rename[1] == slots, is_whole=False)
    if best is None or best.carried < carried:
        return None
    words = ["ckpt", "convert", ours, output, "--like", theirs, *best.options]
    return _remedy(words, best.keeps, carries_state=best.carried[1] == slots)


_FLAGS = ((), (_WEIGHTS,), (_KEEP,), (_PARTIAL,), (_KEEP, _PARTIAL))
"""Options of `convert --like`; of several by which as much is restored, the first are proposed."""


class _Way(NamedTuple):
    """Options of `convert --like`, how many variables and slots they carry, and what TARGET keeps."""

    options: Sequence[str]
    carried: tuple[int, int]
    keeps: tuple[str, ...]


def _way(
    checkpoint: FormatReader,
    target: FormatReader,
    names: Renamed | None,
    renames: Sequence[LikelyRename],
    flags: Sequence[str],
) -> _Way | None:
    """Return what `convert --like TARGET` would carry, None if it fails or leaves a doubt.

    It pairs by full names first. If paths disagree, full names may count layers that were numbered
    differently.
    """
    strictness = Strictness(partial=_PARTIAL in flags, keep_optimizer=_KEEP in flags)
    keys = [k for k in _values(checkpoint) if _WEIGHTS not in flags or checkpoint.kinds.get(k) == "variable"]
    try:
        pairing = pair(checkpoint, keys, target, strictness, names)
        plan_pairs(checkpoint, keys, target, target.location.path, strictness, pairing)
    except CheckpointError:
        return None
    rows = pairing.rows()
    used = set(rows.values())
    carried = _count(checkpoint, used, "variable"), _count(checkpoint, used, "slot")
    given = rows.keys() | pairing.optimizers.origins.keys()
    keeps = tuple(key for key in target.specs if key not in given and _is_value(target, key))
    is_another = any(rows.get(each.target, each.checkpoint) != each.checkpoint for each in renames)
    left = _sorts(checkpoint, [key for key in keys if key not in used])
    if not carried[0] or is_another or not left.isdisjoint(_sorts(target, keeps)):
        return None
    return _Way(flags, carried, keeps)


def _restored(found: Match, optimizers: Sequence[Fate], checkpoint: FormatReader) -> tuple[int, int]:
    """Return how many variables and slots a restore gives what is theirs."""
    if found.shape_mismatch or found.dtype_mismatch or found.failures:
        return 0, 0
    keys = [pair.checkpoint for pair in found.restored]
    useless = sum(fate.lost + fate.mistaken for fate in optimizers)
    slots = _count(checkpoint, checkpoint.kinds if useless else keys, "slot") - useless
    return _count(checkpoint, keys, "variable"), slots


def takes_all(found: Match, checkpoint: FormatReader, target: FormatReader) -> bool:
    """Whether CHECKPOINT has no variable left that could be one that TARGET lacks."""
    if found.shape_mismatch or found.dtype_mismatch or found.failures:
        return False
    left = _sorts(checkpoint, found.unused_checkpoint)
    return left.isdisjoint(_sorts(target, found.unmatched_target))


def _is_value(reader: FormatReader, key: str) -> bool:
    kind = reader.kinds.get(key)
    return kind in ("variable", "slot") or is_step(key, reader.specs[key], kind)


def _sorts(reader: FormatReader, keys: Iterable[str]) -> set[tuple[str, tuple[int, ...]]]:
    """Return dtypes and shapes of the variables among keys: what two have in common that could be one."""
    specs = [reader.specs[key] for key in keys if reader.kinds.get(key) == "variable"]
    return {(spec.dtype.name, spec.shape) for spec in specs}


def _count(reader: FormatReader, keys: Iterable[str], kind: str) -> int:
    return sum(reader.kinds.get(key) == kind for key in keys)


def _remedy(
    words: list[str], keeps: tuple[str, ...] = (), *, carries_state: bool = True, is_whole: bool = True
) -> Remedy | None:
    """Return a command line as a remedy; None if it could not be copied from a screen."""
    line = shlex.join(words)
    return Remedy(line, keeps, carries_state, is_whole) if line.isprintable() else None


def _substitutions(renames: list[LikelyRename]) -> list[tuple[str, str]]:
    """Return (old, new) beginnings of paths that explain the renames: what is left without common endings."""
    subs: dict[str, str] = {}
    for rename in renames:
        old, new = rename.checkpoint_path.split("/"), rename.target_path.split("/")
        while len(old) > 1 and len(new) > 1 and old[-1] == new[-1]:
            old.pop()
            new.pop()
        beginning = "/".join(old)
        if subs.setdefault(beginning, "/".join(new)) != "/".join(new):
            return []
    return list(subs.items()) if len(subs) <= _MOST_SUBSTITUTIONS else []


def _regex(text: str) -> str:
    """Return a regular expression for literal text, readable where it can be."""
    return "".join(f"\\{c}" if c in "[]\\^" else f"[{c}]" if c in _SPECIAL else c for c in text)


def _replacement(text: str) -> str:
    return text.replace("\\", "\\\\")


def _renamed(checkpoint: FormatReader, subs: list[str]) -> Renamed | None:
    if not subs:
        return None
    try:
        return renamed(checkpoint, Rules.make(subs))
    except (CheckpointError, ValueError):  # the rules collide, or ask for what a graph cannot be
        return None


def _restores(names: Renamed, checkpoint: FormatReader, target: FormatReader, *, read: bool) -> Match | None:
    """Return what restoring a checkpoint of other names would do, in its own keys of before."""
    specs: dict[str, TensorSpec] = {
        new: checkpoint.specs[old]._replace(key=new) for old, new in names.keys.items()
    }
    if target.format.is_tree:
        found = match_trees(checkpoint, specs, target)
    elif target.object_graph is None:
        found = match_names(checkpoint, specs, target)
    elif names.object_graph is not None:
        into = graph_of(target, "TARGET")
        found = match_objects(checkpoint, names.object_graph, specs, into, target, read=read)
    else:
        return None
    old = {new: key for key, new in names.keys.items()}
    restored = [pair._replace(checkpoint=old[pair.checkpoint]) for pair in found.restored]
    return found._replace(restored=restored, unused_checkpoint=[old[key] for key in found.unused_checkpoint])


def _values(reader: FormatReader) -> list[str]:
    return [key for key in reader.specs if reader.kinds.get(key) != "graph"]


def _restores_into_itself(target: FormatReader) -> bool:
    """Whether TARGET's graph restores into itself, as all do that no two objects claim."""
    specs = {key: target.specs[key] for key in _values(target)}
    if target.object_graph is None:
        return match_names(target, specs, target).existing_matched
    graph = graph_of(target, "TARGET")
    return _is_whole(match_objects(target, graph, specs, graph, target))


def _is_whole(found: Match) -> bool:
    """Whether a restore gives every object its value, except a save counter that was not saved."""
    return found.existing_matched or found.lacks_only_counter
