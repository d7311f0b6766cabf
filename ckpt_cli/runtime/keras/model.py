"""Models: layers that are saved by themselves, and Sequential ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from formats.location import parse_location
from formats.model.reader import Family

from .. import dtypes, graphs
from ..checkpoint import CheckpointOptions, read_into, write_checkpoint
from ..containers import Container
from ..graph_view import GraphView
from ..nest import flatten
from ..reader import opened
from ..state_file import latest_checkpoint, update_state_file
from ..tensor import TensorShape, as_tensor
from ..variable import without_effect
from . import base_layer
from .base_layer import Layer, deduplicated, shapes_of
from .layers.structural import InputLayer
from .masks import hang_masks, mask_of
from .summary import print_summary
from .symbolic import Call, KerasTensor, conformed, has_free_batch
from .training import Trainer

if TYPE_CHECKING:
    from ..status import LoadStatus
    from ..trackable import Trackable

__all__ = ["Model", "Sequential"]

_HDF5 = (".h5", ".hdf5", ".keras")
_OBJECT_PATHS = ".weights.h5"


class Model(Trainer, Layer):
    """Base of models.  `Model(inputs, outputs)` is a Functional model, a subclass writes `call`."""

    inputs: Any
    """The symbols of the inputs, in functional models and in sequential ones that know theirs."""

    _files: ClassVar[Any]
    """Writes whole models; `saving` sets it."""

    _also_walked = ("metrics",)
    """Attributes whose objects files have by their places, too."""

    _texts: ClassVar[Any]
    """Writes and reads configurations of models; `model_json`, which knows all kinds, sets it."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Model and (args or "inputs" in kwargs):
            from .functional import Functional

            return object.__new__(Functional)
        return object.__new__(cls)

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__}.get_config() is not supported")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args:
            raise TypeError(f"{type(self).__name__} takes no positional arguments")
        super().__init__(**kwargs)

    def _joined(self, own: list[Any], below: list[Any]) -> list[Any]:
        return below + own  # A model's own weights come after those of its layers.

    @property
    def input_shape(self) -> Any:
        return shapes_of(self.input)

    @property
    def output_shape(self) -> Any:
        return shapes_of(self.output)

    @property
    def layers(self) -> list[Layer]:
        """The layers in attributes, also in lists and dicts there, each once."""
        return deduplicated([layer for child in self._sublayers() for layer in _layers_in(child)])

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        if index is not None:
            return self.layers[index]
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ValueError(
            f"No such layer: {name}. Existing layers are: {[layer.name for layer in self.layers]}."
        )

    def reset_states(self) -> None:
        """Have the recurrent layers that keep their states begin with zeros."""
        for layer in self.layers:
            if getattr(layer, "stateful", False) and hasattr(layer, "reset_states"):
                layer.reset_states()

    @property
    def stateful(self) -> bool:
        return any(getattr(layer, "stateful", False) for layer in self.layers)

    def _require_built(self) -> None:
        if not self.built:
            raise ValueError(
                f"Weights for model '{self.name}' have not yet been created. Weights are created when the "
                "model is first "
                "called on inputs or `build()` is called with an `input_shape`."
            )

    @property
    def trainable_variables(self) -> list[Any]:  # type: ignore[override]
        self._require_built_at_top()
        return super().trainable_variables

    @property
    def non_trainable_variables(self) -> list[Any]:  # type: ignore[override]
        self._require_built_at_top()
        return super().non_trainable_variables

    def _require_built_at_top(self) -> None:
        """Complain of missing weights as Keras does: of a model that was never called and has none at all."""
        if (
            not self.built
            and not base_layer._training
            and type(self) is not Model
            and isinstance(self, Sequential)
        ):
            self._require_built()

    @property
    def variables(self) -> list[Any]:  # type: ignore[override]
        """All weights, layer by layer, where `trainable_variables` has them by kind."""
        below = [weight for child in self._sublayers() for weight in child.variables]
        own = sorted(self._own_weights, key=lambda weight: not weight.trainable)
        return deduplicated(below + own)

    def build(self, input_shape: Any) -> None:
        """Make the weights by calling the model on zeros of a shape."""
        if type(self).call is Layer.call:
            self._put("built", True)
            return
        if not base_layer._training:
            with without_effect():
                self(_zeros(input_shape))
        self._put("built", True)

    def _build_for(self, inputs: Any) -> None:
        if type(self).build is not Model.build:
            super()._build_for(inputs)
        self._put("built", True)

    # Saving.

    @property
    def _weights_view(self) -> GraphView:
        return GraphView(self, [("root", self)])

    def save_weights(
        self,
        filepath: str | os.PathLike[str],
        overwrite: bool = True,
        save_format: str | None = None,
        options: Any = None,
    ) -> None:
        """Write the weights: HDF5 if the name or `save_format` says so, otherwise a TensorFlow checkpoint."""
        from .weights import save_h5, save_weights_file

        path = os.fspath(filepath)
        if save_format == "h5" or (save_format is None and path.endswith(_HDF5)):
            self._require_built()
            if not overwrite and parse_location(path).entry() is not None:
                raise FileExistsError(path)
            write = save_weights_file if path.endswith(_OBJECT_PATHS) else save_h5
            write(path, self)
            return
        if save_format not in (None, "tf", "tensorflow"):
            raise ValueError(f"Unknown format: `{save_format}`. Was expecting one of {{'tf', 'h5'}}.")
        if not overwrite and parse_location(path + ".index").entry() is not None:
            raise FileExistsError(path)
        write_checkpoint(path, self._weights_view, options or CheckpointOptions())
        update_state_file(os.path.dirname(path), path, [path])

    def load_weights(
        self,
        filepath: str | os.PathLike[str],
        skip_mismatch: bool = False,
        by_name: bool = False,
        options: Any = None,
    ) -> LoadStatus | None:
        """Read weights: a file of Keras', or by `restore` a checkpoint, whose status is returned."""
        path = parse_location(filepath)
        if path.is_file() and self._load_keras_file(path, by_name, skip_mismatch):
            return None
        if by_name or skip_mismatch:
            raise ValueError(
                "Weights may only be loaded based on topology into Models when loading "
                "TensorFlow-formatted weights."
            )
        if path.is_folder():
            path = parse_location(latest_checkpoint(path) or path)
        status = read_into(path, self._weights_view)
        status.assert_nontrivial_match()
        return status

    def save(
        self, filepath: Any, overwrite: bool = True, save_format: str | None = None, **kwargs: Any
    ) -> None:
        """Write the model, what it was compiled with and the optimizer's state, as `.keras` or `.h5`."""
        self._files.save_model(self, filepath, overwrite, save_format, **kwargs)

    def _load_keras_file(self, path: str, by_name: bool, skip_mismatch: bool) -> bool:
        """Load the weights of one of Keras' own files; False where it is something else."""
        from .weights import load_h5, load_weights_file

        with opened(path) as reader:
            if reader.format.names_layers:
                self._require_built()
                load_h5(reader, self, by_name=by_name, skip_mismatch=skip_mismatch)
            elif reader.format.family is Family.KERAS:
                self._require_built()
                load_weights_file(reader, self)
            else:
                return False
        return True

    def to_json(self, **kwargs: Any) -> str:
        """Return what the model is made of, as Keras 2.15 writes it; `kwargs` are those of `json.dumps`.

        Raises NotImplementedError for what cannot be written so: a class of a program's own, a function.
        """
        return self._texts.to_json(self, **kwargs)

    def _graph(self) -> list[Call] | None:
        """Return the calls that a functional model is made of; None for other models."""
        return None

    def summary(
        self, line_length: int | None = None, positions: Any = None, print_fn: Any = None,
        expand_nested: bool = False, show_trainable: bool = False, layer_range: Any = None,
    ) -> None:  # fmt: skip
        """Print the layers with their shapes and numbers of parameters."""
        if not self.built:
            raise ValueError(
                "This model has not yet been built. Build the model first by calling `build()` or by calling "
                "the model on a batch of data."
            )
        print_summary(
            self, line_length, positions, print_fn or print, expand_nested, show_trainable, layer_range
        )


