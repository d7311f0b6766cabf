"""Compare the values of two tensors of one dtype and shape, of any size.

Both are read in step, a piece of each at a time. Pieces are compared as bytes first, which costs no more than
reading them; only different ones are compared as numbers. If both files store a checksum of the same bytes,
nothing is read: equal checksums mean equal values, as for any reader of the tensor.

If both files store the tensors unchanged, ranges of them are independent tasks
(`formats.store.work.workers`): a comparison is their list, and a last step that combines their results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.core.chunks import PIECE, ChunkSource, equal_bytes, whole_elements
from formats.core.dtypes import STRING
from formats.errors import UnsupportedFeatureError
from formats.model.digest import digests_like
from formats.store.ranges import Sum, buffers, cut

from .measure import EQUAL, SAME, Difference, Norms, Tolerance, measured, norms, together

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats import LazyTensor
    from formats.core.dtypes import DType
    from formats.model.reader import FormatReader
    from formats.store.ranges import FileRange


class Operand(NamedTuple):
    """One side of a comparison; a listing has checksums and no values.

    `digest` is that of the side which has values, where it was computed before.
    """

    reader: FormatReader
    key: str
    digest: str | None = None

    @property
    def tensor(self) -> LazyTensor:
        return self.reader[self.key]

    @property
    def has_values(self) -> bool:
        return self.reader.format.has_values


def same_checksum(left: LazyTensor, right: LazyTensor) -> bool | None:
    """Whether two tensors of one spec have the same stored checksum; None where theirs do not compare.

    A checksum covers the stored bytes, so that of a byte-swapped tensor differs, and a tensor in slices has
    none of its own.
    """
    one, other = left.stored, right.stored
    if one.crc32c is None or other.crc32c is None or one.big_endian != other.big_endian:
        return None
    return one.crc32c == other.crc32c


def _are_in_copies(left: FileRange, right: FileRange) -> bool:
    """Whether two ranges are the same part of files that the Hub lists with one checksum."""
    both = left.file, right.file
    are_listed = all(file.store.scheme == "hf" for file in both)
    is_same_part = (left.offset, left.size) == (right.offset, right.size)
    return are_listed and is_same_part and both[0].identity == both[1].identity


def checksum(tensor: LazyTensor) -> int:
    """Return the masked checksum that a little-endian bundle would store, reading the tensor if need be."""
    from formats.tf.bundle.payload import encode_strings, encode_variants
    from formats.wire.crc32c import extend, mask

    stored = tensor.stored
    if stored.crc32c is not None and not stored.big_endian:
        return stored.crc32c
    if tensor.spec.dtype.itemsize is None:
        encode = encode_strings if tensor.spec.dtype is STRING else encode_variants
        return mask(encode(bytes(element) for element in tensor.chunks())[1])
    crc = 0
    for chunk in tensor.chunks():
        crc = extend(crc, bytes(chunk))
    return mask(crc)


class Comparison:
    """The comparison of two tensors: what is found at once, or tasks and what they find.

    `exact` reads them even if their stored checksums agree. A task covers `step` bytes. The caller passes the
    results of `tasks` to `add`, in their order, and then calls `finish`. With `with_norms` differences
    include norms.
    """

    def __init__(
        self,
        left: Operand,
        right: Operand,
        tolerance: Tolerance = EQUAL,
        step: int | None = None,
        *,
        exact: bool = False,
        with_norms: bool = False,
    ) -> None:
        self.difference: Difference | None = None
        self.tasks: list[ComparisonTask] = []
        one, other = left.tensor, right.tensor
        self._sides = one, other
        self._tolerance = tolerance
        self._sums = Sum(), Sum()
        self._with_norms = with_norms = with_norms and one.spec.dtype.is_mapped
        self._norms = Norms()
        self._ranges: tuple[FileRange, FileRange] | None = None
        # a difference may be damage instead, which only the checksum after the last byte shows
        self.may_stop_early = not (left.reader.has_checksums or right.reader.has_checksums)
        same = same_checksum(one, other)
        readable = left.has_values and right.has_values
        if not readable or (same and not exact):
            if not readable:
                same = _same_as_listed(left, right, same, exact=exact)
            self.difference = _same(one.spec.dtype) if same else Difference()
            return
        mine, theirs = one.file_range(), other.file_range()
        if mine is not None and theirs is not None and not exact and _are_in_copies(mine, theirs):
            self.difference = _same(one.spec.dtype)
            return
        if mine is not None and theirs is not None:
            self._ranges = mine, theirs
            dtype = one.spec.dtype
            ends = cut(mine.size, step)
            self.tasks = [ComparisonTask(mine, theirs, dtype, tolerance, *each, with_norms) for each in ends]
            self.difference = _same(dtype)

    def stream(self, advance: Callable[[int], None], *, stop_early: bool) -> Difference:
        """Compare what has to be read from its beginning to its end."""
        one, other = self._sides
        if one.spec.dtype.itemsize is None:
            return _compare_elements(one, other, advance)
        stop_early = stop_early and self.may_stop_early
        return _compare_numbers(
            one, other, self._tolerance, stop_early=stop_early, with_norms=self._with_norms, advance=advance
        )

    def add(self, found: ComparedRange) -> Difference:
        """Take in what the next task found; return what is known so far."""
        assert self.difference is not None
        self.difference = together(self.difference, found.difference)
        if self._with_norms:
            self._norms = self._norms.add(found.norms)
            self.difference = self.difference._replace(norms=self._norms)
        for mine, theirs in zip(self._sums, found.sums, strict=True):
            mine.add(theirs)
        return self.difference

    def finish(self) -> None:
        """Compare the checksums of the read bytes with the stored ones; ChecksumError names the tensor."""
        if self._ranges is not None:
            for side, found in zip(self._ranges, self._sums, strict=True):
                side.check(found)


class ComparisonTask(NamedTuple):
    """A range of two tensors, to be compared; plain data."""

    left: FileRange
    right: FileRange
    dtype: DType
    tolerance: Tolerance
    begin: int
    end: int
    with_norms: bool = False

    @property
    def nbytes(self) -> int:
        return self.end - self.begin


class ComparedRange(NamedTuple):
    """The result of a task: how the ranges differ, and the checksum of each that has a stored one."""

    difference: Difference
    sums: tuple[Sum, Sum]
    norms: Norms = Norms()


def compare_range(task: ComparisonTask | None) -> ComparedRange | None:
    """Do one task; None, which keeps a place among tasks, comes to nothing."""
    if task is None:
        return None
    found = SAME
    one, other = task.left.sum(), task.right.sum()
    checked = [side.is_checked for side in (task.left, task.right)]
    room, apart = buffers(), Norms()
    for side in (task.left, task.right):
        side.expect(task.begin, task.end)
    for at in range(task.begin, task.end, PIECE):
        stop = min(at + PIECE, task.end)
        left, right = task.left.read(at, stop, room[0]), task.right.read(at, stop, room[1])
        same = equal_bytes(left, right)
        if task.with_norms:
            apart = apart.add(norms(left, right, task.dtype, are_equal=same))
        if same and all(checked) and (one.crc, one.crc32) == (other.crc, other.crc32):
            one.extend(left)
            other = Sum(one.crc, one.size, one.crc32)  # of equal bytes the checksums are equal, too
            continue
        if checked[0]:
            one.extend(left)
        if checked[1]:
            other.extend(right)
        if not same:
            found = measured(left, right, task.dtype, task.tolerance, found)
    return ComparedRange(found, (one, other), apart)


def compare(
    left: Operand,
    right: Operand,
    tolerance: Tolerance = EQUAL,
    *,
    exact: bool = False,
    stop_early: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> Difference:
    """Return how two tensors of one dtype and shape differ; SAME where they do not.

    `exact` reads them even if their stored checksums agree. `stop_early` stops counting at the first
    difference, unless checksums must be compared. `advance` is called with the number of compared bytes.
    """
    comparison = Comparison(left, right, tolerance, exact=exact)
    if comparison.difference is None:
        return comparison.stream(advance, stop_early=stop_early)
    difference = comparison.difference
    for task in comparison.tasks:
        found = compare_range(task)
        assert found is not None
        difference = comparison.add(found)
        advance(task.nbytes)
        if stop_early and comparison.may_stop_early and difference.differing:
            return difference
    comparison.finish()
    if not comparison.tasks:
        advance(left.tensor.spec.nbytes or 0)
    return difference


def _same(dtype: DType) -> Difference:
    return SAME if dtype.is_number else Difference(0)


def _same_as_listed(left: Operand, right: Operand, same: bool | None, *, exact: bool) -> bool:
    """Whether what a listing says of a tensor is what the other side's values come to.

    Digests take precedence over checksums, which can be forged; `same` is the result of the checksums.
    """
    listed = [side.tensor.listed_digest for side in (left, right)]
    for side, digest, other in ((left, listed[0], right), (right, listed[1], left)):
        if digest is not None and other.has_values:
            found = (
                other.digest or dict(digests_like(other.reader, {other.key: digest}, exact=exact))[other.key]
            )
            return found == digest
        if not side.has_values and digest is None and side.tensor.stored.crc32c is None:
            raise _without(
                side, "the listing has no checksum for this tensor, so its values cannot be compared"
            )
    if listed[0] and listed[1] and listed[0].partition(":")[0] == listed[1].partition(":")[0]:
        return listed[0] == listed[1]
    if same is not None:
        return same
    if not (left.has_values or right.has_values):
        raise _without(
            left,
            (
                "the listings have no digests of the same kind for this tensor, so its values cannot "
                "be compared"
            ),
        )
    # The other side may be the very bundle that was listed, whose bytes may be swapped.
    if left.tensor.stored.crc32c == right.tensor.stored.crc32c:
        return True
    return checksum(left.tensor) == checksum(right.tensor)


def _without(side: Operand, message: str) -> UnsupportedFeatureError:
    hints = ("pass --no-values to compare only dtypes and shapes",)
    return UnsupportedFeatureError(message, path=side.reader.location.path, key=side.key, hints=hints)


def _compare_elements(left: LazyTensor, right: LazyTensor, advance: Callable[[int], None]) -> Difference:
    differing = 0
    for one, other in zip(left.chunks(), right.chunks(), strict=True):
        differing += bytes(one) != bytes(other)
        advance(len(one))
    return Difference(differing)


def _compare_numbers(
    left: LazyTensor,
    right: LazyTensor,
    tolerance: Tolerance,
    *,
    stop_early: bool,
    with_norms: bool,
    advance: Callable[[int], None],
) -> Difference:
    dtype, nbytes = left.spec.dtype, left.spec.nbytes
    assert dtype.itemsize is not None
    assert nbytes is not None
    sources = ChunkSource(left.chunks()), ChunkSource(right.chunks())
    step = whole_elements(PIECE, dtype.itemsize)
    found, apart = _same(dtype), Norms()
    for at in range(0, nbytes, step):
        one, other = (source.take(min(step, nbytes - at)) for source in sources)
        same = equal_bytes(one, other)
        if with_norms:
            apart = apart.add(norms(one, other, dtype, are_equal=same))
        if not same:
            found = measured(one, other, dtype, tolerance, found)
            if stop_early and found.differing:
                return found
        advance(len(one))
    for source in sources:
        source.finish()  # where the checksums are compared
    return found._replace(norms=apart) if with_norms else found
