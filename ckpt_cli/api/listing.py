"""Listing a checkpoint or a directory: what `ckpt ls` and `ckpt.ls` have in common; it starts fast."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.spec import spec_columns
from formats.errors import CheckpointError

from ..operations.look.listing import (
    Tensors,
    chosen_where,
    missing_shards,
    nothing_where,
    sorted_by,
)
from ..operations.reporting import opened
from ..operations.select.columns import OF_CHECKPOINTS, OF_TENSORS, order_by, sortable
from ..operations.select.selection import Selection, choose
from .rules import CHOOSING, OptionError, excludes, needs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from formats.core.spec import SpecColumns
    from formats.location import Location
    from formats.model.reader import FormatReader
    from formats.store.work.workers import Workers

    from ..operations.reporting import Reporter
    from ..operations.runs.trainable import Trainable
    from ..operations.select.where import Where

__all__ = [
    "DIGESTS",
    "IDENTITY",
    "RULES",
    "SORTS",
    "ListOptions",
    "add_identities",
    "arranged",
    "arranged_directory",
    "checkpoint_identity",
    "chosen_tensors",
    "digests_of",
    "directories_found",
    "list_directory",
    "lists_directory",
    "no_checkpoint_where",
    "refuse_not_a_folder",
    "trainable_of",
    "warn_of_missing",
]

DIGESTS = ("crc32c", IDENTITY := "sha256")
"""The digests of a tensor, and the one that gives a directory's checkpoints their identities."""

RULES = (
    needs("--exact", "--digest"),
    needs("--jobs", "--digest", "--recursive"),
    excludes("--digest", "--tree", "--keys", "--null"),
    excludes("--digest", "--depth", unless="--json"),
    excludes("--recursive", *CHOOSING, "--long", "--tree", "--depth", "--digest"),
    excludes("--tree", "--json", "--depth", "--keys", "--null"),
    excludes("--keys", "--json", "--depth"),
    excludes("--null", "--json", "--depth"),
    excludes("--long", "--tree", "--keys", "--null"),
    excludes("--long", "--depth", unless="--json"),
    excludes("--csv", "--json", "--tree", "--keys", "--null"),
    excludes("--top", "--tree"),
)

SORTS = sortable(OF_TENSORS, OF_CHECKPOINTS)
"""What listings can be sorted by."""


class ListOptions(NamedTuple):
    """The options of a listing: tensors, order and digests."""

    selection: Selection = Selection()
    sort: str = "key"
    reverse: bool = False
    digest: str | None = None
    exact: bool = False
    where: Where | None = None

    @property
    def is_plain(self) -> bool:
        """Whether all tensors are listed in the order that they have."""
        is_whole = self.selection.everything and self.where is None
        return is_whole and self.sort == "key" and not self.reverse

    @property
    def columns(self) -> set[str]:
        """The columns that decide what is listed, and in which order."""
        return {self.sort, *(self.where.columns if self.where is not None else ())}


def chosen_tensors(reader: FormatReader, options: ListOptions) -> SpecColumns:
    """Return the tensors that are listed, as far as that is known before values are read."""
    if options.is_plain:
        return next(reader.columns())  # all of them, for the index is loaded
    known = [name for name in OF_TENSORS if name != "digest" or options.digest]
    lacks_digest = options.where is not None and "digest" in options.where.columns and not options.digest
    _require(options.where, known, "without --digest a checkpoint" if lacks_digest else "a checkpoint")
    if options.sort not in (names := sortable(dict.fromkeys(known, ""))):
        raise OptionError(f"--sort: {options.sort!r} is not one of {', '.join(map(repr, names))}")
    columns = spec_columns(reader.specs[key] for key in choose(reader, options.selection, listed=True))
    if options.where is None:
        return columns
    return chosen_where(Tensors(reader, columns), options.where, partly=True).columns


def _require(where: Where | None, known: Collection[str], what: str) -> None:
    if where is not None:
        from .where import require_columns  # which few listings need

        require_columns(where, known, what)


def arranged(tensors: Tensors, options: ListOptions) -> Tensors:
    """Return the listed tensors in the requested order, once all their columns are known."""
    if options.is_plain:
        return tensors
    if options.where is not None:
        tensors = chosen_where(tensors, options.where)
    return sorted_by(tensors, options.sort, reverse=options.reverse)


def lists_directory(options: ListOptions) -> bool:
    """Whether a directory's checkpoints are listed, not the tensors of the latest: nothing chooses these."""
    where = options.where
    return options.selection.everything and (where is None or where.columns.keys() <= OF_CHECKPOINTS.keys())


def arranged_directory(found: dict[str, Any], options: ListOptions) -> dict[str, Any]:
    """Return a directory's document with the chosen checkpoints in the requested order."""
    rows = found["checkpoints"]
    if options.where is not None:
        shown_columns = {*OF_CHECKPOINTS} - {"stored_step", "identity"} | {
            *(rows[0] if rows else OF_CHECKPOINTS)
        }
        _require(options.where, shown_columns, "this listing of a directory")
        rows = [row for row in rows if options.where.holds(row)]
    column = "nbytes" if options.sort == "size" else options.sort
    if column in OF_CHECKPOINTS:
        rows = sorted(rows, key=lambda row: order_by(column, row.get(column)))
        rows = rows[::-1] if options.reverse else rows
    return {**found, "checkpoints": rows}


