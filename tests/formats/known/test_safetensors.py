"""safetensors: the rules of its README, one test each."""

from __future__ import annotations

import json
import struct
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

import formats
from tests.support import reads_alike, same
from tests.writing import save


def write(path, header, data: bytes = b"", *, length: int | None = None) -> str:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return str(path)


def entry(begin, end, shape=None, dtype="U8"):
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


def test_every_dtype_reads_back(tmp_path):
    arrays = {
        "F64": np.arange(6, dtype=np.float64).reshape(2, 3),
        "F32": np.array(1.5, np.float32),
        "F16": np.zeros((0, 4), np.float16),
        "BF16": np.array([1, -2, 3], ml_dtypes.bfloat16),
        "F8_E4M3": np.array([1, 2], ml_dtypes.float8_e4m3fn),
        "F8_E5M2": np.array([1, 2], ml_dtypes.float8_e5m2),
        "I64": np.arange(3, dtype=np.int64),
        "U16": np.arange(3, dtype=np.uint16),
        "BOOL": np.array([True, False]),
    }
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for code, array in arrays.items():
        header[code] = entry(len(data), len(data) + array.nbytes, list(array.shape), code)
        data += array.tobytes()
    with formats.open_checkpoint(write(tmp_path / "x.safetensors", header, data)) as reader:
        assert reader.format.name == "safetensors"
        assert reader.facts.document()["producer"] == "pt"
        for code, array in arrays.items():
            assert same(reads_alike(reader[code]), array), code
        steps = list(reader.verify())
        assert [finding for step in steps for finding in step.findings] == []
        assert sum(step.nbytes for step in steps) == len(data)


