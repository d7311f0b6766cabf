"""What `ls` shows: the tensors of a checkpoint, or the checkpoints of a directory, as data."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING, Any

from formats.core.dtypes import INVALID
from formats.errors import CheckpointError, CheckpointNotFoundError
from formats.find.directory import Directory, Member
from formats.find.location import spelling
from formats.find.opening import open_location
from formats.model.location import is_event_file, step_of
from formats.store.paths import absolute, entry_at, join, names_in, relative

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from formats.core.spec import TensorSpec
    from formats.model.reader import CheckpointReader


_ATTEMPTS = 3
"""How often a directory is looked at whose checkpoints go away meanwhile."""

_GRAPHS = ("graph.pbtxt", "graph.pb")

SORTS = {
    "key": lambda _: (),  # the order a reader lists them in
    "size": lambda spec: -(spec.nbytes or 0),
    "dtype": lambda spec: spec.dtype.name,
    "shape": lambda spec: spec.shape,
}


def tensor_row(
    reader: CheckpointReader,
    spec: TensorSpec,
    *,
    long: bool = False,
    trainable: Mapping[str, bool] | None = None,
) -> dict[str, Any]:
    """Return a tensor as `ls --json` shows it; null for what cannot be told."""
    known = spec.dtype is not INVALID
    row: dict[str, Any] = {
        "key": spec.key,
        "dtype": spec.dtype.name if known else None,
        "shape": list(spec.shape),
        "nbytes": spec.nbytes,
        "kind": reader.kinds.get(spec.key),
    }
    if long:
        stored = _stored(reader, spec) if known else None
        row |= {
            "object_path": reader.object_paths.get(spec.key),
            "full_name": reader.full_names.get(spec.key),
            "shard": stored.shard if stored else None,
            "offset": stored.offset if stored else None,
            "crc32c": stored.crc32c if stored else None,
            "trainable": trainable.get(spec.key) if trainable else None,
        }
    return row


def _stored(reader: CheckpointReader, spec: TensorSpec) -> Any:
    try:
        return reader.tensor(spec.key).stored
    except CheckpointError:
        return None


def total(reader: CheckpointReader, specs: Iterable[TensorSpec]) -> dict[str, int]:
    """Return tensors, parameters (floating and complex elements of kind variable) and bytes."""
    tensors = parameters = nbytes = 0
    kinds = reader.kinds
    for spec in specs:
        tensors += 1
        nbytes += spec.nbytes or 0
        if spec.dtype.family in ("float", "complex") and kinds.get(spec.key) == "variable":
            parameters += math.prod(spec.shape)
    return {"tensors": tensors, "parameters": parameters, "nbytes": nbytes}


def grouped(reader: CheckpointReader, specs: Iterable[TensorSpec], depth: int) -> list[dict[str, Any]]:
    """Return totals per prefix of `depth` path components, in the order of the keys."""
    groups: dict[str, list[TensorSpec]] = {}
    for spec in specs:
        groups.setdefault("/".join(spec.key.split("/", depth)[:depth]), []).append(spec)
    return [{"prefix": prefix, **total(reader, members)} for prefix, members in groups.items()]


def iso_time(seconds: float) -> str:
    """Return a time as JSON and TSV show it: ISO 8601, UTC."""
    return (
        datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        .isoformat(timespec="seconds")
        .replace("+00:00", "Z")
    )


def findings_in_short(reader: CheckpointReader) -> list[str]:
    """Return what reading a checkpoint came across, for a line among those of many checkpoints."""
    if not reader.findings:
        return []
    more = len(reader.findings) - 1
    return [reader.findings[0].text + (f", and {more:,} more findings" if more else "")]


def _member_row(member: Member, *, kept: bool | None) -> tuple[dict[str, Any] | None, list[str]]:
    """Return a checkpoint as a directory's listing shows it, and warnings; nothing where it has just gone."""
    row: dict[str, Any] = {
        "name": member.called(spelling(member.location)),
        "path": spelling(member.location),
        "format": None,
        "step": step_of(member.name),
        "tensors": None,
        "nbytes": None,
        "modified": iso_time(member.modified),
        "kept": kept,
    }
    if member.error is not None:
        return row, [str(member.error)]
    try:
        with open_location(member.location) as reader:
            sizes = [spec.nbytes or 0 for spec in reader.specs.values()]
            row |= {"format": reader.format.name, "tensors": len(sizes), "nbytes": sum(sizes)}
            return row, findings_in_short(reader)
    except CheckpointNotFoundError:
        return None, []
    except CheckpointError as error:
        return row, [str(error)]


def directory_document(path: str) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return a directory's document, notes on it, and warnings about its damaged members.

    Somebody may be saving into it: where a checkpoint goes away meanwhile, it is looked at again.
    """
    for _ in range(_ATTEMPTS - 1):
        found, complete = _directory_document(path)
        if complete:
            return found
    return _directory_document(path)[0]


def _directory_document(path: str) -> tuple[tuple[dict[str, Any], list[str], list[str]], bool]:
    """Return the document, notes and warnings, and whether all was there from beginning to end."""
    directory = Directory(path)
    rows, warnings = [], []
    complete = True
    for member in directory.members:
        listed = absolute(member.location.path) in directory.listed
        row, flaws = _member_row(member, kept=listed if directory.state is not None else None)
        if row is None:
            complete = False
            continue
        rows.append(row)
        warnings += flaws
    latest = directory.latest
    if directory.state is not None and latest is None:
        complete = False
        directory.notes.append(f"{path}: the state file names {directory.state.latest!r}, which is not there")
    name = relative(spelling(latest), path) if latest is not None else None
    document = {"directory": path, "latest": name, "checkpoints": rows, **_beside(path)}
    return (document, directory.notes, warnings), complete


def _beside(path: str) -> dict[str, list[dict[str, Any]]]:
    """Return the event files and graphs of a run directory, and the event files of its evaluations.

    An Estimator evaluates into `eval`, or `eval_NAME`.
    """
    found: dict[str, list[dict[str, Any]]] = {"events": [], "graphs": []}
    for name, is_directory in _entries(path):
        if is_directory and (name == "eval" or name.startswith("eval_")):
            inside = [f"{name}/{below}" for below, _ in _entries(join(path, name)) if is_event_file(below)]
            found["events"] += _sized(path, inside)
        elif not is_directory and is_event_file(name):
            found["events"] += _sized(path, [name])
        elif not is_directory and (name in _GRAPHS or name.endswith(".meta")):
            found["graphs"] += _sized(path, [name])
    return found


def _entries(path: str) -> list[tuple[str, bool]]:
    """Return the names in a directory; of one that has gone, none."""
    try:
        return names_in(path)
    except CheckpointError:
        return []


def _sized(directory: str, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return files with their sizes and times, those that are still there."""
    found = []
    for name in names:
        entry = entry_at(join(directory, name))
        if entry is not None:
            found.append({"name": name, "nbytes": entry.size, "modified": iso_time(entry.modified)})
    return found


def checkpoint_rows(specs: list[TensorSpec], sort: str, *, reverse: bool) -> list[TensorSpec]:
    """Return specs in the order asked for."""
    ordered = specs if sort == "key" else sorted(specs, key=SORTS[sort])
    return ordered[::-1] if reverse else ordered


def missing_shards(reader: CheckpointReader) -> list[str]:
    """Return a warning for each data file that tensors of the listing lie in and that is not there."""
    return [f"{path}: missing; its tensors are listed, but cannot be read" for path in reader.missing_files()]
