"""A run directory that is converted: which file becomes which, and its state file.

The state file is written with the new names. Its entries keep their order, because a CheckpointManager
removes the first of them. They keep their times, because it uses these to keep one checkpoint every few
hours. Unlisted checkpoints stay unlisted, so that no manager removes one that was meant to stay. Entries
whose files are gone are dropped.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from formats.errors import CheckpointExistsError, ConversionError
from formats.find.directory import locate_listed
from formats.find.resolve import spelling
from formats.find.suffixes import without_suffix
from formats.tf.run.state_file import FILE_NAME, StateFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from formats.find.directory import Directory, Member
    from formats.location import Location
    from formats.model.reader import Format


def converted_name(member: Member, into: Format) -> str:
    """Return the name of what a member becomes in the new directory: its own, with the format's suffix."""
    is_elsewhere = member.name.startswith(os.pardir + os.sep)  # a state file may list checkpoints anywhere
    name = os.path.basename(member.name) if is_elsewhere else member.name
    if into.suffixes[:1] == (".index",) and spelling(member.location) != member.location.path:
        return name + ".index"  # otherwise it would be taken for the index of another prefix
    suffix = into.suffixes[0] if into.suffixes and into.suffixes[0] != ".index" else ""
    return name if name.endswith(into.suffixes) else without_suffix(name) + suffix


def converted_names(members: Iterable[tuple[Member, Format]], target: Location) -> dict[str, str]:
    """Return what each member is called in the new directory; ConversionError where two get one name."""
    names: dict[str, str] = {}
    owners: dict[str, str] = {}
    for member, into in members:
        name = names[member.name] = converted_name(member, into)
        if name in owners:
            message = f"{owners[name]} and {member.name} would both be written to this path"
            raise ConversionError(
                message,
                path=target / name,
                hints=("to convert one of them, name that checkpoint instead of the directory",),
            )
        owners[name] = member.name
    return names


def converted_state(directory: Directory, names: Mapping[str, str]) -> StateFile | None:
    """Return a directory's state file for its members under new names; None if it lists none of them."""
    state = directory.state
    if state is None:
        return None
    new = {listed: _new_name(directory, listed, names) for listed in (*state.paths, state.latest)}
    has_times = len(state.timestamps) == len(state.paths)
    kept = [at for at, listed in enumerate(state.paths) if new[listed] is not None]
    paths = [str(new[state.paths[at]]) for at in kept]
    times = [state.timestamps[at] for at in kept] if has_times else []
    latest = new[state.latest]
    if latest is not None and latest not in paths:
        paths.append(latest)
        times = []  # As many as paths, or none.
    if not paths:
        return None
    return StateFile(latest or paths[-1], tuple(paths), tuple(times), state.last_preserved)


def _new_name(directory: Directory, listed: str, names: Mapping[str, str]) -> str | None:
    location = locate_listed(directory.path, listed)
    name = names.get(location.path.relative_to(directory.path)) if location is not None else None
    # A state file names bundles by their prefixes, also one that is called by its index.
    return name.removesuffix(".index") if name is not None else None


def refuse_state_file(target: Location) -> None:
    """Raise CheckpointExistsError for a state file that is there: others' checkpoints are in it."""
    path = target / FILE_NAME
    if path.exists():
        raise CheckpointExistsError(
            "this path already exists", path=path, hints=("pass --overwrite to replace it",)
        )
