"""`ckpt.ls`: the checkpoints of a directory, or the tensors of a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.find.opening import is_directory, locate

from ..operations.look.listing import Tensors, reads_only_index, total
from ..operations.reporting import kept, opened
from ..operations.select.columns import OF_CHECKPOINTS, OF_TENSORS
from .calls import choice, collecting, lent, location, public, selection
from .listing import (
    DIGESTS,
    IDENTITY,
    RULES,
    SORTS,
    ListOptions,
    add_identities,
    arranged,
    arranged_directory,
    chosen_tensors,
    digests_of,
    directories_found,
    list_directory,
    lists_directory,
    no_checkpoint_where,
    refuse_not_a_folder,
    trainable_of,
    warn_of_missing,
)
from .rules import CHOOSING_RULES
from .tables import ResultTable, Several
from .where import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from formats.errors import CheckpointError
    from formats.location import Location

    from .calls import PathLike

__all__ = ["CheckpointRow", "DirectoryListing", "TensorListing", "TensorRow", "ls"]

# Results --------------------------------------------------------------------------------


class TensorRow(NamedTuple):
    """A tensor of a listing.

    `dtype` is TensorFlow's name, or None if the type is not mapped. `shape` is a tuple of integers,
    `nbytes` the size in bytes. The fields after `kind` are None unless you passed `long` or `digest`, or if
    they are unknown.
    """

    key: str
    dtype: str | None
    shape: tuple[int, ...]
    nbytes: int | None
    kind: str | None
    object_path: str | None = None
    full_name: str | None = None
    shard: int | None = None
    offset: int | None = None
    crc32c: int | None = None
    trainable: bool | None = None
    digest: str | None = None
    stored: Mapping[str, Any] | None = None
    """The name and size of a stored type that is not mapped."""


class CheckpointRow(NamedTuple):
    """A checkpoint of a directory listing. Unknown fields are None.

    `modified` is ISO 8601 in UTC, `nbytes` the size of all tensors. `kept` is True if the state file lists
    the checkpoint. `stored_step` is the training step in the checkpoint; it is read only with `long`.
    `identity` is one SHA-256 of all tensors, and `copies` names the other checkpoints that have it; both are
    read only with `digest="sha256"`.
    """

    name: str
    path: str
    format: str | None
    step: int | None
    tensors: int | None
    nbytes: int | None
    modified: str | None
    kept: bool | None
    shared_with: tuple[str, ...]
    shared_nbytes: int
    incomplete: bool
    stored_step: int | None = None
    identity: str | None = None
    copies: tuple[str, ...] = ()


class TensorListing(ResultTable[TensorRow]):
    """The tensors of a checkpoint: a sequence of `TensorRow`.

    `total` has the counts `tensors` and `parameters`, and `nbytes`. `to_dict()` is the document of
    `ckpt ls --json`.
    """

    def __init__(
        self, tensors: Tensors, long: bool, notes: Sequence[str] = (), warnings: Sequence[str] = ()
    ) -> None:
        self.path = str(tensors.reader.location.path)
        self.format = tensors.reader.format.name
        self.total = total(tensors)
        self.graph = tensors.graph
        self.notes, self.warnings = tuple(notes), tuple(warnings)
        self._fields = ("key", "dtype", "shape", "nbytes", *tensors.fields(long=long))
        self._long = long
        self._results = [
            TensorRow(**{**row, "shape": tuple(row["shape"])}) for row in tensors.rows(long=long)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the document of `ckpt ls --json`, without `schema`."""
        rows = [
            {
                **{name: getattr(row, name) for name in self._fields},
                "shape": list(row.shape),
                **({} if row.stored is None else {"stored": row.stored}),
            }
            for row in self
        ]
        graph = {"graph": self.graph} if self._long else {}
        return {"path": self.path, "format": self.format, **graph, "tensors": rows, "total": self.total}

    def _title(self) -> str:
        return f"{self.path}: {self.format}, {len(self):,} tensors"

    def _names(self) -> Sequence[str]:
        return self._fields

    def _rows(self) -> Iterator[Sequence[Any]]:
        return ([getattr(row, name) for name in self._fields] for row in self)


