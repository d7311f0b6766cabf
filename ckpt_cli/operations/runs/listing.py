"""The checkpoints of a directory, and its other files, as `ls` lists them, as data."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.words import age_in_words, command_line, counted
from formats.errors import CheckpointError, CheckpointNotFoundError
from formats.find.directory import Directory, Member, count_below
from formats.find.opening import open_location
from formats.find.resolve import spelling
from formats.model.checkpoint_files import is_event_file, is_leftover

from .steps import stored_step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from formats.location import Location
    from formats.model.reader import FormatReader
    from formats.store.base import Identity


_ATTEMPTS = 3
"""How often a directory is looked at whose checkpoints go away meanwhile."""

ATTEMPTS_OF_EMPTY = 10
"""The same if all of its checkpoints were deleted meanwhile: a listing without any would be wrong."""

MOST_NAMED = 100
"""Checkpoints named of those that share a file with one: all of ten thousand would be a list for each."""

_MANY = 500
"""Checkpoints of a directory that are worth processes to open them."""

_GRAPHS = ("graph.pbtxt", "graph.pb")


def iso_time(seconds: float) -> str | None:
    """Return a time as JSON and TSV show it: ISO 8601, UTC; None if a store has none."""
    if not seconds:
        return None
    return (
        datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        .isoformat(timespec="seconds")
        .replace("+00:00", "Z")
    )


def findings_in_short(reader: FormatReader) -> list[str]:
    """Return what reading a checkpoint came across, for a line among those of many checkpoints."""
    if not reader.findings:
        return []
    more = len(reader.findings) - 1
    tail = f"; {counted(more, 'more problem was', 'more problems were')} found" if more else ""
    return [reader.findings[0].text + tail]


class _ListingRow(NamedTuple):
    """A checkpoint as a directory's listing shows it; no fields where it has just gone."""

    fields: dict[str, Any] | None
    warnings: list[str]
    files: frozenset[Identity] = frozenset()


def _member_row(member: Member, *, kept: bool | None, long: bool) -> _ListingRow:
    row: dict[str, Any] = {
        "name": member.called(spelling(member.location)),
        "path": spelling(member.location),
        "format": None,
        "step": member.step,
        "tensors": None,
        "nbytes": None,
        "modified": iso_time(member.modified),
        "kept": kept,
        "shared_with": [],
        "shared_nbytes": 0,
        "incomplete": False,
    } | ({"stored_step": None} if long else {})
    if member.error is not None:
        return _ListingRow(row, [str(member.error)])
    try:
        with open_location(member.location) as reader:
            specs = reader.specs.items()
            sizes = [0 if key in reader.tied else spec.stored_nbytes or 0 for key, spec in specs]
            row |= {"format": reader.format.name, "tensors": len(sizes), "nbytes": sum(sizes)}
            row["incomplete"] = member.location.store.lists_first and bool(reader.missing_files())
            if long:
                row["stored_step"] = stored_step(reader)
            is_local = member.location.store.system_path(member.location.head) is not None
            files = frozenset((reader.fingerprint or {}).values()) if is_local else frozenset()
            return _ListingRow(row, findings_in_short(reader), files)
    except CheckpointNotFoundError:
        return _ListingRow(None, [])
    except CheckpointError as error:
        return _ListingRow(row, [str(error)])


def _member_rows(directory: Directory, jobs: int, *, long: bool) -> Iterator[_ListingRow]:
    """Yield the rows of a directory's checkpoints, oldest first."""

    def row(member: Member) -> _ListingRow:
        listed = member.location.path.absolute() in directory.listed
        return _member_row(member, kept=listed if directory.state is not None else None, long=long)

    if jobs == 1 or len(directory.members) < _MANY:
        return map(row, directory.members)
    from formats.store.work.forked import each_of_many  # a small directory does not need this import

    return each_of_many(row, directory.members, jobs, directory.path.store)


def _count_shared_bytes(rows: Sequence[tuple[dict[str, Any], frozenset[Identity]]]) -> None:
    """Say of each checkpoint how many bytes it has in common with others: files that are hard links to one.

    Only the first of the others are named.
    """
    owners: dict[Identity, list[str]] = {}
    for fields, files in rows:
        for file in files:
            owners.setdefault(file, []).append(fields["name"])
    for fields, files in rows:
        shared = [file for file in files if len(owners[file]) > 1]
        others = dict.fromkeys(name for file in shared for name in owners[file][: MOST_NAMED + 1])
        fields["shared_with"] = [name for name in others if name != fields["name"]][:MOST_NAMED]
        fields["shared_nbytes"] = sum(size for _, _, size, _ in shared if isinstance(size, int))


