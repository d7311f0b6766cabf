"""The tensors of a checkpoint, as `ls` lists them, as data."""

from __future__ import annotations

import os
from collections import Counter
from itertools import repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.spec import SpecColumns, spec_columns
from formats.core.spec_table import SpecRows

from ..select.columns import order_by
from ..select.selection import NothingSelectedError, prove_graph

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from formats.core.spec import TensorSpec
    from formats.location import Location
    from formats.model.reader import FormatReader

    from ..select.where import Where


LONG = ("object_path", "full_name", "shard", "offset", "crc32c", "trainable")
"""The additional columns of a long listing."""


class Tensors(NamedTuple):
    """The listed tensors in their order; on request with digests, whether they are trained, and the graph
    that shows that.
    """

    reader: FormatReader
    columns: SpecColumns
    digests: Mapping[str, str | None] | None = None
    trainable: Mapping[str, bool] = MappingProxyType({})
    graph: str | None = None

    @property
    def specs(self) -> SpecRows:
        return SpecRows(*self.columns[:3])

    def fields(self, *, long: bool) -> tuple[str, ...]:
        """Return what `cells` tell."""
        return ("kind", *LONG * long, *("digest",) * (self.digests is not None))

    def cells(self, *, long: bool) -> Iterator[tuple[Any, ...]]:
        """Yield the columns of each tensor after its spec; None for unknown values."""
        reader, keys = self.reader, self.columns.keys
        digests = [] if self.digests is None else [map(self.digests.__getitem__, keys)]
        if not long:
            return zip(self.kinds(), *digests, strict=True)
        names = map(reader.object_paths.get, keys), map(reader.full_names.get, keys)
        marks = map(self.trainable.get, keys)
        columns = zip(self.kinds(), *names, reader.places(keys), marks, *digests, strict=True)
        return ((kind, path, name, *place[:3], *more) for kind, path, name, place, *more in columns)

    def kinds(self) -> Iterator[str | None]:
        return map(self.reader.kinds.get, self.columns.keys)

    def rows(self, *, long: bool = False, stored: bool = False) -> Iterator[dict[str, Any]]:
        """Yield each tensor as `ls --json` shows it; with `long` or `stored` what types are not mapped."""
        fields = self.fields(long=long)
        keys, numbers, specs, _ = self.columns
        behind = [shown(spec) | (spec.stored_document if long or stored else {}) for spec in specs]
        for key, number, cells in zip(keys, numbers, self.cells(long=long), strict=True):
            yield {"key": key, **behind[number], **dict(zip(fields, cells, strict=True))}


def shown(spec: TensorSpec) -> dict[str, Any]:
    """Return the columns of a spec without the key; null if the dtype is unknown."""
    return {"dtype": spec.dtype_name, "shape": list(spec.shape), "nbytes": spec.nbytes}


def reads_only_index(reader: FormatReader, path: Location) -> bool:
    """Whether only the index of a bundle may be used for values: it is alone, or git compares.

    Git passes the index of a commit alone (textconv), and for that of the work tree its own path, next to its
    shards. Both must produce the same words, or equal checkpoints would seem to differ.
    """
    is_git = "GIT_PREFIX" in os.environ and path == reader.location.head != reader.location.path
    return reader.format.is_bundle and (is_git or reader.is_index_alone)


def total(tensors: Tensors, kinds: Iterable[str | None] | None = None) -> dict[str, int]:
    """Return tensors, parameters (floating and complex elements of kind variable) and stored bytes.

    Tensors and parameters are counted under each of their names; bytes of tied tensors count once. `kinds`
    are those of the tensors, if known.
    """
    keys, numbers, specs, _ = tensors.columns
    kinds = tensors.kinds() if kinds is None else kinds
    alike = Counter(zip(numbers, kinds, _are_repeated(tensors.reader, keys)))  # noqa: B905  the last may not end
    parameters = nbytes = 0
    for (number, kind, is_again), count in alike.items():
        spec = specs[number]
        nbytes += 0 if is_again else count * (spec.stored_nbytes or 0)
        if spec.dtype.family in ("float", "complex") and kind == "variable":
            parameters += count * spec.size
    return {"tensors": len(keys), "parameters": parameters, "nbytes": nbytes}


def _are_repeated(reader: FormatReader, keys: Iterable[str]) -> Iterator[bool]:
    """Yield for each tensor whether it is another name of one that was before it."""
    tied = reader.tied
    if not tied:
        yield from repeat(False)
    seen: set[str] = set()
    for key in keys:
        one = tied.get(key, key)
        yield one in seen
        seen.add(one)


