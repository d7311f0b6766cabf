"""Keras' layers as PyTorch has them: the names of their weights there, and their axes.

    Keras                              PyTorch
    conv/kernel (H, W, I, O)           conv.weight (O, I, H, W)         perm(3,2,0,1)
    bn/moving_mean                     bn.running_mean
    lstm/lstm_cell/kernel (I, 4*U)     lstm.weight_ih_l0 (4*U, I)       T

`LAYERS_IN_PYTORCH` has a row for each weight of a class, with operations spelled as in maps
(`formats.core.axes`); words in braces are numbers of the configuration. `rows_of` makes a row for each
variable of a model. Each row was run: `tests/interop/test_layouts.py` computes the outputs of both libraries.
`remarks_on` reports what the weights do not contain. torch/nn/modules (PyTorch 2.13); keras/src/layers (Keras
2.15, 3.15)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.axes import AxisOperations, parse_steps
from .layers import LAYERS, LayerRow
from .model import ModelError, Unit, Variable
from .torch_shapes import ONE_OR_MORE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..core.spec import TensorSpec


class TorchRow(NamedTuple):
    """A weight of a layer or of a part of it, its name in PyTorch, the shape there, and what is done to it.

    `takes` spells the shape in words, one for each dimension, see `torch_shapes`.
    """

    weight: str
    name: str
    takes: str
    steps: str = ""


class LayoutRow(NamedTuple):
    """A variable of a model by its name there, a tensor of PyTorch, and how one is made of the other."""

    old: str
    new: str
    steps: AxisOperations
    variable: Variable
    layer: str
    """The layer's path in PyTorch, and for people its class in Keras."""

    class_name: str
    takes: str


class Filler(NamedTuple):
    """A tensor that PyTorch's layer has and Keras' does not: one value, and the tensor whose shape it has.

    `like` is None for a scalar, whose dtype is int64.
    """

    name: str
    value: float
    like: str | None = None


_BIAS = TorchRow("bias", "bias", "O")


def _kernel(takes: str, steps: str) -> tuple[TorchRow, ...]:
    return TorchRow("kernel", "weight", takes, steps), _BIAS


def _scale_and_shift(takes: str) -> tuple[TorchRow, ...]:
    return TorchRow("gamma", "weight", takes), TorchRow("beta", "bias", takes)


def _depthwise(takes: str, order: str, name: str = "weight") -> TorchRow:
    merged = "reshape(*,{depth_multiplier},{kernel_size} -> *,1,{kernel_size})"
    return TorchRow("depthwise_kernel", name, takes, f"perm({order}) {merged}")


def _separable(kernel: str, ones: str, depthwise: str, pointwise: str) -> tuple[TorchRow, ...]:
    return (
        _depthwise(f"D 1 {kernel}", depthwise, "depthwise.weight"),
        TorchRow("pointwise_kernel", "pointwise.weight", f"O D {ones}", f"perm({pointwise})"),
        TorchRow("bias", "pointwise.bias", "O"),
    )


def _gates(gates: int, order: str = "") -> tuple[TorchRow, ...]:
    return (
        TorchRow("cell/kernel", "weight_ih_l0", f"{gates}*H I", f"{order} T"),
        TorchRow("cell/recurrent_kernel", "weight_hh_l0", f"{gates}*H H", f"{order} T"),
    )


def _biases(gates: int, steps: str) -> tuple[TorchRow, ...]:
    return tuple(TorchRow("cell/bias", f"bias_{kind}_l0", f"{gates}*H", steps) for kind in ("ih", "hh"))


_HEADS = "reshape({heads*size},{heads},{size} -> {heads*size},{heads*size}) T concat(0)"
_HEADS_BIAS = "reshape({heads},{size} -> {heads*size}) concat(0)"
_HEADS_OUT = "reshape({heads},{size},{heads*size} -> {heads*size},{heads*size}) T"
_PROJECTIONS = ("query", "key", "value")

