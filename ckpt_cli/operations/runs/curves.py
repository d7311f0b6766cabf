"""A number of event files over the steps of a run."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from formats.core.words import counted
from formats.errors import CheckpointNotFoundError
from formats.tf.run.events import START, EventReader, event_files, scalars

if TYPE_CHECKING:
    from formats.location import Location

LOSS = "loss"
_LOSSES = (LOSS, "epoch_loss")
"""The loss's tags of Estimators and Keras; a scope may precede them in a user's own programs."""

_MOST_TAGS = 1000


class Curve:
    """A number by step. The last value of a repeated step counts."""

    def __init__(self, tag: str = "") -> None:
        self.tag = tag
        self.steps: list[int] = []
        self.values: list[float] = []

    def add(self, step: int, value: float) -> None:
        at = bisect_left(self.steps, step)
        if at < len(self.steps) and self.steps[at] == step:
            self.values[at] = value
        else:
            self.steps.insert(at, step)
            self.values.insert(at, value)

    def forget_from(self, step: int) -> None:
        """Forget a step and everything after it: a run that restarted there discards them."""
        at = bisect_left(self.steps, step)
        del self.steps[at:], self.values[at:]

    def last(self, after: int, until: int) -> tuple[int, float] | None:
        """Return the last (step, number) of the steps behind `after` up to `until`."""
        at = bisect_right(self.steps, until) - 1
        return (self.steps[at], self.values[at]) if at >= 0 and self.steps[at] > after else None


class EventCurves(NamedTuple):
    """The content of a directory's event files: the curve, the files, their other tags, problems."""

    curve: Curve
    files: tuple[str, ...]
    tags: tuple[str, ...]
    notes: tuple[str, ...]


def read_curve(directory: Location, tag: str | None = None) -> EventCurves:
    """Return the numbers under a tag; without one, those of the loss.

    A damaged file, or one that was cut off, yields its intact part, and a note.
    """
    curves: dict[str, Curve] = {}
    tags: dict[str, None] = {}
    files, notes = [], []
    for path in event_files(directory):
        reader = EventReader(path)
        try:
            _read(reader, tag, curves, tags)
        except CheckpointNotFoundError:
            notes.append(f"left out {path}, which was deleted during this command")
            continue
        files.append(path)
        if reader.flaw is not None:
            more = f", and {counted(reader.damaged - 1, 'more flaw')}" if reader.damaged > 1 else ""
            notes.append(f"{reader.flaw}{more}; ckpt uses the complete records")
    names = (tag,) if tag is not None else (*_LOSSES, *curves)
    found = next((curves[name] for name in names if name in curves), Curve(tag or ""))
    return EventCurves(found, tuple(files), tuple(tags), tuple(notes))


def _read(reader: EventReader, tag: str | None, curves: dict[str, Curve], tags: dict[str, None]) -> None:
    for event in reader:
        if event.session_log is not None and event.session_log.status == START:
            for curve in curves.values():
                curve.forget_from(event.step)
        for name, value in scalars(event):
            if len(tags) < _MOST_TAGS:
                tags[name] = None
            if not (name == tag or (tag is None and name.rpartition("/")[2] in _LOSSES)):
                continue
            if name not in curves and len(curves) < _MOST_TAGS:
                curves[name] = Curve(name)
            if name in curves:
                curves[name].add(event.step, value)
