"""The state of an iterator of `tf.data`, decoded and encoded.

    ITERATOR_STATE:  variant[sections]                         in order of prefixes
    section:   VariantTensorDataProto
                 type_name: "tensorflow::Iterator"
                 metadata:  prefix, ("@@", key)*
                 tensors:   [a scalar variant "tensorflow.data.CompressedElement"]
    element:   CompressedElement
                 data:                a snappy block: the values of all keys, one after the other
                 component_metadata:  (dtype, shape, bytes of the value: of each string, or of all numbers)*

An empty value has no size among the bytes. A section is one iterator of the pipeline, or elements that one
holds. Its prefix is its path, `Iterator::Root::Prefetch::BatchV2::ForeverRepeat[0]::TensorSlice`: the last
part is the innermost iterator, which produces the elements that the others pass on. Some iterators repeat
their prefix in their keys; `own_key` and `short_key` convert. tensorflow/core/data/serialization_utils.cc,
tensorflow/core/data/compression_utils.cc
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ...core.dtypes import BY_NUMBER, STRING, VARIANT, from_numpy
from ...wire.compression import compress, decompress
from ...wire.messages import (
    ComponentMetadata,
    CompressedElement,
    Dim,
    TensorShapeProto,
    VariantTensorDataProto,
    VariantTensorProto,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np

State: TypeAlias = "dict[str, dict[str, np.ndarray[Any, Any]]]"
"""Sections by prefix; values, numbers or object arrays of bytes, by key."""

_ITERATOR = "tensorflow::Iterator"
_COMPRESSED = "tensorflow.data.CompressedElement"
_SEPARATOR = "@@"
_MARK = "60d899aa0d8ce4351e7c3b419e92d25b|"
"""TensorFlow's mark before a key that contains its prefix."""
_DEEPEST = 1000
"""Steps behind each other: no program has as many, and a path for each takes the square of it."""
_LARGEST = 1 << 31
"""Bytes of one section: more is held by no iterator that TensorFlow itself could save."""


def own_key(prefix: str, key: str) -> str:
    """Return a key as iterators write it that repeat their prefix in it."""
    return f"{_MARK}{prefix}:{key}"


def short_key(prefix: str, key: str) -> str:
    """Return a key without its prefix."""
    return key.removeprefix(f"{_MARK}{prefix}:")


def decode(elements: Iterable[bytes]) -> State:
    """Return the sections of a state; ValueError if the elements are not one."""
    state: State = {}
    for element in elements:
        prefix, values = _decode_section(element)
        if prefix in state:
            raise ValueError(f"section {prefix!r} occurs twice")
        state[prefix] = values
    return state


def encode(state: Mapping[str, Mapping[str, np.ndarray[Any, Any]]]) -> list[bytes]:
    """Return the elements of a state, serialized VariantTensorDataProtos, as TensorFlow orders them."""
    in_order = sorted(state, key=str.encode)
    return [_encode_section(prefix, state[prefix]) for prefix in in_order]


def _decode_section(element: bytes) -> tuple[str, dict[str, np.ndarray[Any, Any]]]:
    variant = VariantTensorDataProto.decode(element)
    if variant.type_name != _ITERATOR:
        raise ValueError(f"the variant has type {variant.type_name!r}; expected {_ITERATOR!r}")
    prefix, *keys = variant.metadata.decode("utf-8").split(_SEPARATOR)
    if prefix.count("::") > _DEEPEST:
        raise ValueError(f"a prefix has {prefix.count('::'):,} steps, which is over the limit")
    compressed = _compressed(variant)
    if len(keys) != len(compressed.component_metadata) or len(set(keys)) != len(keys):
        raise ValueError(
            f"{prefix}: {len(keys)} keys do not match {len(compressed.component_metadata)} values"
        )
    data = decompress(compressed.data, _LARGEST)
    values, at = {}, 0
    for key, component in zip(keys, compressed.component_metadata, strict=True):
        values[key], at = _decode_value(f"{prefix}: {key}", component, data, at)
    if at != len(data):
        raise ValueError(f"{prefix}: the values need {at} bytes, but {len(data)} are stored")
    return prefix, values


def _compressed(variant: VariantTensorDataProto) -> CompressedElement:
    """Return the only tensor of a section's variant, which holds all of its values."""
    if len(variant.tensors) != 1:
        raise ValueError(f"a section has {len(variant.tensors)} tensors; expected one compressed element")
    inner = VariantTensorProto.decode(variant.tensors[0]).variant_val
    if [one.type_name for one in inner] != [_COMPRESSED]:
        raise ValueError(f"a section has no {_COMPRESSED!r}")
    return CompressedElement.decode(inner[0].metadata)


def _decode_value(
    what: str, component: ComponentMetadata, data: bytes, at: int
) -> tuple[np.ndarray[Any, Any], int]:
    """Return a value and where the next one begins."""
    import numpy as np

    dtype = BY_NUMBER.get(component.dtype)
    if dtype is None or (dtype.itemsize is None and dtype is not STRING):
        raise ValueError(f"{what}: the dtype number {component.dtype} is unknown")
    shape = tuple(dim.size for dim in component.tensor_shape.dim) if component.tensor_shape else ()
    count = 1
    for size in shape:
        count *= size
    sizes = component.uncompressed_bytes
    end = at + sum(sizes)
    if min((0, *shape, *sizes)) < 0 or end > len(data):
        raise ValueError(
            f"{what}: shape {shape} needs {sum(sizes)} bytes, but only {len(data) - at} bytes are left"
        )
    if len(sizes) != (count if dtype is STRING else min(count, 1)):
        raise ValueError(f"{what}: shape {shape} does not match its {len(sizes)} sizes")
    if dtype is STRING:
        value = np.empty(count, object)
        for place, size in enumerate(sizes):
            value[place] = data[at : at + size]
            at += size
    else:
        if end - at != count * (dtype.itemsize or 0):
            raise ValueError(f"{what}: {end - at} bytes do not match {dtype} of shape {shape}")
        value = np.frombuffer(bytearray(data[at:end]), dtype.numpy) if count else np.empty(0, dtype.numpy)
    return value.reshape(shape), end


def _encode_section(prefix: str, values: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    parts: list[bytes] = []
    components = []
    for value in values.values():
        pieces, component = _encode_value(value)
        parts += pieces
        components.append(component)
    element = CompressedElement(data=compress(b"".join(parts)), component_metadata=components)
    inner = VariantTensorDataProto(type_name=_COMPRESSED, metadata=element.encode())
    tensor = VariantTensorProto(dtype=VARIANT.number, tensor_shape=TensorShapeProto(), variant_val=[inner])
    metadata = _SEPARATOR.join([prefix, *values]).encode()
    return VariantTensorDataProto(type_name=_ITERATOR, metadata=metadata, tensors=[tensor.encode()]).encode()


def _encode_value(value: np.ndarray[Any, Any]) -> tuple[list[bytes], ComponentMetadata]:
    dtype = STRING if value.dtype == object else from_numpy(value.dtype)
    if dtype is None:
        raise TypeError(f"cannot save dtype {value.dtype}")
    pieces = list(value.reshape(-1)) if dtype is STRING else [value.tobytes()] * min(value.size, 1)
    shape = TensorShapeProto(dim=[Dim(size=size) for size in value.shape])
    return pieces, ComponentMetadata(
        dtype=dtype.number, tensor_shape=shape, uncompressed_bytes=list(map(len, pieces))
    )
