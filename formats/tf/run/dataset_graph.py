"""The graph of a window, as the state of an iterator keeps a window that it is in.

    GraphDef:  1 node*, 4 versions (1 producer)
    NodeDef:   1 name, 2 op, 3 input*, 5 attr (map: key 1, value 2)
    AttrValue: 1 list (6 types, 7 shapes), 3 integer, 6 type, 8 tensor

    Const/_0 ...  op Const      attr value: the tensor, dtype
    WindowOp/_N   op WindowOp   inputs: the window's elements, component by component
    dataset       op _Retval    input: WindowOp/_N

The elements of a window are in the graph itself, as constants. Nothing else of a graph is interpreted, and
nothing in it is run. tensorflow/core/kernels/data/window_dataset.cc, tensorflow/core/data/dataset_utils.cc
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.dtypes import BY_NUMBER, STRING, VARIANT, from_numpy
from ...wire.messages import Dim, TensorShapeProto
from ...wire.protobuf import BYTES, INT32, INT64, TEXT, Field, Message, fields
from ..v1.values import VALUE_FIELDS, decode_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

__all__ = ["Window", "decode_window", "encode_window"]

_LARGEST = 1 << 31
"""Bytes of one constant: a graph holds no more."""


class _Tensor(Message):
    dtype: int
    tensor_shape: TensorShapeProto | None
    tensor_content: bytes
    string_val: list[bytes]
    FIELDS = fields(
        dtype=Field(1, INT32),
        tensor_shape=Field(2, TensorShapeProto),
        tensor_content=Field(4, BYTES),
        string_val=Field(8, BYTES, repeated=True),
    )


class _List(Message):
    type: list[int]
    shape: list[TensorShapeProto]
    FIELDS = fields(type=Field(6, INT32, repeated=True), shape=Field(7, TensorShapeProto, repeated=True))


class _Value(Message):
    list: _List | None
    i: int | None
    type: int
    tensor: bytes | None  # decoded where its dtype is known
    FIELDS = fields(
        list=Field(1, _List),
        i=Field(3, INT64, explicit=True),
        type=Field(6, INT32),
        tensor=Field(8, BYTES, explicit=True),
    )


class _Attribute(Message):
    key: str
    value: _Value | None
    FIELDS = fields(key=Field(1, TEXT), value=Field(2, _Value))


class _DatasetNode(Message):
    name: str
    op: str
    input: list[str]
    attr: list[_Attribute]
    FIELDS = fields(
        name=Field(1, TEXT),
        op=Field(2, TEXT),
        input=Field(3, TEXT, repeated=True),
        attr=Field(5, _Attribute, repeated=True),
    )


class _Versions(Message):
    producer: int
    FIELDS = fields(producer=Field(1, INT32))


class _DatasetGraph(Message):
    node: list[_DatasetNode]
    versions: _Versions | None
    FIELDS = fields(node=Field(1, _DatasetNode, repeated=True), versions=Field(4, _Versions))


class Window(NamedTuple):
    """A serialized GraphDef, and which of its nodes is the window."""

    graph: bytes
    node: str


_PRODUCER = 1645
"""The graph version of TensorFlow 2.15: all that is in the graph is older, and later releases read it."""


def encode_window(elements: Sequence[Sequence[np.ndarray[Any, Any]]]) -> Window:
    """Return the graph of a window of at least one element; TypeError for a dtype without a number."""
    constants = [component for element in elements for component in element]
    nodes = [_constant(number, value) for number, value in enumerate(constants)]
    names = [node.name for node in nodes]
    window = f"WindowOp/_{len(nodes)}"
    first = elements[0]
    shapes = [_common_shape([element[place] for element in elements]) for place in range(len(first))]
    attributes = {
        "output_types": _Value(list=_List(type=list(map(_number, first)))),
        "output_shapes": _Value(list=_List(shape=shapes)),
        "Tinputs": _Value(list=_List(type=list(map(_number, constants)))),
    }
    nodes.append(_node(window, "WindowOp", names, attributes))
    returned = {"index": _Value(i=0), "T": _Value(type=VARIANT.number)}
    nodes.append(_node("dataset", "_Retval", [window], returned))
    return Window(_DatasetGraph(node=nodes, versions=_Versions(producer=_PRODUCER)).encode(), window)


def decode_window(window: Window) -> list[list[np.ndarray[Any, Any]]]:
    """Return a window's elements, each a list of components.

    Raises ValueError if it is not a window's graph.
    """
    nodes = {node.name: node for node in _DatasetGraph.decode(window.graph).node}
    root = nodes.get(window.node)
    if root is None or root.op != "WindowOp":
        raise ValueError(f"the dataset is {root.op if root else 'no operation'}; expected WindowOp")
    types = _attribute(root, "output_types").list
    width = len(types.type) if types else 0
    if not width or len(root.input) % width:
        raise ValueError(f"the window has {len(root.input)} tensors, with {width} per element")
    values = []
    for name in root.input:
        if name not in nodes or nodes[name].op != "Const":
            raise ValueError(f"the window contains {name!r}, which is not a constant")
        values.append(_tensor(_attribute(nodes[name], "value").tensor or b""))
    return [values[at : at + width] for at in range(0, len(values), width)]


def _node(name: str, op: str, inputs: list[str], attributes: dict[str, _Value]) -> _DatasetNode:
    attr = [_Attribute(key=key, value=value) for key, value in attributes.items()]
    return _DatasetNode(name=name, op=op, input=inputs, attr=attr)


def _constant(number: int, value: np.ndarray[Any, Any]) -> _DatasetNode:
    shape = TensorShapeProto(dim=[Dim(size=size) for size in value.shape])
    tensor = _Tensor(dtype=_number(value), tensor_shape=shape)
    if value.dtype == object:
        tensor.string_val = list(value.reshape(-1))
    else:
        tensor.tensor_content = value.tobytes()
    attributes = {"value": _Value(tensor=tensor.encode()), "dtype": _Value(type=tensor.dtype)}
    return _node(f"Const/_{number}", "Const", [], attributes)


def _number(value: np.ndarray[Any, Any]) -> int:
    dtype = STRING if value.dtype == object else from_numpy(value.dtype)
    if dtype is None:
        raise TypeError(f"cannot save dtype {value.dtype}")
    return dtype.number


def _common_shape(values: list[np.ndarray[Any, Any]]) -> TensorShapeProto:
    """Return the shape that all have, with -1 where they differ."""
    if len({value.ndim for value in values}) > 1:
        return TensorShapeProto(unknown_rank=True)
    sizes = [set(sizes) for sizes in zip(*(value.shape for value in values), strict=True)]
    return TensorShapeProto(dim=[Dim(size=one.pop() if len(one) == 1 else -1) for one in sizes])


def _attribute(node: _DatasetNode, key: str) -> _Value:
    found = [one.value for one in node.attr if one.key == key and one.value is not None]
    if not found:
        raise ValueError(f"node {node.name!r} has no {key!r}")
    return found[-1]


def _tensor(proto: bytes) -> np.ndarray[Any, Any]:
    """Return a constant; values left out are as the last that is there."""
    import numpy as np

    tensor = _Tensor.decode(proto)
    dtype = BY_NUMBER.get(tensor.dtype)
    if dtype is None or dtype.name not in VALUE_FIELDS:
        raise ValueError(f"a constant has unknown dtype number {tensor.dtype}")
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim) if tensor.tensor_shape else ()
    count = 1
    for size in shape:
        count *= size
    if min((0, *shape)) < 0 or count * (dtype.itemsize or 1) > _LARGEST:
        raise ValueError(f"a constant has the invalid shape {shape}")
    if tensor.tensor_content:
        if len(tensor.tensor_content) != count * (dtype.itemsize or 0):
            raise ValueError(f"a constant of shape {shape} has {len(tensor.tensor_content)} bytes")
        return np.frombuffer(bytearray(tensor.tensor_content), dtype.numpy).reshape(shape)
    given = decode_values(proto, dtype)
    if len(given) > count:
        raise ValueError(f"a constant of shape {shape} has {len(given)} values")
    value = np.empty(count, dtype.numpy)
    value[:] = given[-1] if len(given) else (b"" if dtype is STRING else 0)
    value[: len(given)] = given
    return value.reshape(shape)
