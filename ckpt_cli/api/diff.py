"""`ckpt.diff`: what was added, removed, or changed between two checkpoints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import CheckpointError
from formats.find.opening import locate
from formats.model.object_names import plain_key

from ..operations.compare.diff import CHANGES, COLUMN_ALIASES, COLUMNS, ORDERS, DiffOptions
from ..operations.compare.matrix import MatrixOptions
from ..operations.compare.measure import Tolerance
from ..operations.compare.pairs import BY
from ..operations.compare.thresholds import Baseline, FailOn
from ..operations.select.selection import NothingSelectedError
from .calls import choice, collecting, lent, location, public, selection
from .changing import key_changes
from .comparing import RULES, CompareOptions, Failing, Sides, compare, sides
from .matrix import DiffMatrix, distances_of
from .rules import CHOOSING_RULES, SHARING_RULES, OptionError
from .tables import PlottedTable, ResultTable
from .where import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from formats.model.checkpoint_files import CheckpointLocation

    from ..operations.compare.diff import Diff, DiffEntry
    from .calls import PathLike
    from .plots import Plot

__all__ = ["DiffMatrix", "DiffResult", "DirectoryDiff", "TensorChange", "diff"]

# Results --------------------------------------------------------------------------------


class TensorChange(NamedTuple):
    """A tensor and how it changed.

    `change` is added, removed, renamed, dtype, shape, value or same. `old_key` is the left key, if it is
    different. `differing` counts the elements that differ, `max_abs` is the largest |a-b| and `max_rel` the
    largest |a-b|/|b|. `rel_l2` is ||a-b|| / ||b|| as Euclidean norms, and `cosine` that of the angle between
    both. They are None if unknown.
    """

    key: str
    change: str
    old_key: str | None
    left_dtype: str | None
    left_shape: tuple[int, ...] | None
    right_dtype: str | None
    right_shape: tuple[int, ...] | None
    differing: int | None
    max_abs: float | None
    max_rel: float | None
    rel_l2: float | None = None
    cosine: float | None = None


def _change(entry: DiffEntry) -> TensorChange:
    left, right, values = entry.left, entry.right, entry.difference
    return TensorChange(
        entry.key,
        entry.change,
        entry.source,
        left.dtype_name if left else None,
        left.shape if left else None,
        right.dtype_name if right else None,
        right.shape if right else None,
        values.differing,
        values.max_abs,
        values.max_rel,
        *entry.measures[3:],
    )


def _sides(left: Any, right: Any) -> Any:
    """Return what both sides have, or what each has."""
    if left == right or None in (left, right):
        return right if left is None else left
    return " -> ".join(str(list(side) if isinstance(side, tuple) else side) for side in (left, right))


class DiffResult(ResultTable[TensorChange], PlottedTable):
    """The differences between two checkpoints: a sequence of `TensorChange`.

    `same` is True if nothing differs. `summary` counts same, changed, added, removed and renamed tensors.
    `fails` is True if there is a change that `fail_on` names. `to_dict()` is the document of
    `ckpt diff --json`.
    """

    def __init__(
        self,
        found: Diff,
        options: CompareOptions,
        failing: Failing,
        name: str | None,
        names: Mapping[str, str],
    ) -> None:
        self.left, self.right = str(found.left), str(found.right)
        self.name = name
        self.summary = found.summary
        self.same = all(entry.change == "same" for entry in found.entries)
        self.fails = failing.fails(found, name)
        self.notes: tuple[str, ...] = ()
        self.warnings: tuple[str, ...] = ()
        self._found, self._everything, self._known_as = found, options.everything, names
        self._results = [_change(entry) for entry in found.shown(everything=options.everything)]

    def to_dict(self) -> dict[str, Any]:
        """Return the document of `ckpt diff --json`, without `schema`."""
        named = {} if self.name is None else {"name": self.name}
        entries = list(self._found.rows(everything=self._everything))
        return {**named, **self._found.head(), "entries": entries}

    def _title(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self.summary.items() if count)
        return f"{self.left} -> {self.right}: {counts}"

    def _names(self) -> Sequence[str]:
        return TensorChange._fields

    def _rows(self) -> Iterator[Sequence[Any]]:
        return iter(self)

    def _notebook_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row that names equal dtypes and shapes once, with the most useful columns first."""
        found = super()._notebook_row({**row, "object_path": self._known_as.get(row["key"])})
        both = {what: (found.pop(f"left_{what}"), found.pop(f"right_{what}")) for what in ("dtype", "shape")}
        source, first = found.pop("old_key"), ("key", "change", "rel_l2", "cosine")
        if source:
            found["key"] = f"{plain_key(source)} -> {found['key']}"
        measured = {name: value for name, value in found.items() if name not in first}
        return {
            **{name: found[name] for name in first},
            **measured,
            **{k: _sides(*v) for k, v in both.items()},
        }

    def _plots(self) -> Sequence[Plot]:
        from .plots import Bars

        known_as = self._known_as
        far = [
            (known_as.get(entry.key) or plain_key(entry.key), entry.rel_l2)
            for entry in self
            if entry.rel_l2 is not None
        ]
        known = sorted(far, key=lambda one: (not math.isnan(one[1]), -one[1]))
        labels = [f"{100 * value:.3g}%" for _, value in known]
        return [Bars("||a-b|| / ||b||, the farthest tensors", known, labels)]


