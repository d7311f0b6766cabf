"""Taking tensors out of a checkpoint, into files that other programs read.

    .npz .safetensors .h5    a file of the chosen tensors, written and proven as conversions are
    .npy, -                  one tensor, as numpy saves it
    DIR/                     a .npy file a tensor, see `safe_paths`
    .json                    an object: nested lists by key

Everything streams, so a tensor may be larger than memory.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.dtypes import BY_NAME, VARIANT, DType
from formats.core.npy import NPY_DTYPES, npy_chunks
from formats.core.words import command_line, first_of
from formats.errors import (
    CheckpointExistsError,
    ConversionError,
    DuplicateKeyError,
    UnsupportedDtypeError,
    cast_or_leave_out,
    leave_out,
)
from formats.find.registry import format_named
from formats.find.resolve import spelling
from formats.model.checkpoint_files import INDEX_SUFFIX, MAP
from formats.model.facts import Facts, Nothing, respelled
from formats.store.local.directories import make_directories, sync_directory
from formats.store.local.links import followed
from formats.store.local.refusals import refusing
from formats.store.local.staged_file import StagedFile
from formats.store.local.staging import Staging
from formats.store.work.workers import SERIAL, Workers

from ..look.values import as_json
from ..select.safe_paths import dataset_names, safe_paths
from .execute import cast_chunks, execute
from .plan import FULL, Dropped, Move, Outcome, Plan
from .single_file import refuse_single, write_single
from .source import exports_objects, plain_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from formats.core.chunks import Chunk
    from formats.core.spec import TensorSpec
    from formats.location import Location
    from formats.model.reader import Format, FormatReader

    from ..select.slices import TensorSlice


_FORMATS = {
    ".npz": "npz",
    ".safetensors": "safetensors",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".sft": "safetensors",
}
_SUFFIXES = {**_FORMATS, ".npy": "npy", ".json": "json"}
_SMALL_INTEGERS = frozenset(("int4", "uint4", "int2", "uint2"))
_JSON_BATCH = 4096
_MOST_EMPTY_LISTS = 100_000


class Output(NamedTuple):
    """The destination of tensors: `kind` is a format's id, npy, json, directory or stdout."""

    kind: str
    path: Location

    @property
    def holds_one(self) -> bool:
        return self.kind in ("npy", "stdout")

    @property
    def format(self) -> Format | None:
        """The checkpoint format that is written, where it is one."""
        return format_named(self.kind) if self.is_proven else None

    @property
    def is_proven(self) -> bool:
        """Whether what is written is opened again and compared before it is moved into place."""
        return self.kind in _FORMATS.values()

    @property
    def name(self) -> str:
        """Its name in messages and documents."""
        return "npy" if self.kind in ("directory", "stdout") else self.kind

    def holds(self, dtype: DType) -> bool:
        """Whether it can hold tensors of a dtype."""
        if self.format is not None:
            return self.format.holds(dtype)
        names = frozenset(BY_NAME) - {VARIANT.name} if self.kind == "json" else NPY_DTYPES
        return dtype.is_mapped and dtype.name in names


def output_of(path: Location) -> Output:
    """Return the output for a target. Raises ValueError if its name does not show the kind."""
    if path == "-":
        return Output("stdout", path)
    if path.endswith("/") or path.is_folder():
        return Output("directory", path.of(path.rstrip("/") or "/"))
    suffix = ".safetensors" if path.endswith(INDEX_SUFFIX) else os.path.splitext(path)[1].lower()
    kind = _SUFFIXES.get(suffix)
    if kind is None:
        known = ", ".join(_SUFFIXES)
        raise ValueError(f"{path!r} has no known suffix; use {known}, or DIR/ for one file per tensor")
    if kind == "json" and MAP.fullmatch(path):
        raise ValueError(
            f"{path!r} is the name of a model's shard index; choose another name that ends in .json"
        )
    return Output(kind, path)


# Planning -------------------------------------------------------------------------


def plan_extract(
    reader: FormatReader,
    parts: Sequence[TensorSlice],
    output: Output,
    *,
    cast: DType | None = None,
    by_name: bool = True,
    stored_keys: bool = False,
) -> Plan:
    """Return the plan of extracting parts; `by_name` if they were named, rather than all tensors.

    With `stored_keys`, those of objects keep their suffix.
    Of everything, state and graph that the target cannot hold are left out and listed.
    Raises ConversionError, with the remedy, for what else it cannot hold.
    """
    moves, dropped = [], []
    names = {part.key: reader.own_keys.get(part.key, part.key) for part in parts}
    if exports_objects(reader, output.format) and not stored_keys:
        names = plain_names(names, reader)
    parts_of = Counter(part.key for part in parts)
    for part in parts:
        tensor = part.tensor(reader)
        reason = _misfit(tensor.spec, cast, output)
        kind = reader.kinds.get(part.key, "variable")
        if not by_name and (kind == "graph" or (kind == "state" and reason)):
            dropped.append(
                Dropped(part.key, reason or "the object graph is extracted only if you name its key")
            )
            continue
        if reason:
            raise _rejection(reader, tensor.spec, reason, is_only=len(parts_of) == 1)
        name = names[part.key] + (part.text or "" if parts_of[part.key] > 1 else "")
        stored = tensor.spec.stored if tensor.spec.dtype.is_unmapped else None
        spec = tensor.spec.plain._replace(key=name, dtype=_cast(tensor.spec, cast), stored=stored)
        moves.append(Move(spec, part.key, tensor))
    if output.holds_one and len(moves) != 1:
        some = first_of([repr(move.spec.key) for move in moves])
        hints = ("name one key, or pass -o DIR/ to write one file per tensor",)
        is_stdout = output.kind == "stdout"
        taker = "stdout" if is_stdout else "this output"
        message = f"{taker} takes one tensor, but {len(moves)} are selected: {some}"
        raise ConversionError(message, path=None if is_stdout else output.path, hints=hints)
    named, notes, facts = _named(moves, output)
    source, target = reader.location.path, output.path
    return Plan(
        source,
        target,
        output.name,
        tuple(named),
        tuple(dropped),
        facts=facts,
        notes=tuple(notes),
        sources=(reader,),
    )


