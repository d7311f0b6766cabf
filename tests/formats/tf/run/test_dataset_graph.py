"""The graphs of windows, as TensorFlow writes them and as it reads them."""

from __future__ import annotations

import numpy as np
import pytest

from formats.tf.run import dataset_graph
from formats.tf.run.dataset_graph import Window, decode_window, encode_window
from formats.tf.run.iterator_state import decode
from formats.wire.messages import Dim, TensorShapeProto
from tests.iterators import RELEASES, saved_iterators

FLAT_MAP = "Iterator::Root::Prefetch::FlatMap"


@pytest.mark.parametrize("release", RELEASES)
def test_a_window_of_tensorflow(release: str) -> None:
    (saved,) = (
        one for one in saved_iterators() if (one.release, one.name, one.position) == (release, "window", 1)
    )
    values = decode(saved.state)[FLAT_MAP]
    window = Window(values["inputs[0]"].item(), values["inputs[0].output_node"].item().decode())
    last = int(values["element_index"]) - 1
    elements = decode_window(window)
    assert [[value.tolist() for value in element] for element in elements] == [
        [2 * last],
        [2 * last + 1],
        [2 * last + 2],
    ]
    assert elements[0][0].dtype == np.int64


def strings(*values: bytes) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    "elements",
    [
        [[np.float32(1.5)], [np.float32(-2)]],
        [[strings(b"a", b"")], [strings(b"ccc")]],
        [[np.arange(6).reshape(2, 3), np.bool_(True)], [np.zeros((0, 3), np.int64), np.bool_(False)]],
        [[np.float16(1)], [np.float16([1, 2])]],
    ],
)
def test_round_trip(elements: list[list[np.ndarray]]) -> None:
    expected = [[np.asarray(value) for value in element] for element in elements]
    again = decode_window(encode_window(expected))
    for one, other in zip(again, expected, strict=True):
        for value, its in zip(one, other, strict=True):
            assert (value.dtype, value.shape, value.tolist()) == (its.dtype, its.shape, its.tolist())


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (b"WindowOp/_2", b"WindowOp/_3", "the dataset is no operation"),
        (b"\x08WindowOp", b"\x08RangeOps", "the dataset is RangeOps; expected WindowOp"),
        (b"\x05Const", b"\x05Conzt", "contains 'Const/_0', which is not a constant"),
        (b"output_types", b"output_typez", "node 'WindowOp/_2' has no 'output_types'"),
        (b"value", b"velue", "node 'Const/_0' has no 'value'"),
        (b"\x08\x09\x12\x00", b"\x08\x15\x12\x00", "a constant has unknown dtype number 21"),
    ],
)
def test_what_is_not_a_window_is_rejected(old: bytes, new: bytes, complaint: str) -> None:
    window = encode_window([[np.asarray(1)], [np.asarray(2)]])
    assert window.node == "WindowOp/_2"
    assert old in window.graph
    with pytest.raises(ValueError, match=complaint):
        decode_window(window._replace(graph=window.graph.replace(old, new)))


def test_a_graph_cut_short_is_rejected_or_whole() -> None:
    window = encode_window([[np.asarray(1)], [np.asarray(2)]])
    refused = 0
    for end in range(len(window.graph)):
        try:
            elements = decode_window(window._replace(graph=window.graph[:end]))
        except ValueError:
            refused += 1
        else:  # All of the window's own nodes are there.
            assert [element[0].tolist() for element in elements] == [1, 2]
    assert refused > len(window.graph) / 2


@pytest.mark.parametrize(
    ("size", "complaint"), [(1 << 31, "has 1 bytes"), ((1 << 31) + 1, "the invalid shape")]
)
def test_a_constant_has_at_most_two_gib(size: int, complaint: str) -> None:
    shape = TensorShapeProto(dim=[Dim(size=size)])
    constant = dataset_graph._Tensor(dtype=6, tensor_shape=shape, tensor_content=b"x", string_val=[])
    with pytest.raises(ValueError, match=complaint):
        dataset_graph._tensor(constant.encode())
