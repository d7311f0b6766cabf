"""Files that a model names: they are in its folder, or below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import CheckpointNotFoundError, UnsupportedFeatureError

if TYPE_CHECKING:
    from ..location import Location

MOST_FILES = 500
"""Files that a model may name: each stays open."""

_NOT_TRUSTED = ("do not trust this file; export the model again, with its data in the same folder",)


def confined(head: Location, name: str) -> Location:
    """Return where a file is that `head` names.

    Raises UnsupportedFeatureError for a name or a link to a file outside the folder.
    """
    parts = name.removeprefix("./").split("/")
    is_plain = not any(character in name for character in "\\\0:")
    if not is_plain or any(part in ("", ".", "..") for part in parts):
        message = f"the external data {name!r:.100} is not a file in the folder of the model"
        raise UnsupportedFeatureError(message, path=head, code="header", hints=_NOT_TRUSTED)
    folder = found = head.parent
    for part in parts:
        found = found / part
    if not found.store.scheme:
        real, homes = found.real(), (folder.real(), head.real().parent)
        if not any(real.startswith(home.rstrip("/") + "/") for home in homes):
            message = f"the external data {name!r:.100} is a link to a file outside the folder of the model"
            raise UnsupportedFeatureError(message, path=head, code="header", hints=_NOT_TRUSTED)
    return found


def missing_file(path: Location) -> CheckpointNotFoundError:
    """Return the error of a file that a model names and that does not exist."""
    return CheckpointNotFoundError(
        "this file is missing, and the model stores weights in it", path=path, code="shard-missing"
    )
