"""`ckpt ls`: the checkpoints of a directory, or the tensors of a checkpoint."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from formats.core.dtypes import INVALID
from formats.core.words import counted
from formats.find.directory import directories_below
from formats.find.opening import is_directory, locate
from formats.store.paths import is_folder, join

from ..operations.choose.places import each_once, paths_and_keys
from ..operations.choose.select import Selection, choose
from ..operations.runs import listing
from ..option_rules import CHOOSING, excludes, option_rules
from ..options import choosing, color_option, json_option, path_argument, recursive_option, selection_of
from ..render import base as render
from ..render.report import kept, opened, say_all, say_empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from formats.core.spec import TensorSpec
    from formats.errors import CheckpointError
    from formats.model.location import Location
    from formats.model.reader import CheckpointReader

    from ..operations.runs.trainable import Trainable


KIND_STYLES = {"slot": "yellow", "optimizer": "red", "state": "cyan", "graph": "bright_black", "variable": ""}
_DEEPEST = 200
"""Branches of a tree; what is left of a longer key is one name."""

_MOST_BESIDE = 3
_NUMBERS = ("shard", "offset", "crc32c")
_LONG = ("kind", "shard", "offset", "crc32c", "object_path", "full_name")


@click.command("ls")
@path_argument(default=".", metavar="[PATH]...")
@choosing
@click.option(
    "-l", "--long", is_flag=True, help="Add kind, shard, offset, stored crc32c, object path, full name."
)
@click.option("--tree", "as_tree", is_flag=True, help="Show keys as a tree.")
@click.option(
    "--depth", type=click.IntRange(1), metavar="N", help="Show totals per prefix of N path components."
)
@click.option(
    "--sort", type=click.Choice(list(listing.SORTS)), default="key", show_default=True, help="Order."
)
@click.option("-r", "--reverse", is_flag=True, help="Reverse the order.")
@click.option("-1", "--keys", "keys_only", is_flag=True, help="Print keys alone, one a line.")
@click.option(
    "-0", "--null", is_flag=True, help="Print keys alone, as they are stored, a NUL byte behind each."
)
@recursive_option("List the directories below, too.")
@json_option
@color_option
@option_rules(
    excludes("--recursive", *CHOOSING, "--long", "--tree", "--depth", "--sort"),
    excludes("--tree", "--json", "--depth", "--keys", "--null"),
    excludes("--keys", "--json", "--depth"),
    excludes("--null", "--json", "--depth"),
    excludes("--long", "--tree", "--keys", "--null"),
    excludes("--long", "--depth", unless="--json"),
)
def command(path: str, keys: tuple[str, ...], **options: Any) -> int:
    """List the checkpoints of a directory, or the tensors of one.

    A directory lists its checkpoints, oldest first; anything that names a checkpoint
    lists its tensors with dtype, shape and size.  Only the index is read; with -l also the
    graph beside it (.meta), which knows what is trained.

    Behind the first PATH, a word that is one of its keys is a KEY; else one that is there
    is a PATH, too; else it is a KEY (with --regex all are).  Paths that name one checkpoint,
    as run/ckpt-* does, are that one once.  Of several the lines begin with their paths.

    \b
      ckpt ls run/                         the checkpoints of a run
      ckpt ls run/ckpt-10 --kind variable  the weights, without optimizer slots
      ckpt ls run/ckpt-10 --depth 2        sizes per layer
      ckpt ls -1 run/ckpt-10 '*/kernel*'   keys that match
    """
    paths, options["keys"] = ([path], keys) if options["regex"] else paths_and_keys(path, keys)
    selection = selection_of(options)
    if len(paths) > 1:
        return _list_several(paths, selection, options)
    if options["recursive"]:
        return _list_recursively(path, options)
    if is_directory(path) and selection.everything:
        return _list_directory(path, options)
    _list_checkpoint(locate(path), selection, options)
    return 0


# Several paths --------------------------------------------------------------------


class _Folder(NamedTuple):
    """A directory among several paths, of which the checkpoints are listed."""

    path: str


def _list_several(paths: list[str], selection: Selection, options: dict[str, Any]) -> int:
    """List what paths name, on past what cannot be listed; the last such error is raised in the end."""
    if options["recursive"]:
        raise click.UsageError("--recursive wants one directory", click.get_current_context())
    errors: list[CheckpointError] = []
    named: list[Location | _Folder] = []
    for path in paths:
        with kept(errors):
            named.append(_Folder(path) if selection.everything and is_directory(path) else locate(path))
    places, notes = each_once(named)
    for text in notes:
        render.note(text)
    documents: list[dict[str, Any]] = []
    has_titles = render.is_terminal() and not any(options[name] for name in ("as_json", "null", "keys_only"))
    code = 0
    for number, place in enumerate(places):
        if has_titles:
            render.title(("\n" if number else "") + place.path)
        with kept(errors):
            job = {**options, "prefix": (place.path,), "documents": documents}
            if isinstance(place, _Folder):
                code = _list_directory(place.path, job) or code
            else:
                _list_checkpoint(place, selection, job)
    if options["as_json"]:
        render.document({"results": documents})
    say_all(errors)
    return code


# A checkpoint ---------------------------------------------------------------------


def _list_checkpoint(location: Location, selection: Selection, options: dict[str, Any]) -> None:
    with opened(location) as reader:
        known = reader.specs
        chosen = [known[key] for key in choose(reader, selection)]
        specs = listing.checkpoint_rows(chosen, options["sort"], reverse=options["reverse"])
        if options["long"]:
            options["trainable"] = _trainable(reader, as_json=options["as_json"])
        show = next(show for applies, show in _SHAPES if applies(options))
        show(reader, specs, options)
        for message in listing.missing_shards(reader):
            render.warning(message)


def _trainable(reader: CheckpointReader, *, as_json: bool) -> Trainable:
    from ..operations.runs.trainable import trainable_tensors

    found = trainable_tensors(reader)
    for text in found.flaws:
        render.note(text)
    if found.borrowed and not as_json:  # a document names the graph itself
        render.note(f"which tensors are trainable is told by the graph of another step, {found.graph}")
    return found


def _as_json(reader: CheckpointReader, specs: list[TensorSpec], options: dict[str, Any]) -> None:
    head: dict[str, Any] = {"path": reader.location.path, "format": reader.format.name}
    extra = {"prefixes": listing.grouped(reader, specs, options["depth"])} if options["depth"] else {}
    long, trainable = options["long"], options.get("trainable")
    marks = trainable.marks if trainable else None
    if trainable:
        head["graph"] = trainable.graph
    rows = (listing.tensor_row(reader, spec, long=long, trainable=marks) for spec in specs)

    def last() -> dict[str, Any]:
        return {"total": listing.total(reader, specs), **extra}

    if "documents" in options:
        options["documents"].append({"schema": 1, **head, "tensors": list(rows), **last()})
    else:
        render.long_document(head, "tensors", rows, last)


def _as_null(_: CheckpointReader, specs: list[TensorSpec], __: dict[str, Any]) -> None:
    _write_null(spec.key for spec in specs)


def _write_null(names: Iterable[str]) -> None:
    """Write keys or names byte for byte as they are stored, which not every encoding of text can."""
    from formats.core.spec import key_bytes

    sys.stdout.flush()
    sys.stdout.buffer.write(b"".join(key_bytes(name) + b"\0" for name in names))


def _as_keys(_: CheckpointReader, specs: list[TensorSpec], __: dict[str, Any]) -> None:
    render.lines(render.escape(spec.key) for spec in specs)


def _as_groups(reader: CheckpointReader, specs: list[TensorSpec], options: dict[str, Any]) -> None:
    groups = listing.grouped(reader, specs, options["depth"])
    if not render.is_terminal():
        render.tsv([*_prefix(options), *group.values()] for group in groups)
        return
    columns = [
        render.Column("PREFIX", fold=True),
        render.Column("TENSORS", right=True),
        render.Column("PARAMETERS", right=True),
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
    _summary(reader, specs)


def _as_tree(reader: CheckpointReader, specs: list[TensorSpec], _: dict[str, Any]) -> None:
    root: dict[str, tuple[str, Any]] = {}
    for spec in specs:
        branches = root
        for part in (parts := _shown_key(reader, spec).split("/", _DEEPEST))[:-1]:
            branches = branches.setdefault(part, ("", {}))[1]
        below = branches[parts[-1]][1] if parts[-1] in branches else {}
        branches[parts[-1]] = (f"{spec.dtype} {list(spec.shape)}", below)
    render.tree(reader.location.name, root)


def _as_table(reader: CheckpointReader, specs: list[TensorSpec], options: dict[str, Any]) -> None:
    if not render.is_terminal():
        prefix = _prefix(options)
        if options["long"]:
            found = (listing.tensor_row(reader, spec, long=True) for spec in specs)
            render.tsv([*prefix, *_tsv_row(row, _LONG)] for row in found)
        else:
            render.lines(_short_rows(specs, "".join(render.escape(path) + "\t" for path in prefix)))
        return
    wide = options["long"]
    columns = [
        render.Column("KEY", fold=True),
        render.Column("DTYPE"),
        render.Column("SHAPE"),
        render.Column("SIZE", right=True),
        render.Column("KIND"),
    ]
    more = []
    if wide:
        more = ["shard", "offset", "crc32c", *_names_beside_keys(reader)]
        columns += [
            render.Column(name.replace("_", " ").upper(), right=name in _NUMBERS, fold=name not in _NUMBERS)
            for name in more
        ]
    marks = options["trainable"].marks if wide else {}
    if marks:
        columns.insert(5, render.Column("TRAINABLE"))
    paths = {} if wide else _unique_paths(reader)
    rows, styles = [], []
    for spec in specs:
        row = listing.tensor_row(reader, spec, long=wide)
        cells = [
            render.escape(paths.get(spec.key, spec.key)),
            row["dtype"] or "?",
            str(row["shape"]),
            render.human_size(row["nbytes"]),
            row["kind"] or "",
        ]
        if marks:
            cells.append({True: "yes", False: "no", None: ""}[marks.get(spec.key)])
        cells += [_cell(row[name]) for name in more]
        rows.append(cells)
        styles.append(KIND_STYLES.get(row["kind"] or "", ""))
    render.table(columns, rows, styles)
    _summary(reader, specs)


def _names_beside_keys(reader: CheckpointReader) -> list[str]:
    """Return the fields that name a tensor otherwise than its key does: a person needs no key twice."""
    names = {"object_path": reader.object_paths, "full_name": reader.full_names}
    return [field for field, known in names.items() if any(key != name for key, name in known.items())]


def _cell(value: object) -> str:
    return "" if value is None else render.escape(str(value))


def _prefix(options: dict[str, Any]) -> tuple[str, ...]:
    """Return what lines begin with: the path, where there are several."""
    prefix: tuple[str, ...] = options.get("prefix", ())
    return prefix


def _short_rows(specs: list[TensorSpec], prefix: str) -> Iterator[str]:
    """Yield TSV rows; what follows the key repeats from tensor to tensor."""
    behind: dict[tuple[object, ...], str] = {}
    escape = render.escape
    for spec in specs:
        key, what = spec[0], spec[1:]
        text = behind.get(what)
        if text is None:
            dtype = spec.dtype.name if spec.dtype is not INVALID else ""
            size = spec.nbytes
            text = behind[what] = (
                f"\t{dtype}\t{','.join(map(str, spec.shape))}\t{'' if size is None else size}"
            )
        yield prefix + escape(key) + text


def _tsv_row(row: dict[str, Any], more: tuple[str, ...]) -> list[object]:
    shape = ",".join(map(str, row["shape"]))
    return [row["key"], row["dtype"], shape, row["nbytes"], *(row[name] for name in more)]


def _unique_paths(reader: CheckpointReader) -> dict[str, str]:
    """Return object paths by key, without those that several tensors share: a table's keys and values."""
    owners: dict[str, str | None] = {}
    for key, path in reader.object_paths.items():
        owners[path] = key if path not in owners else None
    return {key: path for path, key in owners.items() if key is not None and path}


