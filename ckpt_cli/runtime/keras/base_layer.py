"""Layers: variables that are made when the shape of the input is known, and a call.

A layer's weights are its own, in the order in which they were added, and those of the
layers and containers in its attributes.  Creating them late is what makes deferred
restoration matter: a checkpoint restored before the first call waits at the layer, and
`add_weight` reads it.

    layer(x)  ->  build(shape of x), once  ->  call(x)
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from formats.keras.layers import LAYERS, LayerRow

from .. import dtypes
from ..containers import Container
from ..module import Module
from ..names import close_scope, name_scope, open_scope, to_snake_case, unique_name
from ..nest import flatten, map_structure
from ..tensor import Tensor, TensorLike, TensorShape, as_tensor
from ..trackable import AutoTrackable, Trackable
from ..unknown import refuse
from ..variable import Variable, has_no_effect
from . import activations, initializers, regularizers
from .activations import as_float
from .arguments import Arguments, arguments_of, classes
from .configs import ACTIVATIONS, LAYERS_IN, config_of
from .masks import hang_mask, mask_of, masks_of
from .symbolic import Call, KerasTensor, call_symbolically

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


__all__ = ["Layer", "copied", "deduplicated", "shapes_of"]

_training: list[Any] = []
"""Whether the open calls are training, the innermost last; None if unspecified."""


class CallSpec(NamedTuple):
    """The parameters of `call`: the name of its inputs, all names, and the positions of `training` and
    `mask`.
    """

    inputs: str
    names: tuple[str, ...]
    takes_training: bool
    training_at: int | None
    training_default: Any
    takes_mask: bool
    mask_at: int | None

    @classmethod
    def of(cls, call: Callable[..., Any]) -> CallSpec:
        """Read the signature of a `call` that is not bound."""
        parameters = list(inspect.signature(call).parameters.values())[1:]
        names = [one.name for one in parameters]
        positional = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
        default = next((one.default for one in parameters if one.name == "training"), None)
        return cls(
            inputs=positional[0] if positional else "inputs",
            names=tuple(positional) or ("inputs",),
            takes_training="training" in names or takes_any,
            training_at=positional.index("training") if "training" in positional else None,
            training_default=None if default is inspect.Parameter.empty else default,
            takes_mask="mask" in names or takes_any,
            mask_at=positional.index("mask") if "mask" in positional else None,
        )

    def settle_masks(self, inputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the masks of a call: the given ones, or those of the inputs, which `call` then gets."""
        if "mask" in kwargs:
            return kwargs["mask"]
        if self.mask_at is not None and self.mask_at < len(args):
            return args[self.mask_at]
        masks = masks_of(inputs)
        if masks is not None and self.takes_mask:
            kwargs["mask"] = masks
        return masks

    def settle_training(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        """Return the positional arguments and whether this call is training, which goes to `call` if it asks.

        The argument decides, then the call around this one, then the default in the signature.
        """
        at, outer = self.training_at, _training[-1] if _training else None
        if not self.takes_training:
            return args, kwargs.pop("training", outer)
        is_positional = at is not None and at < len(args)
        training = args[at] if is_positional else kwargs.get("training")  # type: ignore[index]
        if training is None:
            training = outer if outer is not None else self.training_default
        if is_positional:
            return (*args[:at], training, *args[at + 1 :]), training  # type: ignore[operator]
        kwargs["training"] = training
        return args, training


_OURS = __name__.rpartition(".")[0]


def deduplicated(variables: list[Any]) -> list[Any]:
    """Return variables each once, at its first place."""
    return list({id(variable): variable for variable in variables}.values())


class Layer(Module):
    """Base of layers and models."""

    _row: ClassVar[LayerRow] = LayerRow()
    """The class's row in the table of layers."""

    _options: dict[str, Any]
    """The arguments of a class of the table by name, which are attributes, too."""

    _passes_masks: ClassVar[bool] = False
    """Whether a mask of the inputs is one of the outputs, or `compute_mask` says which is."""

    _refused: ClassVar[tuple[str, ...]] = ()
    """Arguments that Keras' class has, and that are not supported."""

    _inputs_wanted: int | None = None
    """How many inputs there must be, if the layer says so."""

    _ndim: tuple[str, int] | None = None
    """The rank of the input, as `ndim` or at least, as `min_ndim`."""

    _moves_axes: ClassVar[bool] = False
    """Whether the first axis of an output may be another than that of the inputs."""

    _hangs_masks: ClassVar[bool] = False
    """Whether `call` gives the outputs their masks itself."""

    _initial: Mapping[str, Any]
    _constraints: Mapping[str, Any]
    _regularizers: Mapping[str, Any]
    """Initializers, constraints and regularizers of those weights by name."""

    _activity_regularizer: Callable[[Any], Any] | None

    built: bool
    supports_masking: bool
    _computes_mask: bool
    _dtype: dtypes.DType
    _layer_trainable: bool
    _own_weights: list[Variable]
    _inbound: list[Call]
    _losses: list[Any]
    _batch_input_shape: tuple[int | None, ...] | None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        row = arguments_of(cls.__name__) if cls.__module__.startswith(_OURS) else None
        if row is not None:
            cls._row = LAYERS.get(cls.__name__, LayerRow())
            cls.__init__ = _constructor(row)  # type: ignore[method-assign]
            classes[cls.__name__] = cls

    def _begin(
        self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        shape = kwargs.pop("input_shape", None)
        shape = (None, *shape) if shape is not None else kwargs.pop("batch_input_shape", None)
        if "input_dim" in kwargs:
            shape = (None, kwargs.pop("input_dim"))
        on_outputs = regularizers.get(kwargs.pop("activity_regularizer", None))
        rows = {row.name: row for row in self._row.weights}  # a name may have several shapes
        on_weights = {name: kwargs.pop(row.option("regularizer"), None) for name, row in rows.items()}
        constraints = {name: kwargs.pop(row.option("constraint"), None) for name, row in rows.items()}
        refused = (*self._refused, "weights")
        refuse(type(self).__name__, **{option: kwargs.pop(option, None) for option in refused})
        if kwargs.pop("autocast", True) is not True:
            raise NotImplementedError(f"{type(self).__name__}: argument autocast is not supported")
        kwargs.pop("dynamic", None)  # Every layer runs eagerly here.
        for option, given in constraints.items():
            if given is not None and not callable(given):
                raise NotImplementedError(
                    f"the constraint {given!r} of {option} is not supported, only a function"
                )
        if kwargs:
            raise TypeError(f"Invalid keyword argument(s) in `{type(self).__name__}`: {sorted(kwargs)}")
        put = self._put
        put("_name", name if name is not None else unique_name(to_snake_case(type(self).__name__)))
        put("_layer_trainable", trainable)
        if str(dtype).startswith("mixed_"):
            raise NotImplementedError(f"{type(self).__name__}: argument {dtype=} is not supported")
        put("_dtype", dtypes.as_dtype(dtype or "float32"))
        put("_own_weights", [])
        put("_batch_input_shape", shape)
        put("_input_spec_shape", None)
        put("_inbound", [])
        put("_losses", [])
        put("_activity_regularizer", on_outputs)
        put("_regularizers", {name: regularizers.get(given) for name, given in on_weights.items()})
        put("_constraints", constraints)
        put("built", False)
        put("_computes_mask", type(self).compute_mask is not Layer.compute_mask)
        put("supports_masking", self._passes_masks or self._computes_mask)

    if TYPE_CHECKING:

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            """Take the arguments of a row of `arguments.tsv`, or of any layer."""

        def __getattr__(self, name: str) -> Any:
            """Options are attributes."""

    else:
        __init__ = _begin

    def _take(self, options: dict[str, Any]) -> None:
        """Set the arguments of a class of the table."""
        given = {name: options[name] for name in self._refused if name in options}
        refuse(type(self).__name__, **given)
        self._put("_options", options)
        rows = {row.name: row.option("initializer") for row in self._row.weights}
        initial = {name: initializers.get(options[how]) for name, how in rows.items() if how in options}
        self._put("_initial", initial)
        for name, value in options.items():
            is_taken = isinstance(getattr(type(self), name, None), property | FunctionType)
            if name not in LAYERS_IN and not is_taken:
                self._put(name, activations.get(value) if name in ACTIVATIONS else value)
        self._configure()

    def _configure(self) -> None:
        """Check the arguments, and set what follows from them."""

    def _put(self, name: str, value: Any) -> None:
        """Set an attribute without tracking it."""
        object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_own_weights" not in self.__dict__ and isinstance(value, Trackable):
            raise RuntimeError(
                "It looks like you are subclassing `Model` and you forgot to call `super().__init__()`. "
                "Always start with this line."
            )
        AutoTrackable.__setattr__(self, name, value)
        # Variables in a container are the layer's own, as far as they are there when it is assigned.
        for part in flatten(value) if isinstance(value, list | tuple | dict) else (value,):
            if isinstance(part, Variable):
                self._own(part)

    def _own(self, variable: Variable) -> None:
        if all(variable is not weight for weight in self._own_weights):
            self._own_weights.append(variable)

    # Names and state.

    @property
    def name(self) -> str:
        return self._name

    @property
    def name_scope(self) -> Any:
        return name_scope(self._name)

    @property
    def dtype(self) -> str:
        return self._dtype.name

    compute_dtype = variable_dtype = dtype

    @property
    def trainable(self) -> bool:
        return self._layer_trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._put("_layer_trainable", value)
        for child in self._sublayers():
            if isinstance(child, Layer):
                child.trainable = value

    @property
    def losses(self) -> list[Any]:
        """The losses that this layer and those below it added: by functions, and in the last call by
        tensors.
        """
        return [
            as_tensor(loss()) if callable(loss) else loss
            for layer in deduplicated(list(iterate_layers(self)))
            for loss in sorted(layer._losses, key=callable)
        ]

    def _begin_call(self) -> None:
        """Forget the losses of the last call; those that are functions stay."""
        if self._losses:
            self._put("_losses", [loss for loss in self._losses if callable(loss)])
        for layer in _nearest(self._sublayers()):
            layer._begin_call()

    def _sublayers(self) -> list[Any]:
        """Return the layers, containers and modules in attributes, in order of assignment, each once."""
        links = self._links
        if links.parts is None:
            links.parts = deduplicated([one for one in links.children.values() if isinstance(one, _PARTS)])
        return links.parts

    # Weights.

    def _gathered(self, attribute: str) -> list[Any]:
        return [weight for child in self._sublayers() for weight in getattr(child, attribute)]

    @property
    def trainable_variables(self) -> list[Any]:  # type: ignore[override]
        if not self.trainable:
            return []
        own = [weight for weight in self._own_weights if weight.trainable]
        return deduplicated(self._joined(own, self._gathered("trainable_variables")))

    @property
    def non_trainable_variables(self) -> list[Any]:  # type: ignore[override]
        if self.trainable:
            own = [weight for weight in self._own_weights if not weight.trainable]
            return deduplicated(self._joined(own, self._gathered("non_trainable_variables")))
        own = sorted(self._own_weights, key=lambda weight: not weight.trainable)
        return deduplicated(self._joined(own, self._gathered("variables")))

    def _joined(self, own: list[Any], below: list[Any]) -> list[Any]:
        return own + below

    @property
    def variables(self) -> list[Any]:  # type: ignore[override]
        return deduplicated(self.trainable_variables + self.non_trainable_variables)

    @property
    def trainable_weights(self) -> list[Any]:
        return self.trainable_variables

    @property
    def non_trainable_weights(self) -> list[Any]:
        return self.non_trainable_variables

    @property
    def weights(self) -> list[Any]:
        return self.variables

    def get_weights(self) -> list[Any]:
        return [weight.numpy() for weight in self.weights]

    def set_weights(self, weights: list[Any]) -> None:
        """Assign all weights; ValueError, and nothing assigned, where their number or a shape is another."""
        variables = self.weights
        if len(variables) != len(weights):
            raise ValueError(
                f'You called `set_weights(weights)` on layer "{self.name}" with a weight list of length '
                f"{len(weights)}, "
                f"but the layer was expecting {len(variables)} weights."
            )
        for variable, value in zip(variables, weights, strict=True):
            if variable.shape != np.shape(value):
                raise ValueError(
                    f"Layer {self.name} weight shape {variable.shape} is not compatible with provided "
                    f"weight shape {np.shape(value)}."
                )
        for variable, value in zip(variables, weights, strict=True):
            variable.assign(value)

    def count_params(self) -> int:
        return sum(int(weight._value.size) for weight in self.weights)

    def add_weight(
        self,
        name: str | None = None,
        shape: Any = (),
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        **options: Any,
    ) -> Variable:
        """Make a variable that is this layer's, an edge of it under its name."""
        wanted = dtypes.as_dtype(dtype or self._dtype)
        if initializer is None:
            initializer = "glorot_uniform" if wanted.is_floating else "zeros"
        value = initializers.get(initializer)(tuple(shape), dtype=wanted)
        variable = Variable(
            value, name=name, dtype=wanted, trainable=trainable is not False, constraint=constraint
        )
        self._own(variable)
        if name is not None:
            self._track(variable, name)
        if (penalty := regularizers.get(regularizer)) is not None:
            self.add_loss(lambda: penalty(variable))
        return variable

    def _make_weights(self, shapes: Mapping[str, Sequence[int]] | None = None, **free: Any) -> None:
        """Make the weights that the table of layers has for this class; what an option leaves out is None.

        `free` has numbers for the words that only the input determines, and `shapes` the shapes that the
        table lacks.
        """

        def told(name: str, default: Any = None) -> Any:
            return getattr(self, name, default)

        there = {weight.name: (weight, shape) for weight, shape in self._row.weights_of(told, free)}
        for name in dict.fromkeys(weight.name for weight in self._row.weights):
            made = None
            if name in there:
                weight, shape = there[name]
                made = self.add_weight(
                    name,
                    (shapes or {})[name] if shape is None else shape,
                    initializer=self._initial[name],
                    trainable=weight.trainable,
                    constraint=self._constraints.get(name),
                    regularizer=self._regularizers.get(name),
                )
            setattr(self, name, made)
        self.built = True

    def add_loss(self, losses: Any, **options: Any) -> None:
        """Add to what a model is trained by: tensors of the call that runs, or functions that return one."""
        for loss in losses if isinstance(losses, list | tuple) else [losses]:
            if loss is None:
                continue
            if not callable(loss) and not _training:
                raise ValueError(
                    "Expected a symbolic Tensors or a callable for the loss value. Please wrap your loss "
                    "computation in a zero argument `lambda`."
                )
            if callable(loss):
                self._losses.append(loss)
            elif not has_no_effect():
                self._losses.append(as_float(loss, self._dtype))

    # Calling.

    def build(self, input_shape: Any) -> None:
        """Make the weights for inputs of a shape; the batch dimension may be anything."""
        self._put("built", True)

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; what subclasses write."""
        raise NotImplementedError(f"Layer {type(self).__name__} does not have a `call()` method implemented.")

    @classmethod
    def _call_spec(cls) -> CallSpec:
        """Return what `call` takes besides the inputs."""
        known = cls.__dict__.get("_known_call_spec")
        if known is None:
            known = cls._known_call_spec = CallSpec.of(cls.call)  # type: ignore[attr-defined]
        return known

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        is_plain = len(args) == 1 and args[0].__class__ is Tensor and not kwargs
        if not is_plain and (_has_symbols(args) or _has_symbols(kwargs)):
            return call_symbolically(self, args, kwargs)
        if "_own_weights" not in self.__dict__:
            raise RuntimeError("You must call `super().__init__()` in the layer constructor.")
        spec = self._call_spec()
        if not args and spec.inputs not in kwargs:
            raise ValueError(f"The first argument to `{type(self).__name__}.call` must always be passed.")
        inputs = args[0] if args else kwargs.pop(spec.inputs)
        is_masking = self.supports_masking or spec.takes_mask
        masks = spec.settle_masks(inputs, args, kwargs) if is_masking else None
        if inputs.__class__ is not Tensor or (
            inputs._value.dtype.kind == "f" and inputs._value.dtype is not self._dtype.numpy_dtype
        ):
            inputs = self._converted(inputs)
        if self._ndim is not None:
            self._check_rank(flatten(inputs)[0])
        args, training = spec.settle_training(args, kwargs)
        if not _training:
            self._begin_call()
        _training.append(training)
        open_scope(self._name)
        try:
            if not self.built:
                self._build_for(inputs)
            outputs = self.call(inputs, *args[1:], **kwargs)
            if self._activity_regularizer is not None:
                self._penalize(outputs)
            if self.supports_masking and (masks is not None or self._computes_mask):
                self._hang_masks(inputs, outputs, masks)
            return outputs
        finally:
            close_scope()
            _training.pop()

    def _check_rank(self, tensor: Any) -> None:
        assert self._ndim is not None
        kind, rank = self._ndim
        if tensor.ndim < rank or (tensor.ndim > rank and kind == "ndim"):
            raise ValueError(
                f'Input 0 of layer "{self.name}" is incompatible with the layer: expected {kind}={rank}, '
                f"found ndim={tensor.ndim}. Full shape received: {tuple(tensor.shape)}"
            )

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Return the masks of the outputs for inputs and their masks: here the same, if masks are supported.

        Raises TypeError for a mask of a layer that supports none.
        """
        if not self.supports_masking:
            if any(one is not None for one in flatten(mask)):
                raise TypeError(
                    f"Layer {self.name} does not support masking, but was passed an input_mask: {mask}"
                )
            return None
        return mask

    def _hang_masks(self, inputs: Any, outputs: Any, masks: Any) -> None:
        """Hang on outputs the masks that they have for inputs with these masks."""
        if self._hangs_masks:
            return
        leaves = flatten(outputs)
        if all(mask_of(leaf) is not None for leaf in leaves):
            return
        found = self.compute_mask(inputs, masks)
        if found is not None:
            for leaf, mask in zip(leaves, flatten(found), strict=False):
                hang_mask(leaf, mask)

    def _penalize(self, outputs: Any) -> None:
        """Add what the regularizer says of outputs, for each example, to the losses of this call."""
        assert self._activity_regularizer is not None
        for output in flatten(outputs):
            self.add_loss(self._activity_regularizer(output) / float(len(output)))

    def _converted(self, inputs: Any) -> Any:
        """Return inputs as tensors, floats in the layer's dtype."""
        wanted = self._inputs_wanted or (1 if self._ndim is not None else None)
        if isinstance(inputs, TensorLike | np.ndarray | float | int | np.generic):
            return as_float(inputs, self._dtype)
        leaves = [inputs] if inputs is None else flatten(inputs)
        if wanted is not None and any(one is None or isinstance(one, str) for one in leaves):
            raise TypeError(f"Inputs to a layer should be tensors. Got {inputs!r} for layer {self.name!r}.")
        # The states of a recurrent layer are inputs of it, too, but no numbers.
        are_numbers = all(isinstance(one, int | float) for one in leaves)
        counts = (self._inputs_wanted is not None or are_numbers) and not isinstance(inputs, dict)
        if counts and wanted not in (None, len(leaves)):
            raise ValueError(
                f'Layer "{self.name}" expects {wanted} input(s), but it received {len(leaves)} input tensors.'
            )
        return map_structure(
            lambda one: one if one is None or isinstance(one, str) else as_float(one, self._dtype), inputs
        )

    def _build_for(self, inputs: Any) -> None:
        is_ours = type(self).__module__.startswith(_OURS) and type(self).build is not Layer.build
        if is_ours and inputs is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        if is_ours and isinstance(inputs, list) and any(isinstance(one, list) for one in inputs):
            raise TypeError(f"Dimension value must be integer or None, got the shapes of {inputs}")
        self.build(map_structure(_shape_of_any_batch, inputs))
        self._put("built", True)

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """Return the shape of the output for inputs of a shape."""
        inputs = KerasTensor.of_shape(tuple(input_shape), self._dtype)
        return self(inputs).shape

    def _calls_for(self, what: str) -> list[Call]:
        if not self._inbound:
            raise AttributeError(f"Layer {self.name} is not connected, no {what} to return.")
        return self._inbound

    @property
    def input(self) -> Any:
        return _inputs_of(self._calls_for("input")[0])

    @property
    def output(self) -> Any:
        return self._calls_for("output")[0].outputs

    def _shape_of_all(self, what: str, part: Callable[[Call], Any]) -> Any:
        shapes = [shapes_of(part(call)) for call in self._calls_for(what)]
        if any(shape != shapes[0] for shape in shapes):
            raise AttributeError(
                f'The layer "{self.name}" has multiple inbound nodes, with different {what}s. Hence the '
                f'notion of "{what}" is ill-defined for the layer.'
            )
        return shapes[0]

    @property
    def input_shape(self) -> Any:
        return self._shape_of_all("input shape", _inputs_of)

    @property
    def output_shape(self) -> Any:
        return self._shape_of_all("output shape", lambda call: call.outputs)

    def get_config(self) -> dict[str, Any]:
        """Return what makes a layer like this one; a layer of a program's own adds its options itself."""
        config: dict[str, Any] = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype}
        if self._batch_input_shape is not None:
            config["batch_input_shape"] = tuple(self._batch_input_shape)
        if type(self) is not Layer and type(self).__module__.startswith(_OURS):
            config |= config_of(self)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Return a layer with these options."""
        return cls(**config)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} object at {id(self):#x}>"

    __hash__ = object.__hash__


def _constructor(row: Arguments) -> Any:
    """Return the `__init__` of a class of the table: its arguments, and those of any layer."""

    def __init__(self: Layer, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        options, rest = row.bound(args, kwargs)
        own = {weight.option(what) for weight in self._row.weights for what in ("regularizer", "constraint")}
        rest |= {name: options[name] for name in {*own, "activity_regularizer"} & options.keys()}
        self._begin(**rest)
        self._take(options)

    __init__.__signature__ = row.signature  # type: ignore[attr-defined]
    return __init__


def copied(layer: Any, **changes: Any) -> Any:
    """Return a layer with the options of another one, except these; it has no weights yet."""
    changes = {"name": layer.name, "trainable": layer.trainable, "dtype": layer.dtype, **changes}
    if not type(layer).__module__.startswith(_OURS):
        return type(layer).from_config({**layer.get_config(), **changes})
    own = map_structure(lambda one: copied(one) if isinstance(one, Layer) else one, layer._options)
    return type(layer)(**{**own, **changes})


def _shape_of_any_batch(one: Any) -> Any:
    if one is None:
        return None
    return TensorShape((None, *one.shape[1:])) if one.ndim else one.shape


def _inputs_of(call: Call) -> Any:
    """Return the symbols that a call was made of: one by itself; what an input layer puts out."""
    symbols = call.inputs or [call.outputs]
    return symbols[0] if len(symbols) == 1 else symbols


def shapes_of(symbols: Any) -> Any:
    return map_structure(lambda one: tuple(one.shape), symbols)


_PARTS = (Layer, Container, Module)
_NESTS = (list, tuple, dict)


def _has_symbols(values: Any) -> bool:
    if values.__class__ is dict:
        values = values.values()
    for value in values:
        if isinstance(value, KerasTensor):
            return True
        if isinstance(value, _NESTS) and _has_symbols(value):
            return True
    return False


def iterate_layers(layer: Layer) -> Iterator[Layer]:
    """Yield a layer and all layers below it, depth first."""
    yield layer
    for below in _nearest(layer._sublayers()):
        yield from iterate_layers(below)


def _nearest(children: Iterable[Any]) -> list[Layer]:
    """Return the layers among children, and those in containers among them, but none that is in a layer."""
    found: list[Layer] = []
    for child in children:
        if isinstance(child, Layer):
            found.append(child)
        elif isinstance(child, Container):
            found += _nearest(child.layers)
    return found