def _layers_in(child: Any) -> list[Layer]:
    if isinstance(child, Layer):
        return [child]
    if isinstance(child, Container):
        return [layer for element in child._elements() for layer in _layers_in(element)]
    return []


def _zeros(shape: Any) -> Any:
    if isinstance(shape, Mapping):
        return {key: _zeros(one) for key, one in shape.items()}
    if isinstance(shape, list) and shape and isinstance(shape[0], tuple | list | TensorShape):
        return [_zeros(one) for one in shape]
    return as_tensor(np.zeros([1 if dim is None else dim for dim in shape], np.float32))


def layer_edges(layers: list[Layer], first: int = 0) -> dict[str, Trackable]:
    """Return the edges `layer_with_weights-K` and `layer-N` of a model that is a list of layers."""
    edges: dict[str, Trackable] = {}
    with_weights = 0
    for number, layer in enumerate(layers, first):
        if layer.weights:
            edges[f"layer_with_weights-{with_weights}"] = layer
            with_weights += 1
        edges[f"layer-{number}"] = layer
    return edges


def _input_of(first: Layer, shape: tuple[Any, ...], dtype: str) -> InputLayer:
    """Return the input of a Sequential model, named after the first of its layers."""
    return InputLayer(batch_input_shape=shape, dtype=dtype, name=f"{first.name}_input")


