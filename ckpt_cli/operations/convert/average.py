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

from .lazy import Computed, Mean
from .placement import layout_of
from .plan import Move, Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.find.directory import Directory
    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import CheckpointReader
    from formats.model.tensor import LazyTensor


def last_of(directory: Directory, count: int, target: Location) -> list[CheckpointLocation]:
    """Return the `count` newest checkpoints of a directory, oldest first; `target` itself is none of them.

    Raises NoCheckpointsError where there is none, CheckpointNotFoundError where there are fewer, and what
    is wrong with one that is damaged.
    """
    own = os.path.abspath(target.removesuffix(".index"))
    members = [member for member in directory.members if os.path.abspath(member.location.path) != own]
    if not directory.members:
        raise no_checkpoints(directory.path)
    if len(members) < count:
        message = f"{counted(len(members), 'checkpoint')} in this directory, the last {count} were asked for"
        hints = (f"to see what is there: {command_line('ls', directory.path)}",)
        raise CheckpointNotFoundError(message, path=directory.path, hints=hints)
    chosen = members[-count:]
    for member in chosen:
        if member.error is not None:
            raise member.error
    return [member.location for member in chosen]


def plan_average(readers: Sequence[CheckpointReader], target: Location) -> Plan:
    """Return the plan of averaging checkpoints that agree in keys, dtypes and shapes.

    The shape of a variant says of how many parts the state of an iterator is, which changes from
    step to step: it is not asked for, as variants are those of the last checkpoint.
    Raises ConversionError, naming a tensor, where they do not, and where their format
    cannot be written.
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
        rest = f"; from {last.location.path} alone: {counted(left, 'tensor')}" if left else ""
        what = counted(averaged, "tensor is", "tensors are")
        note = f"{what} the mean of {len(readers)} checkpoints{rest}"
    else:
        note = f"the mean of one checkpoint is that checkpoint: all values are those of {last.location.path}"
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


def _check_alike(reader: CheckpointReader, last: CheckpointReader) -> None:
    """Refuse a source whose tensors are not those of the last one."""
    if reader.format.name != last.format.name:
        message = f"is {reader.format.name}, {last.location.path} is {last.format.name}"
        words = ("convert", spelling(reader.location), "DST", "--to", last.format.name)
        hints = (f"to bring it into that format first: {command_line(*words)}",)
        raise ConversionError(message, path=reader.location.path, hints=hints)
    both = command_line("diff", "--no-values", spelling(reader.location), spelling(last.location))
    hints = (f"to see all differences: {both}",)
    missing = [key for key in last.specs if key not in reader.specs]
    surplus = [key for key in reader.specs if key not in last.specs]
    for keys, where in ((missing, "is not there"), (surplus, "is there alone")):
        if keys:
            what = counted(len(keys), "tensor differs", "tensors differ")
            message = f"{what} from those of {last.location.path}, this one {where}"
            raise ConversionError(message, path=reader.location.path, key=keys[0], hints=hints)
    for key, spec in last.specs.items():
        mine = reader.specs[key]
        if mine.dtype is spec.dtype is VARIANT:
            continue
        if (mine.dtype, mine.shape) != (spec.dtype, spec.shape):
            message = (
                f"{mine.dtype} {list(mine.shape)}, {spec.dtype} {list(spec.shape)} in {last.location.path}"
            )
            raise ConversionError(message, path=reader.location.path, key=key, hints=hints)
