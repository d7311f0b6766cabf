"""Find optimizer state in any of Keras' layouts; a module reads and writes each.

Values that no tensor holds, such as the learning rate of Keras 2, come from a training configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import state_in_graph, state_in_h5, state_in_weights
from .optimizer_settings import LOSS_SCALING, optimizer_settings, scale_in, settings_in, unwrapped
from .optimizers import TITLES, named
from .training_state import UNKNOWN_CLASS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..model.reader import FormatReader
    from .facts import KerasFacts
    from .optimizer_settings import ClassAndSettings
    from .training_state import TrainingState


def stored_state(
    source: FormatReader, beside: KerasFacts | None = None, optimizer_name: str | None = None
) -> TrainingState | None:
    """Return the state of a checkpoint's optimizer, or None if it has none that ckpt knows.

    `beside` are the facts of a configuration file that was given with the checkpoint. `optimizer_name` is the
    class of the optimizer if the checkpoint does not name it; for a LossScaleOptimizer, that of the inner
    optimizer. The model determines the owners of listed slots (`slot_owners`).
    """
    read = _READERS.get(source.format.name)
    outer = optimizer_settings(source, beside)
    configured = unwrapped(outer)
    found = read(source, configured) if read is not None else None
    if found is None:
        return None
    called, settings = configured[0] or "", configured[1]
    known, beside_it = named(found.called), named(called)
    is_another = known is not None and beside_it is not None and known is not beside_it
    found = found._replace(
        called=found.called or called or optimizer_name or "",
        settings={} if is_another else settings,
        scaled=found.scaled or optimizer_settings(source)[0] in LOSS_SCALING,
        values={**scale_in(outer), **found.values},
    )
    row = named(found.called)
    if source.object_graph is None:
        return found._replace(known=(row,) if row is not None else ())
    wanted = unwrapped(settings_in(beside))[0] if beside is not None else None
    return state_in_graph.of_one_class(found, row, named(wanted or ""))


def titled(state: TrainingState) -> str:
    """Return an optimizer's name for people, with its generation."""
    return f"{state.called or UNKNOWN_CLASS} ({TITLES[state.generation]})"


_READERS: dict[str, Callable[[FormatReader, ClassAndSettings], TrainingState | None]] = {
    "keras-h5": state_in_h5.read,
    "keras-weights": state_in_weights.read,
    "keras": state_in_weights.read,
    "tf-object": state_in_graph.read,
}
