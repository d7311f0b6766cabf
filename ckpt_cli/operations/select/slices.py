"""One tensor, or a part of it, as people name it: KEY or KEY[SLICE].

A slice is numpy's: `kernel[0:10,:]`, `kernel[-1]`, `kernel[..., ::2]`.  A key that is
there wins over a slice, brackets and all, and a slice of a key that is there wins over
a pattern: `kernel[0-9]` is one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.chunks import PIECE
from formats.core.region import normal_index
from formats.core.words import first_of
from formats.errors import CheckpointError
from formats.model.tensor import LazyTensor

from .selection import NothingSelectedError, Selection, choose, nothing_selected, sift

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from formats.core.chunks import Chunk
    from formats.core.region import Index
    from formats.core.spec import TensorSpec
    from formats.model.reader import FormatReader


_SLICED = re.compile(r"(?P<key>.+)\[(?P<slice>[-+\d:,.\s]*)\]", re.DOTALL)
_NUMBER = re.compile(r"[-+]?\d+")


class SliceError(CheckpointError):
    """A slice that does not fit its tensor."""


class TensorSlice(NamedTuple):
    """A tensor or a part of it: `region` is None for the whole, `dropped` are axes that an integer took."""

    key: str
    spec: TensorSpec
    region: Index | None = None
    dropped: tuple[int, ...] = ()
    text: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        if self.region is None:
            return self.spec.shape
        sizes = (len(range(part.start, part.stop, part.step)) for part in self.region)
        return tuple(size for axis, size in enumerate(sizes) if axis not in self.dropped)

    def read(self, reader: FormatReader) -> np.ndarray[Any, Any]:
        """Return the part, checked as `LazyTensor.read_slice` says."""
        if self.region is None:
            return reader[self.key].read()
        return reader[self.key].read_region(self.region).reshape(self.shape)

    def tensor(self, reader: FormatReader) -> LazyTensor:
        """Return the part as a tensor of its own, under the whole one's key."""
        whole = reader[self.key]
        return whole if self.region is None else _PartTensor(whole, self)

    def arrays(self, reader: FormatReader) -> Iterator[np.ndarray[Any, Any]]:
        """Yield the part's numbers as flat arrays, none larger than a piece.

        The checksum is compared when the last has passed.
        """
        import numpy as np

        for chunk in self.tensor(reader).chunks():
            yield np.frombuffer(chunk, self.spec.dtype.numpy)


class _PartTensor(LazyTensor):
    """A part of a tensor of any size; only a bounded piece is in memory at a time."""

    def __init__(self, whole: LazyTensor, part: TensorSlice) -> None:
        super().__init__(part.spec._replace(shape=part.shape, stored=None))
        assert part.region is not None
        self._whole = whole
        self._region = part.region

    def read(self) -> np.ndarray[Any, Any]:
        return self._whole.read_region(self._region).reshape(self.spec.shape)

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        return self.read()[index]

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        return self._whole.region_chunks(self._region, max_bytes)


def find_part(reader: FormatReader, text: str, *, ignore_case: bool = False) -> TensorSlice:
    """Return the one tensor, or part of one, that `text` names; NothingSelectedError if it names none.

    A word that is not a key means the key that contains it.
    """
    named = _named(reader, text)
    if named is not None:
        return TensorSlice(named, reader.specs[named])
    how = Selection(words=(text, text.partition("[")[0]), ignore_case=ignore_case)
    part = _sliced(reader, text, how)
    if part is not None:
        return part
    key = _only(reader, text, how)
    return TensorSlice(key, reader.specs[key])


