"""`ls` of a checkpoint: its tensors as a document, keys, totals of prefixes, a tree, or a table."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.dtypes import INVALID
from formats.core.spec import spec_columns
from formats.core.words import counted

from ..operations.look import listing
from . import base as render
from .listing import cell, escaped, write_names, write_null

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from formats.core.spec import SpecColumns, TensorSpec
    from formats.model.reader import CheckpointReader

    from ..operations.runs.trainable import Trainable
    from .listing import Look


_KIND_STYLES = {"slot": "yellow", "optimizer": "red", "state": "cyan", "graph": "bright_black"}
_DEEPEST = 200
"""Branches of a tree; what is left of a longer key is one name."""

_NUMBERS = ("shard", "offset", "crc32c")
_NAMES = ("object_path", "full_name")
_WORTHS = {"full_name": 0, "object_path": 1, "shard": 2, "crc32c": 3, "offset": 4}
"""What goes first where a terminal is narrow; a digest, that was asked for, stays."""

_LONG = ("kind", "shard", "offset", "crc32c", "object_path", "full_name")


class Tensors(NamedTuple):
    """What is listed: tensors in their order, and which are trainable, where that was asked."""

    reader: CheckpointReader
    specs: list[TensorSpec]
    trainable: Trainable | None = None
    digests: Mapping[str, str | None] | None = None

    @property
    def marks(self) -> dict[str, bool]:
        """Whether a tensor is trainable, by key."""
        return dict(self.trainable.marks) if self.trainable else {}


def show(tensors: Tensors, look: Look) -> None:
    """Print the tensors of a checkpoint in the form that is asked for."""
    if look.as_json:
        _as_json(tensors, look)
    elif look.null:
        write_null(spec.key for spec in tensors.specs)
    elif look.keys_only:
        write_names(spec.key for spec in tensors.specs)
    elif look.depth:
        _as_groups(tensors, look.depth, look.prefix)
    elif look.as_tree:
        _as_tree(tensors)
    elif not render.is_terminal():
        _as_rows(tensors, look)
    else:
        _as_table(tensors, wide=look.long)


def show_columns(parts: Iterable[SpecColumns], look: Look) -> None:
    """Print all tensors of a checkpoint as keys or short rows, part by part as they come."""
    if look.null:
        for part in parts:
            write_null(part.keys)
    elif look.keys_only:
        for part in parts:
            render.lines(escaped(part.keys))
    else:
        _write_rows(parts, look)


def _as_json(tensors: Tensors, look: Look) -> None:
    reader, specs, trainable, digests = tensors
    head: dict[str, Any] = {"path": reader.location.path, "format": reader.format.name}
    if trainable:
        head["graph"] = trainable.graph
    marks = trainable.marks if trainable else None
    rows = (
        listing.tensor_row(reader, spec, long=look.long, trainable=marks, digests=digests) for spec in specs
    )
    extra = {"prefixes": listing.grouped(reader, specs, look.depth)} if look.depth else {}

    def last() -> dict[str, Any]:
        return {"total": listing.total(reader, specs), **extra}

    if look.documents is not None:
        look.documents.append({"schema": 1, **head, "tensors": list(rows), **last()})
    else:
        render.long_document(head, "tensors", rows, last)


def _as_groups(tensors: Tensors, depth: int, prefix: tuple[str, ...]) -> None:
    groups = listing.grouped(tensors.reader, tensors.specs, depth)
    if not render.is_terminal():
        render.tsv([*prefix, *group.values()] for group in groups)
        return
    columns = [
        render.Column("PREFIX", fold=True),
        render.Column("TENSORS", right=True),
        render.Column("PARAMETERS", right=True, worth=0),
        render.Column("SIZE", right=True),
    ]
    rows = [
        [
            render.escape(g["prefix"]),
            f"{g['tensors']:,}",
            f"{g['parameters']:,}",
            render.human_size(g["nbytes"]),
        ]
        for g in groups
    ]
    render.table(columns, rows)
    _summary(tensors)


def _as_tree(tensors: Tensors) -> None:
    shown = _unique_paths(tensors.reader) if render.is_terminal() else {}
    root: dict[str, tuple[str, Any]] = {}
    for spec in tensors.specs:
        branches = root
        for part in (parts := shown.get(spec.key, spec.key).split("/", _DEEPEST))[:-1]:
            branches = branches.setdefault(part, ("", {}))[1]
        below = branches[parts[-1]][1] if parts[-1] in branches else {}
        branches[parts[-1]] = (f"{spec.dtype} {list(spec.shape)}", below)
    render.tree(tensors.reader.location.name, root)


# In a pipe --------------------------------------------------------------------------


def _as_rows(tensors: Tensors, look: Look) -> None:
    if look.long or tensors.digests is not None:
        more = _LONG * look.long + ("digest",) * (tensors.digests is not None)
        found = (
            listing.tensor_row(tensors.reader, spec, long=look.long, digests=tensors.digests)
            for spec in tensors.specs
        )
        render.tsv([*look.prefix, *_tsv_row(row, more)] for row in found)
    else:
        _write_rows([spec_columns(tensors.specs)], look)


def _write_rows(parts: Iterable[SpecColumns], look: Look) -> None:
    """Write TSV rows; what follows the key repeats from tensor to tensor."""
    before = "".join(render.escape(path) + "\t" for path in look.prefix)
    behind: list[str] = []
    for keys, numbers, specs, _ in parts:
        behind += map(_behind_key, specs[len(behind) :])
        rows = map(operator.add, escaped(keys), map(behind.__getitem__, numbers))
        render.lines(map(before.__add__, rows) if before else rows)


def _behind_key(spec: TensorSpec) -> str:
    dtype = spec.dtype.name if spec.dtype is not INVALID else ""
    size = spec.nbytes
    return f"\t{dtype}\t{','.join(map(str, spec.shape))}\t{'' if size is None else size}"


def _tsv_row(row: dict[str, Any], more: tuple[str, ...]) -> list[object]:
    shape = ",".join(map(str, row["shape"]))
    return [row["key"], row["dtype"], shape, row["nbytes"], *(row[name] for name in more)]


# On a terminal ----------------------------------------------------------------------


def _as_table(tensors: Tensors, *, wide: bool) -> None:
    reader = tensors.reader
    columns = [
        render.Column("KEY", fold=True),
        render.Column("DTYPE", worth=9),
        render.Column("SHAPE"),
        render.Column("SIZE", right=True, worth=8),
        render.Column("KIND", worth=7),
    ]
    more = ["shard", "offset", "crc32c", *_names_beside_keys(reader)] if wide else []
    more += ["digest"] * (tensors.digests is not None)
    marks = tensors.marks
    if marks:
        columns.append(render.Column("TRAINABLE", worth=5))
    columns += [
        render.Column(
            name.replace("_", " ").upper(),
            right=name in _NUMBERS,
            fold=name in _NAMES,
            worth=_WORTHS.get(name),
        )
        for name in more
    ]
    paths = {} if wide else _unique_paths(reader)
    rows, styles = [], []
    for spec in tensors.specs:
        row = listing.tensor_row(reader, spec, long=wide, digests=tensors.digests)
        cells = [
            render.escape(paths.get(spec.key, spec.key)),
            row["dtype"] or "?",
            str(row["shape"]),
            render.human_size(row["nbytes"]),
            row["kind"] or "",
        ]
        if marks:
            cells.append({True: "yes", False: "no", None: ""}[marks.get(spec.key)])
        rows.append([*cells, *(cell(row[name]) for name in more)])
        styles.append(_KIND_STYLES.get(row["kind"] or "", ""))
    render.table(columns, rows, styles)
    _summary(tensors)


def _names_beside_keys(reader: CheckpointReader) -> list[str]:
    """Return the fields that name a tensor otherwise than its key does: a person needs no key twice."""
    names = {"object_path": reader.object_paths, "full_name": reader.full_names}
    return [field for field, known in names.items() if any(key != name for key, name in known.items())]


def _unique_paths(reader: CheckpointReader) -> dict[str, str]:
    """Return object paths by key, without those that several tensors share: a table's keys and values."""
    owners: dict[str, str | None] = {}
    for key, path in reader.object_paths.items():
        owners[path] = key if path not in owners else None
    return {key: path for path, key in owners.items() if key is not None and path}


def _summary(tensors: Tensors) -> None:
    counts = listing.total(tensors.reader, tensors.specs)
    size = render.human_size(counts["nbytes"])
    text = f"{counted(counts['tensors'], 'tensor')}, {counted(counts['parameters'], 'parameter')}, {size}"
    render.title(tensors.reader.format.name, text)
