"""Files that transformers needs next to the weights of a model: its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.find.resolve import HUB_WEIGHTS
from formats.store.content_cache import whole
from formats.store.local.staging import replace_file

if TYPE_CHECKING:
    from formats.location import Location

    from ...reporting import Reporter
    from ..plan import Plan


def copy_configs(plan: Plan, reporter: Reporter) -> None:
    """Copy the files that a plan names next to its target, if transformers looks for the target there.

    That is a folder, or a file with a name of transformers'.  Files that are there stay.
    """
    folder = _folder(plan.target) if plan.beside else None  # is_folder may send a request
    for name, source in plan.beside.items():
        if folder is None or (folder / name).exists():
            continue
        replace_file(folder / name, _content(source))
        done = "written" if isinstance(source, bytes) else "copied"
        reporter.note(f"{done} {folder / name}, so that transformers can load the folder")


def _content(source: Location | bytes) -> bytes:
    if isinstance(source, bytes):
        return source
    with source.open() as file:
        return whole(file)


def _folder(target: Location) -> Location | None:
    if target.is_folder():
        return target
    return target.parent if target.name in HUB_WEIGHTS else None
