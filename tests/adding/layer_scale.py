"""Multiplication of each channel by a factor that is trained.

A trial: tests/test_adding.py follows CONTRIBUTING.md with this layer, which Keras does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.keras.layers import LAYERS

from .. import initializers
from ..base_layer import Layer

if TYPE_CHECKING:
    from ...tensor import Tensor
    from ...variable import Variable

__all__ = ["ChannelScale"]


class ChannelScale(Layer):
    """inputs · factor"""

    _row = LAYERS["ChannelScale"]
    factor: Variable

    def __init__(self, factor_initializer: Any = "ones", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._put("_initial", initializers.by_name(factor=factor_initializer))

    def build(self, input_shape: Any) -> None:
        self._make_weights(INPUT=input_shape[-1])

    def call(self, inputs: Tensor) -> Tensor:
        return inputs * self.factor
