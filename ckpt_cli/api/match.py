"""`ckpt.match`: what a restore would do, without the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.words import command_line, counted
from formats.model.object_names import is_step

from ..operations.reporting import opened
from ..operations.select.proposal import Candidate, Proposal, propose
from .calls import collecting, location, public, target_location
from .tables import RowTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from formats.location import Location
    from formats.model.reader import FormatReader

    from ..operations.compare.match import Match
    from ..operations.compare.match_fix import LikelyRename, Remedy
    from ..operations.compare.match_optimizers import Fate
    from ..operations.reporting import Reporter
    from .calls import PathLike

__all__ = [
    "HARMLESS",
    "LEFT",
    "MATTERS",
    "MatchResult",
    "MatchRow",
    "Matched",
    "match",
    "match_checkpoints",
    "write_proposals",
]

MATTERS, LEFT, HARMLESS = "needs attention", "is reinitialised, or is not used", "harmless"
"""How much it matters what becomes of a value, the most first."""


class MatchRow(NamedTuple):
    """A value that is not restored as it is: how much that matters, what is wrong, and whose key it is.

    `group` is MATTERS, LEFT or HARMLESS; `side` is checkpoint or target.
    """

    group: str
    what: str
    key: str
    detail: str
    side: str


class Matched(NamedTuple):
    """Everything that matching found, for people and programs."""

    found: Match
    renames: list[LikelyRename]
    optimizers: list[Fate]
    remedy: Remedy | None
    proposals: list[Proposal]
    rows: list[MatchRow]
    is_complete: bool
    """Whether CHECKPOINT has nothing more to give."""
    restored: list[tuple[str, str]]
    """CHECKPOINT's key and TARGET's of each variable that a restore gives its value."""
    paths: Mapping[str, Mapping[str, str]]
    """The object paths of either side."""

    def document(self) -> dict[str, Any]:
        """Return the document of `match --json`."""
        remedy = self.remedy
        return {
            **self.found.document(),
            "likely_renames": [
                {"target": rename.target, "checkpoint": rename.checkpoint} for rename in self.renames
            ],
            "proposed": [proposal._asdict() for proposal in self.proposals],
            "harmless": [{"side": row.side, "key": row.key} for row in self.rows if row.group == HARMLESS],
            "optimizers": [fate._asdict() for fate in self.optimizers],
            "fix": remedy.command if remedy else None,
            "fix_keeps": list(remedy.keeps) if remedy else [],
        }


def match_checkpoints(
    checkpoint: Location, target: Location, reporter: Reporter, *, read: bool, with_paths: bool
) -> Matched:
    """Return what restoring one checkpoint into the objects of another would do.

    `with_paths` details name object paths, as a terminal does.
    """
    from ..operations.compare.match import BY_OBJECT
    from ..operations.compare.match import match as match_readers
    from ..operations.compare.match_fix import fix, likely_renames, takes_all
    from ..operations.compare.match_optimizers import fates
    from ..operations.compare.match_structure import is_tree_with_model, match_by_structure

    with opened(checkpoint, reporter) as reader, opened(target, reporter) as other:
        for side in (reader, other):
            side.prove_specs()
        if is_tree_with_model(reader, other):
            found, proposals = match_by_structure(reader, other)
            paths = {"checkpoint": reader.object_paths, "target": other.object_paths}
            rows = list(_rows(found, {}, reader, other, {}))
            return Matched(found, [], [], None, proposals, rows, False, [], paths)
        found = match_readers(reader, other, read=read)
        renames = likely_renames(found, reader, other)
        optimizers = fates(found, renames, reader, other)
        remedy = fix(found, renames, optimizers, reader, other)
        proposals = propose(
            _candidates(reader, found.unused_checkpoint), _candidates(other, found.unmatched_target)
        )
        shown = reader.object_paths if with_paths else {}
        return Matched(
            found,
            renames,
            optimizers,
            remedy,
            proposals,
            list(
                _rows(found, {rename.target: rename.checkpoint for rename in renames}, reader, other, shown)
            ),
            takes_all(found, reader, other) and not any(fate.mistaken for fate in optimizers),
            [] if found.by != BY_OBJECT else list(_restored(found, other)),
            {"checkpoint": reader.object_paths, "target": other.object_paths},
        )


def _restored(found: Match, target: FormatReader) -> Iterator[tuple[str, str]]:
    for pair in found.restored:
        if pair.target is not None and target.kinds.get(pair.target) == "variable":
            yield pair.checkpoint, pair.target


def _candidates(reader: FormatReader, keys: Iterable[str]) -> list[Candidate]:
    """Return the variables among keys, as people know them."""
    paths, kinds = reader.object_paths, reader.kinds
    return [
        Candidate(key, paths.get(key) or key, reader.specs[key])
        for key in keys
        if kinds.get(key) == "variable"
    ]


def _is_step(reader: FormatReader, key: str) -> bool:
    return key in reader.specs and is_step(key, reader.specs[key], reader.kinds.get(key))


def _rows(
    found: Match,
    origin: Mapping[str, str],
    checkpoint: FormatReader,
    target: FormatReader,
    shown: Mapping[str, str],
) -> list[MatchRow]:
    """Return what is not as it should be, what matters most first; `origin` has likely renames."""
    rows = [MatchRow(MATTERS, "fails", "", failure, "checkpoint") for failure in found.failures]
    for what, mismatches in (("shape", found.shape_mismatch), ("dtype", found.dtype_mismatch)):
        rows += [
            MatchRow(
                MATTERS, what, m.key, f"{m.checkpoint} in CHECKPOINT, but {m.target} in TARGET", "target"
            )
            for m in mismatches
        ]
    for key in found.unmatched_target:
        kind = target.kinds.get(key, "state")
        # A Saver wants all that it would save.
        needed = kind == "variable" or _is_step(target, key) or target.object_graph is None
        group = MATTERS if needed else HARMLESS if key.startswith("save_counter/") else LEFT
        likely = f"similar key in CHECKPOINT: {shown.get(origin[key], origin[key])}" if key in origin else ""
        rows.append(MatchRow(group, "no value", key, likely, "target"))
    renamed = set(origin.values())
    for key in found.unused_checkpoint:
        stays = checkpoint.kinds.get(key) == "variable" or _is_step(checkpoint, key)
        group = LEFT if stays else HARMLESS
        if key not in renamed:
            rows.append(MatchRow(group, "unused", key, "", "checkpoint"))
    order = (MATTERS, LEFT, HARMLESS)
    return sorted(rows, key=lambda row: order.index(row.group))


def write_proposals(
    path: Location, matched: Matched, checkpoint: Location, target: Location, reporter: Reporter
) -> None:
    """Write the pairs that are proposed from structure to a file, to be read."""
    from ..render.name_map import STDOUT, proposal_lines, save_map

    taking = command_line("convert", checkpoint, "DST", "--like", target, "--map", path)
    hints = ("choose another file, or delete this one", f"to use the pairs in the file: {taking}")
    save_map(path, proposal_lines(matched.proposals, matched.restored), overwrite=False, hints=hints)
    unclear = sum(proposal.ambiguous for proposal in matched.proposals)
    comments = f"; {unclear:,} of them are ambiguous and commented out" if unclear else ""
    count = counted(len(matched.proposals), "pair is", "pairs are")
    where = "" if path == STDOUT else f"{path}: "
    checking = "; check each line before you pass the file to --map" if matched.proposals else ""
    reporter.note(f"{where}{count} proposed{comments}{checking}")


# The function -----------------------------------------------------------------------------


class MatchResult(RowTable):
    """The effect that `restore()` of a checkpoint would have on the objects of another.

    `consumed` says whether `assert_consumed()` would pass, and `existing_matched` whether
    `assert_existing_objects_matched()` would. `restored` lists pairs of keys. `unmatched_target` lists keys
    without a value, and `unused_checkpoint` values that no object takes. `shape_mismatch` and
    `dtype_mismatch` list pairs that differ. `fix` is a command that writes a checkpoint that can be
    restored, or None. The table has a row for each value that is not restored. `to_dict()` is the document
    of `ckpt match --json`.
    """

    def __init__(self, matched: Matched, notes: Sequence[str], warnings: Sequence[str]) -> None:
        found = matched.found
        self.checkpoint, self.target = str(found.checkpoint), str(found.target)
        self.consumed, self.existing_matched = found.consumed, found.existing_matched
        self.restored = tuple(found.restored)
        self.unmatched_target = tuple(found.unmatched_target)
        self.unused_checkpoint = tuple(found.unused_checkpoint)
        self.shape_mismatch = tuple(found.shape_mismatch)
        self.dtype_mismatch = tuple(found.dtype_mismatch)
        self.failures = tuple(found.failures)
        self.fix = matched.remedy.command if matched.remedy else None
        self.notes, self.warnings = tuple(notes), tuple(warnings)
        self._matched = matched

    def to_dict(self) -> dict[str, Any]:
        """Return the document of `ckpt match --json`, without `schema`."""
        return self._matched.document()

    def _title(self) -> str:
        holds = "holds" if self.existing_matched else "fails"
        what = f"{counted(len(self.restored), 'value')} restored; assert_existing_objects_matched() {holds}"
        return f"{self.checkpoint} -> {self.target}: {what}"

    def _names(self) -> Sequence[str]:
        return ("key", "side", "what", "group", "detail")

    def _rows(self) -> Iterator[Sequence[Any]]:
        return ((row.key, row.side, row.what, row.group, row.detail) for row in self._matched.rows)

    def _count(self) -> int:
        return len(self._matched.rows)


@public()
def match(
    checkpoint: PathLike, target: PathLike, *, read: bool = False, save_map: PathLike | None = None
) -> MatchResult:
    """Return what restoring `checkpoint` would do to the objects that `target` was saved from.

    `target` is an object-based checkpoint that your program saved once, trained or not. Two name-based
    checkpoints are matched key by key, as a Saver restores them, and so are two Orbax or Flax checkpoints.
    The weights of a tree of Orbax or Flax and of a model of Keras or TensorFlow are paired by structure.
    With `read`, matches as `Checkpoint.read()` and Keras' `load_weights()` do, without a save counter.
    `save_map` is a new file for pairs proposed from structure; check it before you pass it to
    `convert(..., map=...)`.

    Raises CheckpointError if one of them cannot be read, or has nothing to match by.

    ```python
    found = ckpt.match("run/ckpt-9", "run/ckpt-10")
    assert found.consumed and found.existing_matched, found
    ```
    """
    one, other = location(checkpoint), location(target)
    with collecting() as collected:
        matched = match_checkpoints(one, other, collected, read=read, with_paths=False)
        if save_map is not None:
            write_proposals(target_location(save_map), matched, one, other, collected)
        return MatchResult(matched, collected.notes, collected.warnings)
