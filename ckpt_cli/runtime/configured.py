"""A training step of a model and an optimizer that a stored configuration describes.

    model          the configuration of a full `.h5` or a `.keras` file
    optimizer      the same file's training configuration, and the layout of its state
    values         any checkpoint of the two: Keras' formats, or an object graph

State is stored in lists, one slot after another in the order in which its class makes them; only in an object
graph do a legacy optimizer's slots belong to variables. Every shape is compared with the model before a value
is assigned. Numbers in tensors (the learning rate, in most layouts) take precedence over those of the
configuration.

The loss is a mean square, whatever the model was compiled with, and constraints and regularizers of layers
are left out, on both sides alike: they show nothing about state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.errors import UnsupportedFeatureError
from formats.keras.facts import keras_facts
from formats.keras.optimizer_settings import optimizer_settings
from formats.keras.optimizer_state import stored_state
from formats.keras.optimizers import BY_NAME, LEGACY
from formats.keras.training_state import ITERATIONS

from .keras import optimizers
from .keras.weights import assign, assign_weights
from .outputs import built_model, inputs_of

if TYPE_CHECKING:
    from formats.keras.training_state import TrainingState
    from formats.model.reader import FormatReader

    from .keras.model import Model

__all__ = ["Configured", "is_trained", "restore_optimizer"]

_COMMON = ("weight_decay", "clipnorm", "clipvalue", "global_clipnorm")
_IRRELEVANT = frozenset(
    ("name", "learning_rate", "lr", "decay", "jit_compile", "is_legacy_optimizer", "ema_momentum",
     "ema_overwrite_frequency")
)  # fmt: skip
"""Settings without an effect, since `use_ema` is rejected; a legacy optimizer's `decay` is handled
separately.
"""


def is_trained(reader: FormatReader) -> bool:
    """Whether a checkpoint carries the configuration of a model and of its optimizer."""
    return bool(keras_facts(reader.facts).config) and optimizer_settings(reader)[0] is not None


class Configured:
    """A model, its optimizer, and the inputs to train on, out of `reader`, by the configuration of `by`."""

    def __init__(self, reader: FormatReader, by: FormatReader) -> None:
        self.model = built_model(by)
        pairs = assign_weights(self.model, reader, by)
        state = stored_state(reader)
        if state is None:
            raise _refused(reader.location.path, "this file has no optimizer state")
        self.optimizer = _optimizer(by, state)
        restore_optimizer(self.optimizer, self.model, state, reader, pairs)
        self.inputs = inputs_of(self.model)


def _refused(path: str, what: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(f"ckpt cannot take a training step: {what}", path=path)


def _optimizer(by: FormatReader, state: TrainingState) -> Any:
    """Return the optimizer that a training configuration describes, in the style of the state."""
    name, settings = optimizer_settings(by)
    path = by.location.path
    known = getattr(optimizers, str(name)) if name in BY_NAME and name in optimizers.__all__ else None
    if known is None:
        raise _refused(path, f"the optimizer {name!r} is not supported")
    wanted = {*known._own, *_COMMON} - {"learning_rate"}
    options = {key: value for key, value in settings.items() if key in wanted}
    for key, value in settings.items():
        if key not in wanted and key not in _IRRELEVANT and value not in (None, False):
            raise _refused(path, f"the optimizer {name!r} with {key}={value!r} is not supported")
    options["learning_rate"] = settings.get("learning_rate", settings.get("lr"))
    if state.generation == LEGACY:
        options["decay"] = settings.get("decay") or 0.0
    for key, value in options.items():
        if not isinstance(value, int | float) and (value is not None or key not in _COMMON):
            raise _refused(path, f"the optimizer {name!r} with {key}={value!r} is not supported")
    module: Any = optimizers
    if state.generation == LEGACY:
        module = optimizers.legacy
        options = {key: value for key, value in options.items() if value is not None}
    elif settings.get("decay"):
        raise _refused(path, f"the optimizer {name!r} with decay={settings['decay']!r} is not supported")
    try:
        return getattr(module, str(name))(**options)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise _refused(path, f"the optimizer {name!r} cannot be created: {error}") from error


def restore_optimizer(
    optimizer: Any, model: Model, state: TrainingState, reader: FormatReader, pairs: dict[str, Any]
) -> None:
    """Give an optimizer its state, all of it or, where something does not fit, none."""
    trained = model.trainable_variables
    legacy = state.generation == LEGACY
    slots = _legacy_slots(optimizer, trained, state, pairs) if legacy else _slots(optimizer, trained, state)
    if slots is None:
        message = f"the {len(state.ordered)} slots do not fit {type(optimizer).__name__} and this model"
        raise _refused(reader.location.path, message)
    placed = {str(state.number(ITERATIONS)): optimizer.iterations, **slots}
    for name in state.rates:
        key = state.number(name)
        variable = getattr(optimizer, name, None) if legacy else optimizer.learning_rate
        if key is not None and variable is not None:
            placed[key] = variable
    assign(reader, placed)


def _slots(optimizer: Any, trained: list[Any], state: TrainingState) -> dict[str, Any] | None:
    optimizer.build(trained)
    own = list(optimizer.variables)[1:]
    if not state.ordered and isinstance(optimizer, optimizers.SGD) and not optimizer.momentum:
        own = []  # Keras 3 keeps no momentums that are not used.
    if len(own) != len(state.ordered):
        return None
    return dict(zip(state.ordered, own, strict=True))


def _legacy_slots(
    optimizer: Any, trained: list[Any], state: TrainingState, pairs: dict[str, Any]
) -> dict[str, Any] | None:
    optimizer._create_slots(trained)
    own = [variable for variable in optimizer.weights if variable is not optimizer.iterations]
    if len(own) != len(state.ordered):
        return None
    if not state.slots:
        return dict(zip(state.ordered, own, strict=True))
    found = {}
    for (owner, name), key in state.slots.items():
        variable = pairs.get(owner)
        slot = optimizer._slot_or_none(variable, name) if variable is not None else None
        if slot is None:
            return None
        found[key] = slot
    return found
