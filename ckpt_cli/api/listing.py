"""Listing a checkpoint or a directory: what `ckpt ls` and `ckpt.ls` have in common; it starts fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.spec import spec_columns
from formats.errors import CheckpointError

from ..operations.look.listing import in_order, missing_shards
from ..operations.reporting import opened
from ..operations.select.selection import Selection, choose
from .rules import CHOOSING, OptionError, excludes, needs

if TYPE_CHECKING:
    from formats.core.spec import SpecColumns
    from formats.location import Location
    from formats.model.reader import FormatReader
    from formats.store.work.workers import Workers

    from ..operations.reporting import Reporter
    from ..operations.runs.trainable import Trainable

__all__ = [
    "DIGESTS",
    "IDENTITY",
    "RULES",
    "ListOptions",
    "add_identities",
    "checkpoint_identity",
    "chosen_tensors",
    "digests_of",
    "list_directory",
    "refuse_not_a_folder",
    "trainable_of",
    "warn_of_missing",
]

DIGESTS = ("crc32c", IDENTITY := "sha256")
"""The digests of a tensor, and the one that gives a directory's checkpoints their identities."""

RULES = (
    needs("--exact", "--digest"),
    needs("--jobs", "--digest"),
    excludes("--digest", "--tree", "--keys", "--null"),
    excludes("--digest", "--depth", unless="--json"),
    excludes("--recursive", *CHOOSING, "--long", "--tree", "--depth", "--sort", "--digest"),
    excludes("--tree", "--json", "--depth", "--keys", "--null"),
    excludes("--keys", "--json", "--depth"),
    excludes("--null", "--json", "--depth"),
    excludes("--long", "--tree", "--keys", "--null"),
    excludes("--long", "--depth", unless="--json"),
)


class ListOptions(NamedTuple):
    """Which tensors are listed, in which order, and with which digests."""

    selection: Selection = Selection()
    sort: str = "key"
    reverse: bool = False
    digest: str | None = None
    exact: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether all tensors are listed in the order that they have."""
        return self.selection.everything and self.sort == "key" and not self.reverse


def chosen_tensors(reader: FormatReader, options: ListOptions) -> SpecColumns:
    """Return the tensors that are listed, in the order asked for."""
    if options.is_plain:
        return next(reader.columns())  # all of them, for the index is loaded
    specs = [reader.specs[key] for key in choose(reader, options.selection, listed=True)]
    return spec_columns(in_order(specs, options.sort, reverse=options.reverse))


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
    """Warn of each data shard that is not there."""
    for message in missing_shards(reader):
        reporter.warning(message)


def trainable_of(reader: FormatReader, reporter: Reporter, *, names_graph: bool) -> Trainable:
    """Return which tensors are trained; a note says by which graph, unless the result `names_graph`."""
    from ..operations.runs.trainable import trainable_tensors

    found = trainable_tensors(reader)
    for text in found.flaws:
        reporter.note(text)
    if found.borrowed and not names_graph:
        reporter.note(f"{found.graph}, the graph of another step, says which tensors are trainable")
    return found


def list_directory(
    path: Location, reporter: Reporter, *, reverse: bool, long: bool = False
) -> dict[str, Any]:
    """Return the document of a directory's checkpoints; with `long` the step that each of them holds."""
    from ..operations.runs.listing import directory_document  # which a checkpoint does not need

    found, notes, warnings = directory_document(path, long=long)
    if reverse:
        found["checkpoints"].reverse()
    for text in notes:
        reporter.note(text)
    for text in warnings:
        reporter.warning(text)
    return found


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
    """Return the identity of a checkpoint, of which the listing has said the rest."""
    with opened(path, reporter, noted=False) as reader:
        return checkpoint_identity(reader, workers, reporter)


def checkpoint_identity(reader: FormatReader, workers: Workers, reporter: Reporter) -> str:
    """Return the identity of an open checkpoint."""
    from formats.model.identity import canonical_tensors, identity_of

    total = sum(spec.nbytes or 0 for spec in reader.specs.values())
    with reporter.progress(total, reader.location.name) as advance:
        return identity_of(canonical_tensors(reader, workers.expecting(total), advance))


def refuse_not_a_folder(path: Location) -> None:
    """Raise OptionError where what is to be gone through is no directory."""
    if not path.is_folder():
        path.require_access()
        raise OptionError(f"--recursive needs a directory; {path} is not one")
