"""Verification by training: does it go on from two checkpoints in the same way?

Where one of the two carries the configuration of a model and of its optimizer, both are
made by it (`configured`).  Else what can be told from an object graph alone is rebuilt: a stack
of Dense and Conv2D layers, nodes with a `kernel` of rank 2 or 4 and perhaps a `bias`, in the order of the
graph, and the optimizer, by the names of its slots.  What a graph does not tell,
activations and the numbers that 2.11's optimizers keep in their program, is taken to be
Keras' default on both sides; it has no part in whether the two are the same.

One step is taken from each on seeded data.  Everything it leaves is compared bit for bit.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formats.errors import UnsupportedFeatureError
from formats.find.opening import open_checkpoint

from .checkpoint import read_into
from .configured import Configured, is_trained
from .errors import InvalidArgumentError
from .functions import reduce_mean
from .graph_view import GraphView
from .keras import layers, optimizers
from .nest import flatten
from .random import set_seed
from .tape import GradientTape
from .tensor import as_tensor
from .trackable import AutoTrackable

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import CheckpointReader

__all__ = ["Steps", "compare_steps"]

_SEED = 20180930
_EXAMPLES = 8
_DEEPEST = 200
"""Edges to a layer: paths of a hostile chain of nodes would grow with its square."""

Path = tuple[str, ...]
_Left = tuple[dict[str, "np.ndarray[Any, Any]"], type]
"""All variables of model and optimizer after a step by name, and the optimizer's class."""

_LEGACY: dict[frozenset[str], tuple[str, dict[str, Any]]] = {
    frozenset(["m", "v"]): ("Adam", {}),
    frozenset(["m", "v", "vhat"]): ("Adam", {"amsgrad": True}),
    frozenset(["momentum"]): ("SGD", {"momentum": 0.9}),
    frozenset(["accumulator"]): ("Adagrad", {}),
    frozenset(["rms"]): ("RMSprop", {}),
    frozenset(["rms", "momentum"]): ("RMSprop", {"momentum": 0.9}),
    frozenset(["rms", "mg"]): ("RMSprop", {"centered": True}),
    frozenset(["rms", "mg", "momentum"]): ("RMSprop", {"momentum": 0.9, "centered": True}),
}
"""Optimizers before 2.11, by their slot names; their numbers are in the checkpoint."""
_MODERN: dict[frozenset[str], tuple[str, dict[str, Any]]] = {
    frozenset(["_momentums", "_velocities"]): ("Adam", {}),
    frozenset(["_momentums", "_velocities", "_velocity_hats"]): ("Adam", {"amsgrad": True}),
    frozenset(["momentums"]): ("SGD", {}),
    frozenset(["_accumulators"]): ("Adagrad", {}),
}
"""Optimizers since 2.11, by the lists that hold their slots."""
_RMSPROP: dict[frozenset[str], tuple[str, dict[str, Any]]] = {
    frozenset(["_velocities"]): ("RMSprop", {}),
    frozenset(["_velocities", "_momentums"]): ("RMSprop", {"momentum": 0.9}),
    frozenset(["_velocities", "_average_gradients"]): ("RMSprop", {"centered": True}),
    frozenset(["_velocities", "_momentums", "_average_gradients"]): (
        "RMSprop",
        {"momentum": 0.9, "centered": True},
    ),
}
"""What has a list `_average_gradients`, be it empty, is RMSprop: else it looks like Adam."""
_SLOT_LISTS = frozenset(name for names in (*_MODERN, *_RMSPROP) for name in names)


class Steps(NamedTuple):
    """What a step from each of two checkpoints left: variables, how many differ, and the first that does."""

    variables: int
    differing: int
    first: str | None
    optimizer: str


class _Found(NamedTuple):
    """A stack and its optimizer, with the paths at which they hang in the graph."""

    stack: list[tuple[Path, Any]]
    optimizer_path: Path
    optimizer: Any
    example: tuple[int, ...]
    flatten_before: int | None