class DirectoryDiff(ResultTable[DiffResult]):
    """The differences between checkpoints with the same name in two directories: a sequence of `DiffResult`.

    `only_left` and `only_right` are names that only one directory has. `errors` lists what cannot be read.
    `same` is True if nothing differs and both directories have the same names. `to_dict()` is the document of
    `ckpt diff --each --json`.
    """

    def __init__(self, pairs: Sequence[DiffResult], found: Sides, failing: Failing) -> None:
        self._results = pairs
        self.only_left, self.only_right = tuple(found.only_left), tuple(found.only_right)
        self.errors = tuple(found.unread.values())
        alone = (("removed", self.only_left), ("added", self.only_right))
        self.same = bool(pairs) and all(pair.same for pair in pairs) and not any(names for _, names in alone)
        self.same = self.same and not self.errors
        self.fails = (
            not pairs
            or any(pair.fails for pair in pairs)
            or any(failing.is_met_alone(change, name) for change, names in alone for name in names)
        )
        self.notes = tuple(text for pair in pairs for text in pair.notes)
        self.warnings = tuple(text for pair in pairs for text in pair.warnings)

    def to_dict(self) -> dict[str, Any]:
        """Return the document of `ckpt diff --each --json`, without `schema`."""
        pairs = [{"schema": 1, **pair.to_dict()} for pair in self]
        return {"pairs": pairs, "only_left": list(self.only_left), "only_right": list(self.only_right)}

    def _title(self) -> str:
        return f"{len(self):,} pairs of checkpoints"

    def _names(self) -> Sequence[str]:
        return ("name", "same", "changed", "added", "removed", "renamed")

    def _rows(self) -> Iterator[Sequence[Any]]:
        return ((pair.name, *(pair.summary[name] for name in self._names()[1:])) for pair in self)


# The function -----------------------------------------------------------------------------


