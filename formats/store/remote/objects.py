"""What a store does for those who write to it: whole objects are put there, and deleted.

    put       a small object, at one stroke; where something lies there, on a condition
    stream    a large one, in blocks; nobody sees any of it before `finish`
    asked     what lies there now, asked of the store and not of what it said before
    get       a small object as it is now, all of it
    delete    several

Nothing is ever written at a place inside of an object, and none is renamed: who writes knows the names first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from ..base import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..base import Entry, Identity

Block = bytes | bytearray | memoryview


class Over(NamedTuple):
    """What an object may be put over: whatever lies there, nothing, or an object that is this one still."""

    whatever: bool = False
    entry: Entry | None = None


WHATEVER, NOTHING = Over(whatever=True), Over()


class Stream(ABC):
    """An object that is sent in blocks of one size, of which the last may be smaller."""

    @abstractmethod
    def write(self, block: Block) -> None:
        """Send the next block, which nobody changes afterwards.  Raises InaccessibleError."""

    @abstractmethod
    def finish(self) -> None:
        """Publish it, in place of what lies there.  Raises InaccessibleError."""

    @abstractmethod
    def abort(self) -> None:
        """Take back what was sent; nothing of it was ever to be seen."""


class ObjectStore(Store):
    """A store that objects are put into."""

    takes_objects = True
    tells_md5 = False
    """Whether the e_tag of an object is, as a rule, made of the MD5 of its blocks."""

    @abstractmethod
    def put(self, path: str, data: Block, over: Over) -> Entry:
        """Put an object; return what lies there then, whose e_tag is empty where the store tells none.

        Raises CheckpointExistsError where another lies there than it may be put over, InaccessibleError.
        """

    def is_unanswered(self, path: str) -> bool:  # noqa: ARG002  where every answer is waited for
        """Whether an object may still come to be there: its answer was not waited for, as after a signal."""
        return False

    @abstractmethod
    def stream(self, path: str, block: int, at_once: int) -> Stream:
        """Begin to send an object in blocks of so many bytes, so many of them at a time."""

    @abstractmethod
    def asked(self, path: str) -> Entry | None:
        """Return what lies at a path now; None where nothing does.  Raises InaccessibleError."""

    @abstractmethod
    def get(self, path: str, most: int) -> tuple[bytes, Entry] | None:
        """Return up to `most` bytes of an object as it is now, and what it is; None where there is none.

        Raises InaccessibleError.
        """

    @abstractmethod
    def keeps_conditions(self, path: str, data: Block) -> bool:
        """Try to create an object that is there already; return whether the server rejects that.

        Where it does not, these bytes may lie there.  Raises InaccessibleError.
        """

    @abstractmethod
    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; of those that are not there nothing is said.  Raises InaccessibleError."""


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
