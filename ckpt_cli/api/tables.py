"""Results that are tables: as text, as HTML for notebooks, and as pandas data frames."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from formats.core.escape import escape
from formats.model.object_names import plain_key

from ..render.tables import Column, lay_out
from ..render.text import human_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from formats.errors import CheckpointError

    from .plots import Plot

__all__ = ["PlottedTable", "ResultTable", "Results", "RowTable", "Several", "data_frame"]

_MOST_ROWS = 20
"""Rows that `repr` shows."""

_WIDTH = 110
"""Cells of a line of `repr`."""

_RIGHT = (int, float)


class RowTable(ABC):
    """A result with rows: `repr` and notebooks show its first rows, `to_frame` has all of them."""

    @abstractmethod
    def _title(self) -> str:
        """Return the line above the table."""

    @abstractmethod
    def _names(self) -> Sequence[str]:
        """Return the names of the columns."""

    @abstractmethod
    def _rows(self) -> Iterator[Sequence[Any]]:
        """Yield rows of plain values: text, numbers, tuples, or None."""

    @abstractmethod
    def _count(self) -> int:
        """Return the number of rows."""

    def __repr__(self) -> str:
        names, rows = self._names(), list(itertools.islice(self._rows(), _MOST_ROWS))
        lines = [escape(self._title())]
        if rows:
            right = [any(type(row[at]) in _RIGHT for row in rows) for at in range(len(names))]
            columns = [
                Column(name.upper(), right=right[at], fold=at == 0, prose=name == "message")
                for at, name in enumerate(names)
            ]
            cells = [
                [escape(_cell(name, value)) for name, value in zip(names, row, strict=True)] for row in rows
            ]
            laid = lay_out(columns, cells, _WIDTH)
            lines += [laid.heading or "", *itertools.chain.from_iterable(laid.rows)]
        if self._count() > len(rows):
            lines.append(f"... {self._count() - len(rows):,} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from formats.core.notebook import table

        names = self._names()
        of_people = (self._notebook_row(dict(zip(names, row, strict=True))) for row in self._rows())
        rows = ([_cell(name, value) for name, value in row.items()] for row in of_people)
        shown = table([*self._notebook_row(dict.fromkeys(names))], rows, self._count())
        plots = self._plots()
        if plots:
            from .plots import svg

            shown = svg(plots) + shown
        return shown

    def _notebook_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row as a notebook shows it: a tensor is named by its object path if it has one."""
        path = row.pop("object_path", None)
        if row.get("key"):
            row["key"] = path or plain_key(row["key"])
        return row

    def _plots(self) -> Sequence[Plot]:
        """Return what can be drawn of the result."""
        return ()

    def to_frame(self) -> Any:
        """Return all rows as a `pandas.DataFrame` of text, numbers and tuples.

        Raises ImportError if pandas is not installed.
        """
        return data_frame(self._names(), self._rows())


class PlottedTable(RowTable):
    """A result that can be drawn: a notebook shows its plots above the table."""

    def plot(self, axes: Any = None) -> Any:
        """Draw the result with matplotlib, and return its axes: one, or a list.

        With `axes`, draws only the first plot, there. Raises ImportError if matplotlib is not installed.
        """
        from .plots import draw

        return draw(self._plots(), axes)


T = TypeVar("T")
_Table = TypeVar("_Table", bound=RowTable)


class Results(Sequence[T]):
    """A result that is a sequence of results, which a class of it puts into `_results`."""

    _results: Sequence[T]

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._results[index]

    def __len__(self) -> int:
        return len(self._results)


class ResultTable(Results[T], RowTable):
    """A sequence of results that is a table, too, with a row for each unless `_count` says otherwise."""

    def _count(self) -> int:
        return len(self)


class Several(Results[_Table]):
    """The results of several checkpoints or directories, and the `errors` of those that cannot be read."""

    def __init__(self, results: Iterable[_Table], errors: Iterable[CheckpointError] = ()) -> None:
        self._results = tuple(results)
        self.errors = tuple(errors)

    def __repr__(self) -> str:
        failed = (f"<not read: {escape(str(error))}>" for error in self.errors)
        return "\n\n".join([*map(repr, self._results), *failed])

    def _repr_html_(self) -> str:
        return "".join(result._repr_html_() for result in self._results)


def data_frame(names: Sequence[str], rows: Iterator[Sequence[Any]]) -> Any:
    """Return rows as a `pandas.DataFrame`; a missing number is NaN or NA, missing text is None."""
    try:
        import pandas
    except ImportError as error:
        message = "to_frame() needs pandas; to install it: python -m pip install pandas"
        raise ImportError(message, name="pandas") from error
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in names]
    # Text stays Python's: pandas' own strings cannot hold a key that is not UTF-8.
    series = [pandas.Series(values, dtype=_dtype(values)) for values in columns]
    return pandas.DataFrame(dict(zip(names, series, strict=True)))


def _dtype(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values}
    if kinds == {int, type(None)}:
        return "Int64"
    if kinds and kinds <= {int, float, type(None)} and float in kinds:
        return "float64"
    return {frozenset({int}): "int64", frozenset({bool}): "bool"}.get(frozenset(kinds), "object")


def _cell(name: str, value: Any) -> str:
    """Return what people see of a value."""
    if value is None:
        return ""
    if name == "nbytes":
        return human_size(value)
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, tuple):
        return str(list(value))
    return f"{value:,}" if type(value) is int and name != "step" else str(value)
