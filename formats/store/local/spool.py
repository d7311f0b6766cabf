"""Tensors that a writer was given before their turn, on disk until it comes.

Some formats keep tensors in an order of their own (`FormatWriter.order`). A caller that writes in that order
never uses this. Any other order works too, but the bytes are written twice.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...core.chunks import PIECE
from .refusals import refusing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...core.chunks import Chunk
    from ...core.spec import TensorSpec
    from ..remote.bucket_staging import Uploading
    from .staging import Staging


class Spool:
    """Chunks of tensors by key, in files of the staging directory."""

    def __init__(self, staging: Staging | Uploading) -> None:
        self._staging = staging
        self._sizes: dict[str, list[int]] = {}
        self._names: dict[str, str] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._names

    def __len__(self) -> int:
        return len(self._names)

    def hold(self, spec: TensorSpec, chunks: Iterable[Chunk]) -> None:
        """Write the chunks of a tensor to where they wait."""
        name = f"held-{len(self._sizes)}"
        file = self._staging.scratch(name)
        sizes = self._sizes[spec.key] = []
        for chunk in chunks:
            file.write(chunk)
            # Where one element ends and the next begins matters of strings alone.
            if spec.dtype.itemsize is None:
                sizes.append(len(chunk))
        file.close()
        if spec.dtype.itemsize is not None:
            sizes += [min(PIECE, file.size - at) for at in range(0, file.size, PIECE)]
        self._names[spec.key] = name

    def release(self, key: str) -> Iterator[Chunk]:
        """Yield the chunks of a tensor, and forget it."""
        path = self._staging.path(self._names.pop(key))
        with refusing(self._staging.target), open(path, "rb") as file:
            for size in self._sizes[key]:
                yield file.read(size)
            os.unlink(path)