def _shown_key(reader: CheckpointReader, spec: TensorSpec) -> str:
    return spec.key if not render.is_terminal() else _unique_paths(reader).get(spec.key, spec.key)


def _summary(reader: CheckpointReader, specs: list[TensorSpec]) -> None:
    counts = listing.total(reader, specs)
    size = render.human_size(counts["nbytes"])
    text = f"{counted(counts['tensors'], 'tensor')}, {counted(counts['parameters'], 'parameter')}, {size}"
    render.title(reader.format.name, text)


_SHAPES = (
    (lambda options: options["as_json"], _as_json),
    (lambda options: options["null"], _as_null),
    (lambda options: options["keys_only"], _as_keys),
    (lambda options: options["depth"], _as_groups),
    (lambda options: options["as_tree"], _as_tree),
    (lambda _: True, _as_table),
)


# Directories ----------------------------------------------------------------------


def _asked_of_tensors(options: dict[str, Any]) -> str:
    """Return the options of a command line that say how tensors are listed, as they are typed."""
    asked = ["-l"] if options["long"] else []
    asked += ["--tree"] if options["as_tree"] else []
    asked += [f"--depth {options['depth']}"] if options["depth"] else []
    asked += [f"--sort {options['sort']}"] if options["sort"] != "key" else []
    return " ".join(asked)


