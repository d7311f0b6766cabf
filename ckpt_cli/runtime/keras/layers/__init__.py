"""tf.keras.layers."""

from __future__ import annotations

from ...unknown import absent
from ..base_layer import Layer
from .attention import EinsumDense, MultiHeadAttention
from .convolution import (
    AveragePooling2D,
    Conv1D,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    DepthwiseConv2D,
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalMaxPooling1D,
    GlobalMaxPooling2D,
    MaxPooling2D,
    SeparableConv2D,
)
from .core import Activation, Dense, Dropout, Embedding, Flatten, LeakyReLU, Masking, ReLU, Reshape, Softmax
from .normalization import BatchNormalization, GroupNormalization, LayerNormalization, UnitNormalization
from .recurrent import (
    GRU,
    LSTM,
    RNN,
    Bidirectional,
    GRUCell,
    LSTMCell,
    SimpleRNN,
    SimpleRNNCell,
    StackedRNNCells,
    TimeDistributed,
)
from .structural import (
    Add,
    Average,
    Concatenate,
    Input,
    InputLayer,
    Lambda,
    Maximum,
    Multiply,
    Permute,
    Rescaling,
    Subtract,
)

AvgPool2D, MaxPool2D = AveragePooling2D, MaxPooling2D
Convolution1D, Convolution2D, Convolution3D = Conv1D, Conv2D, Conv3D
Convolution2DTranspose, SeparableConvolution2D = Conv2DTranspose, SeparableConv2D

__all__ = [
    "GRU", "LSTM", "RNN", "Activation", "Add", "Average", "AveragePooling2D", "AvgPool2D",
    "BatchNormalization", "Bidirectional", "Concatenate", "Conv1D", "Conv2D", "Conv2DTranspose", "Conv3D",
    "Convolution1D", "Convolution2D", "Convolution2DTranspose", "Convolution3D", "Dense", "DepthwiseConv2D",
    "Dropout", "EinsumDense", "Embedding", "Flatten", "GRUCell", "GlobalAveragePooling1D",
    "GlobalAveragePooling2D", "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GroupNormalization", "Input",
    "InputLayer", "LSTMCell", "Lambda", "Layer", "LayerNormalization", "LeakyReLU", "Masking", "MaxPool2D",
    "MaxPooling2D", "Maximum", "MultiHeadAttention", "Multiply", "Permute", "ReLU", "Rescaling", "Reshape",
    "SeparableConv2D", "SeparableConvolution2D", "SimpleRNN", "SimpleRNNCell", "Softmax", "StackedRNNCells",
    "Subtract", "TimeDistributed",
    "UnitNormalization",
]  # fmt: skip


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
