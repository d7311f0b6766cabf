"""One tensor, or a part of it, as people name it: KEY or KEY[SLICE].

A slice is numpy's: `kernel[0:10,:]`, `kernel[-1]`, `kernel[..., ::2]`.  A key that is
there wins over a slice, brackets and all, and a slice wins over a pattern.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import CheckpointError

from .select import NothingSelectedError, Selection, choose

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from formats.model import CheckpointReader, Index, TensorSpec

__all__ = ["Part", "SliceError", "find_part", "parse_index"]

_SLICED = re.compile(r"(?P<key>.+)\[(?P<slice>[-+\d:,.\s]*)\]", re.DOTALL)
_NUMBER = re.compile(r"[-+]?\d+")


class SliceError(CheckpointError):
    """A slice that does not fit its tensor."""


class Part(NamedTuple):
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

    def read(self, reader: CheckpointReader) -> np.ndarray[Any, Any]:
        """Return the part, reading no more than it needs."""
        if self.region is None:
            return reader[self.key].read()
        return reader[self.key].read_slice(self.region).reshape(self.shape)

    def arrays(self, reader: CheckpointReader) -> Iterator[np.ndarray[Any, Any]]:
        """Yield the part's elements as flat arrays, none of them larger than a piece where it is whole."""
        import numpy as np

        dtype = self.spec.dtype
        if self.region is not None or dtype.itemsize is None:
            yield self.read(reader).reshape(-1)
            return
        for chunk in reader[self.key].chunks():
            yield np.frombuffer(chunk, dtype.numpy)


def find_part(reader: CheckpointReader, text: str) -> Part:
    """Return the one tensor, or part of one, that `text` names; NothingSelectedError where it names none."""
    named = _named(reader, text)
    if named is not None:
        return Part(named, reader.specs[named])
    sliced = _SLICED.fullmatch(text)
    if sliced:
        key = _named(reader, sliced["key"]) or _only(reader, sliced["key"])
        spec = reader.specs[key]
        index, dropped = parse_index(sliced["slice"], spec, reader.location.path)
        return Part(key, spec, index, dropped, f"[{sliced['slice'].strip()}]")
    key = _only(reader, text)
    return Part(key, reader.specs[key])


def _named(reader: CheckpointReader, text: str) -> str | None:
    """Return the key that is `text`, or whose object path is and no other's."""
    if text in reader.specs:
        return text
    keys = [key for key, path in reader.object_paths.items() if path == text]
    return keys[0] if len(keys) == 1 else None


def _only(reader: CheckpointReader, text: str) -> str:
    chosen = choose(reader, Selection(keep=(text,)))
    if len(chosen) > 1:
        shown = tuple(f"one of them: {key}" for key in chosen[:3])
        message = f"{len(chosen)} tensors match {text!r}, one is wanted"
        raise NothingSelectedError(message, path=reader.location.path, hints=shown)
    return chosen[0]


def parse_index(text: str, spec: TensorSpec, path: str) -> tuple[Index, tuple[int, ...]]:
    """Return the index that a slice stands for, and the axes that integers in it take away.

    Raises SliceError where it is malformed or does not fit the tensor's shape.
    """

    def wrong(what: str) -> SliceError:
        message = f"slice [{text}]: {what}, shape is {list(spec.shape)}"
        return SliceError(message, path=path, key=spec.key)

    terms = [term.strip() for term in text.split(",")] if text.strip() else []
    if terms and terms[-1] == "":
        terms.pop()
    if terms.count("...") > 1:
        raise wrong("more than one ...")
    if "..." in terms:
        at = terms.index("...")
        terms[at : at + 1] = [":"] * (spec.rank - len(terms) + 1)
    if len(terms) > spec.rank:
        raise wrong(f"{len(terms)} dimensions")
    index, dropped = [], []
    for axis, dim in enumerate(spec.shape):
        term = terms[axis] if axis < len(terms) else ":"
        numbers = [part.strip() for part in term.split(":")]
        if any(number and not _NUMBER.fullmatch(number) for number in numbers) or not 0 < len(numbers) <= 3:
            raise wrong(f"{term!r} is no slice")
        if len(numbers) == 1:
            if not numbers[0]:
                raise wrong("an empty dimension")
            at = int(numbers[0])
            if not -dim <= at < dim:
                raise wrong(f"{at} is outside of dimension {axis}")
            index.append(slice(at % dim, at % dim + 1, 1))
            dropped.append(axis)
            continue
        wanted = slice(*(int(number) if number else None for number in numbers))
        if wanted.step is not None and wanted.step < 1:
            raise wrong("steps go forward")
        start, stop, step = wanted.indices(dim)
        index.append(slice(start, max(start, stop), step))
    return tuple(index), tuple(dropped)
