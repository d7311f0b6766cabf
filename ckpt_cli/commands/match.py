"""`ckpt match`: what a restore would do, without the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from formats.core.words import command_line, counted

from ..cli.help import subcommand
from ..cli.options import color_option, json_option, path_argument, save_map_option
from ..operations.select.proposal import Candidate, propose
from ..render import base as render
from ..render.name_map import proposal_lines
from ..render.name_map import save_map as write_map
from ..render.report import opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from formats.location import Location
    from formats.model.reader import CheckpointReader

    from ..operations.compare.match import Match
    from ..operations.compare.match_fix import LikelyRename, Remedy
    from ..operations.compare.match_optimizers import Fate


_MOST_HARMLESS, _MOST_KEPT = 20, 3
_MATTERS, _LEFT, _HARMLESS = "what matters", "starts anew or stays behind", "harmless"
_WORDS = {_MATTERS: "matters", _LEFT: "left", _HARMLESS: "harmless"}
_STYLES = {_MATTERS: "red", _LEFT: "yellow", _HARMLESS: "green"}


@subcommand("match", paged=True)
@path_argument("checkpoint")
@path_argument("target")
@click.option(
    "--allow-unused", is_flag=True, help="Exit 0 although CHECKPOINT has values that TARGET does not take."
)
@click.option(
    "--read",
    is_flag=True,
    help="Match as Checkpoint.read() does: without a save counter.",
)
@save_map_option("Write pairs proposed from structure, to be read.")
@json_option
@color_option
def command(checkpoint: Location, target: Location, **options: Any) -> int:
    """Show what restoring CHECKPOINT would do to TARGET's objects.

    TARGET is an object-based checkpoint of the program, saved once, trained or not: all
    of its objects count as built.  CHECKPOINT is matched by objects, or, where it has
    none, by full names.  Two name-based checkpoints, as of Estimators, are matched as a
    Saver restores, key by key.  Exits 0 if assert_consumed() would hold, with --allow-unused if
    assert_existing_objects_matched() would, else 1.

    restore() looks for a save counter, which Checkpoint.write() and Keras' save_weights() do not
    save.  --read matches as Checkpoint.read() and load_weights() do: into a program without one.

    Where names have nothing in common, --save-map writes which variable may be which, told from
    dtypes, shapes, layer numbers and words, each line with its reason.  Read it, and give it to
    `ckpt convert --like TARGET --map FILE`.  Where another pair of one shape fits as well, the line
    is a comment, `# ambiguous: OLD => NEW`: decide, and write OLD, a TAB and NEW.

    \b
      ckpt match run/ckpt-10 fresh/ckpt-1
      ckpt match weights-2 fresh/ckpt-1 --allow-unused && python train.py
      ckpt match weights weights --read         # as load_weights would
      ckpt match model_dir other_model_dir      # would training go on from model_dir?
      ckpt match bert_model.ckpt fresh/ckpt-1 --save-map map.tsv
    """
    from ..operations.compare.match import match
    from ..operations.compare.match_fix import fix, likely_renames, takes_all
    from ..operations.compare.match_optimizers import fates

    with opened(checkpoint) as reader, opened(target) as other:
        for side in (reader, other):
            side.prove_specs()
        found = match(reader, other, read=options["read"])
        renames = likely_renames(found, reader, other)
        optimizers = fates(found, renames, reader, other)
        remedy = fix(found, renames, optimizers, reader, other)
        proposals = propose(
            _candidates(reader, found.unused_checkpoint), _candidates(other, found.unmatched_target)
        )
        rows = list(_rows(found, renames, reader, other))
        complete = takes_all(found, reader, other) and not any(fate.mistaken for fate in optimizers)
        restored = [] if found.by_name else list(_restored(found, other))
        paths = {"checkpoint": reader.object_paths, "target": other.object_paths}
    save_map = options["save_map"]
    if options["as_json"]:
        pairs = [{"target": rename.target, "checkpoint": rename.checkpoint} for rename in renames]
        harmless = [{"side": row[4], "key": row[2]} for row in rows if row[0] == _HARMLESS]
        proposed = [proposal._asdict() for proposal in proposals]
        render.document(
            {
                **found.document(),
                "likely_renames": pairs,
                "proposed": proposed,
                "harmless": harmless,
                "optimizers": [fate._asdict() for fate in optimizers],
                "fix": remedy.command if remedy else None,
                "fix_keeps": list(remedy.keeps) if remedy else [],
            }
        )
    else:
        _show(found, rows, paths)
        _note_counter(found, command_line("match", checkpoint, target))
        for fate in optimizers:
            render.note(fate.sentence())
        if remedy is not None:
            _propose(remedy, paths["target"], optimizers)
        else:
            _advise(found, rows, 0 if save_map is not None else len(proposals), complete=complete)
    if save_map is not None:
        taking = command_line("convert", checkpoint, "DST", "--like", target, "--map", save_map)
        hints = ("name another file, or remove it", f"to take its pairs: {taking}")
        write_map(save_map, proposal_lines(proposals, restored), overwrite=False, hints=hints)
        render.note(_proposed(save_map, [proposal.ambiguous for proposal in proposals]))
    return int(not (found.existing_matched if options["allow_unused"] else found.consumed))


def _restored(found: Match, target: CheckpointReader) -> Iterator[tuple[str, str]]:
    """Yield CHECKPOINT's key and TARGET's of each variable that a restore gives its value."""
    for pair in found.restored:
        if pair.target is not None and target.kinds.get(pair.target) == "variable":
            yield pair.checkpoint, pair.target


def _proposed(path: str, ambiguous: list[bool]) -> str:
    """Return in words what a map holds that was proposed."""
    unclear = sum(ambiguous)
    comments = f", {unclear:,} of them ambiguous and comments, which --map does not take" if unclear else ""
    return f"{path}: {counted(len(ambiguous), 'pair')} proposed{comments}; read it before --map takes it"


def _note_counter(found: Match, command: str) -> None:
    """Where only a save counter is missing or left over, say how to match without it."""
    from ..operations.compare.match import COUNTER_KEY

    if found.lacks_only_counter:
        what = (
            "a save counter is all that is missing, which Checkpoint.write() and save_weights() do not save"
        )
        render.note(f"{what}; --read matches without one, as read() and load_weights() do: {command} --read")
    elif found.read and found.existing_matched and found.unused_checkpoint == [COUNTER_KEY]:
        render.note(f"CHECKPOINT's save counter is all that is unused, and restore() takes it: {command}")


def _propose(remedy: Remedy, paths: Mapping[str, str], optimizers: list[Fate]) -> None:
    """Print the command by which most is restored, and say what is not."""
    saying = ", with all of the optimizer's state" if optimizers and remedy.carries_state else ""
    names = [repr(paths.get(key) or key) for key in remedy.keeps]
    if names:
        more = f" and {len(names) - _MOST_KEPT:,} more" if len(names) > _MOST_KEPT else ""
        how = "" if remedy.is_whole else " with expect_partial()"
        saying += f"{how}; TARGET keeps its own values of {', '.join(names[:_MOST_KEPT])}{more}"
    render.note(f"this writes a checkpoint that TARGET restores{saying}:")
    render.lines(
        [f"  {remedy.command}"] if render.is_terminal() else [f"fix\t{render.escape(remedy.command)}"]
    )


def _advise(found: Match, rows: list[_Row], proposed: int, *, complete: bool) -> None:
    """Say what may help where no command is known; `complete` where CHECKPOINT has nothing more to give."""
    from ..operations.compare.match import remedy_for_shapes

    if (shapes := remedy_for_shapes(found)) is not None:
        render.note(shapes)
    elif complete and not found.existing_matched and not found.lacks_only_counter:
        call = "read(path)" if found.read else "restore(path)"
        render.note(
            f"CHECKPOINT has nothing for what gets no value: {call}.expect_partial() leaves it as it is"
        )
    elif not found.existing_matched and any(row[0] != _HARMLESS for row in rows):
        render.note("--map pairs names by hand: ckpt convert CHECKPOINT DST --like TARGET --map FILE")
    if proposed:
        count = counted(proposed, "pair")
        render.note(f"{count} can be guessed from structure: --save-map FILE writes them, to be read")


def _candidates(reader: CheckpointReader, keys: Iterable[str]) -> list[Candidate]:
    """Return the variables among keys, as people know them."""
    paths, kinds = reader.object_paths, reader.kinds
    return [
        Candidate(key, paths.get(key) or key, reader.specs[key])
        for key in keys
        if kinds.get(key) == "variable"
    ]


_Row = tuple[str, str, str, str, str]
"""Group, what it is, key, detail, and whose key it is."""


def _rows(
    found: Match, renames: list[LikelyRename], checkpoint: CheckpointReader, target: CheckpointReader
) -> Iterator[_Row]:
    """Yield what is not as it should be, what matters most first."""
    shown = checkpoint.object_paths if render.is_terminal() else {}
    origin = {rename.target: rename.checkpoint for rename in renames}
    rows: list[_Row] = [(_MATTERS, "fails", "", failure, "checkpoint") for failure in found.failures]
    for what, mismatches in (("shape", found.shape_mismatch), ("dtype", found.dtype_mismatch)):
        rows += [
            (_MATTERS, what, m.key, f"{m.checkpoint} in CHECKPOINT, {m.target} in TARGET", "target")
            for m in mismatches
        ]
    for key in found.unmatched_target:
        kind = target.kinds.get(key, "state")
        needed = kind == "variable" or target.object_graph is None  # a Saver wants all it would save
        group = _MATTERS if needed else _HARMLESS if key.startswith("save_counter/") else _LEFT
        likely = f"perhaps {shown.get(origin[key], origin[key])}" if key in origin else ""
        rows.append((group, "no value", key, likely, "target"))
    renamed = set(origin.values())
    for key in found.unused_checkpoint:
        group = _LEFT if checkpoint.kinds.get(key) == "variable" else _HARMLESS
        if key not in renamed:
            rows.append((group, "unused", key, "", "checkpoint"))
    yield from sorted(rows, key=lambda row: list(_STYLES).index(row[0]))


def _show(found: Match, rows: list[_Row], paths: dict[str, Mapping[str, str]]) -> None:
    if not render.is_terminal():
        render.tsv((_WORDS[row[0]], *row[1:4]) for row in rows)
        return
    how = "by full name" if found.by_name else "by object"
    render.title(
        f"{found.checkpoint} -> {found.target}", f"{counted(len(found.restored), 'value')} restored, {how}"
    )
    for name, holds in (
        ("assert_consumed()", found.consumed),
        ("assert_existing_objects_matched()", found.existing_matched),
    ):
        verdict = render.styled("holds", fg="green") if holds else render.styled("fails", fg="red")
        render.lines([f"  {name:35}{verdict}"])
    for group, style in _STYLES.items():
        chosen = [row for row in rows if row[0] == group]
        if not chosen:
            continue
        render.title(group)
        if len(chosen) > _MOST_HARMLESS and group == _HARMLESS:
            render.lines(
                [f"  {counted(len(chosen), 'value')}, optimizer state and counters; --json lists them"]
            )
            continue
        columns = [render.Column(""), render.Column("", fold=True), render.Column("", prose=True)]
        cells = [
            [f"  {what}", render.escape(paths[side].get(key) or key), render.escape(detail)]
            for _, what, key, detail, side in chosen
        ]
        render.table(columns, cells, [style] * len(cells))
