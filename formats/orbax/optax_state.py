"""An optimizer's state in a tree: that of optax's Adam, which Adam and AdamW have in common.

    opt_state/1/0/count                steps, and again beside each schedule
    opt_state/1/0/mu/dense/kernel      m of the parameter
    opt_state/1/0/nu/dense/kernel      v of the parameter

No tree says which transformation made it, as Nadam and Adamax keep slots of the same names: the user does.
optax/_src/transform.py: ScaleByAdamState (optax 0.2.8)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..keras.optimizers import BY_NAME, OPTAX, named
from ..keras.training_state import ITERATIONS, TrainingState
from .kinds import slots_of
from .names import parts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..keras.optimizers import Optimizer
    from ..model.reader import FormatReader
    from .kinds import OwnedSlot
    from .names import Path


COUNT = "count"
ANOTHER = "a chain that is not Adam alone"
_ROWS = (BY_NAME["Adam"], BY_NAME["AdamW"])


def read_optax(reader: FormatReader, said: str | None) -> TrainingState | None:
    """Return the state of the optimizer in a tree, of the class `said`; None where it has none."""
    paths = {key: tuple(parts_of(key)) for key in reader.specs}
    parts = [key for key, kind in reader.kinds.items() if kind in ("slot", "optimizer")]
    if not parts:
        return None
    owned = slots_of(paths, reader.specs)
    slots = {(slot.variable, slot.name): key for key, slot in owned.items()}
    rest = tuple(key for key in parts if key not in owned)
    row = named(said) if said is not None else None
    known: tuple[Optimizer, ...] = (row,) if row in _ROWS and row is not None else ()
    called = said or ""
    if known and not (len(slots) == len(owned) and _is_adam(reader, paths, owned, rest)):
        known, called = (), ANOTHER
    numbers = {ITERATIONS if known else COUNT: rest} if rest else {}
    return TrainingState(OPTAX, "opt_state", called, known, slots, numbers)


def _is_adam(
    reader: FormatReader, paths: Mapping[str, Path], owned: Mapping[str, OwnedSlot], rest: tuple[str, ...]
) -> bool:
    """Whether a state is one Adam's, and all else in it counts the same steps."""
    trained = {name: {slot.variable for slot in owned.values() if slot.name == name} for name in ("mu", "nu")}
    folders = {paths[key][: paths[key].index(slot.name)] for key, slot in owned.items()}
    if {slot.name for slot in owned.values()} != {"mu", "nu"} or trained["mu"] != trained["nu"]:
        return False
    if len(folders) != 1 or (*folders.pop(), COUNT) not in {paths[key] for key in rest}:
        return False
    specs = [reader.specs[key] for key in rest]
    if any(paths[spec.key][-1] != COUNT or spec.shape or spec.dtype.family != "int" for spec in specs):
        return False
    return len({int(reader[key].read()) for key in rest}) == 1