def _load(path: str, *, reverse: bool) -> dict[str, Any]:
    found, notes, warnings = listing.directory_document(path)
    if reverse:
        found["checkpoints"].reverse()
    for text in notes:
        render.note(text)
    for text in warnings:
        render.warning(text)
    return found


def _list_directory(path: str, options: dict[str, Any]) -> int:
    found = _load(path, reverse=options["reverse"])
    asked = _asked_of_tensors(options)
    if found["latest"] and asked:
        import shlex

        latest = shlex.quote(join(path, found["latest"]))
        render.note(f"{asked} is for the tensors of one checkpoint: ckpt ls {asked} {latest}")
    if "documents" in options:
        options["documents"].append({"schema": 1, **found})
    if options["as_json"] and "documents" not in options:
        render.document(found)
    if not options["as_json"]:
        for row in found["checkpoints"] if _prefix(options) and not render.is_terminal() else ():
            row["name"] = row["path"]
        _show_directory(found, options)
    return 0 if found["checkpoints"] else say_empty(path)


def _list_recursively(path: str, options: dict[str, Any]) -> int:
    if not is_folder(path):
        raise click.UsageError(f"--recursive wants a directory, {path} is none", click.get_current_context())
    errors: list[CheckpointError] = []
    found = []
    for below in directories_below(path):
        with kept(errors):
            found.append(_load(below, reverse=options["reverse"]))
    found = [one for one in found if one["checkpoints"]]
    if options["as_json"]:
        render.document({"directories": found})
    for number, one in enumerate(found if not options["as_json"] else ()):
        if render.is_terminal():
            render.title(("\n" if number else "") + one["directory"])
        else:
            for row in one["checkpoints"]:
                row["name"] = row["path"]
        _show_directory(one, options)
    say_all(errors)
    return 0 if found else say_empty(path)