def _cast(spec: TensorSpec, cast: DType | None) -> DType:
    castable = spec.dtype.is_floating or spec.dtype.name in _SMALL_INTEGERS
    return cast if cast is not None and castable else spec.dtype


def _misfit(spec: TensorSpec, cast: DType | None, output: Output) -> str | None:
    """Return why a target cannot hold a tensor; None if it can."""
    dtype = _cast(spec, cast)
    return None if output.holds(dtype) else f"{output.name} cannot store {dtype} tensors"


def _rejection(
    reader: FormatReader, spec: TensorSpec, reason: str, *, is_only: bool
) -> UnsupportedDtypeError:
    castable = spec.dtype.is_floating or spec.dtype.name in _SMALL_INTEGERS
    *cast, leaving_out = cast_or_leave_out(spec.key, castable=castable)
    seeing = f"to see this tensor: {command_line('show', spelling(reader.location), spec.key)}"
    hints = (*cast, seeing if is_only else leaving_out)
    return UnsupportedDtypeError(reason, path=reader.location.path, key=spec.key, hints=hints)


def _named(moves: Sequence[Move], output: Output) -> tuple[list[Move], list[str], Facts]:
    """Return moves under the names that the target has for them, and what to say of those that changed."""
    keys = [move.spec.key for move in moves]
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DuplicateKeyError("two tensors have this key", path=output.path, key=twice)
    notes: list[str] = []
    facts: Facts = Nothing()
    if output.kind == "directory":
        names = safe_paths(keys, ".npy")
    elif output.format is not None and output.format.nests_keys:
        names, notes = dataset_names(keys, output.path)
        facts = respelled(facts, names)
    else:
        return list(moves), notes, facts
    named = [move._replace(spec=move.spec._replace(key=names[move.spec.key])) for move in moves]
    return named, notes, facts


# Writing --------------------------------------------------------------------------


def stream(plan: Plan, *, check_first: bool = False) -> Iterator[Chunk]:
    """Yield the one tensor of a plan as a `.npy` file.

    With `check_first` it is read twice: nothing of it is yielded before its checksum was compared.
    """
    (move,) = plan.moves
    assert move.tensor is not None
    if check_first and any(reader.has_checksums for reader in plan.sources):
        for _ in move.tensor.chunks():
            pass
    try:
        yield from npy_chunks(move.spec, cast_chunks(move.tensor, move.spec), None)
    except ConversionError as error:
        error.path = error.path or plan.source
        raise


