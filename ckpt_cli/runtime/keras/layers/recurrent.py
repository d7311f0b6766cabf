"""Recurrent layers: a cell, and the loop over time around it.

    LSTM gates lie in its kernels in the order i f c o, GRU's in the order z r h.
    GRU with `reset_after` (Keras 2's own) has two rows of biases, for input and state.

The loop is made of ordinary operations, so gradients need nothing more.

At a masked time step, states stay unchanged, and the output is the previous one, or zeros with
`zero_output_for_mask`; before the first step it is zeros. Dropout masks are drawn at the first step and
stay the same. keras/src/backend.py: rnn; keras/src/layers/rnn/dropout_rnn_cell_mixin.py
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...errors import InvalidArgumentError
from ...names import name_scope, to_snake_case
from ...nest import flatten, pack_sequence_as
from ...ops import convolution
from ...ops.elementwise import where
from ...ops.random import Traced, dropped, is_traced
from ...tensor import OPERATIONS, Tensor, TensorShape, as_tensor
from ...unknown import refuse
from ...variable import Variable, has_no_effect
from .. import activations
from ..arguments import arguments_of
from ..base_layer import Layer, copied
from ..masks import as_mask
from ..symbolic import KerasTensor, has_free_batch
from .convolution import numbers
from .core import Random

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

__all__ = [
    "GRU", "LSTM", "RNN", "Bidirectional", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "GRUCell", "LSTMCell",
    "SimpleRNN", "SimpleRNNCell", "StackedRNNCells", "TimeDistributed",
]  # fmt: skip

_op = OPERATIONS


class _Cell(Random):
    """Base of the cells, which keep what they draw until `forget`."""

    _gates: ClassVar[int] = 1
    _states: ClassVar[int] = 1
    kernel: Variable
    recurrent_kernel: Variable
    bias: Variable | None
    padding: str

    def _configure(self) -> None:
        super()._configure()
        for option in ("dropout", "recurrent_dropout"):
            self._put(option, min(1.0, max(0.0, getattr(self, option))))
        separate = self.recurrent_dropout != 0 or self._options.get("implementation", 2) == 1
        self._put("implementation", 1 if separate else 2)
        size: Any = [self.units] * self._states
        self.state_size: Any = size if self._states > 1 else self.units
        self.forget()

    @property
    def draws(self) -> bool:
        return bool(self.dropout or self.recurrent_dropout)

    def forget(self) -> None:
        """Draw other masks at the next step."""
        self._put("_masks", {})

    def masks(self, kind: str, like: Tensor, training: Any) -> Any:
        """Return the factors of the input or state of each gate in a call; None without dropout."""
        rate = getattr(self, kind)
        if rate == 0 or has_no_effect():
            return None
        if kind not in self._masks:
            ones = _op["ones_like"](like)
            drawn = [self._drawn(ones, rate) for _ in range(self._gates)] if training else None
            self._masks[kind] = drawn if rate < 1 else None
        return self._masks[kind]

    def _drawn(self, ones: Tensor, rate: float) -> Tensor:
        seed = self._seed()
        if rate == 1:
            raise ValueError(f"`rate` must be a float in the range [0, 1). Received: rate={rate}")
        return dropped(ones, rate, None, seed)

    def build(self, input_shape: Any) -> None:
        self._make_weights(INPUT=input_shape[-1])

    def _product(self, kind: str, x: Tensor, kernel: Any, training: Any) -> Tensor:
        """Return x · kernel, x with the masks of each gate."""
        masks = self.masks(kind, x, training)
        if masks is None:
            return self._multiplied(kind, x, kernel)
        if self.implementation == 2 or self._gates == 1:
            return self._multiplied(kind, x * masks[0], kernel)
        parts = _op["split"](kernel, sizes=(kernel.shape[-1] // self._gates,) * self._gates, axis=-1)
        products = [self._multiplied(kind, x * mask, part) for mask, part in zip(masks, parts, strict=True)]
        return _op["concat"](*products, axis=-1)

    def _multiplied(self, kind: str, x: Tensor, kernel: Any) -> Any:
        return _op["matmul"](x, kernel)

    def first_states(self, like: Tensor) -> list[Tensor]:
        """Return zeros for each state, a row for each example of `like`."""
        column = _op["zeros_like"](like[:, :1])
        return [_op["tile"](column, multiples=(1, self.units)) for _ in range(self._states)]


class SimpleRNNCell(_Cell):
    def call(self, inputs: Tensor, states: list[Tensor], training: Any = None) -> tuple[Tensor, list[Tensor]]:
        out = self._product("dropout", inputs, self.kernel, training)
        if self.bias is not None:
            out = out + self.bias
        before = self._product("recurrent_dropout", states[0], self.recurrent_kernel, training)
        out = self.activation(out + before)
        return out, [out]


class LSTMCell(_Cell):
    _gates = 4
    _states = 2

    def _configure(self) -> None:
        super()._configure()
        if self.unit_forget_bias and "bias" in self._initial:
            self._put("_initial", {**self._initial, "bias": _with_open_forget_gate(self._initial["bias"])})

    def call(self, inputs: Tensor, states: list[Tensor], training: Any = None) -> tuple[Tensor, list[Tensor]]:
        hidden, carry = states
        z = self._product("dropout", inputs, self.kernel, training)
        z = z + self._product("recurrent_dropout", hidden, self.recurrent_kernel, training)
        if self.bias is not None:
            z = z + self.bias
        to_input, to_forget, new, to_output = _op["split"](z, sizes=(z.shape[-1] // 4,) * 4, axis=-1)
        gate = self.recurrent_activation
        carry = gate(to_forget) * carry + gate(to_input) * self.activation(new)
        hidden = gate(to_output) * self.activation(carry)
        return hidden, [hidden, carry]


def _with_open_forget_gate(plain: Callable[..., Any]) -> Callable[..., Any]:
    def initial(shape: Any, dtype: Any = None) -> Tensor:
        first, last = (plain((shape[0] * parts // 4,), dtype=dtype)._value for parts in (1, 2))
        return Tensor(np.concatenate([first, np.ones_like(first), last]))

    return initial


class GRUCell(_Cell):
    _gates = 3

    def call(self, inputs: Tensor, states: list[Tensor], training: Any = None) -> tuple[Tensor, list[Tensor]]:
        hidden, units, kernel = states[0], self.units, self.recurrent_kernel
        gate = self.recurrent_activation
        x = self._product("dropout", inputs, self.kernel, training)
        if self.bias is not None:
            x = x + (self.bias[0] if self.reset_after else self.bias)
        x_z, x_r, x_h = _op["split"](x, sizes=(units,) * 3, axis=1)
        if self.reset_after:
            inner = self._product("recurrent_dropout", hidden, kernel, training)
            if self.bias is not None:
                inner = inner + self.bias[1]
            h_z, h_r, h_h = _op["split"](inner, sizes=(units,) * 3, axis=1)
            z, r = gate(x_z + h_z), gate(x_r + h_r)
            new = self.activation(x_h + r * h_h)
        else:
            masks = self.masks("recurrent_dropout", hidden, training) or [1.0] * 3
            of_z, of_r, of_h = (hidden if mask.__class__ is float else hidden * mask for mask in masks)
            z = gate(x_z + _op["matmul"](of_z, kernel[:, :units]))
            r = gate(x_r + _op["matmul"](of_r, kernel[:, units : 2 * units]))
            new = self.activation(x_h + _op["matmul"](r * of_h, kernel[:, 2 * units :]))
        out = z * hidden + (1 - z) * new
        return out, [out]


class ConvLSTMCell(LSTMCell):
    """The same gates of images, rows or volumes: products are convolutions."""

    def _configure(self) -> None:
        self._put("units", self.filters)
        super()._configure()
        self._put("implementation", 1)
        refuse("ConvLSTM", data_format=None if self.data_format == "channels_last" else self.data_format)
        for option in ("kernel_size", "strides", "dilation_rate"):
            self._put(option, numbers(option, getattr(self, option), self.rank))
        self.padding = self.padding.lower()

    def _multiplied(self, kind: str, x: Tensor, kernel: Any) -> Any:
        if kind == "dropout":
            return convolution.convolution(x, kernel, self.strides, self.padding, self.dilation_rate)
        ones = (1,) * self.rank
        return convolution.convolution(x, kernel, ones, "same", ones)

    def first_states(self, like: Tensor) -> list[Tensor]:
        kernel = _op["zeros_like"](self.kernel)[..., : self.filters]
        state = self._multiplied("dropout", _op["zeros_like"](like), kernel)
        return [state, state]


class StackedRNNCells(Layer):
    """Cells one upon the other, each fed with what the one below puts out; their states in a row."""

    def _configure(self) -> None:
        self.cells: Any = list(self._options["cells"])

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

    @property
    def draws(self) -> bool:
        return any(getattr(cell, "draws", False) for cell in self.cells)

    def forget(self) -> None:
        """Draw other masks at the next step."""
        for cell in self.cells:
            if hasattr(cell, "forget"):
                cell.forget()

    def first_states(self, like: Tensor) -> list[Tensor]:
        """Return zeros for each state of each cell."""
        return [state for cell in self.cells for state in cell.first_states(like)]

    def call(self, inputs: Tensor, states: list[Tensor], training: Any = None) -> tuple[Tensor, list[Tensor]]:
        out, left = inputs, list(states)
        moved: list[Tensor] = []
        for cell in self.cells:
            count = _count(cell.state_size)
            out, after = cell.call(out, left[:count], training=training)
            left, moved = left[count:], moved + list(after)
        return out, moved


class RNN(Layer):
    """A cell run over time: inputs [batch, time, features], mask [batch, time]."""

    _passes_masks = True
    _ndim = ("ndim", 3)
    _cell: ClassVar[Any] = None
    cell: Any
    _forgets: ClassVar[bool] = True
    """Whether each call draws other masks."""

    time_major = unroll = zero_output_for_mask = False

    def _configure(self) -> None:
        cell = self._options.get("cell") if self._cell is None else self._own_cell()
        if not isinstance(cell, list | tuple) and not hasattr(cell, "call"):
            raise ValueError(f"Argument `cell` should have a `call` method. The RNN was passed: cell={cell}")
        self.cell = StackedRNNCells(cell) if isinstance(cell, list | tuple) else cell
        if self._cell is None:
            self._options["cell"] = self.cell
        self.state_spec: Any = []
        self._put("states", None)

    def _own_cell(self, **more: Any) -> Any:
        """Return a cell with those of the layer's options that are its own."""
        row = arguments_of(self._cell.__name__)
        assert row is not None
        own = {name: self._options[name] for name in self._options if name in row.names}
        return self._cell(name=to_snake_case(self._cell.__name__), dtype=self.dtype, **own, **more)

    def __call__(self, inputs: Any, initial_state: Any = None, **kwargs: Any) -> Any:
        return super().__call__(*_with_states(inputs, initial_state, kwargs), **kwargs)

    def build(self, input_shape: Any) -> None:
        if not self.cell.built:
            with name_scope(self.cell.name):
                self.cell.build((None, *_first(input_shape)[2:]))
        self.built = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        first = flatten(mask)[0] if self.return_sequences else None
        return [first, *[None] * _count(self.cell.state_size)] if self.return_state else first

    def call(self, inputs: Any, mask: Any = None, training: Any = None, initial_state: Any = None) -> Any:
        inputs, initial_state = _apart(inputs, initial_state)
        if getattr(self.cell, "draws", False) and (self._forgets or is_traced()):
            self.cell.forget()
        inputs, training = self._dropped(inputs, training)
        axis = 0 if self.time_major else 1
        times = list(_op["unstack"](inputs, axis=axis))
        there = _steps(flatten(mask)[0], len(times), axis, times[0].ndim if times else 2)
        if self.go_backwards:
            times.reverse()
            there.reverse()
        if not times:
            raise InvalidArgumentError(f"{self.name}: slice index 0 of dimension 0 out of bounds.")
        states = self._first_states(initial_state, times[0])
        body = self._body(times[0], states, training)
        outputs: list[Tensor] = []
        for x, is_there in zip(times, there, strict=True):
            with body():
                out, after = self.cell.call(x, states, training=training)
            if is_there is not None:
                is_first = self.zero_output_for_mask or not outputs
                out = where(is_there, out, _op["zeros_like"](out) if is_first else outputs[-1])
                after = [where(is_there, *pair) for pair in zip(after, states, strict=True)]
            states = after
            outputs.append(out)
        if self.stateful:
            self.reset_states(states)
        result = _op["stack"](*outputs, axis=axis) if self.return_sequences else outputs[-1]
        if not self.return_state:
            return result
        is_stack = isinstance(self.cell, StackedRNNCells)
        return [result, *(pack_sequence_as(self.cell.state_size, states) if is_stack else states)]

    def _body(
        self, first: Tensor, states: list[Any], training: Any
    ) -> Callable[[], AbstractContextManager[Any]]:
        """Return the context in which a step runs.

        TensorFlow's graphs call the cell once before the loop. The loop's body is a graph of its own, in
        which each step draws.
        """
        if not (training and is_traced() and getattr(self.cell, "draws", False)) or self.unroll:
            return nullcontext
        self.cell.call(first, states, training=training)
        graph = Traced.within()
        assert graph is not None

        @contextmanager
        def step() -> Iterator[None]:
            self.cell.forget()
            with graph.called():
                yield

        return step

    def _dropped(self, inputs: Tensor, training: Any) -> tuple[Tensor, Any]:
        """Return the inputs, and whether the cell draws."""
        return inputs, training

    def _first_states(self, given: Any, first: Tensor) -> list[Any]:
        """Return the states before the first step: those kept, if they are not all zeros, or given."""
        if self.stateful and has_no_effect() and has_free_batch():
            raise ValueError(_NEEDS_BATCH)
        kept = self.states
        if kept is not None and (given is None or any(one.numpy().any() for one in kept)):
            return [as_tensor(one) for one in kept]
        return list(flatten(given)) if given is not None else self.cell.first_states(first)

    def reset_states(self, states: Any = None) -> None:
        """Keep these states for the next call, or zeros."""
        if not self.stateful:
            raise AttributeError("Layer must be stateful.")
        if states is None and not self.built:
            raise ValueError(_NEEDS_BATCH)
        if has_no_effect():
            return
        values = [np.zeros_like(one.numpy()) for one in self.states or ()] if states is None else states
        if self.states is None or len(self.states) != len(flatten(values)):
            values = [Variable(one, trainable=False) for one in flatten(values)]
            self._put("states", values or None)
            return
        for variable, value in zip(self.states, flatten(values), strict=True):
            variable.assign(value)


