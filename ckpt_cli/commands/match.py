"""`ckpt match`: what a restore would do, without the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from formats.core.words import command_line, counted

from ..api.match import HARMLESS, LEFT, MATTERS, match_checkpoints, write_proposals
from ..cli.help import subcommand
from ..cli.options import check_stdout, color_option, json_option, path_argument, save_map_option
from ..render import base as render
from ..render.name_map import STDOUT
from ..render.report import SCREEN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.location import Location

    from ..api.match import Matched, MatchRow
    from ..operations.compare.match import Match
    from ..operations.compare.match_fix import Remedy
    from ..operations.compare.match_optimizers import Fate


_MOST_HARMLESS, _MOST_KEPT = 20, 3
_ASSERTIONS = ("assert_consumed()", "assert_existing_objects_matched()")
_VERDICTS = {
    "key": ("restores all of CHECKPOINT", "restores all of TARGET"),
    "structure": ("pairs all weights of CHECKPOINT", "pairs all weights of TARGET"),
}
"""Names of the verdicts: TensorFlow's assertions, and their equivalents by how values are matched."""

_WORDS = {MATTERS: "matters", LEFT: "left", HARMLESS: "harmless"}
_STYLES = {MATTERS: "red", LEFT: "yellow", HARMLESS: "green"}


@subcommand("match", paged=True)
@path_argument("checkpoint")
@path_argument("target")
@click.option("--allow-unused", is_flag=True, help="Exit 0 even if TARGET does not use all of CHECKPOINT.")
@click.option(
    "--read",
    is_flag=True,
    help="Match as Checkpoint.read() does, without a save counter.",
)
@save_map_option("Write proposed pairs of keys to FILE, for you to check.")
@json_option
@color_option
def command(checkpoint: Location, target: Location, **options: Any) -> int:
    """Show what restoring CHECKPOINT would do to TARGET's objects.

    TARGET is an object-based checkpoint that your program saved. It need not be trained. match
    assumes that the program has built all of its objects. CHECKPOINT is matched by objects or, if
    it has none, by full names. Two name-based checkpoints, such as those of Estimators, are
    matched key by key, as a Saver restores them. The same holds for two Orbax or Flax checkpoints.
    The weights of an Orbax or Flax checkpoint and of a Keras or TensorFlow checkpoint are paired by
    structure: shapes, layer numbers and words of their names. --save-map writes the pairs.
    Exits 0 if assert_consumed() would pass, and otherwise 1. With --allow-unused, exits 0 if
    assert_existing_objects_matched() would pass.

    In a pipe, each line begins with `matters`, `left` or `harmless`. `left` means that a value is
    reinitialised, or is not used.

    restore() looks for a save counter, which Checkpoint.write() and Keras' save_weights() do
    not save. --read matches without one, as Checkpoint.read() and load_weights() do.

    If the names differ, --save-map proposes pairs of variables, each with its reason: dtype,
    shape, layer number and common words. Check them, then run
    `ckpt convert --like TARGET --map FILE`. If several pairs with the same shape fit equally well, FILE
    contains them as comments, `# ambiguous: OLD => NEW`. To use such a pair, write OLD, a TAB and NEW.

    \b
      ckpt match run/ckpt-10 fresh/ckpt-1
      ckpt match weights-2 fresh/ckpt-1 --allow-unused && python train.py
      ckpt match weights weights --read         # as load_weights would
      ckpt match model_dir other_model_dir      # can training continue from model_dir?
      ckpt match run/3 fresh/0                  # Orbax: compares keys, shapes, dtypes
      ckpt match bert_model.ckpt fresh/ckpt-1 --save-map map.tsv
    """
    check_stdout(options)
    matched = match_checkpoints(
        checkpoint, target, SCREEN, read=options["read"], with_paths=render.is_terminal()
    )
    found, optimizers, proposals = matched.found, matched.optimizers, matched.proposals
    save_map = options["save_map"]
    if options["as_json"]:
        render.document(matched.document())
    elif save_map != STDOUT:
        _show(found, matched.rows, matched.paths)
        _note_counter(found, command_line("match", checkpoint, target))
        for fate in optimizers:
            render.note(fate.sentence())
        if matched.remedy is not None:
            _propose(matched.remedy, matched.paths["target"], optimizers)
        else:
            _advise(matched, 0 if save_map is not None else len(proposals))
    if save_map is not None:
        write_proposals(save_map, matched, checkpoint, target, SCREEN)
    return int(not (found.existing_matched if options["allow_unused"] else found.consumed))


