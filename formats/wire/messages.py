"""The protocol buffer messages of TensorFlow's checkpoints, as tables.

Field names and numbers are those of the .proto files named at each group.
"""

from __future__ import annotations

from .protobuf import BOOL, BYTES, FIXED32, INT32, INT64, MESSAGE, NAME, TEXT, Field, Message, fields

# tensorflow/core/framework/versions.proto, tensor_shape.proto, tensor_slice.proto


class VersionDef(Message):
    producer: int
    min_consumer: int
    bad_consumers: list[int]
    FIELDS = fields(
        producer=Field(1, INT32), min_consumer=Field(2, INT32), bad_consumers=Field(3, INT32, repeated=True)
    )


class Dim(Message):
    size: int
    name: str
    FIELDS = fields(size=Field(1, INT64), name=Field(2, TEXT))


class TensorShapeProto(Message):
    dim: list[Dim]
    unknown_rank: bool
    FIELDS = fields(dim=Field(2, Dim, repeated=True), unknown_rank=Field(3, BOOL))


class Extent(Message):
    """One dimension of a slice; without `length`, the whole dimension."""

    start: int
    length: int | None
    FIELDS = fields(start=Field(1, INT64), length=Field(2, INT64, explicit=True))


class TensorSliceProto(Message):
    extent: list[Extent]
    FIELDS = fields(extent=Field(1, Extent, repeated=True))


# tensorflow/core/protobuf/tensor_bundle.proto


class BundleHeaderProto(Message):
    num_shards: int
    endianness: int
    version: VersionDef | None
    FIELDS = fields(num_shards=Field(1, INT32), endianness=Field(2, INT32), version=Field(3, VersionDef))


class BundleEntryProto(Message):
    dtype: int
    shape: TensorShapeProto | None
    shard_id: int
    offset: int
    size: int
    crc32c: int
    slices: list[TensorSliceProto]
    FIELDS = fields(
        dtype=Field(1, INT32),
        shape=Field(2, TensorShapeProto),
        shard_id=Field(3, INT32),
        offset=Field(4, INT64),
        size=Field(5, INT64),
        crc32c=Field(6, FIXED32),
        slices=Field(7, TensorSliceProto, repeated=True),
    )


# tensorflow/core/util/saved_tensor_slice.proto


class SavedSliceMeta(Message):
    name: str
    shape: TensorShapeProto | None
    type: int
    slice: list[TensorSliceProto]
    FIELDS = fields(
        name=Field(1, TEXT),
        shape=Field(2, TensorShapeProto),
        type=Field(3, INT32),
        slice=Field(4, TensorSliceProto, repeated=True),
    )


class SavedTensorSliceMeta(Message):
    tensor: list[SavedSliceMeta]
    versions: VersionDef | None
    FIELDS = fields(tensor=Field(1, SavedSliceMeta, repeated=True), versions=Field(2, VersionDef))


class SavedSlice(Message):
    name: str
    slice: TensorSliceProto | None
    data: bytes | None  # a TensorProto, decoded by its consumer: it can be most of the file
    FIELDS = fields(
        name=Field(1, TEXT), slice=Field(2, TensorSliceProto), data=Field(3, MESSAGE, explicit=True)
    )


class SavedTensorSlices(Message):
    meta: SavedTensorSliceMeta | None
    data: SavedSlice | None
    FIELDS = fields(meta=Field(1, SavedTensorSliceMeta), data=Field(2, SavedSlice))


# tensorflow/core/protobuf/trackable_object_graph.proto


class ObjectReference(Message):
    """An edge: the child's node id and the name it has at its parent."""

    node_id: int
    local_name: str
    FIELDS = fields(node_id=Field(1, INT32), local_name=Field(2, TEXT))


class SerializedTensor(Message):
    name: str
    full_name: str
    checkpoint_key: str
    FIELDS = fields(name=Field(1, NAME), full_name=Field(2, TEXT), checkpoint_key=Field(3, TEXT))


class SlotVariableReference(Message):
    original_variable_node_id: int
    slot_name: str
    slot_variable_node_id: int
    FIELDS = fields(
        original_variable_node_id=Field(1, INT32),
        slot_name=Field(2, NAME),
        slot_variable_node_id=Field(3, INT32),
    )


class RegisteredSaver(Message):
    name: str
    object_name: str
    FIELDS = fields(name=Field(1, TEXT), object_name=Field(2, TEXT))


class BoolValue(Message):
    value: bool
    FIELDS = fields(value=Field(1, BOOL))


class TrackableObject(Message):
    children: list[ObjectReference]
    attributes: list[SerializedTensor]
    slot_variables: list[SlotVariableReference]
    registered_saver: RegisteredSaver | None
    has_checkpoint_values: BoolValue | None
    FIELDS = fields(
        children=Field(1, ObjectReference, repeated=True),
        attributes=Field(2, SerializedTensor, repeated=True),
        slot_variables=Field(3, SlotVariableReference, repeated=True),
        registered_saver=Field(4, RegisteredSaver),
        has_checkpoint_values=Field(5, BoolValue),
    )


class TrackableObjectGraph(Message):
    nodes: list[TrackableObject]
    FIELDS = fields(nodes=Field(1, TrackableObject, repeated=True))


# tensorflow/core/framework/tensor.proto, tensorflow/core/framework/dataset.proto


class VariantTensorDataProto(Message):
    """One element of a variant tensor: any type's name, what it wrote of itself, and its tensors."""

    type_name: str
    metadata: bytes
    tensors: list[bytes]  # TensorProtos, decoded by code that knows the type
    FIELDS = fields(
        type_name=Field(1, TEXT), metadata=Field(2, BYTES), tensors=Field(3, BYTES, repeated=True)
    )


class VariantTensorProto(Message):
    """The fields of a TensorProto that holds variants."""

    dtype: int
    tensor_shape: TensorShapeProto | None
    variant_val: list[VariantTensorDataProto]
    FIELDS = fields(
        dtype=Field(1, INT32),
        tensor_shape=Field(2, TensorShapeProto),
        variant_val=Field(15, VariantTensorDataProto, repeated=True),
    )


class ComponentMetadata(Message):
    """One tensor of a compressed element; strings have a size each."""

    dtype: int
    tensor_shape: TensorShapeProto | None
    uncompressed_bytes: list[int]
    FIELDS = fields(
        dtype=Field(1, INT32),
        tensor_shape=Field(2, TensorShapeProto),
        uncompressed_bytes=Field(4, INT64, repeated=True),
    )


class CompressedElement(Message):
    data: bytes
    component_metadata: list[ComponentMetadata]
    FIELDS = fields(data=Field(1, BYTES), component_metadata=Field(2, ComponentMetadata, repeated=True))
