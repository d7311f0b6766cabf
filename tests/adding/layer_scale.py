"""Multiplication of each channel by a factor that is trained.

A trial: tests/test_adding.py follows CONTRIBUTING.md with this layer, which Keras does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base_layer import Layer

if TYPE_CHECKING:
    from ...tensor import Tensor
    from ...variable import Variable

__all__ = ["ChannelScale"]


class ChannelScale(Layer):
    """inputs · factor"""

    factor: Variable

    def build(self, input_shape: Any) -> None:
        self._make_weights(INPUT=input_shape[-1])

    def call(self, inputs: Tensor) -> Tensor:
        return inputs * self.factor