_NEEDS_BATCH = (
    "If a RNN is stateful, it needs to know its batch size. Specify the batch size of your input tensors "
    "with a `batch_input_shape` argument to your first layer."
)


def _first(shapes: Any) -> Any:
    """Return the shape of the input, where the shapes of states come behind it."""
    return shapes[0] if isinstance(shapes, list) else shapes


def _count(state_size: Any) -> int:
    return len(flatten(state_size))


def _steps(mask: Any, length: int, axis: int, rank: int) -> list[Any]:
    """Return which examples have each of so many times, [batch, 1, ...]; None, of each, without a mask."""
    if mask is None:
        return [None] * length
    mask = as_mask(mask)
    for _ in range(rank + 1 - mask.ndim):
        mask = _op["expand_dims"](mask, axis=-1)
    return list(_op["unstack"](mask, axis=axis))


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


class SimpleRNN(RNN):
    _cell = SimpleRNNCell


class _Fused(RNN):
    """Base of what TensorFlow has a kernel for, which draws a mask for all times at once."""

    def _dropped(self, inputs: Tensor, training: Any) -> tuple[Tensor, Any]:
        cell = self.cell
        names = [activations.name_of(one) for one in (cell.activation, cell.recurrent_activation)]
        plain = not (cell.recurrent_dropout or self.unroll) and cell.use_bias
        if not plain or names != ["tanh", "sigmoid"] or not getattr(cell, "reset_after", True):
            return inputs, training
        masks = cell.masks("dropout", inputs, training)
        cell.forget()
        return (inputs if masks is None else inputs * masks[0]), False


