"""The operations of a store that writers use: put a whole object, and delete one.

    put       a small object, atomically; on a condition if there is one already
    stream    a large one, in blocks; invisible before `finish`
    current   the current entry, from the store and not from an earlier answer
    get       a small object as it is now, whole
    delete    several

Objects are never written in part, and never renamed: a writer knows the names first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from ..base import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..base import Entry, Identity

Block = bytes | bytearray | memoryview


class Precondition(NamedTuple):
    """The objects that a new one may replace: anything, nothing, or only this version of an object."""

    anything: bool = False
    entry: Entry | None = None


ANYTHING, NOTHING = Precondition(anything=True), Precondition()


class Stream(ABC):
    """An object sent in blocks of one size; the last one may be smaller."""

    @abstractmethod
    def write(self, block: Block) -> None:
        """Send the next block, which must not change afterwards. Raises InaccessibleError."""

    @abstractmethod
    def finish(self) -> None:
        """Publish it, replacing what is there. Raises InaccessibleError."""

    @abstractmethod
    def abort(self) -> None:
        """Take back what was sent; nothing of it was ever to be seen."""


class ObjectStore(Store):
    """A store that objects are put into."""

    takes_objects = True
    has_md5 = False
    """Whether the e_tag of an object is, as a rule, made of the MD5 of its blocks."""

    @abstractmethod
    def put(self, path: str, data: Block, precondition: Precondition) -> Entry:
        """Put an object, and return its entry, whose e_tag is empty if the store returns none.

        Raises CheckpointExistsError if another object is there than it may replace, and InaccessibleError.
        """

    def is_unanswered(self, path: str) -> bool:  # noqa: ARG002  where every answer is waited for
        """Whether an object may still appear, because its answer was not awaited, as after a signal."""
        return False

    @abstractmethod
    def stream(self, path: str, block: int, at_once: int) -> Stream:
        """Begin to send an object in blocks of so many bytes, so many of them at a time."""

    @abstractmethod
    def current(self, path: str) -> Entry | None:
        """Return the current entry at a path, or None if nothing is there. Raises InaccessibleError."""

    @abstractmethod
    def get(self, path: str, most: int) -> tuple[bytes, Entry] | None:
        """Return up to `most` bytes of an object as it is now, and what it is; None if there is none.

        Raises InaccessibleError.
        """

    @abstractmethod
    def keeps_conditions(self, path: str, data: Block) -> bool:
        """Try to create an object that already exists, and return whether the server rejects that.

        If it does not, these bytes may replace the object. Raises InaccessibleError.
        """

    @abstractmethod
    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects, and ignore those that do not exist. Raises InaccessibleError."""


def plain(e_tag: object) -> str:
    """Return an e_tag as all requests tell it: some have it in quotes, or call it weak, and others not."""
    return str(e_tag or "").removeprefix("W/").strip('"')


def is_same(one: Identity, other: Identity) -> bool:
    """Whether two identities are those of one object."""
    return (plain(one[0]), *one[1:]) == (plain(other[0]), *other[1:])


def md5(block: Block) -> bytes:
    """Return the MD5 of a block: no secret depends on it, servers tell it."""
    import hashlib

    return hashlib.md5(block, usedforsecurity=False).digest()


def md5_of(sums: Sequence[bytes]) -> str:
    """Return the e_tag that Amazon gives to an object of blocks with these sums."""
    return sums[0].hex() if len(sums) == 1 else f"{md5(b''.join(sums)).hex()}-{len(sums)}"
