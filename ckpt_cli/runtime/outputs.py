"""Verification by computing: do two checkpoints make one model say the same?

The model is data: the configuration in a full `.h5` or a `.keras` file. Each checkpoint runs with its own
configuration, or with the other's if it has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formats.core.npy import LONGEST_HEADER, decode_header
from formats.errors import UnknownFormatError, UnsupportedFeatureError
from formats.find.opening import open_reader
from formats.keras.facts import keras_facts
from formats.store.file_object import FileObject

from .keras.from_config import model_from_config
from .keras.layers import Embedding
from .keras.weights import assign_weights
from .nest import flatten
from .tensor import as_tensor

if TYPE_CHECKING:
    from formats.location import Location
    from formats.model.reader import FormatReader

    from .keras.model import Model

__all__ = ["Outputs", "built_model", "compare_outputs", "inputs_of", "load_model", "read_input", "run"]

_SEED = 20170601
_EXAMPLES = 8
_UNKNOWN_DIMENSION = 8
"""Replaces an open dimension of a model: the length of a text, the width of an image."""


class Outputs(NamedTuple):
    """How the outputs of two checkpoints differ: in how many elements, at most by how much."""

    elements: int
    differing: int
    max_abs: float
    max_rel: float


def load_model(reader: FormatReader, by: FormatReader) -> Model:
    """Return the model of `by`'s configuration with the weights of `reader`."""
    model = built_model(by)
    assign_weights(model, reader, by)
    return model


def built_model(by: FormatReader) -> Model:
    """Return the model of a configuration, its weights zeros."""
    elements = sum(spec.size for spec in by.specs.values())
    facts = keras_facts(by.facts)
    try:
        return model_from_config(facts.config or "", elements, keras3=facts.major == "3")
    except UnsupportedFeatureError as error:
        error.path = by.location.path
        raise


def _has_config(reader: FormatReader) -> bool:
    return bool(keras_facts(reader.facts).config)


def compare_outputs(left_path: str, right_path: str, given: Any = None) -> Outputs:
    """Run both checkpoints on an array, or on seeded values, and compare.

    Raises UnsupportedFeatureError for what cannot be computed: no configuration, a layer that is not known.
    """
    with open_reader(left_path) as left, open_reader(right_path) as right:
        described = [reader for reader in (left, right) if _has_config(reader)]
        if not described:
            message = f"neither this checkpoint nor {right.location.path} contains a model configuration"
            hints = ("save the whole model once with model.save(...), as a .keras or .h5 file",)
            raise UnsupportedFeatureError(message, path=left.location.path, hints=hints)
        models = [
            load_model(reader, reader if _has_config(reader) else described[0]) for reader in (left, right)
        ]
        inputs = inputs_of(models[0], given)
        outputs = [
            _outputs(model, inputs, reader) for model, reader in zip(models, (left, right), strict=True)
        ]
    return _compare(*outputs)


def _outputs(model: Model, inputs: list[Any], reader: FormatReader) -> list[np.ndarray[Any, Any]]:
    try:
        return run(model, inputs)
    except (ValueError, IndexError, MemoryError) as error:
        message = f"the model cannot run on this input: {error}"
        raise UnsupportedFeatureError(message, path=reader.location.path) from error


def run(model: Model, inputs: list[Any]) -> list[np.ndarray[Any, Any]]:
    """Return a model's outputs, as arrays."""
    values = [as_tensor(value) for value in inputs]
    result = model(values[0] if len(values) == 1 else values, training=False)
    return [np.asarray(one) for one in flatten(result)]


def _compare(left: list[np.ndarray[Any, Any]], right: list[np.ndarray[Any, Any]]) -> Outputs:
    elements, differing, max_abs, max_rel = 0, 0, 0.0, 0.0
    if [one.shape for one in left] != [one.shape for one in right]:
        sizes = sum(one.size for one in left)
        return Outputs(sizes, sizes, float("nan"), float("nan"))
    for one, other in zip(left, right, strict=True):
        elements += one.size
        unequal = (one != other) & ~(np.isnan(one) & np.isnan(other))
        if not unequal.any():
            continue
        with np.errstate(all="ignore"):
            delta = np.abs(one[unequal].astype("f8") - other[unequal])
            relative = delta / np.abs(other[unequal].astype("f8"))
        differing += int(unequal.sum())
        max_abs, max_rel = float(max(max_abs, delta.max())), float(max(max_rel, relative.max()))
    return Outputs(elements, differing, max_abs, max_rel)


# Inputs ---------------------------------------------------------------------------


def read_input(path: Location) -> np.ndarray[Any, Any]:
    """Return the array of a `.npy` file; UnknownFormatError where it is none, or one of Python objects."""
    with path.open() as file:
        try:
            header = decode_header(file.read(0, LONGEST_HEADER + 12))
            if header.data_offset + header.nbytes > file.size:
                raise ValueError(
                    f"the header declares {header.nbytes} bytes of values, but the file has {file.size} bytes"
                )
            found: np.ndarray[Any, Any] = np.load(FileObject(file.read, file.size), allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise UnknownFormatError(f"this is not an .npy array of numbers: {error}", path=path) from error
    return found


def inputs_of(model: Model, given: Any = None) -> list[Any]:
    """Return a model's inputs: the given array, or seeded values of the required shapes."""
    symbols = list(model.inputs)
    numbers = _fewest_rows(model)
    if given is None:
        random = np.random.default_rng(_SEED)
        return [_seeded(symbol, numbers, random) for symbol in symbols]
    if len(symbols) != 1:
        raise UnsupportedFeatureError(f"the model has {len(symbols)} inputs, but --input gives one")
    wanted = _shape(symbols[0])
    fits = given.ndim == len(wanted) and all(
        dim is None or dim == found for dim, found in zip(wanted, given.shape, strict=True)
    )
    if not fits or given.dtype.kind not in "fiub":
        raise UnsupportedFeatureError(
            f"the input is {given.dtype} {list(given.shape)}, but the model takes {symbols[0].dtype.name} "
            f"[{', '.join('any' if dim is None else str(dim) for dim in wanted)}]"
        )
    looks_up = symbols[0].dtype.is_integer
    if looks_up and given.size and not 0 <= given.min() <= given.max() < numbers:
        raise UnsupportedFeatureError(
            f"the input has numbers outside of 0 to {numbers - 1}, the rows of the embedding"
        )
    return [given.astype(symbols[0].dtype.numpy_dtype)]


def _shape(symbol: Any) -> tuple[int | None, ...]:
    layer = symbol.call.layer
    return tuple(layer._batch_input_shape)


def _fewest_rows(model: Model) -> int:
    """Return the rows of the smallest embedding: integers below are good for every one."""
    from .keras.base_layer import iterate_layers

    return min(
        (layer.input_dim for layer in iterate_layers(model) if isinstance(layer, Embedding)), default=2
    )


def _seeded(symbol: Any, numbers: int, random: np.random.Generator) -> Any:
    shape = [_EXAMPLES, *(_UNKNOWN_DIMENSION if dim is None else dim for dim in _shape(symbol)[1:])]
    if symbol.dtype.is_integer:
        return random.integers(0, numbers, shape).astype(symbol.dtype.numpy_dtype)
    return random.standard_normal(shape).astype(symbol.dtype.numpy_dtype)
