"""Writing one file, or one object of a store, so that it is the old or the new one at every instant."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from formats.errors import CheckpointExistsError
from formats.store.local.links import followed
from formats.store.local.refusals import refuse_irreplaceable
from formats.store.local.staging import Staging
from formats.store.remote.bucket_staging import Uploading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from formats.core.chunks import Chunk
    from formats.location import Location


def refuse_single(path: Location, *, overwrite: bool) -> None:
    """Raise CheckpointExistsError if one is there, or what no file takes the place of."""
    if not path.exists():
        path.require_access()
        path.require_container()
        return
    refuse_irreplaceable(path)
    if not overwrite:
        raise CheckpointExistsError(
            "this path already exists", path=path, hints=("pass --overwrite to replace it",)
        )


def write_single(
    path: Location,
    chunks: Iterable[Chunk],
    *,
    overwrite: bool = False,
    prove: Callable[[], None] = lambda: None,
    advance: Callable[[int], None] = lambda _: None,
) -> None:
    """Write a file of these chunks; `prove` raises, before it is there, where they should not have been.

    A link is followed.  Nothing is left behind where that fails.
    """
    path = followed(path)
    refuse_single(path, overwrite=overwrite)
    in_store = path.is_object()
    staging = Uploading(path, path, overwrite=overwrite) if in_store else Staging(path, [path])
    try:
        file = staging.create(os.path.basename(path))
        for chunk in chunks:
            file.write(chunk)
            advance(len(chunk))
        staging.sync()
        prove()
        with staging.alone():
            refuse_single(path, overwrite=overwrite)
            staging.move_in()
    finally:
        staging.remove()
