"""`ls` of a checkpoint: its tensors as a document, keys, totals of prefixes, a tree, or a table."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any

from formats.core.spec import stored_type
from formats.core.words import counted, natural_order

from ..operations.look import listing
from . import base as render
from .listing import cell, escaped, write_names, write_null

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from formats.core.spec import SpecColumns, TensorSpec
    from formats.model.reader import FormatReader

    from ..operations.look.listing import Tensors
    from .listing import Look


_KIND_STYLES = {"slot": "yellow", "optimizer": "red", "state": "cyan", "graph": "bright_black"}
_DEEPEST = 200
"""Branches of a tree; what is left of a longer key is one name."""

_NUMBERS = ("shard", "offset", "crc32c")
_NAMES = ("object_path", "full_name")
_WORTHS = {"stored": 6, "full_name": 0, "object_path": 1, "shard": 2, "crc32c": 3, "offset": 4}
"""The columns by importance on a narrow terminal; a requested digest always stays."""

_LONG = ("kind", "shard", "offset", "crc32c", "object_path", "full_name")


def show(tensors: Tensors, look: Look) -> None:
    """Print the tensors of a checkpoint in the requested format."""
    if look.as_json:
        _as_json(tensors, look)
    elif look.null:
        write_null(tensors.columns.keys[: look.top])
    elif look.keys_only:
        write_names(tensors.columns.keys[: look.top])
    elif look.depth:
        _as_groups(tensors, look)
    elif look.as_tree:
        _as_tree(tensors)
    elif look.as_csv:
        _as_csv(tensors, look)
    elif not render.is_terminal():
        _as_rows(tensors, look)
    else:
        _as_table(tensors, look)


def show_columns(parts: Iterable[SpecColumns], look: Look) -> None:
    """Print all tensors of a checkpoint as keys or short rows, part by part as they come."""
    if look.null:
        for part in parts:
            write_null(part.keys)
    elif look.keys_only:
        for part in parts:
            render.lines(escaped(part.keys), for_programs=True)
    else:
        _write_rows(parts, look)


def _as_json(tensors: Tensors, look: Look) -> None:
    reader = tensors.reader
    head: dict[str, Any] = {"path": reader.location.path, "format": reader.format.name}
    if look.long:
        head["graph"] = tensors.graph
    extra = {"prefixes": listing.grouped(tensors, look.depth)} if look.depth else {}
    if look.documents is not None:
        rows = list(tensors.rows(long=look.long))
        look.documents.append(
            {"schema": 1, **head, "tensors": rows, "total": listing.total(tensors), **extra}
        )
        return
    kinds: list[str | None] = []
    render.long_document(
        head,
        "tensors",
        _json_rows(tensors, kinds, long=look.long),
        lambda: {"total": listing.total(tensors, kinds), **extra},
    )


def _json_rows(tensors: Tensors, kinds: list[str | None], *, long: bool) -> Iterator[str]:
    """Yield `tensors.rows` as JSON and append their kinds; the repeated parts are encoded once."""
    keys, numbers, specs, _ = tensors.columns
    shown = (listing.shown(spec) | (spec.stored_document if long else {}) for spec in specs)
    behind = [render.json_text(fields)[1:-1] for fields in shown]
    form = '{"key": %s, %s' + "".join(f', "{field}": %s' for field in tensors.fields(long=long)) + "}"
    text = render.json_text
    for key, number, cells in zip(keys, numbers, tensors.cells(long=long), strict=True):
        kinds.append(cells[0])
        yield form % (text(key), behind[number], *map(text, cells))


def _as_groups(tensors: Tensors, look: Look) -> None:
    assert look.depth
    is_table = render.is_terminal() and not look.as_csv
    groups = listing.grouped(tensors, look.depth, _unique_paths(tensors.reader) if is_table else None)
    if look.sort in ("size", "nbytes"):
        groups.sort(key=lambda group: -group["nbytes"])
        groups = groups[::-1] if look.reverse else groups
    elif is_table:
        groups.sort(key=lambda group: natural_order(group["prefix"]))
    if look.as_csv:
        header = [*("path" for _ in look.prefix), *(groups[0] if groups else ())]
        cells = ([*look.prefix, *group.values()] for group in groups[: look.top])
        render.csv(header if look.has_header else [], cells)
        return
    if not is_table:
        render.tsv([*look.prefix, *group.values()] for group in groups[: look.top])
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
        for g in groups[: look.top]
    ]
    render.table(columns, rows)
    render.note_hidden_rows(len(groups) - len(rows), "group")
    _summary(tensors)


def _as_tree(tensors: Tensors) -> None:
    shown = _unique_paths(tensors.reader) if render.is_terminal() else {}
    root: dict[str, tuple[str, Any]] = {}
    specs: Iterable[TensorSpec] = tensors.specs
    if render.is_terminal():
        specs = sorted(specs, key=lambda spec: natural_order(shown.get(spec.key, spec.key)))
    for spec in specs:
        branches = root
        for part in (parts := shown.get(spec.key, spec.key).split("/", _DEEPEST))[:-1]:
            branches = branches.setdefault(part, ("", {}))[1]
        below = branches[parts[-1]][1] if parts[-1] in branches else {}
        branches[parts[-1]] = (f"{spec.type_name or '?'} {list(spec.shape)}", below)
    render.tree(tensors.reader.location.name, root)


def _as_csv(tensors: Tensors, look: Look) -> None:
    """Print the columns of TSV, with a header."""
    more = [*(_LONG if look.long else ()), *(["digest"] if tensors.digests is not None else [])]
    fields = ["key", "dtype", "shape", "nbytes", *more]
    header = [*("path" for _ in look.prefix), *fields, *(["stored"] if look.long else [])]
    rows = itertools.islice(tensors.rows(long=look.long), look.top)
    cells = (
        [*look.prefix, *(row[field] for field in fields), *([_stored_cell(row)] if look.long else [])]
        for row in rows
    )
    render.csv(header if look.has_header else [], cells)


# In a pipe --------------------------------------------------------------------------


def _as_rows(tensors: Tensors, look: Look) -> None:
    columns = tensors.columns
    if look.top:
        columns = columns._replace(keys=columns.keys[: look.top], numbers=columns.numbers[: look.top])
        tensors = tensors._replace(columns=columns)
    if look.long or tensors.digests is not None:
        more = _LONG * look.long + ("digest",) * (tensors.digests is not None)
        render.lines(_tsv_rows(tensors, look, more))
    else:
        _write_rows([columns], look)


def _tsv_rows(tensors: Tensors, look: Look, more: tuple[str, ...]) -> Iterator[str]:
    """Yield TSV rows with the requested fields after the spec."""
    fields = tensors.fields(long=look.long)
    places = [fields.index(field) for field in more]
    keys, numbers, specs, _ = tensors.columns
    behind = [*map(_behind_key, specs)]
    last = [[str(spec.stored_as)] * look.long if spec.stored_as else [] for spec in specs]
    for key, number, cells in zip(keys, numbers, tensors.cells(long=look.long), strict=True):
        row_cells = [*look.prefix, key, *(cells[place] for place in places), *last[number]]
        texts = [*map(render.tsv_text, row_cells)]
        texts[len(look.prefix)] += behind[number]
        yield "\t".join(texts)


def _write_rows(parts: Iterable[SpecColumns], look: Look) -> None:
    """Write TSV rows; what follows the key repeats from tensor to tensor."""
    before = "".join(render.escape(path) + "\t" for path in look.prefix)
    behind: list[str] = []
    for keys, numbers, specs, _ in parts:
        behind += map(_behind_key, specs[len(behind) :])
        rows = map(operator.add, escaped(keys), map(behind.__getitem__, numbers))
        render.lines(map(before.__add__, rows) if before else rows)


def _behind_key(spec: TensorSpec) -> str:
    dtype = spec.dtype_name or ""
    size = spec.nbytes
    return f"\t{dtype}\t{','.join(map(str, spec.shape))}\t{'' if size is None else size}"


# On a terminal ----------------------------------------------------------------------


def _as_table(tensors: Tensors, look: Look) -> None:
    wide = look.long
    reader = tensors.reader
    columns = [
        render.Column("KEY", fold=True),
        render.Column("DTYPE", worth=9),
        render.Column("SHAPE"),
        render.Column("SIZE", right=True, worth=8),
        render.Column("KIND", worth=7),
    ]
    more = ["shard", "offset", "crc32c", *_name_fields(reader)] if wide else []
    more += ["digest"] * (tensors.digests is not None)
    more += ["stored"] * (wide and any(spec.stored_as is not None for spec in tensors.columns.specs))
    marks = tensors.trainable if wide else {}
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
    paths = _unique_paths(reader)
    shown = list(tensors.rows(long=wide, stored=True))
    if look.sort == "key":
        shown.sort(key=lambda row: natural_order(paths.get(row["key"], row["key"])), reverse=look.reverse)
    paths = {} if wide else paths
    rows, styles = [], []
    for row in shown[: look.top]:
        cells = [
            render.escape(paths.get(row["key"], row["key"])),
            _dtype_cell(row),
            str(row["shape"]),
            render.human_size((row.get("stored") or row)["nbytes"]),
            row["kind"] or "",
        ]
        if marks:
            cells.append({True: "yes", False: "no", None: ""}[row["trainable"]])
        rows.append([*cells, *(_stored_cell(row) if name == "stored" else cell(row[name]) for name in more)])
        styles.append(_KIND_STYLES.get(row["kind"] or "", ""))
    render.table(columns, rows, styles)
    render.note_hidden_rows(len(shown) - len(rows), "tensor")
    _summary(tensors)


def _dtype_cell(row: dict[str, Any]) -> str:
    """Return the dtype, with the type on disk if that is another."""
    stored = row["stored"]["dtype"] if row.get("stored") else None
    if row["dtype"] is None:
        return stored or "?"
    return f"{row['dtype']} ({stored})" if stored else row["dtype"]


def _stored_cell(row: dict[str, Any]) -> str:
    return str(stored_type(row["stored"])) if row.get("stored") else ""


def _name_fields(reader: FormatReader) -> list[str]:
    """Return the fields that name a tensor otherwise than its key does: a person needs no key twice."""
    names = {"object_path": reader.object_paths, "full_name": reader.full_names}
    return [field for field, known in names.items() if any(key != name for key, name in known.items())]


def _unique_paths(reader: FormatReader) -> dict[str, str]:
    """Return object paths by key, without those that several tensors share: a table's keys and values."""
    owners: dict[str, str | None] = {}
    for key, path in reader.object_paths.items():
        owners[path] = key if path not in owners else None
    return {key: path for path, key in owners.items() if key is not None and path}


def _summary(tensors: Tensors) -> None:
    counts = listing.total(tensors)
    size = render.human_size(counts["nbytes"])
    text = f"{counted(counts['tensors'], 'tensor')}, {counted(counts['parameters'], 'parameter')}, {size}"
    render.title(tensors.reader.format.name, text)
