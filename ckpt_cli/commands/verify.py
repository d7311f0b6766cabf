"""`ckpt verify`: is every byte sound?"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from formats.core.words import command_line, counted
from formats.errors import MEMORY, NOT_READ, REFUSED
from formats.location import parse_location
from formats.model.checkpoint_files import data_shards

from ..api.verify import RULES, VerifyOptions, contract_at, signed_contract, verify_each
from ..cli.help import subcommand
from ..cli.option_rules import option_rules
from ..cli.options import (
    LocalPath,
    changes_of,
    color_option,
    completing,
    config_option,
    form_option,
    format_option,
    json_option,
    layout_option,
    map_option,
    path_argument,
    recursive_option,
    sharing_options,
)
from ..render import base as render
from ..render import origin
from ..render.report import SCREEN

if TYPE_CHECKING:
    from formats.location import Location
    from formats.store.work.workers import Workers

    from ..operations.look.contract import Contract
    from ..operations.look.verify import Result


_MOST_SHOWN = 20
"""Findings of one code shown in full on a terminal; a missing shard can lose a hundred thousand tensors."""


@subcommand("verify", paged=True)
@path_argument("paths", nargs=-1, metavar="[PATH]...")
@format_option("--roundtrip", "Also convert to FORMAT and back, and compare.")
@click.option(
    "--outputs-like",
    "like",
    type=LocalPath(),
    metavar="B",
    help="Also compare outputs of the model with the weights of B.",
    shell_complete=completing("checkpoints"),
)
@click.option(
    "--input",
    "input_file",
    type=LocalPath(),
    metavar="FILE.npy",
    help="Run the model on this array. [default: seeded numbers]",
)
@click.option(
    "--trains-like",
    "trains_like",
    type=LocalPath(),
    metavar="B",
    help="Also take one optimizer step from PATH and from B, and compare.",
    shell_complete=completing("checkpoints"),
)
@click.option(
    "--against",
    type=LocalPath(),
    metavar="LISTING",
    help="Also compare with a saved listing, or hf://ORG/REPO."
    "\fA listing is compared tensor by tensor, and a repository of the Hub file by file.",
)
@click.option(
    "--signature",
    type=LocalPath(),
    metavar="FILE",
    help="Also compare the tensors with a signature written by ckpt sign.",
)
@click.option(
    "--public-key",
    type=LocalPath(),
    metavar="PEM",
    help="Check --signature with this public key.",
)
@click.option(
    "--made-from",
    type=LocalPath(),
    metavar="SOURCE",
    help="Also check that the weights of an export were made from SOURCE.",
    shell_complete=completing("checkpoints"),
)
@layout_option
@map_option
@config_option
@click.option("--locked", is_flag=True, help="Compare each PATH with PATH.lock, if that exists.")
@recursive_option()
@sharing_options
@form_option
@json_option
@color_option
@option_rules(*RULES)
def command(
    paths: tuple[Location, ...], workers: Workers, *, as_json: bool, recursive: bool, **options: Any
) -> int:
    """Check every byte of a checkpoint for damage.

    Checks the structure first: footer, block checksums, key order, entries within their shards,
    missing or surplus shards, object graph. Then compares every tensor with its stored checksum.
    verify continues after the first finding. A directory means all of its checkpoints. Without PATH,
    verifies the current directory. Exits 1 if there are errors, and 3 if it cannot list any key.

    \b
      ckpt verify run/                              every checkpoint of a run
      ckpt verify -R runs/                          all runs in a directory
      ckpt verify run/ckpt-10 --roundtrip name      before a conversion
      ckpt verify s3://bucket/model.safetensors --against model.lock
    \f

    If several paths belong to one checkpoint, as in run/ckpt-*, it is verified once.

    --roundtrip checks that a conversion loses nothing. A warning lists what FORMAT cannot store.
    The temporary files are in TMPDIR.

    --outputs-like builds the model from the configuration in PATH or B. One of them must be a full
    .h5 or a .keras file. The configuration is only data: nothing that it names is executed. Both
    sets of weights get the same input, from --input or from seeded numbers, and the outputs must be
    equal to the last bit. An unknown layer is an error, with exit code 3.

    --trains-like builds the model and the optimizer from the configuration of a full .h5 or .keras
    file, which can be PATH or B. Without a configuration, it can build stacks of Dense and Conv2D
    layers with an optimizer of any generation, from objects or names. Weights and slots must be
    equal to the last bit, before and after one step.

    --against compares keys, dtypes, shapes and digests with a listing that you saved before with
    ckpt ls PATH --json -l --digest sha256 > model.lock. The format may differ. --against also
    compares a damaged checkpoint.

    --against hf://ORG/REPO[@REV] compares files with the sizes and checksums that the Hub lists.
    It compares the checkpoint's files, and all files that both sides have. It downloads nothing.

    --signature checks that these are the tensors that were signed with ckpt sign, in any format and order.
    Strings, variants and the save counter are not compared. If a conversion renamed or transposed
    tensors, use --layout or --map to give PATH the names and axes that were signed.

    --made-from pairs each weight of a TFLite, ONNX, GGUF, GraphDef or TensorFlow.js file with tensors of
    SOURCE, by name or by the order of layers. Then it compares values to find out how the exporter
    made the weight: by transposing axes, folding a BatchNormalization, casting or quantizing. It is
    an error if none of these explains a weight.

    \b
      ckpt verify run/ckpt-10 --json                for a script
      ckpt verify model/ --against hf://org/model   after a download
      ckpt verify model.tflite --made-from run/     after an export
      ckpt verify new.npz --outputs-like old.keras  after a conversion
      ckpt verify moved/ckpt-10 --trains-like run/ckpt-10
    """
    as_json = as_json or options["form"] == "json"
    contracts: tuple[Contract, ...] = () if options["against"] is None else (contract_at(options["against"]),)
    if options["signature"] is not None:
        changes = changes_of(options)
        contracts += (signed_contract(options["signature"], options["public_key"], changes),)
    parsed = VerifyOptions(
        recursive,
        options["to"],
        options["like"],
        options["input_file"],
        options["trains_like"],
        contracts,
        options["locked"],
        options["made_from"],
        changes_of(options) if options["map_file"] is not None else None,
    )
    results = verify_each(paths or (parse_location("."),), parsed, workers, SCREEN)
    _print(results, "json" if as_json else options["form"])
    for result in results:
        _hint_next_step(result, is_held=bool(contracts) or options["locked"])
    if len(results) > 1:
        is_shown = render.is_terminal() and options["form"] == "text" and not as_json
        (print if is_shown else render.note)(_totals(results))
    return _exit_code(results)


def _print(results: list[Result], form: str) -> None:
    """Print what was found: for a service, as JSON, for people, or as lines."""
    if form == "json":
        documents = [result.document() for result in results]
        render.document({"ok": all(result.ok for result in results), "results": documents})
    elif form != "text":
        from ..operations.report.build import of_verify
        from ..render.findings.writing import write

        write(of_verify(results), form)
    elif render.is_terminal():
        _show_all(results)
    else:
        for result in results:
            render.tsv(_rows(result))


def _hint_next_step(result: Result, *, is_held: bool) -> None:
    """Say what to do about a checkpoint that is damaged, or whose values nothing proves."""
    if result.ok and not result.has_checksums and not is_held:
        render.note(f"{result.path}: {result.format} stores no checksums, so values cannot be verified")
    if result.is_unread:
        render.error_lines(_sentence(result))
    elif result.unreadable:
        render.error_lines(_sentence(result), (*result.hints, *_salvage_hints(result)))
    elif result.tensors and _is_damaged(result):
        is_or_are, them = ("is", "it") if result.tensors == 1 else ("are", "them")
        intact = f"{counted(result.tensors, 'tensor')} {is_or_are} intact; to save {them}"
        render.note(f"{result.path}: {intact}: {_rescue(result.path, result.format)}")


def _rescue(path: str, name: str | None) -> str:
    """Return the command that saves what is intact; its output has a suffix if the format is only read."""
    from formats.find.registry import format_named

    is_written = name is not None and format_named(name).writer is not None
    return command_line("rescue", path, "OUT" if is_written else "OUT.safetensors")


def _exit_code(results: list[Result]) -> int:
    if all(result.ok for result in results):
        return 0
    findings = [finding for result in results for finding in result.findings]
    if all(finding.code == MEMORY for finding in findings if finding.severity == "error"):
        return 3  # no answer
    return 1 if any(result.listed or result.is_empty for result in results) else 3


def _sentence(result: Result) -> str:
    finding = result.findings[0]
    where = finding.file or result.path
    offset = f": offset {finding.offset}" if finding.offset is not None else ""
    return f"{where}{offset}: {finding.message}"


_NO_DAMAGE = frozenset(
    ("contract", "signature", "roundtrip", "outputs", "training", "config-shape", "origin", *NOT_READ)
)
"""Codes of findings about a model, or about signatures; the file itself may be intact."""


def _is_damaged(result: Result) -> bool:
    return any(f.severity == "error" and f.code not in _NO_DAMAGE for f in result.findings)


def _salvage_hints(result: Result) -> tuple[str, ...]:
    """Return a hint where nothing can be listed: how to save what is intact, or where another copy is."""
    index = result.path.of(result.findings[0].file or "")
    prefix = index.removesuffix(".index")
    is_bundle = prefix != index and bool(data_shards(prefix))
    if not is_bundle and (result.is_none or not _is_damaged(result)):
        return ()
    from formats.find.resolve import rebuilding
    from formats.find.salvage import format_of_rest

    path = prefix if is_bundle else result.path
    rest = format_of_rest(path)
    found = [] if rest is None else [f"to save what can be read: {_rescue(path, rest.name)}"]
    if is_bundle:
        found.append(rebuilding(path))
    elif rest is None and not result.hints and not result.is_unsupported:
        found.append("copy the checkpoint again from its source")
    return tuple(found)


def _counts(result: Result) -> str:
    size = render.human_size(result.nbytes)
    if result.tensors == result.listed:
        return f"{counted(result.tensors, 'tensor')}, {size}"
    return f"{result.tensors:,} of {counted(result.listed, 'tensor')} intact, {size} read"


def _rows(result: Result) -> list[tuple[object, ...]]:
    """Return TSV: path, status, code, key, file, offset, message."""
    summary = (result.path, _status(result), None, None, None, None, _counts(result))
    details = [(result.path, f.severity, f.code, f.key, f.file, f.offset, f.message) for f in result.findings]
    return [summary, *details, *origin.rows(result)]


_MARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "ok": ("ok", {"fg": "green"}),
    "damaged": ("DAMAGED", {"fg": "red", "bold": True}),
    "refused": ("REFUSED", {"fg": "red", "bold": True}),
    "other": ("NOT AS LISTED", {"fg": "red", "bold": True}),
    "unproved": ("NOT PROVED", {"fg": "red", "bold": True}),
    "unsigned": ("NOT AS SIGNED", {"fg": "red", "bold": True}),
    "unreadable": ("UNREADABLE", {"fg": "red", "bold": True}),
    "none": ("NONE", {"fg": "red", "bold": True}),
}
"""How a terminal shows a status."""


def _status(result: Result) -> str:
    if result.ok:
        return "ok"
    codes = {finding.code for finding in result.findings if finding.severity == "error"}
    if codes - NOT_READ == {"signature"}:
        return "unsigned"
    if codes - NOT_READ and codes - NOT_READ <= {"contract", "signature"}:
        return "other"
    if codes - NOT_READ == {"origin"}:
        return "unproved"
    if codes == {REFUSED}:
        return "refused"
    return "none" if result.is_none else "unreadable" if result.is_unread else "damaged"


_OUTCOMES = {
    "ok": "intact",
    "damaged": "damaged",
    "refused": "rejected",
    "other": "different from the listing",
    "unsigned": "different from the signature",
    "unproved": "not proved to be made from SOURCE",
    "unreadable": "unreadable",
}
"""How the last line says each status of a checkpoint."""


def _totals(results: list[Result]) -> str:
    """Return how many have which status: 43 checkpoints are intact, 2 are damaged."""
    counts = Counter(map(_status, results))
    parts: list[str] = []
    for status, word in _OUTCOMES.items():
        if count := counts[status]:
            what = f"{count:,}" if parts else counted(count, "checkpoint")
            parts.append(f"{what} {'is' if count == 1 else 'are'} {word}")
    if count := counts["none"]:
        parts.append(f"{counted(count, 'path')} {'has' if count == 1 else 'have'} no checkpoint")
    return ", ".join(parts)


def _show_all(results: list[Result]) -> None:
    """Print results on a terminal with aligned statuses; a lone error is printed as one."""
    shown = [result for result in results if not (result.unreadable and len(result.findings) == 1)]
    width = max((render.width(render.escape(result.path)) for result in shown), default=0)
    longest = max((len(_MARKS[_status(result)][0]) for result in shown), default=0)
    for result in shown:
        text, style = _MARKS[_status(result)]
        mark = render.styled(text, **style) + " " * (longest - len(text))
        gap = " " * (width - render.width(render.escape(result.path)))
        render.title(result.path, f"{gap}{mark}  {result.format or 'unknown format'}  {_counts(result)}")
        _show_findings(result)
        origin.show(result)


def _show_findings(result: Result) -> None:
    if not result.findings:
        return
    shown: dict[tuple[str, str], int] = {}
    rows, styles = [], []
    for finding in result.findings:
        group = (finding.severity, finding.code)
        shown[group] = shown.get(group, 0) + 1
        if shown[group] > _MOST_SHOWN:
            continue
        where = finding.file.rpartition("/")[2] if finding.file else ""
        where += "" if finding.offset is None else f" at {finding.offset}"
        texts = (finding.severity, finding.code, finding.key or "", where, finding.message)
        rows.append([render.escape(text) for text in texts])
        styles.append("red" if finding.severity == "error" else "yellow")
    columns = [
        render.Column(""),
        render.Column("FINDING"),
        render.Column("KEY", fold=True),
        render.Column("WHERE", fold=True, worth=0),
        render.Column("WHAT", prose=True),
    ]
    render.table(columns, rows, styles)
    for (_, code), count in shown.items():
        if count > _MOST_SHOWN:
            render.note(f"{counted(count - _MOST_SHOWN, 'more finding')} of {code}; --json lists all")
