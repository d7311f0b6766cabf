"""Verification by training: does it continue from two checkpoints in the same way?

If one of the two has the configuration of a model and of its optimizer, both are made from it (`configured`).
Otherwise the model is rebuilt from objects, or from names alone: a stack of Dense and Conv2D layers, nodes
with a `kernel` of rank 2 or 4 and perhaps a `bias`, in the order of the graph, and the optimizer, by the
names of its slots (`formats.keras.optimizers`). Each slot goes to its variable by its meaning. If the two
have different generations, the newer implementation takes both steps, because a step from one and the same
state is the same. Facts that neither checkpoint has, activations and the numbers that an optimizer keeps in
its program, are Keras' defaults on both sides, and facts that only one has apply to both. They do not affect
whether the two are the same.

One step is taken from each on seeded data.  Everything it leaves is compared bit for bit.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formats.errors import ConversionError, UnsupportedFeatureError
from formats.find.opening import open_reader
from formats.keras.between_generations import flaw_between
from formats.keras.facts import keras_facts
from formats.keras.optimizers import LEGACY, TF1, state_of
from formats.keras.step_count import steps_taken
from formats.keras.training_state import LEARNING_RATE, MOMENTUM_PRODUCT, common_rows
from formats.model.reader import Family
from formats.tf.graph.states import objects_of, states_of

from .configured import Configured, is_trained
from .errors import InvalidArgumentError
from .functions import reduce_mean
from .keras import layers, optimizers
from .nest import flatten
from .random import set_seed
from .tape import GradientTape
from .tensor import as_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.keras.optimizers import Optimizer
    from formats.keras.training_state import TrainingState
    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import FormatReader

__all__ = ["Steps", "compare_steps"]

_SEED = 20180930
_EXAMPLES = 8
_DEEPEST = 200
"""Edges to a layer."""

_MOMENTUM = 0.9
"""The momentum of an optimizer with momentum slots if no checkpoint has it."""

_Left = tuple[dict[str, "np.ndarray[Any, Any]"], type]
"""All variables of model and optimizer after a step by name, and the optimizer's class."""


class Steps(NamedTuple):
    """The result of a step from each of two checkpoints: variables, how many differ, and the first that
    does.
    """

    variables: int
    differing: int
    first: str | None
    optimizer: str


class _Layer(NamedTuple):
    """A layer of a stack: the keys of its kernel and bias, if any, and its name, if known."""

    name: str
    kernel: str
    bias: str | None

    @property
    def keys(self) -> list[str]:
        return [key for key in (self.kernel, self.bias) if key is not None]


class _Found(NamedTuple):
    """A stack and the state of its optimizer in a checkpoint."""

    reader: FormatReader
    stack: list[_Layer]
    state: TrainingState

    def known_by(self, row: Optimizer) -> set[str]:
        """Return the meanings of the slots that there are, if the optimizer is that of a row."""
        meanings = row.meanings(self.state.generation)
        return {meanings[name] for name in self.state.slot_names}

    def number(self, name: str) -> float | None:
        """Return a number that the checkpoint has of the optimizer, None where it has none."""
        for key in self.state.numbers.get(name, ())[:1]:
            spec = self.reader.specs[key]
            if not spec.shape and spec.dtype.is_floating:
                return float(self.reader[key].read())
        return None


def compare_steps(left_path: str, right_path: str) -> Steps:
    """Take one step from each of two checkpoints and compare what it leaves.

    Raises UnsupportedFeatureError, which names it, for what cannot be rebuilt.
    """
    with open_reader(left_path) as left_reader, open_reader(right_path) as right_reader:
        readers = (left_reader, right_reader)
        described = [reader for reader in readers if is_trained(reader)]
        if described:
            results = [
                _configured(reader, reader if reader in described else described[0]) for reader in readers
            ]
        else:
            results = _of_objects(*map(_found_in, readers))
    (left, kind), (right, other) = results
    if kind is not other or left.keys() != right.keys():
        message = f"the variables of the model or the optimizer differ from those of {right_path}"
        raise UnsupportedFeatureError(message, path=left_path)
    differing = [name for name, value in left.items() if value.tobytes() != right[name].tobytes()]
    return Steps(len(left), len(differing), differing[0] if differing else None, kind.__name__)


