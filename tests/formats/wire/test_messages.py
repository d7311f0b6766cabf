"""Tables of messages against TensorFlow's own: numbers, types, and what is repeated."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

from formats.wire.protobuf import TEXT, Field, Message
from tests.support import data_path

GRAPH, SLICES = "tensorflow.TrackableObjectGraph.TrackableObject", "tensorflow.TensorSliceProto"
ATTRIBUTE, META = "tensorflow.AttrValue", "tensorflow.MetaGraphDef"

MESSAGES = {
    "formats.wire.messages": {
        "VersionDef": "tensorflow.VersionDef",
        "Dim": "tensorflow.TensorShapeProto.Dim",
        "TensorShapeProto": "tensorflow.TensorShapeProto",
        "Extent": f"{SLICES}.Extent",
        "TensorSliceProto": SLICES,
        "BundleHeaderProto": "tensorflow.BundleHeaderProto",
        "BundleEntryProto": "tensorflow.BundleEntryProto",
        "SavedSliceMeta": "tensorflow.SavedSliceMeta",
        "SavedTensorSliceMeta": "tensorflow.SavedTensorSliceMeta",
        "SavedSlice": "tensorflow.SavedSlice",
        "SavedTensorSlices": "tensorflow.SavedTensorSlices",
        "ObjectReference": f"{GRAPH}.ObjectReference",
        "SerializedTensor": f"{GRAPH}.SerializedTensor",
        "SlotVariableReference": f"{GRAPH}.SlotVariableReference",
        "RegisteredSaver": "tensorflow.RegisteredSaver",
        "BoolValue": "google.protobuf.BoolValue",
        "TrackableObject": GRAPH,
        "TrackableObjectGraph": "tensorflow.TrackableObjectGraph",
        "VariantTensorDataProto": "tensorflow.VariantTensorDataProto",
        "VariantTensorProto": "tensorflow.TensorProto",
        "ComponentMetadata": "tensorflow.data.CompressedComponentMetadata",
        "CompressedElement": "tensorflow.data.CompressedElement",
    },
    "formats.tf.bundle.saved_model": {
        "_GraphInfo": f"{META}.MetaInfoDef",
        "_TensorInfo": "tensorflow.TensorInfo",
        "_TensorEntry": "tensorflow.SignatureDef.InputsEntry",
        "_Signature": "tensorflow.SignatureDef",
        "_SignatureEntry": f"{META}.SignatureDefEntry",
        "_UserObject": "tensorflow.SavedUserObject",
        "_SavedObject": "third_party.tensorflow.python.keras.protobuf.SavedObject",
    },
    "formats.tf.run.dataset_graph": {
        "_Tensor": "tensorflow.TensorProto",
        "_List": f"{ATTRIBUTE}.ListValue",
        "_Value": ATTRIBUTE,
        "_Attribute": "tensorflow.NodeDef.AttrEntry",
        "_DatasetNode": "tensorflow.NodeDef",
        "_Versions": "tensorflow.VersionDef",
        "_DatasetGraph": "tensorflow.GraphDef",
    },
    "formats.tf.run.meta_graph": {
        "SaveSliceInfo": "tensorflow.SaveSliceInfoDef",
        "VariableDef": "tensorflow.VariableDef",
        "_BytesList": "tensorflow.CollectionDef.BytesList",
        "_Collection": "tensorflow.CollectionDef",
        "_CollectionEntry": f"{META}.CollectionDefEntry",
        "_AttrValue": ATTRIBUTE,
        "_AttrEntry": "tensorflow.NodeDef.AttrEntry",
        "_GraphNode": "tensorflow.NodeDef",
        "_MetaInfo": f"{META}.MetaInfoDef",
    },
    "formats.tf.run.events": {
        "TensorProto": "tensorflow.TensorProto",
        "SummaryValue": "tensorflow.Summary.Value",
        "Summary": "tensorflow.Summary",
        "SessionLog": "tensorflow.SessionLog",
        "SourceMetadata": "tensorflow.SourceMetadata",
        "Event": "tensorflow.Event",
    },
}
"""Classes by module, and the messages of TensorFlow that they are."""

OTHERWISE = {"VariableDef.slice": "save_slice_info_def"}
"""Fields that have a shorter name here."""

WIRE = {"double": 1, "float": 5, "fixed32": 5, "string": 2, "bytes": 2, "message": 2}
"""Wire types by the types of fields; all others are varints."""

with open(data_path("messages.json"), encoding="utf-8") as file:
    TENSORFLOWS = json.load(file)


def test_every_message_is_compared() -> None:
    for name in MESSAGES:
        import_module(name)
    known = {(module, name) for module, names in MESSAGES.items() for name in names}
    assert {
        (each.__module__, each.__name__)
        for each in Message.__subclasses__()
        if each.__module__.startswith("formats.")
    } == known


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in MESSAGES.items() for name in names]
)
def test_fields_are_those_of_tensorflow(module: str, name: str) -> None:
    theirs = {
        number: (field, *rest) for field, (number, *rest) in TENSORFLOWS[MESSAGES[module][name]].items()
    }
    mine: dict[str, Field] = getattr(import_module(module), name).FIELDS
    assert mine
    for called, field in mine.items():
        other, kind, is_repeated = theirs[field.number]
        is_message = isinstance(field.type, type)
        wire = 2 if is_message else field.type.wire_type
        assert (OTHERWISE.get(f"{name}.{called}", called), wire, field.repeated) == (
            other,
            WIRE.get(kind, 0),
            is_repeated,
        )
        assert not is_message or kind == "message"
        assert field.type is not TEXT or kind == "string"
        assert not (field.explicit and field.repeated)