CORRUPT = {
    "overlap": ({"a": entry(0, 4), "b": entry(2, 6)}, 6, "overlaps the data up to byte 4"),
    "hole": ({"a": entry(0, 2), "b": entry(4, 6)}, 6, "a gap after byte 2"),
    "surplus": ({"a": entry(0, 2)}, 3, "3 bytes of data, but the header lists 2"),
    "truncated": ({"a": entry(0, 8)}, 5, "truncated: it has 5 bytes of data, but the header lists 8"),
    "backwards": ({"a": entry(4, 0, [4])}, 4, "needs 4 bytes"),
    "size": (
        {"a": entry(0, 4, [4], "F32")},
        4,
        r"data_offsets \[0, 4\] are wrong; F32 of shape \[4\] needs 16 bytes",
    ),
    "overflow": ({"a": entry(0, 4, [1 << 62, 1 << 62], "F32")}, 4, "F32 of shape"),
    "dtype": ({"a": entry(0, 4, dtype="x9")}, 4, "the dtype 'x9' is invalid"),
    "packed size": (
        {"a": entry(0, 4, [9], "F4")},
        4,
        r"data_offsets \[0, 4\] are wrong; F4 of shape \[9\] needs 36 bits",
    ),
    "negative": ({"a": entry(0, 4, [-4])}, 4, r"shape \[-4\]"),
    "float": ({"a": entry(0, 4, [4.0])}, 4, r"shape \[4.0\]"),
    "rank": ({"a": entry(0, 1, [1] * 10_000)}, 1, "shape"),
    "fields": ({"a": {**entry(0, 4), "more": 1}}, 4, "must have only dtype"),
    "no object": ({"a": 1}, 4, "must have only dtype"),
    "not json": (b"{not json", 0, "header: this is not JSON"),
    "not utf-8": (b'{"\xff": 1}', 0, "not UTF-8"),
    "twice": (b'{"a": 1, "a": 2}', 0, "key 'a' occurs twice"),
    "deep": (b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", 0, "the JSON is nested too deeply"),
}


@pytest.mark.parametrize("case", CORRUPT)
def test_what_the_rules_forbid_is_corrupt(tmp_path, case):
    header, size, message = CORRUPT[case]
    path = write(tmp_path / "x.safetensors", header, bytes(size))
    with pytest.raises(formats.CorruptCheckpointError, match=message) as caught:
        formats.open_checkpoint(path)
    assert caught.value.path == path


@pytest.mark.parametrize("length", [100_000_001, 1 << 47])
def test_a_header_longer_than_allowed_is_not_read(tmp_path, length):
    path = write(tmp_path / "x.safetensors", {"a": entry(0, 0)}, length=length)
    with pytest.raises(
        formats.CorruptCheckpointError, match=f"the header has {length} bytes, over the limit of 100000000"
    ):
        formats.open_checkpoint(path)


def test_a_header_cut_off_says_so(tmp_path):
    path = write(tmp_path / "x.safetensors", {"a": entry(0, 0)}, length=5000)
    with pytest.raises(
        formats.CorruptCheckpointError, match="the header has 5000 bytes, but the file has only"
    ) as caught:
        formats.open_checkpoint(path)
    assert caught.value.hints


def test_a_truncated_file_lists_leniently(tmp_path):
    header = {"a": entry(0, 4), "b": entry(4, 8)}
    path = write(tmp_path / "x.safetensors", header, bytes(5))
    with formats.open_checkpoint(path, lenient=True) as reader:
        assert reader["a"].read().tolist() == [0, 0, 0, 0]
        with pytest.raises(formats.CorruptCheckpointError):
            reader["b"].read()
        found = [finding for step in reader.verify() for finding in step.findings]
        assert [(finding.code, finding.key) for finding in found] == [
            ("shard-short", None),
            ("shard-short", "b"),
        ]


def test_a_few_overlaps_list_leniently_and_thousands_do_not(tmp_path):
    """Each entry would be read by itself: 50,000 over 4 MB took `rescue` more than a minute."""
    size = 1 << 20
    few = write(tmp_path / "few.safetensors", {f"v{n}": entry(0, size) for n in range(100)}, bytes(size))
    with formats.open_checkpoint(few, lenient=True) as reader:
        assert {finding.code for finding in reader.findings} == {"overlap"}
        assert reader["v9"].read().nbytes == size
    many = write(tmp_path / "many.safetensors", {f"v{n}": entry(0, size) for n in range(200)}, bytes(size))
    made_of = f"{size} stored bytes expand to tensors of {200 << 20} bytes"
    with pytest.raises(formats.CorruptCheckpointError, match=made_of) as caught:
        formats.open_checkpoint(many, lenient=True)
    assert (caught.value.code, caught.value.path) == ("overlap", many)


def test_a_file_cut_to_a_thousandth_still_lists_leniently(tmp_path):
    """Data after the cut is not read, and does not count as bytes that tensors share."""
    header = {f"v{n}": entry(n << 20, (n + 1) << 20) for n in range(1000)}
    path = write(tmp_path / "cut.safetensors", header, bytes(1 << 20))
    with formats.open_checkpoint(path, lenient=True) as reader:
        assert len(reader.specs) == 1000
        assert reader["v0"].read().nbytes == 1 << 20


def test_dtypes_that_only_others_know_are_listed(tmp_path):
    path = write(tmp_path / "x.safetensors", {"a": entry(0, 4, [8], "F4")}, bytes(4))
    with formats.open_checkpoint(path) as reader:
        spec = reader.specs["a"]
        assert (spec.dtype.name, spec.dtype_name, spec.nbytes) == ("F4", None, 4)
        assert spec.dtype.is_unmapped
        assert not reader.findings
        assert b"".join(map(bytes, reader["a"].chunks())) == bytes(4)
        with pytest.raises(formats.UnsupportedFeatureError, match="values of dtype F4 cannot be read"):
            reader["a"].read()


def test_a_dtype_of_a_later_version_is_found_and_closes_nothing(tmp_path):
    header = {"a": entry(0, 4, [2], "F16X2"), "b": entry(4, 8, [1], "F32")}
    path = write(tmp_path / "x.safetensors", header, bytes(8))
    with formats.open_checkpoint(path) as reader:
        (finding,) = reader.findings
        assert (finding.severity, finding.code, finding.key) == ("error", "dtype", "a")
        assert finding.message == "the dtype 'F16X2' is unknown"
        assert reader["b"].read() == 0
        assert not reader.format.holds(reader.specs["a"].dtype)


def test_scales_of_microscaling_are_numbers(tmp_path):
    path = write(tmp_path / "x.safetensors", {"a": entry(0, 3, [3], "F8_E8M0")}, b"\x7f\x80\xff")
    with formats.open_checkpoint(path) as reader:
        assert reader.specs["a"].dtype.name == "float8_e8m0fnu"
        assert [str(value) for value in reader["a"].read().astype("f4")] == ["1.0", "2.0", "nan"]


def test_text_with_a_brace_in_its_ninth_column_is_not_a_safetensors(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("abcdefgh{}")
    with pytest.raises(formats.UnknownFormatError):
        formats.open_checkpoint(str(path))


@pytest.mark.parametrize("code", ["U8", "BOOL"])
def test_more_dimensions_than_numpy_has_are_rejected(code, tmp_path):
    path = write(tmp_path / "deep.safetensors", {"deep": entry(0, 1, [1] * 70, code)}, b"\1")
    with formats.open_checkpoint(path) as reader:
        deep = reader["deep"]
        for read in (deep.read, lambda: deep.read_slice(...)):
            with pytest.raises(formats.UnsupportedFeatureError, match="cannot create an array of"):
                read()


def test_opening_takes_a_few_times_the_headers_size(tmp_path):
    """Its parsed parts are freed while the specs are made."""
    name = "model.layers.{}.self_attn.some_projection.weight"
    header = {name.format(n): entry(4 * n, 4 * n + 4, [1], "F32") for n in range(20_000)}
    path = write(tmp_path / "x.safetensors", header, bytes(80_000))
    formats.open_checkpoint(write(tmp_path / "y.safetensors", {})).close()  # imports what opening imports
    tracemalloc.start(1)
    try:
        with formats.open_checkpoint(path) as reader:
            assert len(reader.specs) == 20_000
            taken = tracemalloc.get_traced_memory()[1]
            assert taken < 7 * reader.header_size, f"{taken / reader.header_size:.1f} times"
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", range(1, 17))
def test_a_header_is_filled_up_to_eight_bytes(tmp_path, length):
    path = tmp_path / "m.safetensors"
    save(path, {"k" * length: np.zeros(1, np.int8)}, "safetensors")
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + size]
    assert size % 8 == 0
    assert len(header) - len(header.rstrip()) < 8
    assert len(data) == 8 + size + 1
