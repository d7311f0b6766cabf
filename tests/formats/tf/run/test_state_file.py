from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import CorruptCheckpointError
from formats.location import parse_location
from formats.tf.run.state_file import StateFile, looks_like_state_file
from tests.support import data_path, manifest

if TYPE_CHECKING:
    from pathlib import Path

RECORDED = list(manifest()["state_files"].items())


@pytest.mark.parametrize(("path", "fields"), RECORDED, ids=[path for path, _ in RECORDED])
def test_files_are_parsed_as_tensorflow_does(path: str, fields: dict[str, Any]) -> None:
    state = StateFile.read(parse_location(data_path(path)))
    assert state.latest == fields["model_checkpoint_path"]
    assert list(state.paths) == fields["all_model_checkpoint_paths"]
    assert list(state.timestamps) == fields["all_model_checkpoint_timestamps"]
    assert (state.last_preserved or 0.0) == fields["last_preserved_timestamp"]
    with open(data_path(path), "rb") as file:
        head = file.read()
    assert looks_like_state_file(head)
    assert state.text() == head


def test_there_are_state_files_to_test_with() -> None:
    assert len(RECORDED) > 90
    assert any(fields["all_model_checkpoint_timestamps"] for _, fields in RECORDED)


def test_text_is_what_tensorflow_writes() -> None:
    state = StateFile(
        "ckpt-3", ("ckpt-2", "ckpt-3"), (1795248679.3034415, 1795248679.3070104), 1795248678.276934
    )
    assert state.text() == (
        b'model_checkpoint_path: "ckpt-3"\n'
        b'all_model_checkpoint_paths: "ckpt-2"\n'
        b'all_model_checkpoint_paths: "ckpt-3"\n'
        b"all_model_checkpoint_timestamps: 1795248679.3034415\n"
        b"all_model_checkpoint_timestamps: 1795248679.3070104\n"
        b"last_preserved_timestamp: 1795248678.276934\n"
    )
    assert StateFile.parse(state.text()) == state


@pytest.mark.parametrize(
    ("text", "latest"),
    [
        (b'model_checkpoint_path: "a"', "a"),
        (b"model_checkpoint_path: 'a'", "a"),
        (b'model_checkpoint_path:"a"', "a"),
        (b'  model_checkpoint_path  :\n\t"a" ', "a"),
        (b'model_checkpoint_path: "a" "b" \'c\'', "abc"),  # adjacent literals
        (b'model_checkpoint_path: "a"\n\n  "b"', "ab"),
        (b'# who wrote this\nmodel_checkpoint_path: "a" # the newest', "a"),
        (b'model_checkpoint_path: "a" all_model_checkpoint_paths: "b"', "a"),  # two fields a line
        (b'all_model_checkpoint_paths: "b", model_checkpoint_path: "a";', "a"),
        (b'model_checkpoint_path: "a"\r\nmodel_checkpoint_path: "b"\r\n', "b"),  # the last counts
        (rb'model_checkpoint_path: "a\"b\\c\'d"', "a\"b\\c'd"),
        (b"model_checkpoint_path: 'a\"b'", 'a"b'),
        (rb'model_checkpoint_path: "\303\251"', "\u00e9"),
        (rb'model_checkpoint_path: "\xc3\xa9\x41"', "\u00e9A"),
        (rb'model_checkpoint_path: "\u00e9\U0001F600"', "\u00e9\U0001f600"),
        (rb'model_checkpoint_path: "tab\tnew\nbell\a\101\1012"', "tab\tnew\nbell\aAA2"),
        ('model_checkpoint_path: "caf\u00e9"'.encode(), "caf\u00e9"),
        (rb'model_checkpoint_path: "\377"', "\udcff"),
        (b'model_checkpoint_path: "#not a comment"', "#not a comment"),
        (b'model_checkpoint_path: "a: b"', "a: b"),
    ],
)
def test_text_format_corner_cases(text: bytes, latest: str) -> None:
    assert looks_like_state_file(text) or text.startswith(b"# who") or b"  :" in text
    assert StateFile.parse(text).latest == latest


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (b"1", 1.0),
        (b"-1.5", -1.5),
        (b"1.", 1.0),
        (b".5", 0.5),
        (b"1e3", 1000.0),
        (b"1.5E-2", 0.015),
        (b"2.5f", 2.5),
        (b"3F", 3.0),
        (b"inf", math.inf),
        (b"Infinity", math.inf),
        (b"-inf", -math.inf),
        (b"inff", math.inf),
    ],
)
def test_numbers(number: bytes, value: float) -> None:
    state = StateFile.parse(b'model_checkpoint_path: "a" last_preserved_timestamp: ' + number)
    assert state.last_preserved == value


