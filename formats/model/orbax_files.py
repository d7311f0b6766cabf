"""Recognise folders that are Orbax checkpoints, by the names in them.

_METADATA               a tree: the checkpoint itself
checkpoint              msgpack: a tree of Orbax before 0.5; values of it where both are there
_CHECKPOINT_METADATA    a step; each folder in it is an item: a tree, or JSON in `metadata` or `metrics`
3, ckpt_000003          a step of a CheckpointManager, by name; Orbax 0.4 writes no _CHECKPOINT_METADATA
NAME.orbax-checkpoint-tmp, NAME.orbax-checkpoint-tmp-NANOSECONDS
                        a step that is being written, or whose save was interrupted
commit_success.txt      completes a step in a bucket, where files cannot be renamed
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..errors import CheckpointError
from ..store.base import FOLDER, LINK
from .checkpoint_files import CheckpointLocation, step_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..location import Location

TREE, AGGREGATED, STEP, JSON_ITEM = "_METADATA", "checkpoint", "_CHECKPOINT_METADATA", "metadata"
COMMITTED = "commit_success.txt"
_STEP_NAME = re.compile(r"(?:.*_)?(?P<step>\d{1,18})", re.DOTALL)
_MAPS = frozenset((*range(0x80, 0x90), 0xDE, 0xDF))
_NOT_ITEMS = frozenset(("d", "array_metadatas"))
_OF_PROCESS = "ocdbt.process_"
_MOST_ITEMS = 100
_MOST_FILES = 1_000_000


def named_step(name: str) -> int | None:
    """Return the step that a folder's name says, as a CheckpointManager calls it."""
    match = _STEP_NAME.fullmatch(name)
    return int(match["step"]) if match else None


def _names(folder: Location) -> dict[str, str]:
    """Return the kind of each name in a folder; none if it cannot be listed."""
    try:
        return dict(folder.listing())
    except CheckpointError:
        return {}


def tree_head(folder: Location) -> Location | None:
    """Return the file that makes a folder a tree; None if it is none."""
    if folder.store.lists_first:
        names = _names(folder)
        if TREE in names:
            return folder / TREE
        return folder / AGGREGATED if AGGREGATED in names and _is_msgpack(folder / AGGREGATED) else None
    return next((path for name in (TREE, AGGREGATED) if (path := folder / name).is_file()), None)


def _is_msgpack(path: Location) -> bool:
    try:
        with path.open() as file:
            head = file.read(0, 1)
    except CheckpointError:
        return False
    return bool(head) and head[0] in _MAPS


def item_folders(step: Location) -> list[Location]:
    """Return the folders of a step that can be items."""
    found = [
        step / name
        for name, kind in _names(step).items()
        if kind in (FOLDER, LINK) and name not in _NOT_ITEMS and not name.startswith(_OF_PROCESS)
    ]
    return found[:_MOST_ITEMS]


def orbax_location(folder: Location) -> CheckpointLocation | None:
    """Return the checkpoint that a folder is: a tree, or a step; None if it is neither."""
    if not folder.store.lists_first:
        return None
    head = tree_head(folder)
    if head is None and STEP in _names(folder):
        head = folder / STEP
    if head is None and named_step(folder.name) is not None:
        # A step of Orbax 0.4 has nothing but its items, which are not called as steps are.
        items = [each for each in item_folders(folder) if named_step(each.name) is None]
        head = next((found for each in items if (found := tree_head(each)) is not None), None)
    return None if head is None else CheckpointLocation(folder, head)


def location_of_file(path: Location) -> CheckpointLocation | None:
    """Return the checkpoint that a file with one of these names belongs to."""
    if path.name in (TREE, STEP):
        return CheckpointLocation(path.parent, path)
    if path.name == AGGREGATED and _is_msgpack(path):
        return CheckpointLocation(path.parent, tree_head(path.parent) or path)
    return None


def is_orbax(location: CheckpointLocation) -> bool:
    """Whether a location is one that this module gives."""
    return location.path != location.head and location.head.name in (TREE, STEP, AGGREGATED)


def step_at(location: CheckpointLocation) -> int | None:
    """Return the step that the name of a checkpoint says, of Orbax or of another format."""
    return named_step(location.name) if is_orbax(location) else step_of(location.name)


def is_unfinished(folder: Location) -> bool:
    """Whether a step in a bucket lacks the object that is written last."""
    if not folder.store.takes_objects:
        return False
    return all(COMMITTED not in _names(each) for each in (folder, folder.parent))


def files_below(folder: Location) -> Iterator[Location]:
    """Yield the files in a folder and below it; links to folders are not followed."""
    waiting, count = [folder], 0
    while waiting and count < _MOST_FILES:
        parent = waiting.pop()
        for name, kind in _names(parent).items():
            count += 1
            if kind == FOLDER:
                waiting.append(parent / name)
            elif (parent / name).is_file():
                yield parent / name
