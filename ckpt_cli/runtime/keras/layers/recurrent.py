"""Recurrent layers: a cell, and the loop over time around it.

    LSTM gates lie in its kernels in the order i f c o, GRU's in the order z r h.
    GRU with `reset_after` (Keras 2's own) has two rows of biases, for input and state.

The loop is made of ordinary operations, so gradients need nothing more.

At a masked time step, states stay unchanged, and the output is the previous one, or zeros with
`zero_output_for_mask`; before the first step it is zeros. keras/src/backend.py: rnn
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formats.keras.layers import LAYERS

from ...names import name_scope, to_snake_case
from ...nest import flatten
from ...ops.elementwise import where
from ...tensor import OPERATIONS, Tensor, TensorShape
from ...unknown import refuse
from .. import activations, initializers
from ..base_layer import Layer
from ..masks import as_mask
from ..symbolic import KerasTensor

if TYPE_CHECKING:
    from ...variable import Variable

__all__ = [
    "GRU", "LSTM", "RNN", "Bidirectional", "GRUCell", "LSTMCell", "SimpleRNN", "SimpleRNNCell",
    "StackedRNNCells", "TimeDistributed",
]  # fmt: skip

_op = OPERATIONS


class _Cell(Layer):
    """Base of the cells."""

    _refused = ("dropout", "recurrent_dropout")
    _initializers: tuple[Any, Any, Any]
    kernel: Variable
    recurrent_kernel: Variable
    bias: Variable | None

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units, self.use_bias = units, use_bias
        self.activation = activations.get(activation)
        self.recurrent_activation = activations.get(recurrent_activation)
        self._put("_initializers", (kernel_initializer, recurrent_initializer, bias_initializer))
        self.state_size: Any = units

    def _bias_values(self) -> Any:
        return initializers.get(self._initializers[2])

    def build(self, input_shape: Any) -> None:
        kernel, recurrent, _ = self._initializers
        initial = {"kernel": kernel, "recurrent_kernel": recurrent, "bias": self._bias_values()}
        self._put("_initial", initial)
        self._make_weights(INPUT=input_shape[-1])

    def first_states(self, like: Tensor) -> list[Tensor]:
        """Return zeros for each state, a row for each example of `like`."""
        count = len(self.state_size) if isinstance(self.state_size, list) else 1
        column = _op["zeros_like"](like[:, :1])
        return [_op["tile"](column, multiples=(1, self.units)) for _ in range(count)]


class SimpleRNNCell(_Cell):
    _row = LAYERS["SimpleRNNCell"]

    def call(self, inputs: Tensor, states: list[Tensor], training: Any = None) -> tuple[Tensor, list[Tensor]]:
        out = _op["matmul"](inputs, self.kernel)
        if self.bias is not None:
            out = out + self.bias
        out = self.activation(out + _op["matmul"](states[0], self.recurrent_kernel))
        return out, [out]


class LSTMCell(_Cell):
    _row = LAYERS["LSTMCell"]

    def __init__(self, units: int, *args: Any, unit_forget_bias: bool = True, **kwargs: Any) -> None:
        super().__init__(units, *args, **kwargs)
        self.unit_forget_bias = unit_forget_bias
        self.state_size = [units, units]

    def _bias_values(self) -> Any:
        plain = initializers.get(self._initializers[2])
        if not self.unit_forget_bias:
            return plain

        def with_open_forget_gate(shape: Any, dtype: Any = None) -> Tensor:
            first, last = (plain((shape[0] * parts // 4,), dtype=dtype)._value for parts in (1, 2))
            return Tensor(np.concatenate([first, np.ones_like(first), last]))

        return with_open_forget_gate

    def call(self, inputs: Tensor, states: list[Tensor], training: Any = None) -> tuple[Tensor, list[Tensor]]:
        hidden, carry = states
        z = _op["matmul"](inputs, self.kernel) + _op["matmul"](hidden, self.recurrent_kernel)
        if self.bias is not None:
            z = z + self.bias
        to_input, to_forget, new, to_output = _op["split"](z, sizes=(self.units,) * 4, axis=1)
        gate = self.recurrent_activation
        carry = gate(to_forget) * carry + gate(to_input) * self.activation(new)
        hidden = gate(to_output) * self.activation(carry)
        return hidden, [hidden, carry]


class GRUCell(_Cell):
    _row = LAYERS["GRUCell"]

    def __init__(self, units: int, *args: Any, reset_after: bool = True, **kwargs: Any) -> None:
        super().__init__(units, *args, **kwargs)
        self.reset_after = reset_after

    def call(self, inputs: Tensor, states: list[Tensor], training: Any = None) -> tuple[Tensor, list[Tensor]]:
        hidden, units = states[0], self.units
        gate = self.recurrent_activation
        x = _op["matmul"](inputs, self.kernel)
        if self.bias is not None:
            x = x + (self.bias[0] if self.reset_after else self.bias)
        x_z, x_r, x_h = _op["split"](x, sizes=(units,) * 3, axis=1)
        if self.reset_after:
            inner = _op["matmul"](hidden, self.recurrent_kernel)
            if self.bias is not None:
                inner = inner + self.bias[1]
            h_z, h_r, h_h = _op["split"](inner, sizes=(units,) * 3, axis=1)
            z, r = gate(x_z + h_z), gate(x_r + h_r)
            new = self.activation(x_h + r * h_h)
        else:
            h_z, h_r = _op["split"](
                _op["matmul"](hidden, self.recurrent_kernel[:, : 2 * units]), sizes=(units,) * 2, axis=1
            )
            z, r = gate(x_z + h_z), gate(x_r + h_r)
            new = self.activation(x_h + _op["matmul"](r * hidden, self.recurrent_kernel[:, 2 * units :]))
        out = z * hidden + (1 - z) * new
        return out, [out]


class StackedRNNCells(Layer):
    """Cells one upon the other, each fed with what the one below puts out; their states in a row."""

    cells: Any

    def __init__(self, cells: Any, **kwargs: Any) -> None:
        refuse("StackedRNNCells", reverse_state_order=kwargs.pop("reverse_state_order", None))
        super().__init__(**kwargs)
        self.cells = list(cells)

    @property
    def state_size(self) -> tuple[Any, ...]:
        return tuple(cell.state_size for cell in self.cells)

    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        for cell in self.cells:
            with name_scope(cell.name):
                cell.build((None, width))
            cell.built = True
            width = cell.units
        self.built = True

    def first_states(self, like: Tensor) -> list[Tensor]:
        """Return zeros for each state of each cell."""
        return [state for cell in self.cells for state in cell.first_states(like)]

    def call(self, inputs: Tensor, states: list[Tensor], training: Any = None) -> tuple[Tensor, list[Tensor]]:
        out, left = inputs, list(states)
        moved: list[Tensor] = []
        for cell in self.cells:
            count = len(cell.state_size) if isinstance(cell.state_size, list) else 1
            out, after = cell.call(out, left[:count], training=training)
            left, moved = left[count:], moved + list(after)
        return out, moved


class RNN(Layer):
    """A cell run over time: inputs [batch, time, features], mask [batch, time]."""

    _passes_masks = True
    _ndim = ("ndim", 3)
    _refused = ("time_major", "dropout", "recurrent_dropout")

    def __init__(
        self,
        cell: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        **kwargs: Any,
    ) -> None:
        if stateful:
            raise NotImplementedError("stateful=True is not supported")
        kwargs.pop("unroll", None)  # The loop is unrolled anyway.
        zero_output_for_mask = bool(kwargs.pop("zero_output_for_mask", False))
        if kwargs.pop("implementation", 2) != 2:
            raise NotImplementedError(f"{type(self).__name__}: argument implementation=1 is not supported")
        super().__init__(**kwargs)
        if not isinstance(cell, list | tuple) and not hasattr(cell, "call"):
            raise ValueError(f"Argument `cell` should have a `call` method. The RNN was passed: cell={cell}")
        self.cell = StackedRNNCells(cell) if isinstance(cell, list | tuple) else cell
        self.return_sequences, self.return_state, self.go_backwards = (
            return_sequences,
            return_state,
            go_backwards,
        )
        self.zero_output_for_mask = zero_output_for_mask
        self.state_spec: Any = []

    def __call__(self, inputs: Any, initial_state: Any = None, **kwargs: Any) -> Any:
        return super().__call__(*_with_states(inputs, initial_state, kwargs), **kwargs)

    def build(self, input_shape: Any) -> None:
        if not self.cell.built:
            with name_scope(self.cell.name):
                self.cell.build((None, _first(input_shape)[-1]))
        self.built = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        first = flatten(mask)[0] if self.return_sequences else None
        return [first, *[None] * _count(self.cell.state_size)] if self.return_state else first

    def call(self, inputs: Any, mask: Any = None, training: Any = None, initial_state: Any = None) -> Any:
        inputs, initial_state = _apart(inputs, initial_state)
        times, there = list(_op["unstack"](inputs, axis=1)), _steps(flatten(mask)[0], inputs.shape[1])
        if self.go_backwards:
            times.reverse()
            there.reverse()
        states = list(initial_state) if initial_state is not None else self.cell.first_states(times[0])
        outputs: list[Tensor] = []
        for x, is_there in zip(times, there, strict=True):
            out, after = self.cell.call(x, states, training=training)
            if is_there is not None:
                is_first = self.zero_output_for_mask or not outputs
                out = where(is_there, out, _op["zeros_like"](out) if is_first else outputs[-1])
                after = [where(is_there, *pair) for pair in zip(after, states, strict=True)]
            states = after
            outputs.append(out)
        result = _op["stack"](*outputs, axis=1) if self.return_sequences else outputs[-1]
        if self.return_state and isinstance(self.cell, StackedRNNCells):
            raise NotImplementedError("return_state=True of stacked cells is not supported")
        return [result, *states] if self.return_state else result


def _first(shapes: Any) -> Any:
    """Return the shape of the input, where the shapes of states come behind it."""
    return shapes[0] if isinstance(shapes, list) else shapes


def _count(state_size: Any) -> int:
    return len(flatten(state_size))


def _steps(mask: Any, length: int) -> list[Any]:
    """Return which examples have each of so many times, [batch, 1]; None, of each, without a mask."""
    if mask is None:
        return [None] * length
    mask = as_mask(mask)
    return list(_op["unstack"](_op["expand_dims"](mask, axis=-1) if mask.ndim == 2 else mask, axis=1))


def _with_states(inputs: Any, initial_state: Any, kwargs: dict[str, Any]) -> tuple[Any]:
    """Return the argument of a call: symbolic states are inputs, others a keyword argument."""
    states = (
        initial_state if initial_state is None or isinstance(initial_state, list | tuple) else [initial_state]
    )
    if states and isinstance(states[0], KerasTensor):
        return ([inputs, *states],)
    if states is not None:
        kwargs["initial_state"] = states
    return (inputs,)


def _apart(inputs: Any, initial_state: Any) -> tuple[Any, Any]:
    """Return the input and the states that came with it."""
    if not isinstance(inputs, list):
        return inputs, initial_state
    return inputs[0], inputs[1:] or None


def _cell_of(cell: type[_Cell], units: int, options: dict[str, Any]) -> _Cell:
    """Return the cell of a layer, with those of the layer's options that are its own."""
    own = {option: options.pop(option) for option in _CELL_OPTIONS if option in options}
    dtype = options.get("dtype")
    return cell(units, name=to_snake_case(cell.__name__), dtype=dtype, **own)