def test_not_a_number() -> None:
    state = StateFile.parse(b'model_checkpoint_path: "a" all_model_checkpoint_timestamps: nan')
    assert math.isnan(state.timestamps[0])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"", "no model_checkpoint_path"),
        (b"# nothing", "no model_checkpoint_path"),
        (b'model_checkpoint_path: ""', "no model_checkpoint_path"),
        (b'all_model_checkpoint_paths: "a"', "no model_checkpoint_path"),
        (b'model_checkpoint_path: "a" colour: "red"', "the field 'colour' is unknown"),  # trap 23
        (b'model_checkpoint_path: "a" latest: 1', "the field 'latest' is unknown"),
        (b'model_checkpoint_path "a"', "a colon is missing after field"),
        (b"model_checkpoint_path:", "has no value"),
        (b"model_checkpoint_path: 5", "has no value"),
        (b"model_checkpoint_path: a", "has no value"),
        (b'model_checkpoint_path: "a" last_preserved_timestamp: "1"', "has no value"),
        (b'model_checkpoint_path: "a', "byte 0x22"),
        (b'model_checkpoint_path: "a\nb"', "byte 0x22"),
        (b"model_checkpoint_path: \"a'", "byte 0x22"),
        (b"\x00\x01\x02", "byte 0x00"),
        (b'"a"', "the field"),
        (rb'model_checkpoint_path: "\9"', "invalid literal"),
    ],
)
def test_what_tensorflow_ignores_is_an_error(tmp_path: Path, text: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        StateFile.parse(text)
    path = tmp_path / "checkpoint"
    path.write_bytes(text)
    with pytest.raises(CorruptCheckpointError, match=what) as caught:
        StateFile.read(parse_location(str(path)))
    assert caught.value.path == str(path)


def test_huge_file_is_rejected_unread(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CorruptCheckpointError, match="too large"):
        StateFile.read(parse_location(str(path)))


@pytest.mark.parametrize(
    "head", [b"", b"model", b'"model_checkpoint_path"', b"\x89HDF", b"x model_checkpoint_path:"]
)
def test_what_does_not_look_like_a_state_file(head: bytes) -> None:
    assert not looks_like_state_file(head)


paths = st.binary(min_size=1, max_size=12).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
times = st.floats(allow_nan=False)


@given(paths, st.lists(paths, max_size=4), st.lists(times, max_size=4), st.none() | times)
def test_states_round_trip(
    latest: str, listed: list[str], stamps: list[float], preserved: float | None
) -> None:
    state = StateFile(latest, tuple(listed), tuple(stamps), preserved)
    assert StateFile.parse(state.text()) == state


@given(
    st.lists(
        st.sampled_from([b"model_checkpoint_path", b":", b'"a"', b"'", b"\\", b"1.5", b"#", b"\n", b" "])
    )
)
def test_any_text_is_a_state_or_a_value_error(tokens: list[bytes]) -> None:
    try:
        state = StateFile.parse(b"".join(tokens))
    except ValueError:
        return
    assert state.latest


@pytest.mark.parametrize(("size", "is_read"), [(1 << 26, True), ((1 << 26) + 1, False)])
def test_a_file_of_more_than_64_mib_is_not_a_state_file(tmp_path: Path, size: int, is_read: bool) -> None:
    path = tmp_path / "checkpoint"
    text = b'model_checkpoint_path: "c-1"\n'
    with path.open("wb") as file:
        file.write(text)
        file.truncate(size)
    with pytest.raises(CorruptCheckpointError) as raised:
        StateFile.read(parse_location(str(path)))
    assert ("bytes" in raised.value.message) != is_read  # a state file has no zeros