def is_run(checkpoints: Sequence[dict[str, Any]]) -> bool:
    """Whether checkpoints belong together: there is a state file, or their names differ in the step."""
    if any(row["kept"] is not None for row in checkpoints):
        return True
    saved = [row for row in checkpoints if row["step"] is not None]
    series = {row["name"].rpartition("-")[0] for row in saved}
    return len(series) == 1 and (len(saved) > 1 or saved == checkpoints)


def directory_document(
    path: Location, *, long: bool = False, recursive: bool = False, jobs: int = 1
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return a directory's document, notes on it, and warnings about its damaged members.

    With `long` each checkpoint is opened for the training step that it holds.
    Another process may be saving into it. If a checkpoint disappears meanwhile, the directory is read again.
    As many processes as there are `jobs` open the checkpoints of a large directory.
    With `recursive`, no note says what is in the directories below, which are listed, too.
    """
    for attempt in range(1, ATTEMPTS_OF_EMPTY + 1):
        found, complete = _directory_document(path, long=long, recursive=recursive, jobs=jobs)
        if complete or (attempt >= _ATTEMPTS and found[0]["checkpoints"]):
            break
    return found


def _directory_document(
    path: Location, *, long: bool, recursive: bool, jobs: int
) -> tuple[tuple[dict[str, Any], list[str], list[str]], bool]:
    """Return the document, notes and warnings, and whether all was there from beginning to end."""
    directory = Directory(path)
    rows: list[tuple[dict[str, Any], frozenset[Identity]]] = []
    warnings = []
    complete = True
    for row in _member_rows(directory, jobs, long=long):
        if row.fields is None:
            complete = False
            continue
        rows.append((row.fields, row.files))
        warnings += row.warnings
    if not rows and directory.has_lost:
        complete = False
    _count_shared_bytes(rows)
    latest = directory.latest
    if directory.latest_flaw is not None:
        complete = False
        directory.notes.append(f"{path}: {directory.latest_flaw}")
    directory.notes.extend(_interrupted(path))
    fields = [fields for fields, _ in rows]
    has_owner_facts = not (recursive or is_run(fields)) and path.store.lists_first
    below = count_below(path) if has_owner_facts else None
    if fields and below is not None:
        directory.notes.append(f"{path}: {below}: {command_line('ls', '-R', path)}")
    name = spelling(latest).relative_to(path) if latest is not None else None
    document = {
        "directory": path,
        "latest": name,
        "checkpoints": fields,
        **_side_files(path),
    }
    return (document, directory.notes, warnings), complete


def _side_files(path: Location) -> dict[str, list[dict[str, Any]]]:
    """Return the event files and graphs of a run directory, and the event files of its evaluations.

    An Estimator evaluates into `eval`, or `eval_NAME`.
    """
    found: dict[str, list[dict[str, Any]]] = {"events": [], "graphs": []}
    for name, is_directory in _entries(path):
        if is_directory and (name == "eval" or name.startswith("eval_")):
            inside = [f"{name}/{below}" for below, _ in _entries(path / name) if is_event_file(below)]
            found["events"] += _sized(path, inside)
        elif not is_directory and is_event_file(name):
            found["events"] += _sized(path, [name])
        elif not is_directory and (name in _GRAPHS or name.endswith(".meta")):
            found["graphs"] += _sized(path, [name])
    return found


def _interrupted(path: Location) -> list[str]:
    """Return notes on interrupted conversions that can be resumed, with their age and size."""
    names = [name for name, is_folder in _entries(path) if is_folder and is_leftover(name, directory=True)]
    if not names:
        return []
    import time

    from formats.tf.run.leftovers import Freed, half_sent_in, interrupted  # which few listings need

    here = (interrupted(path / name) for name in names)
    notes = []
    for found in half_sent_in(path) if path.store.scheme else here:
        if found is not None:
            age, size = age_in_words(time.time() - found.modified), found.frees(Freed())
            doing = found.in_the_way or f"to remove it: {command_line('state', '--fix', path)}"
            notes.append(f"{found.path}: {found.what} ({age} old, {size:,} bytes; {doing})")
    return notes


def _entries(path: Location) -> list[tuple[str, bool]]:
    """Return the names in a directory; of one that has gone, none."""
    try:
        return path.names()
    except CheckpointError:
        return []


def _sized(directory: Location, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return files with their sizes and times, those that are still there."""
    found = []
    for name in names:
        entry = (directory / name).entry()
        if entry is not None:
            found.append({"name": name, "nbytes": entry.size, "modified": iso_time(entry.modified)})
    return found
