"""The mean of checkpoints, element by element.

Floating and complex tensors are summed in float64, a piece of every source at a time,
and rounded once to their own dtype.  Everything else (integers, strings, the object
graph) is the last source's, as are format, slices and what the file says of itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from formats.core.dtypes import VARIANT
from formats.core.words import command_line, counted
from formats.errors import CheckpointNotFoundError, ConversionError
from formats.find.directory import no_checkpoints
from formats.find.resolve import spelling
from formats.model.facts import common
from formats.model.reader import Family

from .lazy import Computed, Mean
from .placement import layout_of
from .plan import Move, Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.find.directory import Directory
    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import FormatReader
    from formats.model.tensor import LazyTensor


def last_of(directory: Directory, count: int, target: Location) -> list[CheckpointLocation]:
    """Return the `count` newest checkpoints of a directory, oldest first; `target` itself is none of them.

    Raises NoCheckpointsError if there is none, CheckpointNotFoundError if there are fewer, and what
    is wrong with one that is damaged.
    """
    own = os.path.abspath(target.removesuffix(".index"))
    members = [member for member in directory.members if os.path.abspath(member.location.path) != own]
    if not directory.members:
        raise no_checkpoints(directory.path)
    if len(members) < count:
        message = f"found {counted(len(members), 'checkpoint')} in this directory; expected at least {count}"
        hints = (f"to list the directory: {command_line('ls', directory.path)}",)
        raise CheckpointNotFoundError(message, path=directory.path, hints=hints)
    chosen = members[-count:]
    for member in chosen:
        if member.error is not None:
            raise member.error
    return [member.location for member in chosen]


def plan_average(readers: Sequence[FormatReader], target: Location) -> Plan:
    """Return the plan of averaging checkpoints that agree in keys, dtypes and shapes.

    The shape of a variant is the number of parts of an iterator's state, which changes from step to step. It
    is not compared, because variants are those of the last checkpoint. Raises ConversionError, naming a
    tensor, if others differ, and if their format cannot be written.
    """
    last = readers[-1]
    for reader in readers[:-1]:
        _check_alike(reader, last)
    moves = []
    for key in last.specs:
        tensor: LazyTensor = last[key]
        if tensor.spec.dtype.family in ("float", "complex"):
            origins = [reader[key] for reader in readers]
            tensor = Computed(tensor.spec, origins, Mean(tensor.spec.dtype, len(origins)))
        moves.append(Move(tensor.spec, key, tensor))
    slices = {key: [extents for extents, _ in found] for key in last.specs if (found := last[key].pieces())}
    source = ", ".join(reader.location.path for reader in readers)
    averaged = sum(isinstance(move.tensor, Computed) for move in moves)
    if len(readers) > 1:
        left = len(moves) - averaged
        rest = (
            f"; {counted(left, 'tensor is', 'tensors are')} copied from {last.location.path}" if left else ""
        )
        what = counted(averaged, "tensor is", "tensors are")
        note = f"{what} averaged over {len(readers)} checkpoints{rest}"
    else:
        note = f"found only one checkpoint, {last.location.path}; all values are copied from it"
    return Plan(
        source,
        target,
        last.format.name,
        tuple(moves),
        slices=slices,
        facts=common(last.proved_facts(), [reader.facts for reader in readers]),
        notes=(note,),
        sources=tuple(readers),
        layout=lambda: layout_of(last, ((key, key) for key in last.specs)),
    )


def _check_alike(reader: FormatReader, last: FormatReader) -> None:
    """Refuse a source whose tensors are not those of the last one."""
    if reader.format.name != last.format.name:
        message = f"the format is {reader.format.name}, but {last.location.path} is {last.format.name}"
        words = ["convert", spelling(reader.location), "DST", "--to", last.format.name]
        if last.format.family is Family.KERAS:  # a Keras file needs a model, or a template
            words += ["--like", spelling(last.location), "--keep-optimizer"]
        hints = (f"to convert this checkpoint to that format first: {command_line(*words)}",)
        raise ConversionError(message, path=reader.location.path, hints=hints)
    both = command_line("diff", "--no-values", spelling(reader.location), spelling(last.location))
    hints = (f"to see all differences: {both}",)
    missing = [key for key in last.specs if key not in reader.specs]
    surplus = [key for key in reader.specs if key not in last.specs]
    for keys, lacking, having in ((missing, reader, last), (surplus, last, reader)):
        if keys:
            rest = counted(len(keys) - 1, "more tensor")
            more = f"; {rest} {'is' if len(keys) == 2 else 'are'} missing" if len(keys) > 1 else ""
            message = f"{having.location.path} has this tensor, but {lacking.location.path} does not{more}"
            raise ConversionError(message, path=reader.location.path, key=keys[0], hints=hints)
    for key, spec in last.specs.items():
        mine = reader.specs[key]
        if mine.dtype is spec.dtype is VARIANT:
            continue
        if (mine.dtype, mine.shape) != (spec.dtype, spec.shape):
            theirs = f"{spec.dtype} {list(spec.shape)} in {last.location.path}"
            message = f"this tensor is {mine.dtype} {list(mine.shape)}, but {theirs}"
            raise ConversionError(message, path=reader.location.path, key=key, hints=hints)