def _note_counter(found: Match, command: str) -> None:
    """If only a save counter is missing or unused, say how to match without it."""
    from ..operations.compare.match import COUNTER_KEY

    if found.lacks_only_counter:
        render.note("only the save counter is missing; Checkpoint.write() and save_weights() do not save one")
        render.note(f"to match without a save counter, as read() and load_weights() do: {command} --read")
    elif found.read and found.existing_matched and found.unused_checkpoint == [COUNTER_KEY]:
        render.note("only the save counter of CHECKPOINT is unused")
        render.note(f"to match with it, as restore() does: {command}")


def _propose(remedy: Remedy, paths: Mapping[str, str], optimizers: list[Fate]) -> None:
    """Print the command by which most is restored, and say what is not."""
    wording = ", with all of the optimizer's state" if optimizers and remedy.carries_state else ""
    names = [repr(paths.get(key) or key) for key in remedy.keeps]
    if names:
        more = f" and {len(names) - _MOST_KEPT:,} more" if len(names) > _MOST_KEPT else ""
        how = "" if remedy.is_whole else " with expect_partial()"
        wording += f"{how}; TARGET keeps its own values of {', '.join(names[:_MOST_KEPT])}{more}"
    is_shown = render.is_terminal()
    which, end = ("this command", ":") if is_shown else ("the command in the line `fix`", "")
    render.note(f"{which} writes a checkpoint that TARGET's program can restore{wording}{end}")
    render.lines([f"  {remedy.command}"] if is_shown else [f"fix\t{render.escape(remedy.command)}"])


def _advise(matched: Matched, proposed: int) -> None:
    """Say what may help where no command is known."""
    from ..operations.compare.match import remedy_for_dtypes, remedy_for_shapes

    found = matched.found
    if (shapes := remedy_for_shapes(found)) is not None:
        render.note(shapes)
    elif found.is_of_trees:
        if found.unmatched_target or found.unused_checkpoint:
            render.note("Orbax rejects a tree with other keys, unless you restore only a part of it")
    elif matched.is_complete and not found.existing_matched and not found.lacks_only_counter:
        call = "read(path)" if found.read else "restore(path)"
        render.note(
            f"CHECKPOINT has no values for these objects, and {call}.expect_partial() leaves them unchanged"
        )
    elif (line := remedy_for_dtypes(found)) is not None:
        render.note(f"TensorFlow does not cast dtypes when it restores; to cast them: {line}")
    elif not found.existing_matched and any(row.group != HARMLESS for row in matched.rows):
        render.note(
            "to pair names yourself, write them to FILE, and run ckpt convert --like TARGET --map FILE"
        )
    if proposed:
        count = counted(proposed, "pair")
        render.note(
            f"{count} can be guessed from structure; to write them to a file for you to check, pass "
            "--save-map FILE"
        )


def _show(found: Match, rows: list[MatchRow], paths: Mapping[str, Mapping[str, str]]) -> None:
    if not render.is_terminal():
        render.tsv((_WORDS[row[0]], *row[1:4]) for row in rows)
        return
    done = "paired" if found.by == "structure" else "restored"
    restored = f"{counted(len(found.restored), 'value')} {done}, by {found.by}"
    render.title(f"{found.checkpoint} -> {found.target}", restored)
    verdicts = found.consumed, found.existing_matched
    for name, holds in zip(_VERDICTS.get(found.by, _ASSERTIONS), verdicts, strict=True):
        verdict = render.styled("holds", fg="green") if holds else render.styled("fails", fg="red")
        render.lines([f"  {name:35}{verdict}"])
    for group, style in _STYLES.items():
        chosen = [row for row in rows if row[0] == group]
        if not chosen:
            continue
        render.title(group)
        if len(chosen) > _MOST_HARMLESS and group == HARMLESS:
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
