"""The shapes that weights of PyTorch's modules can have, and checks against them.

    O I K L     four dimensions; a word is one number throughout a layer
    3*H         a multiple of such a number
    1           this number
    N...        any number of dimensions but none

A tensor of another shape would be written, and no module could load it; or one could, and compute
something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.axes import Join
from .model import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..core.axes import Shape
    from .in_pytorch import LayoutRow


ONE_OR_MORE = "C>1"
"""A number above 1: a single one would not show how many dimensions Keras uses for it."""


def check_variables(rows: Iterable[LayoutRow], shapes: Mapping[str, Shape]) -> None:
    """Raise ModelError if a variable would be a tensor that PyTorch's module cannot have.

    `shapes` are those of variables by their names in the model; missing ones are skipped.
    """
    listed = [row for row in rows if row.old in shapes]
    parts: dict[str, int] = {}
    for row in listed:
        parts[row.new] = parts.get(row.new, 0) + 1
    made = []
    for row in listed:
        count = parts[row.new] if isinstance(row.steps.turn, Join) else 1
        steps = row.steps
        if isinstance(steps.turn, Join):
            steps = steps._replace(turn=steps.turn._replace(parts=count))
        try:
            made.append((row, steps.shapes([shapes[row.old]] * count)[0]))
        except ValueError as error:
            raise ModelError(
                f"{_of(row)} has shape {list(shapes[row.old])}, {_takes(row)} ({error})"
            ) from error
    for row, shape, known in _unfit(made):
        became = f", which becomes {list(shape)}" if shape != tuple(shapes[row.old]) else ""
        raise ModelError(f"{_of(row)} has shape {list(shapes[row.old])}{became}, {_takes(row)}{known}")


def check_tensors(rows: Iterable[LayoutRow], shapes: Mapping[str, Shape]) -> None:
    """Raise ModelError if a tensor has a shape that PyTorch's module cannot have.

    `shapes` are those of tensors by their names in PyTorch; missing ones are skipped.
    """
    for row, shape, known in _unfit([(row, shapes[row.new]) for row in rows if row.new in shapes]):
        raise ModelError(f"{_of(row)}: {row.new!r} has shape {list(shape)}, {_takes(row)}{known}")


def _of(row: LayoutRow) -> str:
    return f"{row.old!r} of layer {row.layer!r} ({row.class_name})"


def _takes(row: LayoutRow) -> str:
    unknown_rank = ""
    if row.takes == ONE_OR_MORE:
        unknown_rank = " (the input rank is unknown; build_config has it since Keras 2.12)"
    return f"PyTorch takes [{', '.join(row.takes.split())}] for {row.new!r}{unknown_rank}"


def _unfit(found: Iterable[tuple[LayoutRow, Shape]]) -> Iterable[tuple[LayoutRow, Shape, str]]:
    """Yield what does not fit, and what its words stand for by then, for people."""
    layers: dict[str, dict[str, Shape]] = {}
    for row, shape in found:
        sizes = layers.setdefault(row.layer, {})
        known = ", ".join(f"{word} is {_spelled(size)}" for word, size in sizes.items() if word in row.takes)
        if not _fits(row.takes, shape, sizes):
            yield row, shape, f"; {known}" if known else ""


def _spelled(size: Shape) -> str:
    return ", ".join(map(str, size))


def _fits(takes: str, shape: Shape, sizes: dict[str, Shape]) -> bool:
    words = takes.split()
    if takes.endswith("..."):
        return len(shape) > 0 and sizes.setdefault(takes.removesuffix("..."), shape) == shape
    if len(words) != len(shape):
        return False
    return all(_is(word, dim, sizes) for word, dim in zip(words, shape, strict=True))


def _is(word: str, dim: int, sizes: dict[str, Shape]) -> bool:
    if word.isdigit():
        return dim == int(word)
    if word == ONE_OR_MORE:
        return dim > 1
    factor, _, name = word.rpartition("*")
    times = int(factor or 1)
    return dim % times == 0 and sizes.setdefault(name, (dim // times,)) == (dim // times,)