def _what_lacks(reader: FormatReader) -> str:
    if reader.format.family is not Family.KERAS:
        return f"{reader.format.name} has no object graph"
    if not keras_facts(reader.facts).config:
        return "this file has no model configuration"
    return "this file has no training configuration, because the model was saved without its optimizer"


def _unknown(reader: FormatReader, what: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(f"ckpt cannot take a training step: {what}", path=reader.location.path)


# Rebuilding -----------------------------------------------------------------------


def _found_in(reader: FormatReader) -> _Found:
    """Return the stack of layers and the one optimizer that a checkpoint has."""
    objects, states = objects_of(reader), states_of(reader)
    if objects is None or states is None:
        raise _unknown(reader, _what_lacks(reader))
    if len(states) != 1:
        raise _unknown(reader, f"there are {len(states)} optimizers; expected one")
    if not states[0].known:
        message = f"the slots {sorted(states[0].slot_names)} of {states[0].title} are not supported"
        raise _unknown(reader, message)
    stack = _stack_of(reader, *objects)
    used = {key for layer in stack for key in layer.keys}
    for key, spec in reader.specs.items():
        if reader.kinds.get(key) == "variable" and spec.dtype.is_floating and key not in used:
            raise _unknown(reader, f"the variable {key!r} does not belong to a Dense or Conv2D layer")
    if not stack:
        raise _unknown(reader, "there is no Dense or Conv2D layer")
    return _Found(reader, stack, states[0])


def _stack_of(reader: FormatReader, graph: ObjectGraph, keys: dict[int, str]) -> list[_Layer]:
    """Return the nodes with a kernel, breadth first, none deeper than `_DEEPEST`; Keras 3 has a `_kernel`."""
    found: dict[str, _Layer] = {}
    depths, queue = {0: 0}, [0]
    for number in queue:
        edges = dict(graph.children(number))
        for child in edges.values() if depths[number] < _DEEPEST else ():
            if child not in depths:
                depths[child] = depths[number] + 1
                queue.append(child)
        kernel, bias = (keys.get(edges.get(name, edges.get(f"_{name}", -1))) for name in ("kernel", "bias"))
        if kernel is not None:
            above = reader.full_names.get(kernel, "" if reader.object_graph else kernel).rpartition("/")[0]
            found.setdefault(kernel, _Layer(above.rpartition("/")[2], kernel, bias))
    if reader.object_graph is not None:
        return list(found.values())
    # Names have no order but that of their numbers: `dense_10` comes after `dense_9`.
    return sorted(found.values(), key=lambda layer: (len(layer.name), layer.name))


def _in_order_of(found: _Found, other: _Found) -> _Found:
    """Return the same with its layers in the other's order, where both have layers of the same names."""
    names = [layer.name for layer in found.stack]
    others = [layer.name for layer in other.stack]
    if len(set(names)) < len(names) or sorted(names) != sorted(others):
        return found
    return found._replace(stack=[found.stack[names.index(name)] for name in others])


def _built(reader: FormatReader, layer: _Layer) -> Any:
    shape = reader.specs[layer.kernel].shape
    has_bias = layer.bias is not None
    if len(shape) == 2 and 0 not in shape:
        built: Any = layers.Dense(shape[-1], use_bias=has_bias)
    elif len(shape) == 4 and 0 not in shape:
        built = layers.Conv2D(shape[-1], shape[:2], padding="same", use_bias=has_bias)
    else:
        raise _unknown(
            reader, f"the kernel {layer.kernel!r} of shape {list(shape)} does not fit a Dense or Conv2D layer"
        )
    built.build((None,) * (len(shape) - 1) + (shape[-2],))
    return built


def _example(reader: FormatReader, shapes: list[tuple[int, ...]]) -> tuple[tuple[int, ...], int | None]:
    """Return the shape of one example, and the layer before which images are made flat."""
    flatten_before, side = None, 4
    for number, (one, following) in enumerate(itertools.pairwise(shapes), 1):
        fits = one[-1] == following[-2]
        if len(one) == 4 and len(following) == 2:
            side = math.isqrt(following[0] // one[-1])
            fits = side * side * one[-1] == following[0]
            flatten_before = number
        elif len(one) < len(following):
            fits = False
        if not fits:
            message = (
                f"the kernels {list(one)} and {list(following)} cannot follow each other in a stack of layers"
            )
            raise _unknown(reader, message)
    first = shapes[0]
    return ((side, side, first[2]) if len(first) == 4 else (first[0],)), flatten_before


def _same_optimizer(left: _Found, right: _Found) -> tuple[Optimizer, Optimizer]:
    """Return what the table says of the optimizers of both sides; an error where they are not one."""
    both = common_rows(left.state, right.state)
    if not both:
        message = f"the optimizer is {left.state.title}, but {right.reader.location.path} has "
        raise _unknown(left.reader, f"{message}{right.state.title}")
    rows = both[0]
    one, other = left.state.generation, right.state.generation
    decay = next((side.number("decay") for side in (left, right) if side.state.generation == LEGACY), None)
    flaw = flaw_between(rows[0], one, other, decay)
    if flaw is not None and flaw_between(rows[0], other, one, decay) is not None:
        raise _unknown(left.reader, f"{rows[0].name}: {flaw}")
    return rows


def _meanings(sides: tuple[_Found, _Found], rows: tuple[Optimizer, Optimizer]) -> set[str]:
    """Return the slots that both sides have, without those that one of them keeps needlessly."""
    kept = [side.known_by(row) for side, row in zip(sides, rows, strict=True)]
    for side, row, have, others in zip(sides, rows, kept, reversed(kept), strict=True):
        for meaning in have - others:
            if side.state.generation not in row.slot(meaning).idle_in:
                what = f"{row.name} keeps {row.slot(meaning).name(side.state.generation)!r}"
                raise _unknown(side.reader, f"{what}, but {row.name} of the other checkpoint does not")
    return kept[0] & kept[1]


def _made(row: Optimizer, meanings: set[str], *, is_legacy: bool) -> Any:
    """Return an optimizer of a row with these slots; with momentum, it has an effect."""
    module: Any = optimizers.legacy if is_legacy else optimizers
    name = row.name if hasattr(module, row.name) else state_of(row)
    options: dict[str, Any] = {}
    if "vhat" in meanings:
        options["amsgrad"] = True
    if "mg" in meanings:
        options["centered"] = True
    if "momentum" in meanings:
        options["momentum"] = _MOMENTUM
    return getattr(module, name)(**options)


# One step -------------------------------------------------------------------------


def _of_objects(left: _Found, right: _Found) -> list[_Left]:
    """Return what a step leaves of both sides, taken by one implementation."""
    rows = _same_optimizer(left, right)
    sides = (
        (left, _in_order_of(right, left)) if left.reader.object_graph else (_in_order_of(left, right), right)
    )
    meanings = _meanings(sides, rows)
    is_legacy = all(side.state.generation == LEGACY for side in sides)
    return [
        _step_of(side, other, row, _made(rows[0], meanings, is_legacy=is_legacy), meanings)
        for side, other, row in zip(sides, reversed(sides), rows, strict=True)
    ]


def _step_of(found: _Found, other: _Found, row: Optimizer, optimizer: Any, meanings: set[str]) -> _Left:
    reader = found.reader
    shapes = [reader.specs[layer.kernel].shape for layer in found.stack]
    example, flatten_before = _example(reader, shapes)
    stack = [_built(reader, layer) for layer in found.stack]
    by_key = {
        key: variable
        for layer, built in zip(found.stack, stack, strict=True)
        for key, variable in zip(layer.keys, built.trainable_variables, strict=True)
    }
    for key, variable in by_key.items():
        _assign(reader, key, variable)
    variables = list(by_key.values())
    if isinstance(optimizer, optimizers.legacy.Optimizer):
        for name in optimizer._kinds():
            for variable in variables:
                optimizer.add_slot(variable, name)
    else:
        optimizer.build(variables)
    _restore_numbers(found, other, row, optimizer)
    _restore_slots(found, other, row, meanings, optimizer, by_key)
    random = np.random.default_rng(_SEED)

    def compute() -> Any:
        value: Any = as_tensor(random.standard_normal((_EXAMPLES, *example)).astype("f4"))
        for number, layer in enumerate(stack):
            value = layer(layers.Flatten()(value) if number == flatten_before else value)
        return value

    _train(compute, optimizer, variables, random)
    return _values(variables, optimizer), type(optimizer)


def _assign(reader: FormatReader, key: str, variable: Any, factor: float | None = None) -> None:
    value = reader[key].read()
    if value.shape != tuple(variable.shape) or value.dtype.kind not in "fV":
        raise _unknown(reader, f"{key!r} is {reader[key]!r}; expected shape {list(variable.shape)}")
    variable.assign(value if factor is None else value * value.dtype.type(factor))


def _restore_slots(
    found: _Found,
    other: _Found,
    row: Optimizer,
    meanings: set[str],
    optimizer: Any,
    by_key: dict[str, Any],
) -> None:
    """Give each variable its slots; momentum of TensorFlow 1 is turned where the other side's is Keras'."""
    reader, generation = found.reader, found.state.generation
    is_legacy = isinstance(optimizer, optimizers.legacy.Optimizer)
    turns = generation == TF1 != other.state.generation
    for meaning in meanings:
        slot = row.slot(meaning)
        factor = None
        if slot.turns and turns:
            rate = other.number(LEARNING_RATE)
            if not rate:
                raise _unknown(reader, "the momentum is a sum of gradients, and the learning rate is unknown")
            factor = -rate
        for at, (key, variable) in enumerate(by_key.items()):
            held = found.state.slots.get((key, slot.name(generation)))
            if held is None:
                raise _unknown(reader, f"{key!r} has no slot {slot.name(generation)!r}")
            mine = (
                optimizer.get_slot(variable, slot.legacy) if is_legacy else getattr(optimizer, slot.list2)[at]
            )
            _assign(reader, held, mine, factor)


def _restore_numbers(found: _Found, other: _Found, row: Optimizer, optimizer: Any) -> None:
    """Give an optimizer its count of steps, and the hyperparameters that either side has."""
    is_legacy = isinstance(optimizer, optimizers.legacy.Optimizer)
    names = [*optimizer._hyper] if is_legacy else [LEARNING_RATE, *optimizer._settings]
    for name in names:
        told = found.number(name)
        told = other.number(name) if told is None else told
        if told is not None:
            setattr(optimizer, name, told)
    if not is_legacy and row.name != "Nadam" and any(side.number("decay") for side in (found, other)):
        raise _unknown(found.reader, "the learning rate decays, which newer optimizers do not support")
    product = found.number(MOMENTUM_PRODUCT)
    if product is not None:
        if is_legacy:
            optimizer.restore_cache(product)
        else:
            optimizer._u_product.assign(product)
    try:
        steps = steps_taken(found.reader, found.state, alone=True)
    except ConversionError as error:
        raise _unknown(found.reader, error.message) from error
    if steps is None and row.counts:
        raise _unknown(found.reader, f"the number of steps that {found.state.title} has taken is unknown")
    optimizer.iterations.assign(steps.taken if steps is not None else 0)


def _train(
    compute: Callable[[], Any], optimizer: Any, variables: list[Any], random: np.random.Generator
) -> None:
    """Take a step towards random outputs."""
    # A file's values may be infinite, or have no root: the same on both sides.
    with np.errstate(all="ignore"):
        with GradientTape() as tape:
            losses = []
            for value in flatten(compute()):
                difference = value - as_tensor(random.standard_normal(value.shape).astype("f4"))
                losses.append(reduce_mean(difference * difference))
            loss = sum(losses[1:], losses[0])
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))


def _configured(reader: FormatReader, by: FormatReader) -> _Left:
    """Return what a step leaves of the model and the optimizer that a configuration describes."""
    made = Configured(reader, by)
    set_seed(_SEED)  # for the units that layers drop
    values = [as_tensor(value) for value in made.inputs]
    inputs = values[0] if len(values) == 1 else values
    variables = made.model.trainable_variables
    try:
        _train(
            lambda: made.model(inputs, training=True), made.optimizer, variables, np.random.default_rng(_SEED)
        )
    except (ValueError, LookupError, MemoryError, NotImplementedError, InvalidArgumentError) as error:
        raise _unknown(by, f"the model cannot be trained here: {error}") from error
    return _values(made.model.weights, made.optimizer), type(made.optimizer)


def _values(variables: list[Any], optimizer: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Return the values of a model's variables and of its optimizer's, by name."""
    after = {f"{number} {variable.name}": variable for number, variable in enumerate(variables)}
    state = list(optimizer.variables())
    after |= {f"optimizer {number} {variable.name}": variable for number, variable in enumerate(state)}
    return {name: variable.numpy() for name, variable in after.items()}