class DirectoryListing(ResultTable[CheckpointRow]):
    """The checkpoints of a directory, oldest first: a sequence of `CheckpointRow`.

    `latest` is the name of the latest checkpoint, or None. `events` and `graphs` are the event files and
    graphs in the directory, with `name`, `nbytes` and `modified`. `to_dict()` is the document of `ckpt ls
    --json`.
    """

    def __init__(
        self, found: dict[str, Any], notes: Sequence[str] = (), warnings: Sequence[str] = ()
    ) -> None:
        self.directory = str(found["directory"])
        self.latest: str | None = found["latest"]
        self.events: list[dict[str, Any]] = found["events"]
        self.graphs: list[dict[str, Any]] = found["graphs"]
        self.notes, self.warnings = tuple(notes), tuple(warnings)
        self._found = found
        self._results = [
            CheckpointRow(
                **{
                    **row,
                    "path": str(row["path"]),
                    "shared_with": tuple(row["shared_with"]),
                    "copies": tuple(row.get("copies", ())),
                }
            )
            for row in found["checkpoints"]
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the document of `ckpt ls --json`, without `schema`."""
        return dict(self._found)

    def _title(self) -> str:
        return f"{self.directory}: {len(self):,} checkpoints, latest {self.latest}"

    def _names(self) -> Sequence[str]:
        return ("name", "format", "step", "tensors", "nbytes", "modified")

    def _rows(self) -> Iterator[Sequence[Any]]:
        return ([getattr(row, name) for name in self._names()] for row in self)


# The function -----------------------------------------------------------------------------


@public(*CHOOSING_RULES, *RULES)
def ls(
    path: PathLike = ".",
    *keys: str,
    match: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    regex: bool = False,
    ignore_case: bool = False,
    dtype: str | None = None,
    kind: str | Iterable[str] | None = None,
    where: str | None = None,
    long: bool = False,
    sort: str = "key",
    reverse: bool = False,
    digest: str | None = None,
    exact: bool = False,
    recursive: bool = False,
    jobs: int | None = None,
) -> TensorListing | DirectoryListing | Several[DirectoryListing]:
    """List the tensors of a checkpoint, or the checkpoints of a directory.

    For a directory, the result is a `DirectoryListing`. For anything else, and for a directory with KEYs,
    it is a `TensorListing`. With `recursive`, the result is a `Several` with a `DirectoryListing` for each
    subdirectory too.

    `keys`, `match`, `exclude`, `regex`, `ignore_case`, `dtype` and `kind` select tensors as on the command
    line. `match`, `exclude` and `kind` take one string or several. `where` is an expression over columns,
    such as `"size>1M and dtype=float32"`. `long` adds where the bytes are and the names in the object graph.
    `sort` is a column. `digest` is crc32c or sha256; it reads values whose digest is not stored, and with
    `exact` all values. Without `digest`, only the index is read. For a directory, `digest="sha256"` adds the
    identity of each checkpoint.

    Raises CheckpointError if nothing is found, and ValueError for invalid arguments.

    ```python
    for checkpoint in ckpt.ls("run"):
        print(checkpoint.name, checkpoint.step, checkpoint.nbytes)
    weights = ckpt.ls("run/ckpt-10", kind="variable", long=True)
    print(weights.total["parameters"], [tensor.object_path for tensor in weights])
    ```
    """
    choice("sort", sort, SORTS)
    if digest is not None:
        choice("digest", digest, DIGESTS)
    place = location(path)
    wanted = selection(keys, match, exclude, regex=regex, ignore_case=ignore_case, dtype=dtype, kind=kind)
    options = ListOptions(wanted, sort, reverse, digest, exact, parsed(where, OF_TENSORS | OF_CHECKPOINTS))
    if recursive:
        return _ls_below(place, options, jobs, long=long)
    if is_directory(place) and lists_directory(options):
        return _ls_directory(place, options, jobs, long=long)
    return _ls_checkpoint(place, options, jobs, long=long)


def _ls_checkpoint(place: Location, options: ListOptions, jobs: int | None, *, long: bool) -> TensorListing:
    with collecting() as collected:
        with opened(locate(place), collected, listed=not options.digest) as reader:
            columns = chosen_tensors(reader, options)
            of_index = options.digest == "crc32c" and reads_only_index(reader, place)
            digests = None
            if options.digest is not None:
                with lent(jobs) as workers:
                    digests = digests_of(reader, columns, options, workers, collected, of_index=of_index)
            tensors = Tensors(reader, columns, digests)
            if long or "trainable" in options.columns:
                trainable = trainable_of(reader, collected, names_graph=True)
                tensors = tensors._replace(trainable=trainable.marks, graph=trainable.graph)
            if not of_index:
                warn_of_missing(reader, collected)
            listing = TensorListing(arranged(tensors, options), long)
        listing.notes, listing.warnings = tuple(collected.notes), tuple(collected.warnings)
        return listing


def _ls_directory(place: Location, options: ListOptions, jobs: int | None, *, long: bool) -> DirectoryListing:
    with collecting() as collected:
        found = list_directory(place, collected, reverse=options.reverse, long=long)
        if options.digest == IDENTITY:
            with lent(jobs) as workers:
                add_identities(found, workers, collected)
        is_empty = not found["checkpoints"]
        found = arranged_directory(found, options)
        if options.where is not None and not (is_empty or found["checkpoints"]):
            raise no_checkpoint_where(options.where, place)
        return DirectoryListing(found, collected.notes, collected.warnings)


def _ls_below(
    path: Location, options: ListOptions, jobs: int | None, *, long: bool
) -> Several[DirectoryListing]:
    refuse_not_a_folder(path)
    errors: list[CheckpointError] = []
    found = []
    is_empty = True
    with lent(jobs) as workers:
        places = [*directories_found(path, long=long, jobs=workers.jobs)]
    for place in places:
        with kept(errors), collecting() as collected:
            document = place.report(collected, reverse=options.reverse)
            is_empty = is_empty and not document["checkpoints"]
            document = arranged_directory(document, options)
            if document["checkpoints"]:
                found.append(DirectoryListing(document, collected.notes, collected.warnings))
    if options.where is not None and not (is_empty or found):
        raise no_checkpoint_where(options.where, path)
    return Several(found, errors)
