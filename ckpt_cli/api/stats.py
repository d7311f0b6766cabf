"""`ckpt.stats`: statistics of every tensor."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import CheckpointError
from formats.find.opening import is_directory
from formats.find.resolve import spelling

from ..operations.look.listing import nothing_where, rows_before_values
from ..operations.look.stats import COLUMNS, statistics_of
from ..operations.reporting import kept, opened
from ..operations.select.arguments import checkpoints_below
from ..operations.select.columns import order_by, sortable
from ..operations.select.selection import Selection, choose
from ..operations.select.unread import unread_note
from .calls import choice, collecting, lent, location, public, selection
from .rules import CHOOSING_RULES, SHARING_RULES, OptionError, excludes
from .tables import ResultTable, Several
from .where import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import FormatReader
    from formats.store.work.workers import Workers

    from ..operations.reporting import Reporter
    from ..operations.select.where import Where
    from .calls import PathLike

__all__ = [
    "RULES",
    "SORTS",
    "CheckpointStats",
    "StatsOptions",
    "TensorStats",
    "refuse_no_directory",
    "stats",
    "tensor_stats",
]

RULES = (excludes("--csv", "--json", "--format"), excludes("--files", "--recursive"))

SORTS = sortable(COLUMNS)
"""What statistics can be sorted by."""


class StatsOptions(NamedTuple):
    """The tensors to read, and the condition of `fail_on`: NaN or infinities."""

    selection: Selection = Selection()
    fail_on: tuple[str, ...] = ()
    where: Where | None = None
    sort: str = "key"


class TensorStats(NamedTuple):
    """The statistics of a tensor, in float64.

    `min` to `l2` ignore NaN, and are None if there are no values. `std` is the population standard deviation,
    `l2` the Euclidean norm. `zeros`, `nan` and `inf` count elements.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    l2: float | None
    zeros: int
    nan: int
    inf: int

    def to_dict(self) -> dict[str, Any]:
        """Return the tensor's entry in the document of `ckpt stats --json`."""
        return {**self._asdict(), "shape": list(self.shape)}


def tensor_stats(
    reader: FormatReader, options: StatsOptions, workers: Workers, reporter: Reporter
) -> Iterator[TensorStats]:
    """Yield the statistics of the chosen tensors in the requested order.

    Raises NothingSelectedError if an expression chooses none of them.
    """
    rows = _chosen_rows(reader, options)
    if options.where is None and options.sort == "key":
        yield from _all_stats(reader, list(rows), options, workers, reporter)
        return
    found = []
    for tensor in _all_stats(reader, list(rows), options, workers, reporter):
        row = {**rows[tensor.key], **tensor._asdict()}
        if options.where is None or options.where.holds(row):
            found.append((tensor, row))
    if options.where is not None and not found:
        raise nothing_where(options.where, reader.location.path)
    column = "nbytes" if options.sort == "size" else options.sort
    if column != "key":
        found.sort(key=lambda pair: order_by(column, pair[1][column]))
    yield from (tensor for tensor, _ in found)


def _chosen_rows(reader: FormatReader, options: StatsOptions) -> dict[str, dict[str, Any]]:
    """Return what is known of the chosen tensors before their values are read, by key."""
    chosen = choose(reader, options.selection)
    if options.where is None and options.sort in ("key", "dtype", "shape", *TensorStats._fields):
        return {key: {} for key in chosen}
    needed = {options.sort, *(options.where.columns if options.where is not None else ())}
    return rows_before_values(reader, chosen, options.where, needed)


def _all_stats(
    reader: FormatReader,
    chosen: Sequence[str],
    options: StatsOptions,
    workers: Workers,
    reporter: Reporter,
) -> Iterator[TensorStats]:
    """Yield the statistics of tensors, in the order of the checkpoint."""
    unread = unread_note(reader, chosen)
    if unread is not None:  # --fail-on would otherwise find nothing
        (reporter.warning if options.fail_on else reporter.note)(f"{reader.location.path}: {unread}")
    keys = [key for key in chosen if _has_numbers(reader, key)]
    if not keys and unread is None:
        reporter.note("there are no statistics, because all tensors are strings or variants")
    total = sum(reader.specs[key].nbytes or 0 for key in keys)
    with (
        closing(statistics_of(reader, keys, workers.expecting(total))) as all_found,
        reporter.progress(total, reader.location.name) as advance,
    ):
        for key, found in all_found:
            spec = reader.specs[key]
            advance(spec.nbytes or 0)
            yield TensorStats(key, spec.dtype.name, spec.shape, *found)


