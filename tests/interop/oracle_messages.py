"""The fields of TensorFlow's protocol buffer messages; run by TensorFlow's Python."""

import tensorflow  # noqa: F401
from google.protobuf import (
    descriptor_pool,
    wrappers_pb2,  # noqa: F401
)
from google.protobuf.descriptor import FieldDescriptor
from tensorflow.core.framework import dataset_pb2, variable_pb2  # noqa: F401
from tensorflow.core.protobuf import saved_object_graph_pb2, tensor_bundle_pb2  # noqa: F401
from tensorflow.core.util import event_pb2, saved_tensor_slice_pb2  # noqa: F401
from tensorflow.python.keras.protobuf import saved_metadata_pb2  # noqa: F401

TYPES = {
    getattr(FieldDescriptor, name): name[5:].lower()
    for name in dir(FieldDescriptor)
    if name.startswith("TYPE_")
}


def _is_repeated(field):
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return field.label == FieldDescriptor.LABEL_REPEATED


def fields(names):
    """Return by message and name each field's number and type, and whether it is repeated."""
    pool = descriptor_pool.Default()
    return {
        name: {
            field.name: [field.number, TYPES[field.type], _is_repeated(field)]
            for field in pool.FindMessageTypeByName(name).fields
        }
        for name in names
    }