def write(
    plan: Plan,
    output: Output,
    *,
    overwrite: bool = False,
    proof: str = FULL,
    dry_run: bool = False,
    workers: Workers = SERIAL,
    advance: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Write a plan's target; nothing is left behind where that fails.

    Raises CheckpointExistsError for a target that is there, unless `overwrite`; of a
    directory, then, only the files of that name are replaced.  A dry run raises it, too,
    and writes nothing.
    """
    try:
        if output.is_proven:
            return execute(
                plan, overwrite=overwrite, proof=proof, dry_run=dry_run, workers=workers, advance=advance
            )
        if dry_run:
            _check_target(output, overwrite=overwrite)
            return Outcome(list(plan.notes))
        _write_staged(plan, output, overwrite=overwrite, advance=advance)
    except ConversionError as error:
        error.path = error.path or plan.source
        raise
    return Outcome(list(plan.notes))


def _write_staged(plan: Plan, output: Output, *, overwrite: bool, advance: Callable[[int], None]) -> None:
    if output.kind != "directory":
        chunks = stream(plan) if output.kind == "npy" else _json_object(plan)
        write_single(output.path, chunks, overwrite=overwrite, prove=plan.check_unchanged, advance=advance)
        return
    output = output._replace(path=followed(output.path))
    _check_target(output, overwrite=overwrite)
    staging = Staging(output.path, [output.path])
    try:
        _stage_files(plan, staging, advance)
        staging.sync()
        plan.check_unchanged()
        with staging.alone():
            _check_target(output, overwrite=overwrite)
            with refusing(output.path):
                _move_directory(plan, staging)
    finally:
        staging.remove()


def _check_target(output: Output, *, overwrite: bool) -> None:
    path = output.path
    if output.kind == "stdout":
        return
    if output.kind != "directory":
        refuse_single(path, overwrite=overwrite)
        return
    path.require_local()  # a folder of objects would not be there at one stroke
    if not path.exists():
        path.require_access()
        return
    is_directory = path.is_folder()
    if not is_directory:
        raise CheckpointExistsError("this is a file; name a directory", path=path)
    if not overwrite and path.listing():
        raise CheckpointExistsError(
            "this path already exists", path=path, hints=("pass --overwrite to replace it",)
        )


_FOLDER = "tensors"
"""The staged directory: one below the staging directory, which other users cannot enter."""


def _stage_files(plan: Plan, staging: Staging, advance: Callable[[int], None]) -> None:
    with refusing(plan.target):
        os.mkdir(staging.path(_FOLDER))
    for move in plan.moves:
        assert move.tensor is not None
        path = staging.path(os.path.join(_FOLDER, move.spec.key))
        with refusing(plan.target):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with StagedFile(path, plan.target) as file:
            spec = move.spec._replace(key=move.source or move.spec.key)  # what errors are to name
            for chunk in npy_chunks(spec, cast_chunks(move.tensor, spec), staging.staged):
                file.write(chunk)
                advance(len(chunk))


def _move_directory(plan: Plan, staging: Staging) -> None:
    """Move the staged directory to its place, or its files into a directory that is there."""
    target = staging.target
    if not target.exists() or not target.listing():
        staging.move(_FOLDER, target)
        sync_directory(staging.directory)
        return
    for move in plan.moves:
        _refuse_links(target, move.spec.key)
    parents = {os.path.dirname(os.path.join(target, move.spec.key)) for move in plan.moves}
    for parent in sorted(parents):
        make_directories(parent)
    for move in plan.moves:
        staging.move(os.path.join(_FOLDER, move.spec.key), os.path.join(target, move.spec.key))
    for parent in parents:
        sync_directory(parent)


def _refuse_links(directory: Location, key: str) -> None:
    """Refuse to write through links below a directory, which keys are never to leave."""
    path = directory
    for part in key.split("/"):
        path = path / part
        if path.is_link():
            message = "this is a symbolic link, which could point outside the target directory"
            raise CheckpointExistsError(
                message, path=path, hints=("remove the link, or choose another target",)
            )


# JSON -----------------------------------------------------------------------------


def _json_object(plan: Plan) -> Iterator[bytes]:
    """Yield a JSON object of nested lists by key, a bounded piece at a time."""
    separator = "{"
    for move in plan.moves:
        yield f"{separator}\n{json.dumps(move.spec.key)}: ".encode()
        yield from _nested(move.spec, map(_spelled, _elements(move)))
        separator = ","
    yield b"\n}\n" if plan.moves else b"{}\n"


def _elements(move: Move) -> Iterator[Any]:
    """Yield the elements of a tensor as JSON values."""
    import numpy as np

    dtype = move.spec.dtype
    assert move.tensor is not None
    for chunk in cast_chunks(move.tensor, move.spec):
        if dtype.itemsize is None:
            element = np.empty((), object)
            element[()] = bytes(chunk)
            yield as_json(element, dtype)
        else:
            yield from as_json(np.frombuffer(chunk, dtype.numpy), dtype)


def _spelled(value: Any) -> str:
    """Return a JSON value; the floats that JSON has not are text."""
    if isinstance(value, float) and not math.isfinite(value):
        return '"nan"' if math.isnan(value) else '"inf"' if value > 0 else '"-inf"'
    if isinstance(value, list):
        return f"[{', '.join(map(_spelled, value))}]"
    return json.dumps(value)


def _nested(spec: TensorSpec, elements: Iterable[str]) -> Iterator[bytes]:
    """Yield nested lists of a tensor's shape around its elements."""
    if spec.size == 0:
        yield _empty(spec).encode()
        return
    # After this many elements, this many lists end and begin.
    periods = [math.prod(spec.shape[axis:]) for axis in range(1, spec.rank)]
    batch = ["[" * spec.rank]
    for number, element in enumerate(elements):
        if number:
            ends = sum(number % period == 0 for period in periods)
            batch.append("]" * ends + ", " + "[" * ends)
        batch.append(element)
        if len(batch) > _JSON_BATCH:
            yield "".join(batch).encode()
            batch.clear()
    yield ("".join(batch) + "]" * spec.rank).encode()


def _empty(spec: TensorSpec) -> str:
    """Return the nested lists of a tensor without elements."""
    lists = spec.shape[: spec.shape.index(0)]
    if math.prod(lists) > _MOST_EMPTY_LISTS:
        message = f"the shape {list(spec.shape)} has no elements, but needs {math.prod(lists)} nested lists"
        raise ConversionError(message, key=spec.key, hints=(leave_out(spec.key),))
    value: list[Any] = []
    for dim in reversed(lists):
        value = [value] * dim
    return json.dumps(value)
