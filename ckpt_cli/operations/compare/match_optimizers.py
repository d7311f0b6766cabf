"""Predict what a restore would do to optimizer state: which slots it loses, and which it confuses.

TensorFlow restores by edges and numbers. `_variables/3` of one generation, or of one optimizer, is another
slot in the next, and TensorFlow reports nothing if both have the same shape. A slot is confused if it gets
another meaning, or reaches another variable than its own. Its own variable of TARGET is known from the
restored variables or, if the variable itself is not restored, from the ends of both paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.core.words import counted
from formats.errors import CheckpointError
from formats.keras.optimizers import TF1, TITLES
from formats.keras.training_state import common_rows
from formats.tf.graph.states import states_of

from ..convert.pairing import Strictness, pair

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.keras.training_state import TrainingState
    from formats.model.reader import FormatReader

    from .match import Match
    from .match_fix import LikelyRename


class Fate(NamedTuple):
    """The fate of an optimizer of CHECKPOINT: how many of its `slots` are `lost`, and how many `mistaken`.

    `target` are TARGET's optimizers, as people call them; `why` is what keeps even
    `convert --like TARGET` from carrying it.
    """

    optimizer: str
    target: str | None
    slots: int
    lost: int
    mistaken: int
    why: str | None = None

    def sentence(self) -> str:
        """Say it in a sentence."""
        parts = []
        if self.lost:
            parts.append(f"{self.lost} of {counted(self.slots, 'slot')} would be lost")
        if self.mistaken:
            parts.append(
                f"{self.mistaken} of {counted(self.slots, 'slot')} would be restored into other slots"
            )
        there = f"TARGET has {self.target}" if self.target else "TARGET has no optimizer"
        return f"{self.optimizer}: {' and '.join(parts)}; {self.why or there}"


def fates(
    found: Match, renames: Sequence[LikelyRename], checkpoint: FormatReader, target: FormatReader
) -> list[Fate]:
    """Return what becomes of the optimizers of CHECKPOINT that lose something, or whose state is mistaken."""
    mine, theirs = states_of(checkpoint), states_of(target) or []
    if not mine:
        return []
    into = {pair.checkpoint: pair.target for pair in found.restored}
    own = _own_variables(found, renames)
    taken = {variable: key for key, variable in own.items()}
    places = {key: slot for state in theirs for key, slot in _meanings(state).items()}
    titles = " and ".join(dict.fromkeys(_title(state) for state in theirs)) or None
    why = _why(checkpoint, target) if theirs else None
    fates = []
    for state in mine:
        lost = mistaken = 0
        # A slot that a restore makes is of use to the same optimizer only.
        of_use = any(not other.known or common_rows(state, other) for other in theirs)
        for key, (variable, meaning, is_v1) in _meanings(state).items():
            place = into.get(key)
            if key not in into or (place is None and not of_use):
                lost += 1
            elif place is not None:
                at, *what = places.get(place, (None, None, None))
                its_own = taken.get(at, variable) == variable and own.get(variable, at) == at
                mistaken += what != [meaning, is_v1] or not its_own
        lost += sum(1 for key in state.unowned if key not in into)
        slots = len(state.slots) + len(state.unowned)
        if lost or mistaken:
            fates.append(Fate(_title(state), titles, slots, lost, mistaken, why))
    return fates


def _own_variables(found: Match, renames: Sequence[LikelyRename]) -> dict[str, str | None]:
    """Return which variable of TARGET each of CHECKPOINT's is, as far as that is known."""
    own: dict[str, str | None] = {rename.checkpoint: rename.target for rename in renames}
    return own | {pair.checkpoint: pair.target for pair in found.restored}


def _title(state: TrainingState) -> str:
    return f"{state.title} ({TITLES[state.generation]})"


def _meanings(state: TrainingState) -> Mapping[str, tuple[str, str, bool]]:
    """Return, by a slot's key, its variable's, what it means, and whether TensorFlow 1 alone means that."""
    row = state.known[0] if state.known else None
    found = {}
    for (variable, name), key in state.slots.items():
        meaning = row.meanings(state.generation)[name] if row is not None else name
        turns = row is not None and row.slot(meaning).turns
        found[key] = (variable, meaning, turns and state.generation == TF1)
    return found


def _why(checkpoint: FormatReader, target: FormatReader) -> str | None:
    """Return why the state cannot be carried over, None if it can."""
    keys: Sequence[str] = [key for key in checkpoint.specs if checkpoint.kinds.get(key) != "graph"]
    try:
        pair(checkpoint, keys, target, Strictness())
    except CheckpointError as error:
        return error.message.replace("SRC's", "CHECKPOINT's").replace("TEMPLATE's", "TARGET's")
    return None