LAYERS_IN_PYTORCH: dict[str, tuple[TorchRow, ...]] = {
    "BatchNormalization": (
        *_scale_and_shift("C"),
        TorchRow("moving_mean", "running_mean", "C"),
        TorchRow("moving_variance", "running_var", "C"),
    ),
    "Conv1D": _kernel("O I K", "perm(2,1,0)"),
    "Conv1DTranspose": _kernel("I O K", "perm(2,1,0)"),
    "Conv2D": _kernel("O I K L", "perm(3,2,0,1)"),
    "Conv2DTranspose": _kernel("I O K L", "perm(3,2,0,1)"),
    "Conv3D": _kernel("O I K L M", "perm(4,3,0,1,2)"),
    "Conv3DTranspose": _kernel("I O K L M", "perm(4,3,0,1,2)"),
    "Dense": _kernel("O I", "T"),
    "DepthwiseConv1D": (_depthwise("O 1 K", "1,2,0"), _BIAS),
    "DepthwiseConv2D": (_depthwise("O 1 K L", "2,3,0,1"), _BIAS),
    "Embedding": (TorchRow("embeddings", "weight", "N D"),),
    "GRU": (*_gates(3, "gates(1,0,2)"), *_biases(3, "unstack(0) gates(1,0,2)")),
    "GroupNormalization": _scale_and_shift("C"),
    "LSTM": (*_gates(4), *_biases(4, "addends(2)")),
    "LayerNormalization": _scale_and_shift("N..."),
    "MultiHeadAttention": (
        *(TorchRow(f"{part}/kernel", "in_proj_weight", "3*E E", _HEADS) for part in _PROJECTIONS),
        *(TorchRow(f"{part}/bias", "in_proj_bias", "3*E", _HEADS_BIAS) for part in _PROJECTIONS),
        TorchRow("attention_output/kernel", "out_proj.weight", "E E", _HEADS_OUT),
        TorchRow("attention_output/bias", "out_proj.bias", "E"),
    ),
    "PReLU": (TorchRow("alpha", "weight", "C", "{shared}"),),
    "SeparableConv1D": _separable("K", "1", "1,2,0", "2,1,0"),
    "SeparableConv2D": _separable("K L", "1 1", "2,3,0,1", "3,2,0,1"),
    "SimpleRNN": (*_gates(1), *_biases(1, "addends(2)")),
}

_NORMALIZING = [name for name, rows in LAYERS_IN_PYTORCH.items() if rows[0].weight == "gamma"]
_WITH_BIAS = {name for name, rows in LAYERS_IN_PYTORCH.items() if any("bias" in row.weight for row in rows)}
_ONES_AND_ZEROS = {"weight": 1.0, "bias": 0.0}
COUNT = "num_batches_tracked"
_REVERSE = "_reverse"


# A model's rows -----------------------------------------------------------------------


def model_names(model: Unit) -> dict[str, Variable]:
    """Return the variables of a model by names that do not depend on a format: `<layer>/<part>/<variable>`.

    For a model known only from an object graph they are object paths. Raises ModelError if two layers of
    nested models have the same name.
    """
    names: dict[str, Variable] = {}
    for name, variable in _named(model, ""):
        if names.setdefault(name, variable) is not variable:
            raise ModelError(f"two of its variables are named {name!r}")
    return names


def _named(unit: Unit, prefix: str) -> Iterator[tuple[str, Variable]]:
    above = f"{prefix}/" if prefix else ""
    for variable in unit.variables():
        yield variable.path or f"{above}{variable.name}", variable
    for child in unit.children():
        has_own_name = not (child.is_model or child.is_container)
        yield from _named(child, f"{above}{child.name}" if has_own_name else prefix)


def rows_of(model: Unit, specs: Mapping[str, TensorSpec] = {}) -> tuple[list[LayoutRow], list[Filler]]:
    """Return the rows of a model's variables, and PyTorch's additional tensors.

    `specs` are those of the tensors whose keys its variables have, where they are known.
    Raises ModelError, which names a variable, for a layer that PyTorch has not, or not with
    these options, or whose class is not known here.
    """
    names = {id(variable): name for name, variable in model_names(model).items()}
    rows: list[LayoutRow] = []
    fillers: list[Filler] = []
    for unit, path, suffix in _layers_of(model, ""):
        mine = list(_rows(unit, path, suffix, names, specs))
        held = {id(row.variable) for row in mine}
        for variable in unit.all_variables():
            if id(variable) not in held:
                raise ModelError(f"{names[id(variable)]!r}: {_lack(unit)}")
        rows += mine
        fillers += _fillers(unit, path, {row.new for row in mine})
    return rows, fillers