def find_parts(reader: FormatReader, texts: tuple[str, ...], selection: Selection) -> list[TensorSlice]:
    """Return what `texts` and a selection choose, in the order of the checkpoint, slices as they are named.

    `texts` are keys, slices and patterns; `selection` has the patterns of options.
    Raises NothingSelectedError, as `choose` does.
    """
    parts: dict[str, list[TensorSlice]] = {}
    plain = []
    for text in texts:
        part = None
        if not selection.regex and _named(reader, text) is None:
            part = _sliced(reader, text, selection._replace(words=()))
        if part is None:
            plain.append(text)
        elif part not in parts.setdefault(part.key, []):
            parts[part.key].append(part)
    wanted = selection._replace(keep=(*plain, *selection.keep))
    for key in choose(reader, wanted) if wanted.keep or not parts else ():
        parts.setdefault(key, []).insert(0, TensorSlice(key, reader.specs[key]))
    # The other options drop slices, too.
    left = [key for key in sift(reader, selection._replace(keep=())).chosen if key in parts]
    if not left:
        raise nothing_selected(reader)
    return [part for key in left for part in parts[key]]


def whole(parts: list[TensorSlice], path: str) -> list[str]:
    """Return the keys of parts. Raises SliceError for a slice, because another layout has other axes."""
    for part in parts:
        if part.region is not None:
            message = f"slice {part.text}: --layout does not support slices"
            hints = ("convert with --layout first, then extract the slice from the result",)
            raise SliceError(message, path=path, key=part.key, hints=hints)
    return [part.key for part in parts]


def _sliced(reader: FormatReader, text: str, how: Selection) -> TensorSlice | None:
    """Return the part that `KEY[SLICE]` names, or None if it is not a slice, or more likely a pattern."""
    sliced = _SLICED.fullmatch(text)
    if not sliced:
        return None
    key = _named(reader, sliced["key"])
    is_pattern = bool(sift(reader, Selection(keep=(text,))).chosen)
    if key is None:
        if is_pattern:
            return None
        key = _only(reader, sliced["key"], how)
    spec = reader.specs[key]
    try:
        index, dropped = parse_index(sliced["slice"], spec, reader.location.path)
    except SliceError:
        if is_pattern:
            return None
        raise
    return TensorSlice(key, spec, index, dropped, f"[{sliced['slice'].strip()}]")


def _named(reader: FormatReader, text: str) -> str | None:
    """Return the key that is `text`, or whose object path is and no other's."""
    if text in reader.specs:
        return text
    keys = [key for key, path in reader.object_paths.items() if path == text]
    return keys[0] if len(keys) == 1 else None


def _only(reader: FormatReader, text: str, how: Selection) -> str:
    """Return the one key that a text names, its case and words taken as a selection says."""
    chosen = choose(reader, Selection(keep=(text,), ignore_case=how.ignore_case, words=how.words))
    if len(chosen) > 1:
        shown = (f"name one of them: {first_of(chosen)}",)
        message = f"{len(chosen)} tensors match {text!r}; expected one"
        raise NothingSelectedError(message, path=reader.location.path, hints=shown)
    return chosen[0]


def parse_index(text: str, spec: TensorSpec, path: str) -> tuple[Index, tuple[int, ...]]:
    """Return the index that a slice stands for, and the axes that integers in it take away.

    Raises SliceError if it is malformed or does not fit the tensor's shape.
    """

    def wrong(what: str) -> SliceError:
        message = f"slice [{text}]: {what}; the shape is {list(spec.shape)}"
        return SliceError(message, path=path, key=spec.key)

    terms = [term.strip() for term in text.split(",")] if text.strip() else []
    if terms and terms[-1] == "":
        terms.pop()
    index: list[Any] = []
    for term in terms:
        numbers = [part.strip() for part in term.split(":")]
        if term == "...":
            index.append(Ellipsis)
        elif not term:
            raise wrong("a dimension is empty")
        elif any(number and not _NUMBER.fullmatch(number) for number in numbers) or len(numbers) > 3:
            raise wrong(f"{term!r} is not a slice")
        elif len(numbers) == 1:
            index.append(int(term))
        else:
            index.append(slice(*(int(number) if number else None for number in numbers)))
    try:
        return normal_index(tuple(index), spec.shape)
    except IndexError as error:
        raise wrong(str(error)) from error
