"""What would make a restore work: likely renames, and a command that was tried out on the graphs.

A rename is likely where a value that nobody takes and an object without a value have one
dtype and shape, and paths that end alike.  A command is proposed when what it would write,
planned as the command itself plans it, is found to restore.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import CheckpointError

from ..choose.keys import Renamed, Rules, renamed
from ..move.pairing import Strictness, pair, plan_pairs
from .match import COUNTER_KEY, graph_of, match_names, match_objects
from .renames import pairs_by_ending

if TYPE_CHECKING:
    from formats.core.spec import TensorSpec
    from formats.model.reader import CheckpointReader

    from ..move.pairing import Pairing
    from .match import Match


_MOST_SUBSTITUTIONS = 8
"""More than a person wants to read in a command; a map file is better then."""

_SPECIAL = frozenset("\\.^$*+?{}[]|()")


class Rename(NamedTuple):
    """A value that TARGET has under another name: keys, and paths as people and rules see them."""

    target: str
    checkpoint: str
    target_path: str
    checkpoint_path: str


def _path(reader: CheckpointReader, key: str) -> str:
    return reader.object_paths.get(key) or key


def likely_renames(found: Match, checkpoint: CheckpointReader, target: CheckpointReader) -> list[Rename]:
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
                renames.append(Rename(of_path[1][new], of_path[0][old], new, old))
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


def fix(
    found: Match, renames: list[Rename], checkpoint: CheckpointReader, target: CheckpointReader
) -> str | None:
    """Return a command whose output restores into TARGET as a whole, None where none is known."""
    if _is_whole(found):
        return None
    ours, theirs = found.checkpoint, found.target
    output = os.path.join("fixed", os.path.basename(ours))
    subs = _substitutions(renames)
    rules = [f"^{_regex(old)}(?=/|$)=>{_replacement(new)}" for old, new in subs]
    options = [part for rule in rules for part in ("--sub", rule)]
    changed = _renamed(checkpoint, rules)
    if changed is not None and _restores(changed, checkpoint, target):
        return _command(["ckpt", "rename", ours, output, *options])
    if not _restores_into_itself(target):
        return None
    ways = [(changed, options), (None, [])] if changed is not None else [(None, [])]
    values = _values(checkpoint)
    weights = [key for key in values if checkpoint.kinds.get(key) == "variable"]
    for keys, flag in ((values, None), (weights, "--weights-only"), (values, "--keep-optimizer")):
        strictness = Strictness(keep_optimizer=flag == "--keep-optimizer")
        for names, more in ways:
            pairs = _pairs(checkpoint, keys, target, strictness, names)
            if pairs is not None and _converts(checkpoint, keys, target, strictness, pairs):
                flags = [flag] if flag else []
                return _command(["ckpt", "convert", ours, output, "--like", theirs, *more, *flags])
    return None


def _command(words: list[str]) -> str | None:
    """Return a command line; None where it could not be copied from a screen."""
    line = shlex.join(words)
    return line if line.isprintable() else None


def _substitutions(renames: list[Rename]) -> list[tuple[str, str]]:
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


def _renamed(checkpoint: CheckpointReader, subs: list[str]) -> Renamed | None:
    if not subs:
        return None
    try:
        return renamed(checkpoint, Rules.make(subs))
    except (CheckpointError, ValueError):  # the rules collide, or ask for what a graph cannot be
        return None


def _restores(names: Renamed, checkpoint: CheckpointReader, target: CheckpointReader) -> bool:
    specs: dict[str, TensorSpec] = {
        new: checkpoint.specs[old]._replace(key=new) for old, new in names.keys.items()
    }
    if target.object_graph is None:
        return match_names(checkpoint, specs, target).existing_matched
    if names.object_graph is None:
        return False
    into = graph_of(target, "TARGET")
    return match_objects(checkpoint, names.object_graph, specs, into, target).existing_matched


def _values(reader: CheckpointReader) -> list[str]:
    return [key for key in reader.specs if reader.kinds.get(key) != "graph"]


def _pairs(
    checkpoint: CheckpointReader,
    keys: list[str],
    target: CheckpointReader,
    rules: Strictness,
    names: Renamed | None,
) -> Pairing | None:
    """Return the pairing of `convert --like TARGET`, None where a weight of TARGET gets no value.

    None, too, where an optimizer of TARGET's cannot go on from CHECKPOINT's, and is not to be kept.
    """
    try:
        pairing = pair(checkpoint, keys, target, rules, names)
    except CheckpointError:
        return None
    if any(kind == "variable" and key not in pairing.pairs for key, kind in target.kinds.items()):
        return None
    return pairing


def _converts(
    checkpoint: CheckpointReader,
    keys: list[str],
    target: CheckpointReader,
    rules: Strictness,
    pairs: Pairing,
) -> bool:
    """Whether `convert --like TARGET` can be done."""
    try:
        plan_pairs(checkpoint, keys, target, "", rules, pairs)
    except CheckpointError:
        return False
    return True


def _restores_into_itself(target: CheckpointReader) -> bool:
    """Whether TARGET's graph restores into itself, as all do that no two objects claim."""
    specs = {key: target.specs[key] for key in _values(target)}
    if target.object_graph is None:
        return match_names(target, specs, target).existing_matched
    graph = graph_of(target, "TARGET")
    return _is_whole(match_objects(target, graph, specs, graph, target))


def _is_whole(found: Match) -> bool:
    """Whether a restore gives every object its value, but for a save counter where none was saved."""
    if found.shape_mismatch or found.dtype_mismatch or found.failures:
        return False
    return found.existing_matched or found.unmatched_target == [COUNTER_KEY]