_CELL_OPTIONS = (
    "activation", "recurrent_activation", "use_bias", "kernel_initializer", "recurrent_initializer",
    "bias_initializer", "unit_forget_bias", "reset_after",
    *(row.option(what) for row in LAYERS["LSTMCell"].weights for what in ("regularizer", "constraint")),
)  # fmt: skip


class SimpleRNN(RNN):
    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(_cell_of(SimpleRNNCell, units, kwargs), **kwargs)


class LSTM(RNN):
    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(_cell_of(LSTMCell, units, kwargs), **kwargs)


class GRU(RNN):
    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(_cell_of(GRUCell, units, kwargs), **kwargs)


class Bidirectional(Layer):
    """A recurrent layer forward, a copy of it backward, and both outputs joined."""

    # The layer that both were copied from is not a node of the graph, but has a place in weight files.
    _also_walked = ("layer",)
    _passes_masks = True
    _ndim = ("ndim", 3)

    def __init__(self, layer: RNN, merge_mode: str | None = "concat", **kwargs: Any) -> None:
        if kwargs.pop("backward_layer", None) is not None:
            raise NotImplementedError("Bidirectional: argument backward_layer is not supported")
        if not hasattr(layer, "go_backwards"):
            raise KeyError("go_backwards")  # Keras looks it up in the layer's configuration
        super().__init__(**{"trainable": layer.trainable, **kwargs})
        if merge_mode not in ("sum", "mul", "ave", "concat", None):
            raise ValueError(
                f"Invalid merge mode. Received: {merge_mode}. Merge mode should be one of "
                f"{{'sum', 'mul', 'ave', 'concat', None}}"
            )
        self.merge_mode = merge_mode
        self._put("layer", layer)
        self.forward_layer = _renamed(layer, f"forward_{layer.name}", layer.go_backwards)
        self.backward_layer = _renamed(layer, f"backward_{layer.name}", not layer.go_backwards)

    def __call__(self, inputs: Any, initial_state: Any = None, **kwargs: Any) -> Any:
        return super().__call__(*_with_states(inputs, initial_state, kwargs), **kwargs)

    def build(self, input_shape: Any) -> None:
        for layer in (self.forward_layer, self.backward_layer):
            with name_scope(layer.name):
                layer.build(_first(input_shape))
        self.built = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        first = _first(mask) if self.forward_layer.return_sequences else None
        masks = [first] if self.merge_mode else [first, first]
        if self.forward_layer.return_state:
            masks += [None] * 2 * _count(self.forward_layer.cell.state_size)
        return masks[0] if len(masks) == 1 else masks

    def call(self, inputs: Any, training: Any = None, mask: Any = None, initial_state: Any = None) -> Any:
        inputs, initial_state = _apart(inputs, initial_state)
        half = len(initial_state) // 2 if initial_state is not None else 0
        halves = (initial_state[:half], initial_state[half:]) if initial_state is not None else (None, None)
        forward, backward = (
            layer(inputs, initial_state=states, training=training, mask=mask)
            for layer, states in zip((self.forward_layer, self.backward_layer), halves, strict=True)
        )
        states = []
        if self.forward_layer.return_state:
            states = [*forward[1:], *backward[1:]]
            forward, backward = forward[0], backward[0]
        if self.forward_layer.return_sequences:
            backward = _op["reverse"](backward, axis=1)
        joined = self._joined_outputs(forward, backward)
        return [*(joined if isinstance(joined, list) else [joined]), *states] if states else joined

    def _joined_outputs(self, forward: Tensor, backward: Tensor) -> Any:
        if self.merge_mode == "concat":
            return _op["concat"](forward, backward, axis=-1)
        if self.merge_mode is None:
            return [forward, backward]
        joined = forward * backward if self.merge_mode == "mul" else forward + backward
        return joined / 2 if self.merge_mode == "ave" else joined


