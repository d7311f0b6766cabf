"""Saved listings: specs and checksums without data."""

from __future__ import annotations

import json

import pytest

import formats
from formats.core.spec import Stored, key_bytes


def listed(**fields):
    return {"key": "w", "dtype": "float32", "shape": [2, 3], "nbytes": 24, "kind": "variable", **fields}


def write(path, *tensors, **fields) -> str:
    document = {
        "schema": 1,
        "path": "run/ckpt-1",
        "format": "tf-object",
        "tensors": list(tensors),
        "total": {},
        **fields,
    }
    path.write_text(json.dumps(document))
    return str(path)


def test_a_listing_gives_specs_and_checksums(tmp_path):
    long = {"object_path": "net/w", "full_name": "dense/w", "shard": 0, "offset": 8, "crc32c": 123}
    path = write(
        tmp_path / "l.json",
        listed(key="w/.ATTRIBUTES/VARIABLE_VALUE", **long),
        listed(key="s", dtype="string", shape=[], nbytes=77, kind="state"),
        listed(key="odd", dtype=None, shape=[]),
    )
    with formats.open_checkpoint(path) as reader:
        assert reader.format.name == "listing"
        assert list(reader) == ["odd", "s", "w/.ATTRIBUTES/VARIABLE_VALUE"]
        tensor = reader["w/.ATTRIBUTES/VARIABLE_VALUE"]
        assert tensor.stored == Stored(0, 8, 123)
        assert reader.specs["s"].nbytes == 77
        assert reader.specs["odd"].dtype.name == "invalid"
        assert reader.kinds["s"] == "state"
        assert reader.object_paths == {tensor.spec.key: "net/w"}
        assert reader.full_names == {tensor.spec.key: "dense/w"}
        assert reader.facts.document()["format"] == "tf-object"
        assert [finding for step in reader.verify() for finding in step.findings] == []


def test_values_are_a_clear_error(tmp_path):
    path = write(tmp_path / "l.json", listed())
    with formats.open_checkpoint(path) as reader:
        for attempt in (reader["w"].read, lambda: reader["w"].read_slice((slice(0, 1, 1), slice(0, 1, 1)))):
            with pytest.raises(formats.UnsupportedFeatureError, match="a listing has no values") as caught:
                attempt()
            assert (caught.value.key, caught.value.path) == ("w", path)
            assert caught.value.hints


def test_keys_of_other_bytes_come_back(tmp_path):
    path = write(tmp_path / "l.json", listed(key="\udcff/ä"))
    with formats.open_checkpoint(path) as reader:
        assert [key_bytes(key) for key in reader] == [b"\xff/\xc3\xa4"]


@pytest.mark.parametrize(
    "item",
    [
        1,
        listed(key=None),
        listed(dtype="float31"),
        listed(shape=[-1]),
        listed(shape="2,3"),
        listed(shape=[1 << 70]),
        listed(shape=[1] * 1000),
        listed(shape=[True]),
        listed(crc32c=-1),
        listed(offset="8"),
        listed(object_path=5),
    ],
)
def test_items_that_are_none_are_corrupt(tmp_path, item):
    path = write(tmp_path / "l.json", listed(key="fine"), item)
    with pytest.raises(formats.CorruptCheckpointError, match="tensor 1 of the listing"):
        formats.open_checkpoint(path)
    with formats.open_checkpoint(path, lenient=True) as reader:
        assert list(reader) == ["fine"]
        assert len(reader.findings) == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"key": ["k"] * 1000}, f"the key is {str(['k'] * 20)[:40]!r}; expected text"),
        ({"dtype": "f" * 1000}, f"the dtype {'f' * 40!r} is unknown"),
        ({"shape": "9" * 1000}, f"the shape {'9' * 40} is invalid"),
        ({"shape": [-1] * 1000}, f"the shape {str([-1] * 20)[:40]} is invalid"),
        ({"object_path": [1] * 1000}, f"object_path is {str([1] * 20)[:40]!r}; expected str"),
        ({"digest": "d" * 1000}, f"the digest {'d' * 40!r} is invalid"),
    ],
)
def test_a_long_value_is_quoted_by_its_beginning(tmp_path, fields, words):
    with pytest.raises(formats.CorruptCheckpointError) as caught:
        formats.open_checkpoint(write(tmp_path / "l.json", listed(**fields)))
    assert caught.value.message == f"tensor 0 of the listing: {words}"


def test_a_key_listed_twice_is_corrupt(tmp_path):
    with pytest.raises(formats.CorruptCheckpointError, match="'w' is listed twice"):
        formats.open_checkpoint(write(tmp_path / "l.json", listed(), listed()))


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": 2, "tensors": []}',
        '{"schema": true, "tensors": []}',
        '{"schema": 1.0, "tensors": []}',
        '{"schema": 1}',
        "{}",
        '{"a": {"a": 1, "a": 2}}',
        "{" * 99_999,
    ],
)
def test_other_json_is_not_a_checkpoint(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(formats.UnknownFormatError):
        formats.open_checkpoint(str(path))
