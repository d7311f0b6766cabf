"""`ckpt show`: what a checkpoint is, or what one tensor holds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from formats.core.dtypes import from_numpy
from formats.core.words import counted

from ..api.listing import checkpoint_identity
from ..cli.help import subcommand
from ..cli.option_rules import excludes, needs, option_rules
from ..cli.options import (
    color_option,
    completing,
    ignore_case_option,
    jobs_option,
    json_option,
    path_argument,
)
from ..operations.look import show
from ..operations.select import slices
from ..render import base as render
from ..render.report import SCREEN, opened

if TYPE_CHECKING:
    from formats.core.spec import TensorSpec
    from formats.location import Location
    from formats.model.reader import FormatReader
    from formats.store.work.workers import Workers
    from formats.tf.run.pipeline import Pipeline, Step

    from ..operations.look.stats import Statistics


_BARS = " ▁▂▃▄▅▆▇█"
_HEAT_ROWS, _HEAT_COLUMNS = 16, 64
_LARGEST_HEAT = 1 << 24
"""Elements up to which a heat map is worth reading the tensor once more."""


@subcommand("show", paged=True)
@path_argument()
@click.argument("key", required=False, metavar="[KEY[SLICE]]", shell_complete=completing("keys"))
@click.option(
    "--max-values",
    type=click.IntRange(0),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Print at most N values in JSON.",
)
@click.option(
    "--digest",
    is_flag=True,
    help="Print only the identity: one SHA-256 of all tensors."
    "\fThe identity is the same in every format that keeps names and dtypes. With --json, it is a field of "
    "the document.",
)
@ignore_case_option
@jobs_option
@json_option
@color_option
@option_rules(
    needs("--max-values", "KEY"),
    needs("--ignore-case", "KEY"),
    needs("--jobs", "--digest"),
    excludes("--digest", "KEY"),
)
def command(
    path: Location, key: str | None, max_values: int, workers: Workers, *, as_json: bool, **options: bool
) -> int:
    """Summarise a checkpoint, or show one of its tensors.

    Without KEY, prints format, producer, files, step, sizes by kind and dtype, and the model
    configuration if the file has one. With KEY, or a slice of it as in kernel[0:10,:], prints the
    tensor's statistics, a histogram, and values. Nothing is shown before the checksum of the
    whole tensor has been verified. Therefore a slice takes as long to read as the whole tensor, but
    needs less memory. For the state of a tf.data iterator, prints its pipeline,
    its position, its buffers and its seeds.

    \b
      ckpt show run/ckpt-10
      ckpt show run/ckpt-10 net/l1/kernel
      ckpt show run/ckpt-10 'net/l1/kernel[0,:3]'
      ckpt show run/ckpt-10 --digest               the same for every copy and export
    """
    with opened(path) as reader:
        if key is None:
            fields = show.summary(reader) if as_json or not options["digest"] else {}
            if options["digest"]:
                fields["identity"] = checkpoint_identity(reader, workers, SCREEN)
            _summary(reader, fields, as_json=as_json)
        else:
            part = slices.find_part(reader, key, ignore_case=options["ignore_case"])
            _tensor(reader, part, max_values, as_json=as_json)
    return 0


# A checkpoint ---------------------------------------------------------------------


def _summary(reader: FormatReader, fields: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        render.document(fields)
        return
    if "identity" in fields:
        render.lines([fields["identity"]])
        return
    rows = _summary_rows(reader, fields)
    if not render.is_terminal():
        render.tsv(rows)
        return
    render.title(fields["path"], f"{reader.format.title}: {_in_a_line(fields)}")
    render.table(
        [render.Column(""), render.Column("", prose=True)], [[a, render.escape(str(b))] for a, b in rows]
    )


_LAYOUT = ("optimizer", "groups", "object_names", "assets")
"""Metadata that a Keras file is written from: it says little beyond the keys, and `--json` has it."""


def _summary_rows(reader: FormatReader, fields: dict[str, Any]) -> list[tuple[str, object]]:
    size = render.human_size if render.is_terminal() else str
    rows: list[tuple[str, object]] = [("format", fields["format"])]
    rows += [(name, fields[name]) for name in ("producer", "step") if fields[name] is not None]
    rows += [("file", f"{file['name']} ({size(file['nbytes'])})") for file in fields["files"]]
    rows += [("shared", f"{file['name']} is also {', '.join(file['with'])}") for file in fields["shared"]]
    rows += [(kind, _counted(counts, size)) for kind, counts in fields["kinds"].items()]
    rows += [(f"dtype {name}", _counted(counts, size)) for name, counts in fields["dtypes"].items()]
    for name, value in fields["metadata"].items():
        if name in _LAYOUT:
            continue
        values = value if isinstance(value, list) else [value]
        rows += [(name.rstrip("s") if isinstance(value, list) else name, _spelled(item)) for item in values]
    rows += [("missing", path) for path in reader.missing_files()]
    return rows


_IN_A_LINE = (("variable", "model"), ("slot", "optimizer slots"), ("state", "state"))


def _in_a_line(fields: dict[str, Any]) -> str:
    """Return the sizes that people ask for: `1.3 GB model, 2.5 GB optimizer slots`."""
    sizes = ((fields["kinds"].get(kind), what) for kind, what in _IN_A_LINE)
    return ", ".join(f"{render.human_size(counts['nbytes'])} {what}" for counts, what in sizes if counts)


def _counted(counts: dict[str, int], size: Any) -> str:
    return f"{counted(counts['tensors'], 'tensor')}, {size(counts['nbytes'])}"


def _spelled(value: object) -> object:
    import json

    if isinstance(value, dict) and {"name", "class_name", "weights"} <= set(value):
        weights = ", ".join(map(str, value["weights"])) or "no weights"
        return f"{value['name']} ({value['class_name']}): {weights}"
    if isinstance(value, dict) and {"name", "tags", "inputs", "outputs"} <= set(value):
        return _signature(value)
    text = json.dumps(value) if isinstance(value, dict | list) else str(value)
    shortened = render.is_terminal() and len(text) > 400
    return text[:400] + " ... (--json prints all of it)" if shortened else text


def _signature(value: dict[str, Any]) -> str:
    """Return `serving_default (serve): x float32 [?, 4] -> output_0 float32 [?, 2]`."""
    inputs, outputs = (", ".join(map(_tensor_info, value[name])) for name in ("inputs", "outputs"))
    return f"{value['name']} ({', '.join(value['tags'])}): {inputs or 'nothing'} -> {outputs or 'nothing'}"


def _tensor_info(value: dict[str, Any]) -> str:
    shape = value["shape"]
    dims = (
        "of unknown rank" if shape is None else f"[{', '.join('?' if d is None else str(d) for d in shape)}]"
    )
    return f"{value['name']} {value['dtype'] or 'of unknown dtype'} {dims}"


# A tensor -------------------------------------------------------------------------


def _tensor(reader: FormatReader, part: slices.TensorSlice, max_values: int, *, as_json: bool) -> None:
    fields, found, pipeline = show.tensor(reader, part, max_values if as_json else 0)
    if as_json:
        render.document(fields)
        return
    spec = part.spec._replace(shape=part.shape)
    if not render.is_terminal():
        stats = [(name, fields["stats"][name]) for name in fields["stats"]] if fields["stats"] else []
        heading = [(name, fields[name]) for name in ("key", "dtype", "nbytes", "kind")]
        if "stored" in fields:
            heading.append(("stored", str(spec.stored_as or fields["stored"]["dtype"])))
        render.tsv([*heading, ("shape", ",".join(map(str, part.shape))), *stats])
    else:
        path = reader.object_paths.get(part.key)
        stored = f" (stored as {spec.stored_as})" if spec.stored_as else ""
        size = render.human_size(spec.nbytes)
        title = f"{spec.dtype}{stored} {list(part.shape)}  {size}  {fields['kind']}"
        render.title((path or part.key) + (part.text or ""), title)
        if path and path != part.key:
            render.lines([render.escape(part.key)])
        if found is not None:
            _statistics(found)
            _histogram(reader, part, found)
            _heat_map(reader, part)
    if pipeline is not None:
        _pipeline(pipeline)
    elif spec.dtype.name == "variant":
        render.note("variants of this type are not decoded; conversions copy their bytes unchanged")
    elif spec.dtype.is_unmapped:
        render.note(_unread(reader, spec))
    elif spec.size <= max_values:
        _values(reader, part)
    else:
        render.note(
            f"{counted(spec.size, 'value')}; pass a slice to see some: {render.escape(part.key)}[0:3]"
        )


def _unread(reader: FormatReader, spec: TensorSpec) -> str:
    """Return why no values are shown of a tensor whose type is not mapped."""
    if reader.is_unread(spec.key):
        return reader.undecoded(spec.key).message
    return f"values of {spec.dtype} are not decoded; conversions copy their bytes unchanged"


def _pipeline(found: Pipeline) -> None:
    """Show the state of an iterator: its next element, and the counts and elements of each step."""
    rows = [(step.depth, step.name, _numbers(step), _shown_elements(step)) for step in found.steps]
    if not render.is_terminal():
        render.tsv([("pipeline", found), ("next", found.place)])
        render.tsv(("step", *row) for row in rows)
        return
    render.lines([f"next: {render.escape(found.place)}"])
    columns = [render.Column("STEP"), render.Column("STATE", prose=True), render.Column("HOLDS", prose=True)]
    cells = [["  " * depth + name, numbers, held] for depth, name, numbers, held in rows]
    render.table(columns, [list(map(render.escape, row)) for row in cells])


def _numbers(step: Step) -> str:
    """Return the numbers of a step that are not zero, without those of its position."""
    shown = {name: value for name, value in step.numbers.items() if value or name in ("i", "index", "next")}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def _shown_elements(step: Step) -> str:
    """Return `2 elements: float32 [2, 1], float32 [2, 5]`, of the first."""
    if not step.held:
        return ""
    first = ", ".join(f"{from_numpy(value.dtype)} {list(value.shape)}" for value in step.held[0])
    return f"{counted(len(step.held), 'element')}: {first}"


def _values(reader: FormatReader, part: slices.TensorSlice) -> None:
    from ..operations.look.values import as_text

    width = render.room()
    text = as_text(part.read(reader), part.spec.dtype, width)
    render.lines(
        render.escape(line) if part.spec.dtype.itemsize is None else line for line in text.split("\n")
    )


def _statistics(found: Statistics) -> None:
    cells = [(name, value) for name, value in found._asdict().items() if value is not None]
    columns = [render.Column(name.upper(), right=True) for name, _ in cells]
    alarming = found.nan or found.inf
    row = [f"{value:,}" if isinstance(value, int) else f"{value:.6g}" for _, value in cells]
    render.table(columns, [row], ["red" if alarming else ""])


def _histogram(reader: FormatReader, part: slices.TensorSlice, found: Statistics) -> None:
    spread = show.histogram(reader, part, found)
    if spread is None or spread.low == spread.high:
        return
    most = max(spread.counts)
    bars = "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] for count in spread.counts)
    render.lines([f"{spread.low:.4g} {render.styled(bars, fg='cyan')} {spread.high:.4g}"])


def _heat_map(reader: FormatReader, part: slices.TensorSlice) -> None:
    """Show a matrix as shades; blue is below zero, red above."""
    size = part.spec._replace(shape=part.shape).size
    if len(part.shape) != 2 or not 1 < size <= _LARGEST_HEAT or part.spec.dtype.family == "complex":
        return
    if not render.use_color(sys.stdout):
        return
    cells = show.heat(part.read(reader), _HEAT_ROWS, _HEAT_COLUMNS)
    most = max(abs(cell) for row in cells for cell in row) or 1.0
    for row in cells:
        shades = [click.style("  ", bg=_shade(cell / most)) for cell in row]
        render.lines(["".join(shades)])


def _shade(value: float) -> tuple[int, int, int]:
    faded = round(255 * (1 - abs(value)))
    return (255, faded, faded) if value >= 0 else (faded, faded, 255)