def _show_directory(found: dict[str, Any], options: dict[str, Any]) -> None:
    rows = found["checkpoints"]
    if options["null"]:
        _write_null(row["name"] for row in rows)
    elif options["keys_only"]:
        render.lines(render.escape(row["name"]) for row in rows)
    elif not render.is_terminal():
        fields = ("name", "format", "step", "tensors", "nbytes", "modified")
        render.tsv([row[field] for field in fields] for row in rows)
    elif rows:
        columns = [
            render.Column("NAME", fold=True),
            render.Column("FORMAT"),
            render.Column("STEP", right=True),
            render.Column("TENSORS", right=True),
            render.Column("SIZE", right=True),
            render.Column("MODIFIED"),
            render.Column(""),
        ]
        cells = [
            [
                render.escape(row["name"]),
                row["format"] or "damaged",
                _cell(row["step"]),
                _cell(row["tensors"]),
                render.human_size(row["nbytes"]),
                row["modified"].replace("T", " ").rstrip("Z"),
                "latest" if row["name"] == found["latest"] else "kept" if row["kept"] else "",
            ]
            for row in rows
        ]
        styles = [
            "red" if r["format"] is None else "green" if r["name"] == found["latest"] else "" for r in rows
        ]
        render.table(columns, cells, styles)
        _show_beside(found)


def _show_beside(found: dict[str, Any]) -> None:
    """Print what lies beside the checkpoints of a run, a line for each sort of file."""
    for what in ("events", "graphs"):
        files = [
            f"{render.escape(file['name'])} ({render.human_size(file['nbytes'])})" for file in found[what]
        ]
        if files:
            more = f" and {len(files) - _MOST_BESIDE} more" if len(files) > _MOST_BESIDE else ""
            render.lines([render.styled(f"{what}: {', '.join(files[-_MOST_BESIDE:])}{more}", dim=True)])
