"""Iterator states: all that TensorFlow saved is parsed, and put together again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from formats.tf.run.iterator_state import decode, encode, own_key, short_key
from formats.wire.messages import (
    CompressedElement,
    VariantTensorDataProto,
    VariantTensorProto,
)
from tests.iterators import Saved, saved_iterators

ROOT = "Iterator::Root::Prefetch"


def one(release: str, name: str, position: int) -> Saved:
    (found,) = (
        saved
        for saved in saved_iterators()
        if (saved.release, saved.name, saved.position) == (release, name, position)
    )
    return found


def plain(state: Any) -> Any:
    return {
        prefix: {key: (value.dtype, value.tolist()) for key, value in values.items()}
        for prefix, values in state.items()
    }


def without_snappy(element: bytes) -> tuple[Any, ...]:
    """Return a section's messages with the compressed bytes taken out, which differ by compressor."""
    section = VariantTensorDataProto.decode(element)
    tensor = VariantTensorProto.decode(section.tensors[0])
    (variant,) = tensor.variant_val
    compressed = CompressedElement.decode(variant.metadata)
    return (
        section.replace(tensors=[]).encode(),
        tensor.replace(variant_val=[]).encode(),
        variant.replace(metadata=b"").encode(),
        compressed.replace(data=b"").encode(),
    )


def test_there_are_two_hundred() -> None:
    assert len(saved_iterators()) == 200


@pytest.mark.parametrize("saved", saved_iterators(), ids=str)
def test_what_is_decoded_is_put_together(saved: Saved) -> None:
    state = decode(saved.state)
    again = encode(state)
    assert plain(decode(again)) == plain(state)
    assert list(map(without_snappy, again)) == list(map(without_snappy, saved.state))


def test_sections_and_values() -> None:
    state = decode(one("tf215", "guide", 1).state)
    slices = f"{ROOT}::BatchV2::ForeverRepeat[0]::TensorSlice"
    assert list(state) == [
        ROOT,
        f"{ROOT}::0",
        f"{ROOT}::BatchV2",
        f"{ROOT}::BatchV2::ForeverRepeat",
        slices,
    ]
    assert state[ROOT]["buffer_size"] == 1
    assert state[f"{ROOT}::0"]["buffer[0]"].tolist() == [[2.0], [3.0]]
    assert state[f"{ROOT}::0"]["buffer[0]"].dtype == np.float32
    assert state[slices] == {own_key(slices, "index"): 4}
    assert short_key(slices, next(iter(state[slices]))) == "index"


def test_strings() -> None:
    state = decode(one("tf221", "strings", 1).state)
    assert state[f"{ROOT}::0"]["buffer[0]"].tolist() == [b"d", b"a", b"bc"]


def test_an_empty_value() -> None:
    state = {"Iterator::Root": {"a": np.zeros((0, 3), np.float32), "b": np.empty((0,), object)}}
    assert plain(decode(encode(state))) == plain(state)
    assert decode(encode(state))["Iterator::Root"]["a"].shape == (0, 3)


def test_an_empty_value_has_no_size() -> None:
    """As TensorFlow writes it, which reads no other."""
    (element,) = encode({"Iterator::Root": {"a": np.zeros((0, 3), np.float32)}})
    tensor = VariantTensorProto.decode(VariantTensorDataProto.decode(element).tensors[0])
    (component,) = CompressedElement.decode(tensor.variant_val[0].metadata).component_metadata
    assert list(component.uncompressed_bytes) == []


def changed(**changes: Any) -> bytes:
    """Return a section of one key whose compressed element is changed."""
    values = {"next": np.asarray(5)}
    section = VariantTensorDataProto.decode(encode({"Iterator::Root::Range": values})[0])
    tensor = VariantTensorProto.decode(section.tensors[0])
    compressed = CompressedElement.decode(tensor.variant_val[0].metadata)
    component = compressed.component_metadata[0].replace(**changes)
    compressed = compressed.replace(component_metadata=[component])
    variant = tensor.variant_val[0].replace(metadata=compressed.encode())
    return section.replace(tensors=[tensor.replace(variant_val=[variant]).encode()]).encode()


@pytest.mark.parametrize(
    ("elements", "complaint"),
    [
        ([b""], "the variant has type ''"),
        ([b"\xff"], "varint"),
        ([VariantTensorDataProto(type_name="tensorflow::Iterator").encode()], "a section has 0 tensors"),
        (
            [VariantTensorDataProto(type_name="tensorflow::Iterator", tensors=[b""]).encode()],
            "has no 'tensorflow.data.CompressedElement'",
        ),
        ([changed(), changed()], "section 'Iterator::Root::Range' occurs twice"),
        ([changed(dtype=21)], "Root::Range: next: the dtype number 21 is unknown"),
        ([changed(dtype=3)], r"8 bytes do not match int32 of shape \(\)"),
        ([changed(uncompressed_bytes=[1 << 40])], "1099511627776 bytes, but only 8 bytes are left"),
        ([changed(uncompressed_bytes=[-8])], "-8 bytes"),
        ([changed(uncompressed_bytes=[8, 0])], "2 sizes"),
        ([changed(dtype=7, uncompressed_bytes=[4])], "the values need 4 bytes, but 8 are stored"),
    ],
)
def test_what_is_not_a_state_is_rejected(elements: list[bytes], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        decode(elements)


def test_a_pipeline_of_a_million_steps_is_rejected() -> None:
    with pytest.raises(ValueError, match="a prefix has 1,000,000 steps"):
        decode(encode({"Iterator" + "::Root" * 1_000_000: {"next": np.asarray(5)}}))


def test_keys_and_values_must_be_as_many() -> None:
    section = VariantTensorDataProto.decode(changed())
    with pytest.raises(ValueError, match="2 keys do not match 1 values"):
        decode([section.replace(metadata=section.metadata + b"@@more").encode()])