@public(*CHOOSING_RULES, *SHARING_RULES, *RULES)
def diff(
    left: PathLike,
    right: PathLike,
    *keys: str,
    match: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    regex: bool = False,
    ignore_case: bool = False,
    dtype: str | None = None,
    kind: str | Iterable[str] | None = None,
    where: str | None = None,
    sub: str | Iterable[str] = (),
    strip_prefix: str | None = None,
    add_prefix: str | None = None,
    map: PathLike | Mapping[str, str] | None = None,  # noqa: A002  the option's name
    config: PathLike | None = None,
    layout: str | None = None,
    no_values: bool = False,
    exact: bool = False,
    rtol: float = 0.0,
    atol: float = 0.0,
    all: bool = False,  # noqa: A002  likewise
    find_renames: bool = False,
    by: str = "key",
    sort: str = "key",
    fail_on: str | Iterable[str] = CHANGES,
    baseline: PathLike | None = None,
    matrix: bool = False,
    each: bool = False,
    recursive: bool = False,
    jobs: int | None = None,
    executor: str | None = None,
) -> DiffResult | DirectoryDiff | DiffMatrix:
    """Compare two checkpoints: what was added, removed, or changed in dtype, shape or value.

    A directory means its latest checkpoint. With `each`, compares all checkpoints with the same name in two
    directories; with `recursive`, subdirectories too. Tensors with equal stored checksums are not read unless
    you pass `exact`. Values may differ by `atol + rtol * |right|`. With `all`, the result includes unchanged
    tensors.

    `keys` to `kind` select tensors as on the command line. `sub` (`REGEX=>REPLACEMENT`), `strip_prefix`,
    `add_prefix` and `map` (a file, or a mapping of old keys to new ones) change the keys of `left`. `layout`
    (`pytorch`, `tensorflow` or `flax`) and `config` give it the names and axes of a framework. `by` is key,
    full-name or object-path. `where` is an expression over columns, such as
    `"rel_l2>5% and dtype=float32"`. `sort` is a column, or rel, abs or size, the largest change first.
    `fail_on` and `baseline`, a file with an earlier result, decide whether `fails` is True.

    With `matrix`, all positional arguments are paths, and the result is a `DiffMatrix`: how far each
    checkpoint is from each other one.

    Raises CheckpointError if a checkpoint cannot be read, and ValueError for invalid arguments.

    ```python
    found = ckpt.diff("run/ckpt-9", "run/ckpt-10", kind="variable")
    if not found.same:
        print(found.summary, [(entry.key, entry.max_abs) for entry in found])
    ```
    """
    choice("by", by, BY)
    choice("sort", sort, ORDERS)
    failing = Failing(_fail_on(fail_on), None if baseline is None else Baseline(location(baseline)))
    tolerance = Tolerance(_tolerance("rtol", rtol), _tolerance("atol", atol))
    settings = DiffOptions(by, not no_values, exact, tolerance, find_renames=find_renames)
    options = CompareOptions(
        settings,
        selection(keys, match, exclude, regex=regex, ignore_case=ignore_case, dtype=dtype, kind=kind),
        key_changes(sub, strip_prefix, add_prefix, map, layout=layout, config=config),
        all,
        order=sort,
        where=parsed(where, COLUMNS, COLUMN_ALIASES),
    )
    one, other = location(left), location(right)
    if matrix:
        chosen = selection((), match, exclude, regex=regex, ignore_case=ignore_case, dtype=dtype, kind=kind)
        with lent(jobs, executor) as workers, collecting() as collected:
            matrix_options = MatrixOptions(chosen, by, exact, workers)
            paths = [one, other, *(location(key) for key in keys)]
            return DiffMatrix(
                distances_of(paths, matrix_options, collected), collected.notes, collected.warnings
            )
    with lent(jobs, executor) as workers:
        options = options._replace(workers=workers)
        if not each:
            return _diff(locate(one), locate(other), options, failing)
        found = sides(one, other, recursive=recursive)
        pairs = []
        nothing: NothingSelectedError | None = None
        for name in found.both:
            try:
                pairs.append(_diff(found.left[name], found.right[name], options, failing, name))
            except NothingSelectedError as error:
                nothing = error  # in this pair; another one may have some
            except CheckpointError as error:
                found.unread[name] = error
        if nothing is not None and not (pairs or found.unread):
            raise nothing
        return DirectoryDiff(pairs, found, failing)


def _fail_on(changes: str | Iterable[str]) -> FailOn:
    try:
        return FailOn.parse(changes if isinstance(changes, str) else ",".join(changes))
    except ValueError as error:
        raise OptionError(str(error)) from error


def _tolerance(name: str, value: float) -> float:
    if math.isnan(value):
        raise OptionError(f"'--{name}': 'nan' is not a number")
    if value < 0:
        raise OptionError(f"--{name}: {value} is less than 0")
    return value


def _diff(
    left: CheckpointLocation,
    right: CheckpointLocation,
    options: CompareOptions,
    failing: Failing,
    name: str | None = None,
) -> DiffResult:
    with collecting() as collected:
        found, names = compare(left, right, options._replace(with_names=True, with_kinds=True), collected)
        result = DiffResult(found, options, failing, name, names)
        result.notes, result.warnings = tuple(collected.notes), tuple(collected.warnings)
        return result