def _has_numbers(reader: FormatReader, key: str) -> bool:
    """Whether a tensor has statistics.  Raises CheckpointError for one that is damaged."""
    dtype = reader.specs[key].dtype
    return not dtype.is_unmapped and reader[key].spec.dtype.is_number


def refuse_no_directory(path: Location) -> None:
    """Raise OptionError if the path is not a directory of checkpoints."""
    if not is_directory(path):
        raise OptionError(f"--recursive needs a directory; {path} is not one")


class CheckpointStats(ResultTable[TensorStats]):
    """The statistics of a checkpoint's tensors: a sequence of `TensorStats`.

    `to_dict()` is the document of `ckpt stats --json`.
    """

    def __init__(
        self,
        path: str,
        tensors: Iterable[TensorStats],
        notes: Sequence[str],
        warnings: Sequence[str],
        object_paths: Mapping[str, str],
    ) -> None:
        self.path = str(path)
        self._object_paths = object_paths
        self._results = list(tensors)
        self.notes, self.warnings = tuple(notes), tuple(warnings)

    def to_dict(self) -> dict[str, Any]:
        """Return the document of `ckpt stats --json`, without `schema`."""
        return {"path": self.path, "tensors": [tensor.to_dict() for tensor in self]}

    def _title(self) -> str:
        return f"{self.path}: {len(self):,} tensors"

    def _names(self) -> Sequence[str]:
        return TensorStats._fields

    def _rows(self) -> Iterator[Sequence[Any]]:
        return iter(self)

    def _notebook_row(self, row: dict[str, Any]) -> dict[str, Any]:
        return super()._notebook_row({**row, "object_path": self._object_paths.get(row["key"])})


@public(*CHOOSING_RULES, *SHARING_RULES, *RULES)
def stats(
    path: PathLike = ".",
    *keys: str,
    match: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    regex: bool = False,
    ignore_case: bool = False,
    dtype: str | None = None,
    kind: str | Iterable[str] | None = None,
    where: str | None = None,
    sort: str = "key",
    recursive: bool = False,
    jobs: int | None = None,
    executor: str | None = None,
) -> CheckpointStats | Several[CheckpointStats]:
    """Compute min, max, mean, std, l2, zeros, NaN and infinities of each tensor, in float64.

    Strings, variants and unmapped types are skipped. Memory use does not depend on tensor sizes. With
    `recursive`, `path` is a directory, and the result is a `Several` of all checkpoints in it and its
    subdirectories. `keys` to `kind` select tensors as on the command line. `where` is an expression over
    columns, such as `"size>1M and std>0.5"`, and `sort` a column. `jobs` is a number of threads.
    `executor` is `threads:N`, `processes:N`, `dask` or `dask://HOST:PORT`. The result depends on neither.

    Raises CheckpointError if a checkpoint cannot be read, and ValueError for invalid arguments.

    ```python
    found = ckpt.stats("run/ckpt-10", kind="variable")
    largest = max(found, key=lambda tensor: tensor.l2 or 0)
    print(largest.key, largest.l2, [tensor.key for tensor in found if tensor.nan])
    ```
    """
    place = location(path)
    choice("sort", sort, SORTS)
    options = StatsOptions(
        selection(keys, match, exclude, regex=regex, ignore_case=ignore_case, dtype=dtype, kind=kind),
        where=parsed(where, COLUMNS),
        sort=sort,
    )
    with lent(jobs, executor) as workers:
        if not recursive:
            return _stats_of(place, options, workers)
        refuse_no_directory(place)
        errors: list[CheckpointError] = []
        found = []
        for below in checkpoints_below(place):
            if isinstance(below, CheckpointError):
                errors.append(below)
                continue
            with kept(errors):
                found.append(_stats_of(below, options, workers))
        return Several(found, errors)


def _stats_of(
    path: Location | CheckpointLocation, options: StatsOptions, workers: Workers
) -> CheckpointStats:
    with collecting() as collected:
        with opened(path, collected) as reader:
            rows = list(tensor_stats(reader, options, workers, collected))
            name = spelling(reader.location)
            paths = {row.key: reader.object_paths[row.key] for row in rows if row.key in reader.object_paths}
        return CheckpointStats(name, rows, collected.notes, collected.warnings, paths)