class TimeDistributed(Layer):
    """A layer run at each time of [batch, time, ...] by itself; all of them are one batch to it."""

    layer: Any
    _passes_masks = True

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        # Keras runs a program's own layers once for each time, which a batch of all may differ from.
        if not isinstance(layer, Layer) or not type(layer).__module__.startswith(_OURS):
            raise NotImplementedError(
                f"TimeDistributed: layer={layer!r} is not supported, only Keras' own layers"
            )
        super().__init__(**kwargs)
        self.layer = layer

    def build(self, input_shape: Any) -> None:
        if len(input_shape) < 3:
            raise ValueError(
                f"`TimeDistributed` Layer should be passed an `input_shape ` with at least 3 dimensions, "
                f"received: {input_shape}"
            )
        if not self.layer.built:
            self.layer.build(TensorShape((input_shape[0], *input_shape[2:])))
            self.layer.built = True
        self.built = True

    def call(self, inputs: Tensor, training: Any = None, mask: Any = None) -> Tensor:
        shape, spec = list(inputs.shape), self.layer._call_spec()
        told: dict[str, Any] = {"training": training} if spec.takes_training else {}
        if mask is not None and spec.takes_mask:
            told["mask"] = _times_as_batch(mask)
        out = self.layer(_times_as_batch(inputs), **told)
        if not isinstance(out, Tensor):
            raise NotImplementedError(f"{self.name}: a layer of several outputs is not supported")
        return _op["reshape"](out, shape=(-1, shape[1], *out.shape[1:]))

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        within = self.layer.compute_mask(
            _times_as_batch(inputs), None if mask is None else _times_as_batch(mask)
        )
        if within is not None:
            return _op["reshape"](within, shape=(-1, inputs.shape[1], *within.shape[1:]))
        return (
            mask
            if mask is None or mask.ndim < 3
            else _op["reduce_any"](mask, axis=tuple(range(2, mask.ndim)), keepdims=False)
        )