class Sequential(Model):
    """Layers one after the other."""

    _stack: list[Layer]
    _calls: list[Call]
    """The calls of the layers on symbols, one each, as far as they are built."""
    _input: InputLayer | None
    _is_input_told: bool
    _built_batch: int | None
    """The batch size of the call that set the input's shape."""
    _passes_masks = _hangs_masks = True

    def __init__(self, layers: Any = None, name: str | None = None) -> None:
        super().__init__(name=name)
        self._put("_stack", [])
        self._put("_calls", [])
        self._put("_input", None)
        self._put("_is_input_told", False)
        self._put("_built_batch", None)
        for layer in layers or ():
            self.add(layer)

    def get_config(self) -> dict[str, Any]:
        """Return the configurations of the layers, before them that of the input if it is known."""
        return self._texts.config_of_sequential(self)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Sequential:
        """Return the model that a configuration describes; ValueError for what is none or not known."""
        return cls._texts.model_of({"class_name": "Sequential", "config": config}, custom_objects)

    def add(self, layer: Any) -> None:
        """Add a layer at the end; once the input's shape is known, it is built at once."""
        if isinstance(layer, KerasTensor):
            layer = layer.call.layer if layer.call is not None else layer
        if not isinstance(layer, Layer):
            raise TypeError(
                f"The added layer must be an instance of class Layer. Received: layer={layer} of type "
                f"{type(layer)}."
            )
        if any(one.name == layer.name and one is not layer for one in self._stack):
            raise ValueError(
                f'All layers added to a Sequential model should have unique names. Name "{layer.name}" is '
                "already the name of a layer in this model. Update the `name` argument to pass a unique name."
            )
        if isinstance(layer, InputLayer):
            self._begin_with(layer)
            return
        if not self._stack and self._input is None and layer._batch_input_shape is not None:
            self._begin_with(_input_of(layer, layer._batch_input_shape, layer.dtype))
        self._stack.append(layer)
        # A restore may be waiting under either of the names the layer has just got.
        if self._input is not None:
            self._build_stack()
        self._settle_layers()

    def _begin_with(self, layer: InputLayer) -> None:
        self._put("_input", layer)
        self._put("_is_input_told", True)
        self._put("built", True)

    def pop(self) -> None:
        layer = self._stack.pop()
        if len(self._calls) > len(self._stack):
            layer._inbound.remove(self._calls.pop())

    def _forget_calls(self) -> None:
        for layer, call in zip(self._stack, self._calls, strict=False):
            layer._inbound.remove(call)
        self._calls.clear()

    @property
    def input(self) -> Any:
        if self._input is None:
            raise AttributeError(f"Layer {self.name} is not connected, no input to return.")
        return self._input._inbound[0].outputs

    @property
    def output(self) -> Any:
        return self._calls[-1].outputs if self._calls else self.input

    @property
    def inputs(self) -> Any:
        return None if self._input is None else [self.input]

    @property
    def outputs(self) -> Any:
        return None if self._input is None else [self.output]

    @property
    def layers(self) -> list[Layer]:
        return list(self._stack)

    @property
    def _first(self) -> Layer:
        return self._stack[0] if self._stack else self

    def _sublayers(self) -> list[Any]:
        return [*self._stack, *super()._sublayers()] if "_stack" in self.__dict__ else []

    def _trackable_children(self) -> Mapping[str, Trackable]:
        return {**layer_edges(self._stack), **super()._trackable_children()}

    def _lookup_child(self, name: str) -> Trackable | None:
        return self._trackable_children().get(name)

    def _settle_layers(self) -> None:
        if self._links.deferred:
            for name, layer in layer_edges(self._stack).items():
                if name in self._links.deferred:
                    self._settle(name, layer)

    def _build_stack(self, *, is_called: bool = False) -> None:
        """Build the layers by calling them on zeros.

        That is outside of any name scope, but in a graph where the model did not know its
        input: there TensorFlow builds it as it is called.
        """
        from ..names import current_scope, name_scope

        assert self._input is not None
        scope = name_scope(current_scope() if is_called and graphs.current() is not None else None)
        with scope, without_effect():
            for layer in self._stack[len(self._calls) :]:
                layer(self.output)
                self._calls.append(layer._inbound[-1])
        self._put("built", True)

    def build(self, input_shape: Any = None) -> None:
        if self._input is None and input_shape is not None:
            dtype = self._stack[0]._row.input_dtype if self._stack else "float32"
            self._put("_input", _input_of(self._first, tuple(input_shape), dtype))
        if self._input is not None:
            self._build_stack()
        self._put("built", True)
        self._settle_layers()

    def _build_for(self, inputs: Any) -> None:
        one = flatten(inputs)[0]
        if one is None:
            raise TypeError(f"Inputs to a layer should be tensors. Got None for layer {self.name!r}.")
        if not one.ndim:
            raise ValueError(f'Layer "{self.name}" expects 1 input(s), but it received a list of numbers.')
        batch = None if has_free_batch() else one.shape[0]
        self._put("_built_batch", batch)
        self._infer_input((batch, *one.shape[1:]), dtypes.as_dtype(one.dtype).name)
        self._settle_layers()

    def _infer_input(self, shape: tuple[Any, ...], dtype: str) -> None:
        """Build the layers for the first input; after a batch of another size, the batch size is unknown."""
        self._forget_calls()
        self._put("_input", _input_of(self._first, shape, dtype))
        self._build_stack(is_called=True)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return mask_of(self.call(inputs, mask=mask))

    def _converted(self, inputs: Any) -> Any:
        self._put("_inputs_wanted", 1 if self._is_input_told else None)
        return super()._converted(inputs)

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        hang_masks(flatten(inputs), None if mask is None else flatten(mask))
        if self._is_input_told:
            inputs = conformed(flatten(inputs)[0], self.input)
        elif self._input is not None and self.input.shape[:1] not in ((None,), flatten(inputs)[0].shape[:1]):
            self._infer_input((None, *self.input.shape[1:]), self._input.dtype)
        for layer in self._stack:
            inputs = layer(inputs, training=training) if layer._call_spec().takes_training else layer(inputs)
        return inputs
