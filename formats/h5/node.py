"""An object of an HDF5 file: known by its header, or else by the library's handle."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from .native.messages import UnfamiliarError

if TYPE_CHECKING:
    from .native.structure import Link
    from .safe import H5File


class Node:
    """A group or dataset of a file, reached over hard links from its root.

    `header` is None if only the library can read it; `id` is the library's handle, opened on demand.
    """

    __slots__ = ("_above", "_file", "_id", "_name", "address", "header")

    def __init__(self, file: H5File, above: Node | None, name: bytes, link: Link | None) -> None:
        self._file = file
        self._above = above
        self._name = name
        self._id: Any = None
        self.address = link.address if link is not None else None
        self.header = file.header(link)
        if self.header is None:
            _ = self.id  # an object that cannot be opened has no node

    @property
    def id(self) -> Any:
        """The library's handle; raises what h5py raises."""
        import h5py

        # Without recursion, because the file determines how deep groups are nested.
        unopened: list[Node] = []
        node: Node | None = self
        while node is not None and node._id is None:
            unopened.append(node)
            node = node._above
        for node in reversed(unopened):
            if node._above is None:
                node._id = h5py.h5g.open(self._file.library, b"/")
            else:
                node._id = h5py.h5o.open(node._above._id, node._name)
        return self._id

    @property
    def is_group(self) -> bool:
        if self.header is not None:
            return self.header.is_group
        import h5py

        return isinstance(self._id, h5py.h5g.GroupID)

    @property
    def is_dataset(self) -> bool:
        if self.header is not None:
            return not self.header.is_group
        import h5py

        return isinstance(self._id, h5py.h5d.DatasetID)

    def links(self) -> dict[bytes, Link] | None:
        """Return a group's links by name; None where only the library can read them."""
        if self.header is not None and self._file.structure is not None:
            with contextlib.suppress(UnfamiliarError):
                return self._file.structure.links(self.header)
        return None