def _layers_of(unit: Unit, path: str) -> Iterator[tuple[Unit, str, str]]:
    """Yield the layers that have variables, their paths in PyTorch, and what their weights' names end in."""
    for layer in unit.layers:
        at = f"{path}.{layer.name}" if path else layer.name
        if layer.is_model:
            yield from _layers_of(layer, at)
            continue
        for inner, suffix in _unwrapped(layer):
            if inner.has_weights():
                yield inner, at, suffix
    if unit.variables():
        raise ModelError(
            f"{unit.variables()[0].name!r}: this weight belongs to the model itself, not to a layer"
        )


LOOPS = frozenset(("RNN", "StackedRNNCells"))
"""Wrappers that loop over cells.  PyTorch's layers have their loop inside, so these are not unwrapped."""


def _unwrapped(layer: Unit, suffix: str = "") -> Iterator[tuple[Unit, str]]:
    has_row = layer.class_name in LAYERS and layer.class_name not in LOOPS
    wraps = LAYERS[layer.class_name].wraps if has_row else ()
    if not wraps:
        yield layer, suffix
    for wrap in wraps:
        inner = next(target for name, target, _ in layer.edges if name == wrap.edge)
        assert isinstance(inner, Unit)
        yield from _unwrapped(inner, suffix + (_REVERSE if wrap.edge == "backward_layer" else ""))


def _rows(
    unit: Unit, path: str, suffix: str, names: Mapping[int, str], specs: Mapping[str, TensorSpec]
) -> Iterator[LayoutRow]:
    _refuse_options(unit, names)
    for row in LAYERS_IN_PYTORCH.get(unit.class_name, ()):
        variable = _variable(unit, row.weight)
        if variable is None:
            continue
        old = names[id(variable)]
        takes, spelled = row.takes, row.steps
        if "{shared}" in spelled:
            takes, spelled = _of_shared_axes(unit, specs.get(variable.key or ""))
        try:
            steps = parse_steps(filled_in(spelled, unit.config))
        except (KeyError, ValueError) as error:
            raise ModelError(f"{old!r}: its configuration does not say {error}") from error
        new = f"{path}.{row.name}{suffix}"
        yield LayoutRow(old, new, steps, variable, path, unit.class_name, takes)


def _of_shared_axes(unit: Unit, spec: TensorSpec | None) -> tuple[str, str]:
    """Return what PyTorch takes for alphas that are shared along the first axes, and how they become that.

    Shared along all axes they are one number, along all but the last one for each channel.
    """
    built = unit.layer.input_shape if unit.layer is not None else None
    ones = len(unit.config.get("shared_axes") or ())
    rank = spec.rank if spec is not None else len(built) - 1 if built else None
    if rank == ones:
        return "1", f"reshape({','.join('1' * ones)} -> 1)"
    channels = built[-1] if built else None
    takes = str(channels) if channels else ONE_OR_MORE if ones and rank is None else "C"
    return takes, f"reshape({'1,' * ones}* -> *)" if ones else ""


def _variable(unit: Unit, path: str) -> Variable | None:
    """Return a variable of a layer by its name, or a part's and its own; None if there is none."""
    part, _, name = path.rpartition("/")
    if part:
        parts = (target for edge, target in unit.parts() if part in (edge.name, target.name))
        unit = next(parts, Unit())
    return next((variable for variable in unit.variables() if variable.name == name), None)


def filled_in(steps: str, config: Mapping[str, Any]) -> str:
    """Return operations with the numbers of a layer's configuration in them; KeyError if it has none."""
    words: dict[str, str] = {}
    for word in ("depth_multiplier", "kernel_size"):
        if f"{{{word}}}" in steps:
            words[word] = _number(config, word)
    if "{shared}" in steps:
        words["shared"] = ""
    if "{heads" in steps:
        heads, size = int(_number(config, "num_heads")), int(_number(config, "key_dim"))
        words |= {"heads": str(heads), "size": str(size), "heads*size": str(heads * size)}
    for word, number in words.items():
        steps = steps.replace(f"{{{word}}}", number)
    return steps


