"""Comparing two checkpoints, or the checkpoints of two directories: `ckpt diff` and `ckpt.diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.find.opening import is_directory
from formats.model.object_names import plain_key
from formats.store.work.workers import SERIAL, Workers

from ..operations.compare.diff import DiffOptions, diff_pairs
from ..operations.compare.layers import with_kinds
from ..operations.compare.pairs import better_by, labels, pair_up
from ..operations.compare.thresholds import Baseline, FailOn
from ..operations.compare.where import ChosenPairs
from ..operations.convert.framework_layout import lay_out
from ..operations.convert.requested_layout import OF_OPTIMIZER, compared_with
from ..operations.reporting import opened
from ..operations.select.keys import renamed
from ..operations.select.selection import Selection, sift
from .changing import KeyChanges
from .rules import OptionError, excludes, needs
from .writing import report_dropped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.errors import CheckpointError
    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import FormatReader

    from ..operations.compare.diff import Diff, DiffEntry
    from ..operations.compare.index_difference import UnequalPairs
    from ..operations.compare.pairs import KeyPair
    from ..operations.convert.requested_layout import FrameworkLayout
    from ..operations.reporting import Reporter
    from ..operations.select.keys import Renamed
    from ..operations.select.where import Where

__all__ = ["RULES", "CompareOptions", "Failing", "Sides", "compare", "sides"]

RULES = (
    excludes("--format", "--quiet", "--stat"),
    needs("--recursive", "--each"),
    needs("--config", "--layout", "--map"),
    excludes("--json", "--quiet", "--stat"),
    excludes("--stat", "--quiet"),
    excludes("--all", "--quiet"),
    excludes("--sort", "--quiet"),
    excludes("--top", "--quiet"),
    excludes("--csv", "--quiet", "--json", "--format", "--stat"),
    excludes("--find-renames", "--quiet", "--no-values"),
    excludes("--no-values", "--exact", "--rtol", "--atol"),
    excludes(
        "--matrix",
        *("--where", "--sort", "--top", "--stat", "--all", "--find-renames", "--fail-on"),
        *("--baseline", "--each", "--format", "--no-values", "--rtol", "--atol", "--sub", "--strip-prefix"),
        *("--add-prefix", "--map", "--config", "--layout"),
    ),
)


class CompareOptions(NamedTuple):
    """The options of a comparison: the tensors, their keys, and the messages."""

    settings: DiffOptions = DiffOptions()
    selection: Selection = Selection()
    changes: KeyChanges = KeyChanges()
    everything: bool = False
    """Whether equal tensors are reported, too."""
    is_quiet: bool = False
    """Whether notes about the chosen checkpoint and suggested pairs are left out."""
    with_names: bool = False
    """Whether keys are shown by the names that people know them by."""
    workers: Workers = SERIAL
    order: str = "key"
    """The order of the entries, one of ORDERS."""
    where: Where | None = None
    """Which entries are chosen."""
    with_kinds: bool = False
    """Whether entries have the kinds of their tensors."""


def compare(
    left: CheckpointLocation,
    right: CheckpointLocation,
    options: CompareOptions,
    reporter: Reporter,
) -> tuple[Diff, dict[str, str]]:
    """Return what differs, and the names by which people know the keys."""
    settings, layout = options.settings, options.changes.framework_layout()
    rules = options.changes.rules(layout)
    is_loaded = bool(layout or rules) or not _is_plain(options)
    noted = not options.is_quiet
    with (
        opened(left, reporter, noted=noted, loaded=is_loaded) as stored,
        opened(right, reporter, noted=noted, loaded=is_loaded) as other,
    ):
        one = stored if layout is None else _laid_out(stored, layout, other, options.selection, reporter)
        changed = renamed(one, rules) if rules else None
        for text in changed.notes if changed is not None else ():
            reporter.note(text)
        left_over = None if is_loaded else _unlike(one, other)
        if left_over is not None:
            pairs, same = left_over
        else:
            pairs, same = pair_up(one, other, settings.by, options.selection, changed), 0
        where = _choosing(options, one, other)
        if noted and not same:
            _suggest(one, other, pairs, settings.by, reporter)
        if where is not None:
            pairs = where.before_values(pairs)
        total = _nbytes(other, pairs)
        pool = options.workers.expecting(total)
        with reporter.progress(total, other.location.name, ("comparing",)) as advance:
            found = diff_pairs(one, other, pairs, settings, advance, workers=pool)
            found = found._replace(same=same, order=options.order)
        if where is not None:
            found = where.chosen(found)
        one.check_unchanged()
        other.check_unchanged()
        if noted and settings.values:
            _note_missing((stored, other), reporter)
        if options.with_kinds:
            found = found._replace(entries=with_kinds(found.entries, one, other))
        return found, _names(one, other, changed) if options.with_names else {}


def _names(left: FormatReader, right: FormatReader, changed: Renamed | None) -> dict[str, str]:
    """Return the names by which people know the keys of both sides."""
    keys = changed.keys if changed is not None else {}
    names = {keys.get(key, key): name for key, name in labels(left, "object-path", changed).items()}
    theirs = labels(right, "object-path")
    # Optimizers number their slots: where one number is two slots, neither name is right for both.
    new_names = {key: plain_key(key) for key, name in theirs.items() if names.get(key, name) != name}
    return {**names, **theirs, **new_names}


def _note_missing(readers: Iterable[FormatReader], reporter: Reporter) -> None:
    """Say which values were compared without reading them, because their file is missing."""
    for reader in readers:
        for path in reader.missing_files() if reader.location.store.lists_first else ():
            reporter.note(f"{path} is missing, so its tensors were compared only by their stored checksums")


def _choosing(options: CompareOptions, left: FormatReader, right: FormatReader) -> ChosenPairs | None:
    if options.where is None:
        return None
    finds_renames = options.settings.find_renames and options.settings.values
    return ChosenPairs(options.where, left, right, finds_renames)


def _is_plain(options: CompareOptions) -> bool:
    """Whether indexes alone may tell what is the same."""
    settings = options.settings
    chooses = options.where is not None or not options.selection.everything
    return not (settings.exact or options.everything or settings.by != "key" or chooses)


def _laid_out(
    left: FormatReader,
    layout: FrameworkLayout,
    right: FormatReader,
    selection: Selection,
    reporter: Reporter,
) -> FormatReader:
    """Return LEFT in another layout; back in TensorFlow's, it has the keys of the model in RIGHT.

    Excluded tensors need no counterpart: tensors of LEFT that are not chosen, and optimizer state if none of
    its kinds is chosen.
    """
    left_out = sift(
        left,
        Selection(drop=selection.drop, regex=selection.regex, ignore_case=selection.ignore_case),
        listed=True,
    ).dropped
    keys = [key for key in left.specs if key not in left_out]
    if selection.kinds and not set(OF_OPTIMIZER) & set(selection.kinds):
        keys = [key for key in keys if left.kinds.get(key) not in OF_OPTIMIZER]
    laid = lay_out(left, keys, compared_with(layout, right))
    for text in laid.notes:
        reporter.note(text)
    report_dropped(laid.dropped, reporter)
    return laid.reader


def _unlike(left: FormatReader, right: FormatReader) -> UnequalPairs | None:
    """Return what may differ, where both sides are so large that it is worth to go through their indexes."""
    if not (left.is_long and right.is_long):
        return None
    from ..operations.compare.index_difference import unequal_pairs  # which needs numpy

    return unequal_pairs(left, right)


def _nbytes(right: FormatReader, pairs: list[KeyPair]) -> int:
    specs = (right.specs[pair.right] for pair in pairs if pair.left and pair.right)
    return sum(spec.nbytes or 0 for spec in specs)


def _suggest(
    left: FormatReader, right: FormatReader, pairs: list[KeyPair], by: str, reporter: Reporter
) -> None:
    """If nothing was paired, say which option would pair tensors: two formats name the same thing
    differently.
    """
    if any(pair.left is not None and pair.right is not None for pair in pairs):
        return
    better = better_by(left, right, by)
    if better is not None:
        reporter.note(
            f"the two sides have no {by.replace('-', ' ')} in common; to pair some tensors, pass "
            f"--by {better}"
        )


class Sides(NamedTuple):
    """The checkpoints of two directories by name, and the files in them that are not checkpoints."""

    left: dict[str, CheckpointLocation]
    right: dict[str, CheckpointLocation]
    unread: dict[str, CheckpointError]

    @property
    def both(self) -> list[str]:
        return [name for name in self.left if name in self.right]

    @property
    def only_left(self) -> list[str]:
        return [name for name in self.left if name not in self.right]

    @property
    def only_right(self) -> list[str]:
        return [name for name in self.right if name not in self.left]


def sides(left: Location, right: Location, *, recursive: bool) -> Sides:
    """Return the checkpoints of two directories, paired by name."""
    unread: dict[str, CheckpointError] = {}
    ours, theirs = (_members(path, unread, recursive=recursive) for path in (left, right))
    for side in (ours, theirs):
        for name in unread.keys() & side.keys():
            del side[name]
    return Sides(ours, theirs, unread)


def _members(
    path: Location, unread: dict[str, CheckpointError], *, recursive: bool
) -> dict[str, CheckpointLocation]:
    """Return a directory's checkpoints by name; `unread` gets those of unknown format."""
    if not is_directory(path):
        raise OptionError(f"--each needs two directories; {path} is not one")
    from formats.find.directory import Directory, directories_below

    found = {}
    for folder in directories_below(path) if recursive else (path,):
        for member in Directory(folder).members:
            name = member.location.path.relative_to(path)
            if member.error is not None:
                unread.setdefault(name, member.error)
            found[name] = member.location
    return found


class Failing(NamedTuple):
    """The changes on which a comparison fails, except those in an earlier result."""

    fail_on: FailOn = FailOn()
    known: Baseline | None = None

    def is_met(self, entry: DiffEntry, pair: str | None = None) -> bool:
        """Whether a tensor's change is one of them, in the pair of checkpoints of that name."""
        return self.fail_on.is_met(entry) and (self.known is None or not self.known.knows(entry, pair))

    def is_met_alone(self, change: str, name: str) -> bool:
        """Whether a checkpoint that is on one side alone is one of them."""
        return change in self.fail_on.changes and (
            self.known is None or not self.known.knows_only(change, name)
        )

    def fails(self, found: Diff, pair: str | None = None) -> bool:
        """Whether anything of a comparison is one of them."""
        return any(self.is_met(entry, pair) for entry in found.entries)
