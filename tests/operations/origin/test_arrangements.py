"""Orders of axes between the layouts of Keras, PyTorch, TensorFlow Lite and ONNX."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ckpt_cli.operations.origin.arrangements import Arrangement, arrangements

LAYOUTS = [
    ("kernel", "CONV_2D", "input output", "output input"),
    ("kernel", "CONV_2D", "width input output", "output width input"),
    ("kernel", "CONV_2D", "height width input output", "output height width input"),
    ("kernel", "DEPTHWISE_CONV_2D", "height width input", "height width input"),
    ("kernel", "DEPTHWISE_CONV_2D", "height width input factor", "height width input factor"),
    ("kernel", "FULLY_CONNECTED", "input output", "output input"),
    ("kernel", "TRANSPOSE_CONV", "height width output input", "output height width input"),
    ("embeddings", "GATHER", "input output", "input output"),
    ("embeddings", "Gather", "input output", "input output"),
    ("kernel", "MatMul", "input output", "input output"),
    ("kernel", "Gemm", "input output", "input output"),
    ("kernel", "Gemm(transB)", "input output", "output input"),
    ("kernel", "Conv", "width input output", "output input width"),
    ("kernel", "Conv", "height width input output", "output input height width"),
    ("depthwise_kernel", "Conv", "height width input factor", "input factor height width"),
    ("kernel", "ConvTranspose", "height width output input", "input output height width"),
    ("weight", "CONV_2D", "output input", "output input"),
    ("weight", "CONV_2D", "output input height width", "output height width input"),
    ("weight", "DEPTHWISE_CONV_2D", "input factor height width", "factor height width input"),
    ("weight", "FULLY_CONNECTED", "output input", "output input"),
    ("weight", "GATHER", "input output", "input output"),
    ("weight", "Gather", "input output", "input output"),
    ("weight", "MatMul", "output input", "input output"),
    ("weight", "Gemm", "output input", "input output"),
    ("weight", "Gemm(transB)", "output input", "output input"),
    ("weight", "Conv", "output input width", "output input width"),
    ("weight", "Conv", "output input height width", "output input height width"),
    ("weight", "ConvTranspose", "input output width", "input output width"),
    ("weight", "ConvTranspose", "input output height width", "input output height width"),
]


@pytest.mark.parametrize(("role", "operation", "before", "after"), LAYOUTS)
def test_an_operation_says_the_order_of_axes_of_one_size(
    role: str, operation: str, before: str, after: str
) -> None:
    shape = (3,) * len(before.split())
    order = tuple(before.split().index(axis) for axis in after.split())
    assert [found.order for found in arrangements(shape, shape, operation, role)] == [order]


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
@pytest.mark.parametrize("before", [*itertools.product((1, 2, 3), repeat=3)])
def test_words_name_what_moves_values_or_changes_the_shape(
    before: tuple[int, ...], order: tuple[int, ...]
) -> None:
    values = np.arange(np.prod(before)).reshape(before)
    after = values.transpose(order)
    is_moved = after.ravel().tolist() != values.ravel().tolist()
    transposed = f"transposed ({', '.join(map(str, order))})"
    assert Arrangement(order, after.shape).words(before) == (transposed if is_moved else "")
    flat = f"reshaped to [{values.size}, 1]"
    words = [transposed] * is_moved + [flat]
    assert Arrangement(order, (values.size, 1)).words(before) == ", ".join(words)