class LSTM(_Fused):
    _cell = LSTMCell


class GRU(_Fused):
    _cell = GRUCell


class ConvLSTM2D(RNN):
    """Keras keeps what the first eager call drew, or none of it where that was no training."""

    _cell = ConvLSTMCell
    _forgets = False
    _rank: ClassVar[int] = 2

    def _configure(self) -> None:
        super()._configure()
        self._put("_ndim", ("ndim", self._rank + 3))
        for option in ("kernel_size", "strides", "dilation_rate", "padding"):
            self._put(option, getattr(self.cell, option))

    def _own_cell(self, **more: Any) -> Any:
        return super()._own_cell(rank=self._rank, **more)

    def build(self, input_shape: Any) -> None:
        shape = _first(input_shape)
        self.cell.build((None, *shape[2:]))
        self.cell.built = self.built = True


class ConvLSTM1D(ConvLSTM2D):
    _rank = 1


class ConvLSTM3D(ConvLSTM2D):
    _rank = 3


class Bidirectional(Layer):
    """A recurrent layer forward, a copy of it or another one backward, and both outputs joined."""

    # The layer that both were copied from is not a node of the graph, but has a place in weight files.
    _also_walked = ("layer",)
    _passes_masks = True

    def _configure(self) -> None:
        layer, backward = self._options["layer"], self._options["backward_layer"]
        if not hasattr(layer, "go_backwards"):
            raise KeyError("go_backwards")  # Keras looks it up in the layer's configuration
        if self.merge_mode not in ("sum", "mul", "ave", "concat", None):
            raise ValueError(
                f"Invalid merge mode. Received: {self.merge_mode}. Merge mode should be one of "
                f"{{'sum', 'mul', 'ave', 'concat', None}}"
            )
        self._put("layer", layer)
        self._put("_ndim", layer._ndim)
        if not layer.trainable:
            self.trainable = False
        self.forward_layer = _renamed(layer, "forward", layer.go_backwards)
        if backward is None:
            self.backward_layer = _renamed(layer, "backward", not layer.go_backwards)
        else:
            _check_backward(layer, backward)
            backward._put("_name", f"backward_{backward.name}")
            self.backward_layer = backward

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

    _passes_masks = True

    def _configure(self) -> None:
        layer = self._options["layer"]
        # Keras runs a program's own layers once for each time, which a batch of all may differ from.
        if not isinstance(layer, Layer) or not type(layer).__module__.startswith(_OURS):
            raise NotImplementedError(
                f"TimeDistributed: layer={layer!r} is not supported, only Keras' own layers"
            )
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


def _renamed(layer: RNN, way: str, go_backwards: bool) -> Any:
    """Return a layer like this one, with a cell of its own and no weights yet."""
    fresh = copied(layer, name=f"{way}_{layer.name}", go_backwards=go_backwards)
    fresh._put("zero_output_for_mask", layer.return_sequences)
    return fresh


def _check_backward(forward: Any, backward: Any) -> None:
    if forward.go_backwards == backward.go_backwards:
        raise ValueError(
            "Forward layer and backward layer should have different `go_backwards` value. Received: "
            f"forward_layer.go_backwards {forward.go_backwards}, "
            f"backward_layer.go_backwards={backward.go_backwards}"
        )
    for name in ("stateful", "return_sequences", "return_state"):
        if getattr(forward, name) != getattr(backward, name):
            raise ValueError(
                f"Forward layer and backward layer are expected to have the same value for attribute {name!r}"
            )