def _times_as_batch(x: Tensor) -> Tensor:
    return _op["reshape"](x, shape=(-1, *x.shape[2:]))


_OURS = __name__.rpartition(".")[0] + "."


def _renamed(layer: RNN, name: str, go_backwards: bool) -> RNN:
    """Return a layer like this one, with a cell of its own and no weights yet."""
    cell: Any = layer.cell
    if isinstance(cell, StackedRNNCells):
        raise NotImplementedError(f"{layer.name}: stacked cells run backward are not supported")
    options = {
        "activation": cell.activation,
        "recurrent_activation": cell.recurrent_activation,
        "use_bias": cell.use_bias,
    }
    for option in ("unit_forget_bias", "reset_after"):
        if hasattr(cell, option):
            options[option] = getattr(cell, option)
    kernel, recurrent, bias = cell._initializers
    options |= {"kernel_initializer": kernel, "recurrent_initializer": recurrent, "bias_initializer": bias}
    for row in type(cell)._row.weights:
        options[row.option("regularizer")] = cell._regularizers[row.name]
        options[row.option("constraint")] = cell._constraints[row.name]
    fresh = type(cell)(cell.units, name=cell.name, trainable=cell.trainable, dtype=cell.dtype, **options)
    return RNN(
        fresh, layer.return_sequences, layer.return_state, go_backwards, name=name,
        trainable=layer.trainable, dtype=layer.dtype, activity_regularizer=layer._activity_regularizer,
        zero_output_for_mask=layer.return_sequences,
    )  # fmt: skip