def no_checkpoint_where(where: Where, path: Location) -> CheckpointError:
    """Return the error of an expression that chooses none of a directory's checkpoints."""
    return nothing_where(where, path, "checkpoint")


def digests_of(
    reader: FormatReader,
    columns: SpecColumns,
    options: ListOptions,
    workers: Workers,
    reporter: Reporter,
    *,
    of_index: bool,
) -> dict[str, str | None]:
    """Return the digests of tensors by key: all of them, before the first line of a listing is printed."""
    from formats.model.digest import digests

    assert options.digest is not None
    found: dict[str, str | None] = {}
    nbytes = sum(columns.specs[number].nbytes or 0 for number in columns.numbers)
    pool = workers.expecting(nbytes)
    with reporter.progress(nbytes, reader.location.name) as advance:
        for key, text in digests(
            reader, columns.keys, options.digest, pool, exact=options.exact, of_index=of_index
        ):
            found[key] = text
            advance(reader.specs[key].nbytes or 0)
    reader.check_unchanged()
    return found


def warn_of_missing(reader: FormatReader, reporter: Reporter) -> None:
    """Warn about each missing data shard."""
    for message in missing_shards(reader):
        reporter.warning(message)


def trainable_of(reader: FormatReader, reporter: Reporter, *, names_graph: bool) -> Trainable:
    """Return which tensors are trained; a note says by which graph, unless the result `names_graph`."""
    from ..operations.runs.trainable import trainable_tensors

    found = trainable_tensors(reader)
    for text in found.flaws:
        reporter.note(text)
    if found.borrowed and not names_graph:
        reporter.note(f"the graph of another step, {found.graph}, shows which tensors are trainable")
    return found


class DirectoryFound(NamedTuple):
    """The result for a directory: its document, notes and warnings, or why it cannot be listed."""

    document: dict[str, Any] | None = None
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    error: CheckpointError | None = None

    def report(self, reporter: Reporter, *, reverse: bool) -> dict[str, Any]:
        """Return the document, and tell the notes and warnings; raise the error."""
        if self.document is None:
            assert self.error is not None
            raise self.error
        if reverse:
            self.document["checkpoints"].reverse()
        for text in self.notes:
            reporter.note(text)
        for text in self.warnings:
            reporter.warning(text)
        return self.document


def list_directory(
    path: Location, reporter: Reporter, *, reverse: bool, long: bool = False, jobs: int = 1
) -> dict[str, Any]:
    """Return the document of a directory's checkpoints; with `long` the step that each of them holds."""
    return _found_in(path, long=long, recursive=False, jobs=jobs).report(reporter, reverse=reverse)


def directories_found(path: Location, *, long: bool, jobs: int) -> Iterator[DirectoryFound]:
    """Yield what is in a directory and in those below it; so many processes share a large number of them."""
    from formats.find.directory import directories_below
    from formats.store.work.forked import MANY, each_of_many

    folders = [*directories_below(path)]
    if len(folders) < MANY:
        yield from (_found_in(folder, long=long, recursive=True, jobs=jobs) for folder in folders)
    else:
        yield from each_of_many(partial(_found_in, long=long, recursive=True), folders, jobs, path.store)


def _found_in(path: Location, *, long: bool, recursive: bool, jobs: int = 1) -> DirectoryFound:
    from ..operations.runs.listing import directory_document  # not needed for a checkpoint

    try:
        return DirectoryFound(*directory_document(path, long=long, recursive=recursive, jobs=jobs))
    except CheckpointError as error:
        return DirectoryFound(error=error)


def add_identities(found: dict[str, Any], workers: Workers, reporter: Reporter) -> None:
    """Add `identity` to each checkpoint of a directory's document, and `copies`: the others with its tensors.

    The identity of a damaged checkpoint is None, and a warning says why.
    """
    from ..operations.runs.listing import MOST_NAMED

    names: dict[str, list[str]] = {}
    for row in found["checkpoints"]:
        row["identity"] = None
        if row["format"] is not None:
            try:
                row["identity"] = _identity(row["path"], workers, reporter)
            except CheckpointError as error:
                reporter.warning(str(error))
        names.setdefault(row["identity"] or "", []).append(row["name"])
    for row in found["checkpoints"]:
        others = names[row["identity"]] if row["identity"] else ()
        row["copies"] = [name for name in others if name != row["name"]][:MOST_NAMED]


def _identity(path: Location, workers: Workers, reporter: Reporter) -> str:
    """Return the identity of a checkpoint that a listing has described."""
    with opened(path, reporter, noted=False) as reader:
        return checkpoint_identity(reader, workers, reporter)


def checkpoint_identity(reader: FormatReader, workers: Workers, reporter: Reporter) -> str:
    """Return the identity of an open checkpoint."""
    from formats.model.identity import canonical_tensors, identity_of

    total = sum(spec.nbytes or 0 for spec in reader.specs.values())
    with reporter.progress(total, reader.location.name) as advance:
        return identity_of(canonical_tensors(reader, workers.expecting(total), advance))


def refuse_not_a_folder(path: Location) -> None:
    """Raise OptionError if the path of a recursive listing is not a directory."""
    if not path.is_folder():
        path.require_access()
        raise OptionError(f"--recursive needs a directory; {path} is not one")
