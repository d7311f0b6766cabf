"""Choosing tensors of a checkpoint: by key, object path, pattern, dtype and kind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from formats.core import notices
from formats.core.dtypes import dtype_named
from formats.core.spec import KINDS
from formats.core.words import command_line, counted
from formats.errors import NOT_READ, CheckpointError, CorruptCheckpointError, InaccessibleError
from formats.location import parse_location

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.model.reader import FormatReader


class NothingSelectedError(CheckpointError):
    """A pattern, or all of them together, matches no tensor."""


class Selection(NamedTuple):
    """Which tensors are wanted.  Without anything to keep, all are.

    `words` that match no key stand for all keys that contain them.
    """

    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    regex: bool = False
    dtype: str | None = None
    kinds: tuple[str, ...] = ()
    ignore_case: bool = False
    words: tuple[str, ...] = ()

    @classmethod
    def make(
        cls,
        keep: tuple[str, ...] = (),
        drop: tuple[str, ...] = (),
        *,
        regex: bool = False,
        dtype: str | None = None,
        kinds: str | None = None,
        ignore_case: bool = False,
    ) -> Selection:
        """Return a selection; ValueError for an unknown dtype or kind, or a malformed expression."""
        name = dtype_named(dtype).name if dtype is not None else None
        chosen = tuple(kinds.split(",")) if kinds else ()
        for kind in chosen:
            if kind not in KINDS:
                raise ValueError(f"the kind {kind!r} is unknown; expected {', '.join(KINDS)}")
        for pattern in (*keep, *drop) if regex else ():
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        return cls(tuple(keep), tuple(drop), regex, name, chosen, ignore_case)

    @property
    def everything(self) -> bool:
        return not (self.keep or self.drop or self.dtype or self.kinds)


EVERYTHING = Selection()


_IN_GLOBS = frozenset("*?[")


def _pattern(text: str, selection: Selection) -> re.Pattern[str]:
    flags = re.IGNORECASE if selection.ignore_case else 0
    if selection.regex:
        return re.compile(text, flags)
    import fnmatch

    return re.compile(fnmatch.translate(text), flags)


def with_words(selection: Selection, *readers: FormatReader) -> Selection:
    """Return a selection in which words that are not keys of a reader become globs.

    A note says how many tensors that are.  Expressions, and what matches nothing even so, stay as they are.
    """
    if selection.regex or not selection.words or any(reader.paths_flaw for reader in readers):
        return selection  # a damaged graph cannot show whether a word is an object path
    keep = list(selection.keep)
    for at, text in enumerate(keep):
        if text not in selection.words or not _IN_GLOBS.isdisjoint(text):
            continue
        if any(_matching(reader, text, selection) for reader in readers):
            continue
        found = {key for reader in readers for key in _matching(reader, f"*{text}*", selection)}
        if found:
            notices.status(f"{counted(len(found), 'key contains', 'keys contain')} {text!r}")
            keep[at] = f"*{text}*"
    return selection._replace(keep=tuple(keep), words=())


class Sifted(NamedTuple):
    """The result of a selection for one checkpoint: chosen keys, dropped keys, patterns without a match.

    Of these, `unmatched` are patterns of what to keep, `idle` of what to drop.
    """

    chosen: list[str]
    dropped: set[str]
    unmatched: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()


def sift(reader: FormatReader, selection: Selection, *, listed: bool = False) -> Sifted:
    """Return what a selection chooses and drops, in the order of the checkpoint.

    If dtypes or kinds choose, dropped tensors are proved, unless everything is only `listed`. Chosen tensors
    are read, with the checksums that cover both.
    """
    specs = reader.specs
    kept: set[str] | None = set() if selection.keep else None
    unmatched = []
    for text in selection.keep:
        found = _matching(reader, text, selection)
        if not found:
            unmatched.append(text)
        assert kept is not None
        kept.update(found)
    dropped: set[str] = set()
    idle = []
    for text in selection.drop:
        found = _matching(reader, text, selection)
        if not found:
            idle.append(text)
        dropped.update(found)
    if selection.kinds and not listed:
        prove_graph(reader)
    kinds = reader.kinds if selection.kinds else {}
    chosen = [
        key
        for key, spec in specs.items()
        if (kept is None or key in kept)
        and key not in dropped
        and (selection.dtype is None or spec.dtype.name == selection.dtype)
        and (not selection.kinds or kinds.get(key) in selection.kinds)
    ]
    if (selection.dtype or selection.kinds) and not listed:
        left_out = specs.keys() - set(chosen)
        reader.prove_specs(key for key in specs if key in left_out)
    return Sifted(chosen, dropped, tuple(unmatched), tuple(idle))


def choose(
    reader: FormatReader, selection: Selection, *, noted: bool = True, listed: bool = False
) -> list[str]:
    """Return the chosen keys, in the order of the checkpoint, those left out being proved as `sift` says.

    Raises NothingSelectedError, with close keys, where a pattern to keep matches
    nothing, or nothing is left of them all.  A pattern to drop that matches nothing is
    noted, unless this is one of many checkpoints.
    """
    if selection.everything:
        return list(reader.specs)
    selection = with_words(selection, reader)
    found = sift(reader, selection, listed=listed)
    for text in found.unmatched:
        raise unmatched(reader, text)
    if not found.chosen:
        raise nothing_selected(reader)
    if found.idle and reader.paths_flaw is not None:
        raise unmatched(reader, found.idle[0])
    if noted:
        note_unused_patterns(reader, found.idle)
    return found.chosen


def prove_graph(reader: FormatReader) -> None:
    """Read the source of object paths, full names and kinds before they are used.

    Raises CorruptCheckpointError if it is damaged, InaccessibleError if its file may not be read.
    """
    flaw = reader.paths_flaw
    if flaw is None:
        return
    if flaw.code in NOT_READ:
        raise InaccessibleError(flaw.message, path=flaw.file)
    message = f"the object graph cannot be read, and the keys have no meaning without it: {flaw.message}"
    verify = command_line("verify", reader.location.path)
    hints = (f"to see all damage: {verify}",)
    raise CorruptCheckpointError(message, path=flaw.file, offset=flaw.offset, code=flaw.code, hints=hints)


def note_unused_patterns(reader: FormatReader, patterns: Iterable[str]) -> None:
    """Tell of patterns that were to drop something and match nothing: a slip, more often than not."""
    for text in patterns:
        notices.status(f"{reader.location.path}: no tensor matches --exclude {text!r}")


def nothing_selected(reader: FormatReader) -> NothingSelectedError:
    """Return the error of options that select no tensor together."""
    way = f"to list all keys: {command_line('ls', '-1', reader.location.path)}"
    return NothingSelectedError("no tensor is selected", path=reader.location.path, hints=(way,))


def unmatched(reader: FormatReader, text: str) -> CheckpointError:
    """Return the error of a pattern that matches nothing, with close keys.

    If the source of object paths is damaged, or cannot be read, they are unknown.
    """
    flaw = reader.paths_flaw
    if flaw is not None:
        message = f"{flaw.message}; ckpt cannot tell whether {text!r} is an object path"
        if flaw.code in NOT_READ:
            return InaccessibleError(message, path=flaw.file)
        way = f"to list the keys: {command_line('ls', '-1', reader.location.path)}"
        return CorruptCheckpointError(
            message, path=flaw.file, offset=flaw.offset, code=flaw.code, hints=(way,)
        )
    key, bracket, rest = text.partition("[")
    if bracket and key in {*reader.specs, *reader.object_paths.values()}:
        message = (
            f"the slice {bracket + rest!r} of {key!r} is invalid; expected numbers and ranges, as in [0,:10]"
        )
        return NothingSelectedError(message, path=reader.location.path)
    message = f"no tensor matches {text!r}"
    hints = close_keys(reader, text)
    if parse_location(text).entry() is not None:
        hints = (f"pass one checkpoint; {text} is a path, and the arguments after a checkpoint are KEYs",)
    return NothingSelectedError(message, path=reader.location.path, hints=hints)


def _matching(reader: FormatReader, text: str, selection: Selection) -> set[str]:
    """Return the keys that a key, an object path or a pattern names."""
    regex = selection.regex
    if not regex and text in reader.specs:
        return {text}
    paths = reader.object_paths
    if not regex:
        named = {key for key, path in paths.items() if path == text}
        if named:
            return named
    pattern = _pattern(text, selection)
    matches = pattern.search if regex else pattern.match
    return {key for key in reader.specs if matches(key) or (key in paths and matches(paths[key]))}


def close_keys(reader: FormatReader, text: str, *, globs: bool = True) -> tuple[str, ...]:
    """Return a hint that names keys or object paths like `text`, or those whose full name it is.

    Without `globs`, as in a map, those that contain the text are named rather than the pattern for them.
    """
    owners = reader.owners_of(text)
    if owners:
        return owners
    if globs and _IN_GLOBS.isdisjoint(text) and _matching(reader, f"*{text}*", Selection()):
        return (f"did you mean '*{text}*'?",)
    import difflib
    import itertools

    names = itertools.islice(itertools.chain(reader.object_paths.values(), reader.specs), 20_000)
    candidates = list(dict.fromkeys(names))
    containing = [] if globs else [name for name in candidates if text and text in name]
    close = containing[:3] or difflib.get_close_matches(text, candidates, 3, 0.4)
    if not close:
        return (f"to list all keys: {command_line('ls', '-1', reader.location.path)}",)
    return ("did you mean " + " or ".join(close) + "?",)
