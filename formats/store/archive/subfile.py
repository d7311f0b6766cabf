"""A range of a file as a file of its own, for containers within containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base import File

if TYPE_CHECKING:
    from collections.abc import Iterable


class SubFile(File):
    """A number of bytes of a file from `begin` on. The owner of the outer file closes it."""

    def __init__(self, whole: File, begin: int, size: int) -> None:
        super().__init__(whole.store, whole.path, size, whole.identity)
        self.whole = whole
        self.begin = begin

    def read(self, offset: int, size: int) -> bytes:
        return self.whole.read(self.begin + offset, min(size, max(0, self.size - offset)))

    def where(self, offset: int) -> int:
        return self.whole.where(self.begin + offset)

    def expect(self, offset: int, size: int) -> None:
        self.whole.expect(self.begin + offset, size)

    def expect_each(self, offsets: Iterable[int], size: int) -> None:
        self.whole.expect_each([self.begin + offset for offset in offsets], size)

    @property
    def closed(self) -> bool:
        return self.whole.closed

    def close(self) -> None:
        """Leave it open: others read other parts."""

    def __reduce__(self) -> tuple[object, ...]:
        return SubFile, (self.whole, self.begin, self.size)