def grouped(tensors: Tensors, depth: int, names: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return totals per prefix of `depth` path components, in the order of the keys.

    With `names`, which give the object path of a key, a slot counts with the layer of its variable.
    """
    groups: dict[str, tuple[list[str], list[int]]] = {}
    for key, number in zip(tensors.columns.keys, tensors.columns.numbers, strict=True):
        prefix = "/".join(key.split("/", depth)[:depth])
        if names is not None and key in names:
            prefix = _path_prefix(names[key], depth)
        keys, numbers = groups.setdefault(prefix, ([], []))
        keys.append(key)
        numbers.append(number)
    return [
        {"prefix": prefix, **total(tensors._replace(columns=SpecColumns(*group, tensors.columns.specs)))}
        for prefix, group in groups.items()
    ]


def _path_prefix(path: str, depth: int) -> str:
    """Return the first components of an object path; a slot's optimizer may have slashes of its own."""
    parts = path.partition(" (")[0].split("/", depth)
    return "/".join(parts[:depth]) if len(parts) > depth else path


TOP_LEVEL = "(top level)"
"""The layer of tensors without a prefix, as tables name it."""


def separator_of(keys: Iterable[str]) -> str:
    """Return the text that joins the parts of names: `.`, as in PyTorch, if no key contains a `/`."""
    return "/" if any("/" in key for key in keys) else "."


def split_layer(name: str) -> tuple[str, str]:
    """Return layer and leaf of a name; a slot goes with its variable: `kernel (m of optimizer)`.

    Dots join the parts of a module in PyTorch, also in a nested file: `model/encoder.layer.0.dense.weight`.
    """
    path = name.partition(" (")[0]
    slash, dot = path.rfind("/"), path.rfind(".")
    at = dot if dot > slash + 1 else slash
    return (name[:at], name[at + 1 :]) if at > 0 else ("", name)


def chosen_where(tensors: Tensors, where: Where, *, partly: bool = False) -> Tensors:
    """Return the tensors that an expression chooses; `partly` where not all of its columns are known yet.

    Raises NothingSelectedError if it chooses none.
    """
    is_chosen = where.may_hold if partly else where.holds
    keys = [row["key"] for row in _rows_for(tensors, where.columns, partly=partly) if is_chosen(row)]
    if not keys:
        raise nothing_where(where, tensors.reader.location.path)
    return _only(tensors, keys)


def rows_before_values(
    reader: FormatReader, keys: Iterable[str], where: Where | None, columns: Collection[str]
) -> dict[str, dict[str, Any]]:
    """Return what is known of tensors before values are read, by key: of those that may be chosen.

    Skipped tensors are proved, and so is the object graph if its names choose.
    """
    if not {"kind", "object_path", "full_name"}.isdisjoint(columns):
        prove_graph(reader)
    keys = list(keys)
    tensors = Tensors(reader, spec_columns(reader.specs[key] for key in keys))
    rows = {row["key"]: row for row in _rows_for(tensors, columns)}
    if where is not None:
        left_out = {key for key in keys if not where.may_hold(rows[key])}
        reader.prove_specs(key for key in keys if key in left_out)
        rows = {key: row for key, row in rows.items() if key not in left_out}
        if not rows:
            raise nothing_where(where, reader.location.path)
    return rows


def nothing_where(where: Where, path: Location, what: str = "tensor") -> NothingSelectedError:
    """Return the error of an expression that chooses nothing."""
    return NothingSelectedError(f"no {what} satisfies --where {where.text!r}", path=path)


def sorted_by(tensors: Tensors, sort: str, *, reverse: bool) -> Tensors:
    """Return tensors sorted by a column; by their key they are."""
    keys = tensors.columns.keys
    if sort in ("size", "nbytes"):
        specs = tensors.reader.specs
        if sort == "size":  # as a terminal shows it: in the file
            keys = sorted(keys, key=lambda key: -(specs[key].stored_nbytes or 0))
        else:
            keys = sorted(keys, key=lambda key: -(specs[key].nbytes or specs[key].stored_nbytes or 0))
    elif sort != "key":
        rows = sorted(_rows_for(tensors, (sort,)), key=lambda row: order_by(sort, row[sort]))
        keys = [row["key"] for row in rows]
    return _only(tensors, keys[::-1] if reverse else keys)


def _rows_for(tensors: Tensors, columns: Iterable[str], *, partly: bool = False) -> Iterator[dict[str, Any]]:
    """Yield rows that have these columns; `partly` those alone that are known before values are read."""
    for row in tensors.rows(long=not set(LONG).isdisjoint(columns)):
        if partly:
            row.pop("trainable", None)
        yield row


def _only(tensors: Tensors, keys: Iterable[str]) -> Tensors:
    specs = tensors.reader.specs
    return tensors._replace(columns=spec_columns(specs[key] for key in keys))


def missing_shards(reader: FormatReader) -> list[str]:
    """Return a warning for each missing data file that holds listed tensors.

    There is none if a listing would take a request more for each of them.
    """
    if not reader.location.store.lists_first:
        return []
    return [
        f"{path} is missing, so its tensors are listed, but cannot be read" for path in reader.missing_files()
    ]