def _number(config: Mapping[str, Any], word: str) -> str:
    value = config.get(word)
    numbers = list(value) if isinstance(value, list | tuple) else [value]
    if not numbers or any(type(number) is not int or number < 1 for number in numbers):
        raise KeyError(word)
    return ",".join(map(str, numbers))


def _refuse_options(unit: Unit, names: Mapping[int, str]) -> None:
    """Reject a layer that PyTorch computes differently for all weights, and a class that is not
    Keras'.
    """
    first = next((names[id(variable)] for variable in unit.all_variables()), unit.name)
    row = LAYERS.get(unit.class_name, LayerRow())
    option = row.otherwise(dict(unit.config).get)
    if option is not None:
        raise ModelError(f"{first!r}: PyTorch has no {unit.class_name} with {option}={unit.config[option]!r}")
    if unit.class_name in _WITH_BIAS and not unit.config.keys() & {"use_bias", "bias"}:  # Keras 1 says bias
        message = f"its configuration has no use_bias, so it is not Keras' own {unit.class_name}"
        raise ModelError(f"{first!r}: {message}")
    axes = unit.config.get("shared_axes") or []
    if unit.class_name == "PReLU" and not (isinstance(axes, list) and axes == [*range(1, len(axes) + 1)]):
        message = "PyTorch supports only one alpha, or one per channel (Keras' last axis)"
        raise ModelError(f"{first!r}: PReLU with shared_axes={axes}: {message}")
    if unit.class_name == "GRU" and not unit.config.get("reset_after", False):
        raise ModelError(f"{first!r}: PyTorch has no GRU with reset_after=False")


def _lack(unit: Unit) -> str:
    if unit.class_name in LAYERS_IN_PYTORCH:
        return f"PyTorch's counterpart of {unit.class_name} has no such weight"
    what = f"class {unit.class_name!r}" if unit.class_name else "an unknown class"
    return f"layer {unit.name!r} has {what}, which has no known layout in PyTorch"


def _fillers(unit: Unit, path: str, made: set[str]) -> Iterator[Filler]:
    """Yield the additional tensors of PyTorch's normalizing layers."""
    if unit.class_name not in _NORMALIZING:
        return
    affine = [name for name in _ONES_AND_ZEROS if f"{path}.{name}" in made]
    if len(affine) == 1:
        (missing,) = set(_ONES_AND_ZEROS) - set(affine)
        yield Filler(f"{path}.{missing}", _ONES_AND_ZEROS[missing], f"{path}.{affine[0]}")
    if unit.class_name == "BatchNormalization":
        yield Filler(f"{path}.{COUNT}", 0)


# What weights do not say --------------------------------------------------------------

_TORCH_EPSILON = 1e-5
_RECURRENT = {"LSTM": "tanh", "GRU": "tanh", "SimpleRNN": "tanh"}


def remarks_on(model: Unit, *, back: bool = False, configured: bool = True) -> list[str]:
    """Return what a program in PyTorch must set besides the weights, as far as a configuration shows it.

    With `back`, return what it must have set. If a model is not `configured`, the weights alone decide.
    """
    found: dict[str, list[str]] = {}
    for unit in _all_layers(model):
        shown = _remarks(unit) if configured else ()
        for remark in (*shown, *(_taken_together(unit) if back else _made_up(unit))):
            found.setdefault(remark, []).append(unit.name)
    return [f"{_some(names)}: {remark}" for remark, names in found.items()]


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _all_layers(unit: Unit) -> Iterator[Unit]:
    for layer in unit.layers:
        yield from _all_layers(layer)
        if not layer.is_model:
            yield layer
            yield from (inner for inner, _ in _unwrapped(layer) if inner is not layer)


