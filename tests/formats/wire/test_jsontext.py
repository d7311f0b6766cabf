"""JSON of files: what is made of a text takes no more memory than its size explains."""

from __future__ import annotations

import json

import pytest

from formats.wire import jsontext
from formats.wire.jsontext import MOST_DEPTH, parse_object


def lists(count: int) -> str:
    return '{"a":[' + ",".join(["[]"] * count) + "]}"


def test_a_text_of_nothing_but_lists_is_rejected_before_they_are_made() -> None:
    """Each list takes 64 bytes, its place in another 16; 64 MiB, and 4 bytes a character, are allowed."""
    most = (64 << 20) // (64 + 16 - 4 * 3)
    assert len(parse_object(lists(most - 10))["a"]) == most - 10
    with pytest.raises(ValueError, match="too many values for a text of"):
        parse_object(lists(most + 10))


@pytest.mark.parametrize("value", [{}, [], 0])
def test_values_of_each_kind_are_counted(value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsontext, "_SLACK", 0)
    text = json.dumps({"a": [value] * 1000}, separators=(",", ":"))
    with pytest.raises(ValueError, match=f"there are too many values for a text of {len(text)} characters"):
        parse_object(text)
    text = json.dumps({"a" * 1000: value})
    assert parse_object(text) == {"a" * 1000: value}


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nesting_ends_somewhere(opening: str) -> None:
    closing = "]" if opening == "[" else "}"

    def nested(depth: int) -> str:
        return '{"a":' + opening * depth + "0" + closing * depth + "}"

    assert parse_object(nested(MOST_DEPTH - 1))
    with pytest.raises(ValueError, match="the JSON is nested too deeply"):
        parse_object(nested(MOST_DEPTH))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"\xff", "not UTF-8 at byte 0"),
        (b"{", "not JSON: expecting property name enclosed in double quotes at character 1"),
        (b"[]", "found a JSON list; expected an object"),
        (b'{"a": {"b": 1, "b": 1}}', "key 'b' occurs twice"),
        (b'{"a": "\\ud800"}', r"a string has half of a surrogate pair, '\\ud800'"),
    ],
)
def test_what_is_not_an_object_is_reported(text: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_object(text)


def test_a_byte_that_is_spelled_is_our_own() -> None:
    assert parse_object(b'{"\\udcff": 1}') == {"\udcff": 1}
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        parse_object(b'{"\\udcff": 1}', spells_bytes=False)
