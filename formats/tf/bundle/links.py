"""Bundles behind symbolic links: a run directory that holds links into a store.

    run/ckpt-1.index                  -> store/ckpt-1.index
    run/ckpt-1.data-00000-of-00001    -> store/ckpt-1.data-00000-of-00001

Writing `run/ckpt-1` then writes `store/ckpt-1`, and keeps the links up to date: every shard has its link
before an index counts it, and no link outlives its shard. The same is true of links next to a bundle
(`best.index -> ckpt-7.index`) when the bundle is written under its own name. Links to files that form no
bundle of one name (as in the caches of git-annex and DVC) cannot be written through, because an index finds
its shards by their names.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from ...errors import CheckpointError
from ...model.checkpoint_files import data_shards
from ...store.local.directories import sync_directory
from ...store.local.links import followed

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...location import Location


def followed_index(prefix: Location) -> Location:
    """Return the prefix whose index the link in the place of a bundle's index leads to."""
    index = prefix + ".index"
    real = followed(index)
    if real == index:
        return prefix
    if not real.endswith(".index"):
        raise _no_bundle(index, real)
    return real.removesuffix(".index")


def followed_prefix(prefix: Location) -> Location:
    """Return the prefix of the files that links in the place of a bundle's lead to.

    Raises CheckpointError if they do not lead to the files of one bundle.
    """
    shards = data_shards(prefix)
    if not any(path.is_link() for path in (prefix + ".index", *shards)):
        return prefix
    real = followed_index(prefix)
    for shard in shards:
        # a broken link may come from a killed process
        leads_to = shard.real()
        if leads_to != real.parent.real() / _renamed(shard, prefix, real):
            raise _no_bundle(shard, leads_to)
    return real


def _renamed(path: str, prefix: str, other: str) -> str:
    """Return the name of a bundle's file as the other bundle has it."""
    return os.path.basename(other) + path[len(prefix) :]


def _no_bundle(link: str, leads_to: str) -> CheckpointError:
    message = (
        f"this is a symbolic link to {leads_to}; all links "
        "of a checkpoint must lead to files of one checkpoint"
    )
    hints = ("write under another name, or replace the links with files (cp -L)",)
    return CheckpointError(message, path=link, hints=hints)


def prefixes_to(real: Location) -> list[Location]:
    """Return the prefixes next to a bundle whose links lead to all of its files (`best` -> `ckpt-7`)."""
    folder, index = real.parent, (real + ".index").real()
    with os.scandir(folder or ".") as entries:
        links = sorted(
            entry.name for entry in entries if entry.name.endswith(".index") and entry.is_symlink()
        )
    found = []
    for prefix in (folder / link.removesuffix(".index") for link in links):
        # A prefix with some files of its own, or of another bundle, is not a second name of this one.
        with suppress(CheckpointError):
            if (prefix + ".index").real() == index and followed_prefix(prefix) != prefix:
                found.append(prefix)
    return found


class Mirror:
    """The links to the files of the bundle at `real`, at the other prefixes that lead there."""

    def __init__(self, prefixes: Collection[Location], real: Location) -> None:
        self._prefixes = prefixes
        self._real = real

    def add(self, path: str) -> None:
        """Make the links to a shard of the bundle, which may still be about to come."""
        for prefix in self._prefixes:
            directory = prefix.parent
            link = directory / _renamed(path, self._real, prefix)
            if not link.exists():
                target = os.path.abspath(path)
                if not os.path.isabs(os.readlink(prefix + ".index")):
                    target = os.path.relpath(target, directory.real())
                os.symlink(target, link)

    def tidy(self) -> None:
        """Remove the links to shards that are gone."""
        for prefix in self._prefixes:
            for link in data_shards(prefix):
                if link.is_link() and link.entry() is None:
                    os.unlink(link)
        self.sync()

    def sync(self) -> None:
        for directory in {os.path.dirname(prefix) or "." for prefix in self._prefixes}:
            sync_directory(directory)