def _remarks(unit: Unit) -> Iterator[str]:
    config, name = unit.config, unit.class_name
    if name in _NORMALIZING:
        epsilon = config.get("epsilon", 1e-3)
        if epsilon != _TORCH_EPSILON:
            yield (
                f"epsilon is {epsilon}, but PyTorch's default is "
                f"{_TORCH_EPSILON}; create the module with eps={epsilon}"
            )
    yield from _axes(unit)
    yield from _padding(unit)
    if name == "Masking" or config.get("mask_zero"):
        yield "masks time steps; PyTorch has no masking, so later layers use all steps"
    if name in _RECURRENT and config.get("activation", "tanh") != "tanh":
        yield f"activation is {config.get('activation')!r}; PyTorch's {name} uses tanh"
    if name in ("LSTM", "GRU") and config.get("recurrent_activation", "sigmoid") != "sigmoid":
        yield f"recurrent activation is {config.get('recurrent_activation')!r}; PyTorch's {name} uses sigmoid"
    if name in _RECURRENT and config.get("go_backwards") and not unit.name.startswith("backward_"):
        yield "runs backwards; reverse the input before the layer"
    if name == "Bidirectional" and config.get("merge_mode", "concat") != "concat":
        yield f"merges by {config.get('merge_mode')!r}; PyTorch concatenates"


def _axes(unit: Unit) -> Iterator[str]:
    config, name = unit.config, unit.class_name
    if name == "LayerNormalization" and not _normalizes_last(unit):
        axis = config.get("axis")
        yield f"normalizes axis {axis}; PyTorch normalizes the last axes, so move it there first"
    if name == "PReLU" and config.get("shared_axes"):
        yield "PyTorch's PReLU expects the channels in axis 1; move them there before the layer"
    if name == "Flatten" and config.get("data_format") != "channels_first":
        yield "this layer expects the channels last; in PyTorch, call x.permute(0, 2, 3, 1) before it"


def _made_up(unit: Unit) -> Iterator[str]:
    if unit.class_name == "BatchNormalization":
        yield f"{COUNT} is set to 0, because TensorFlow does not store it"
    if _has_sum(unit):
        yield "PyTorch adds two biases; bias_hh_l0 is set to 0"


def _taken_together(unit: Unit) -> Iterator[str]:
    if _has_sum(unit):
        yield "the bias is the sum of PyTorch's two biases"


def _has_sum(unit: Unit) -> bool:
    return unit.class_name in ("LSTM", "SimpleRNN") and bool(unit.config.get("use_bias", True))


def _normalizes_last(unit: Unit) -> bool:
    """Whether axes are the last ones of the input; also where nothing says how many it has."""
    axis = unit.config.get("axis", -1)
    axes = axis if isinstance(axis, list) else [axis]
    shape = unit.layer.input_shape if unit.layer is not None else None
    if shape is None and any(type(each) is int and each >= 0 for each in axes):
        return True
    places = {each % len(shape) - len(shape) if shape else each for each in axes if type(each) is int}
    return places == set(range(-len(axes), 0))


def _padding(unit: Unit) -> Iterator[str]:
    config, name = unit.config, unit.class_name
    if config.get("padding") == "causal":
        yield 'padding "causal" pads only at the start; pad before the layer, and use padding=0'
    if config.get("padding") != "same":
        return
    is_uneven = _pads_unevenly(config)
    if name.startswith("AveragePooling"):
        yield 'padding "same" is left out of the average; use count_include_pad=False' + (
            _AND_DIVIDE if is_uneven else ""
        )
    elif is_uneven:
        kind = next((kind for kind in _UNEVEN if kind in name), "")
        yield f'padding "same" {_UNEVEN[kind]}, and use padding=0'


_UNEVEN = {
    "MaxPooling": "pads more at the end than at the start; pad with -inf before the layer",
    "Transpose": "crops more at the end than at the start; crop after the layer",
    "": "pads more at the end than at the start; pad before the layer",
}
_AND_DIVIDE = "; for uneven padding, pad with zeros, then divide by the average of an equally padded mask"


def _pads_unevenly(config: Mapping[str, Any]) -> bool:
    """Whether a layer may pad one side more: with strides, which depends on the input, or an even window."""
    window = config.get("kernel_size", config.get("pool_size", 1))
    sizes = window if isinstance(window, list | tuple) else [window]
    strides = config.get("strides") or (window if "pool_size" in config else 1)
    steps = strides if isinstance(strides, list | tuple) else [strides]
    numbers = [number for number in (*sizes, *steps) if isinstance(number, int)]
    return any(step != 1 for step in steps) or any(number % 2 == 0 for number in numbers[: len(sizes)])