def compare_steps(left_path: str, right_path: str) -> Steps:
    """Take one step from each of two checkpoints and compare what it leaves.

    Raises UnsupportedFeatureError, which names it, for what cannot be rebuilt.
    """
    with open_checkpoint(left_path) as left_reader, open_checkpoint(right_path) as right_reader:
        readers = (left_reader, right_reader)
        described = [reader for reader in readers if is_trained(reader)]
        results = [
            _configured(reader, reader if reader in described else described[0])
            if described
            else _from_graph(reader)
            for reader in readers
        ]
    (left, kind), (right, other) = results
    if kind is not other or left.keys() != right.keys():
        message = f"its model or optimizer has other variables than that of {right_path}"
        raise UnsupportedFeatureError(message, path=left_path)
    differing = [name for name, value in left.items() if value.tobytes() != right[name].tobytes()]
    return Steps(len(left), len(differing), differing[0] if differing else None, kind.__name__)


def _unknown(reader: CheckpointReader, what: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(f"{what}, so no training step can be taken", path=reader.location.path)


# Rebuilding -----------------------------------------------------------------------


def _paths(graph: ObjectGraph) -> dict[int, Path]:
    """Return the first path to each node, breadth first; no layer hangs deeper than `_DEEPEST`."""
    paths: dict[int, Path] = {0: ()}
    queue = [0]
    for number in queue:
        if len(paths[number]) == _DEEPEST:
            break
        for name, child in graph.children(number):
            if child not in paths:
                paths[child] = (*paths[number], name)
                queue.append(child)
    return paths


def _rebuild(reader: CheckpointReader) -> _Found:
    graph = reader.object_graph
    if graph is None:
        raise _unknown(reader, f"{reader.format.name} has no object graph")
    paths = _paths(graph)
    owners = graph.tensors(dict.fromkeys(reader.specs))
    keys = {number: key for key, (number, _, _) in owners.items()}
    optimizer_node, optimizer = _optimizer(reader, graph, paths)
    stack: list[tuple[Path, Any]] = []
    shapes: list[tuple[int, ...]] = []
    used: set[str] = set()
    for number, path in paths.items():
        edges = dict(graph.children(number))
        kernel, bias = keys.get(edges.get("kernel", -1)), keys.get(edges.get("bias", -1))
        if kernel is None:
            continue
        shape = reader.specs[kernel].shape
        stack.append((path, _layer(reader, path, shape, has_bias=bias is not None)))
        shapes.append(shape)
        used |= {kernel} if bias is None else {kernel, bias}
    for key, spec in reader.specs.items():
        if reader.kinds.get(key) == "variable" and spec.dtype.is_floating and key not in used:
            raise _unknown(reader, f"variable {key!r} is of no Dense or Conv2D layer")
    if not stack:
        raise _unknown(reader, "there is no Dense or Conv2D layer")
    example, flatten_before = _example(reader, shapes)
    return _Found(stack, paths[optimizer_node], optimizer, example, flatten_before)


def _layer(reader: CheckpointReader, path: Path, shape: tuple[int, ...], *, has_bias: bool) -> Any:
    if len(shape) == 2 and 0 not in shape:
        layer: Any = layers.Dense(shape[-1], use_bias=has_bias)
    elif len(shape) == 4 and 0 not in shape:
        layer = layers.Conv2D(shape[-1], shape[:2], padding="same", use_bias=has_bias)
    else:
        raise _unknown(reader, f"{'/'.join(path)!r} has a kernel {list(shape)}, of no Dense or Conv2D layer")
    layer.build((None,) * (len(shape) - 1) + (shape[-2],))
    return layer


def _example(reader: CheckpointReader, shapes: list[tuple[int, ...]]) -> tuple[tuple[int, ...], int | None]:
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
            message = f"kernels {list(one)} and {list(following)} do not follow each other in a stack"
            raise _unknown(reader, message)
    first = shapes[0]
    return ((side, side, first[2]) if len(first) == 4 else (first[0],)), flatten_before


def _optimizer(reader: CheckpointReader, graph: ObjectGraph, paths: dict[int, Path]) -> tuple[int, Any]:
    """Return the node of the one optimizer, and an optimizer like it."""
    found: list[tuple[int, Any]] = []
    for number in paths:
        edges = dict(graph.children(number))
        if "iter" not in edges and "_iterations" not in edges:
            continue
        slots = frozenset(slot.name for slot in graph.slots if slot.optimizer == number)
        lists = frozenset(name for name in _SLOT_LISTS & edges.keys() if any(graph.children(edges[name])))
        legacy = "iter" in edges
        modern = _RMSPROP if "_average_gradients" in edges else _MODERN
        known = _LEGACY.get(slots) if legacy else modern.get(lists)
        if legacy and not slots and "momentum" in edges:
            known = ("SGD", {})
        if known is None:
            called = sorted(slots or lists)
            raise _unknown(reader, f"an optimizer with slots {called} is not known here")
        name, options = known
        module: Any = optimizers.legacy if legacy else optimizers
        found.append((number, getattr(module, name)(**options)))
    if len(found) != 1:
        raise _unknown(reader, f"there are {len(found)} optimizers, expected one")
    return found[0]


# One step -------------------------------------------------------------------------


def _hang(root: AutoTrackable, path: Path, leaf: Any) -> None:
    """Make a leaf the object at a path; what lies on the way is made, too."""
    for name in path[:-1]:
        below = root._lookup_child(name)
        if below is None:
            below = AutoTrackable()
            root._track(below, name)
        root = below  # type: ignore[assignment]
    root._track(leaf, path[-1])


def _from_graph(reader: CheckpointReader) -> _Left:
    """Return what a step leaves of the stack and the optimizer that an object graph tells of."""
    found = _rebuild(reader)
    variables = [variable for _, layer in found.stack for variable in layer.trainable_variables]
    if isinstance(found.optimizer, optimizers.Optimizer):
        found.optimizer.build(variables)
    root: Any = AutoTrackable()
    for path, leaf in [*found.stack, (found.optimizer_path, found.optimizer)]:
        if path:
            _hang(root, path, leaf)
        else:
            root = leaf
    try:
        status = read_into(reader.location.path, GraphView(root))
        status.expect_partial()
        status.assert_existing_objects_matched()
    except (AssertionError, ValueError) as error:
        why = str(error).partition("\n")[0][:200]
        raise _unknown(reader, f"model and optimizer cannot be restored: {why}") from error
    random = np.random.default_rng(_SEED)
    _train(lambda: _stacked(found, random), found.optimizer, variables, random)
    return _values(variables, found.optimizer), type(found.optimizer)


def _stacked(found: _Found, random: np.random.Generator) -> Any:
    value: Any = as_tensor(random.standard_normal((_EXAMPLES, *found.example)).astype("f4"))
    for number, (_, layer) in enumerate(found.stack):
        if number == found.flatten_before:
            value = layers.Flatten()(value)
        value = layer(value)
    return value


def _train(
    compute: Callable[[], Any], optimizer: Any, variables: list[Any], random: np.random.Generator
) -> None:
    """Take a step towards random outputs."""
    # What a file holds may be infinite, or no root can be taken of it: the same on both sides.
    with np.errstate(all="ignore"):
        with GradientTape() as tape:
            losses = []
            for value in flatten(compute()):
                difference = value - as_tensor(random.standard_normal(value.shape).astype("f4"))
                losses.append(reduce_mean(difference * difference))
            loss = sum(losses[1:], losses[0])
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))


def _configured(reader: CheckpointReader, by: CheckpointReader) -> _Left:
    """Return what a step leaves of the model and the optimizer that a configuration describes."""
    made = Configured(reader, by)
    set_seed(_SEED)  # of what layers drop
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
