"""JSON from untrusted files: a header, a configuration, a listing.

Readers disagree about a duplicate key, so it is an error. So is nesting that would exhaust the parser, or
later code that walks the value. A lone surrogate is an error too, except U+DC80 to U+DCFF, which stand for
bytes of a key that is not UTF-8.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

from .limits import KeySizes

MOST_DEPTH = 200
"""Objects and lists within one another; models within models within models stay far below."""

_HOLDERS = frozenset((dict, list))
"""The types of values that have others in them."""

_CONTAINER, _VALUE = 64, 16
"""Bytes that a list or object, and a value in it, take in memory at least."""
_SLACK = 64 << 20
"""Bytes that the values of a text may take, for a text of any length."""

_MOST_SHARED, _LONGEST_SHARED = 10_000, 256
"""Texts that share one copy: the dtypes of a header, the shards of a weight map."""

_USUAL_TEXT, _STEP = 8 << 20, 1 << 19
"""Characters whose keys can never be too much, and whose half a key may be."""

_SPELLED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class _ObjectParser:
    """Makes the objects of one text."""

    def __init__(self) -> None:
        self._sizes = KeySizes()
        self._texts: dict[str, str] = {}

    def make(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = _unique(pairs)
        self._sizes.add(out)
        texts = self._texts
        share = texts.setdefault if len(texts) < _MOST_SHARED else texts.get
        # Not `out.items()`: Python 3.11 crashes if memory runs out while it makes that iterator.
        for key, value in pairs:
            if type(value) is str and len(value) <= _LONGEST_SHARED:
                out[key] = share(value, value)
        return out


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {twice!r} occurs twice")
    return out


def _check_size(text: str) -> None:
    """Reject a large text of nothing but brackets and commas, because each makes a value."""
    needed = _CONTAINER * (text.count("[") + text.count("{")) + _VALUE * text.count(",")
    if needed > 4 * len(text) + _SLACK:
        raise ValueError(f"there are too many values for a text of {len(text)} characters")


def _count_entries(value: Any) -> int:
    """Return how many keys all objects of a value have; ValueError if it is nested too deeply."""
    level = [value] if type(value) in _HOLDERS else []
    count = 0
    for _ in range(MOST_DEPTH):
        holders = [holder.values() if type(holder) is dict else holder for holder in level]
        count += sum([len(holder) for holder in level if type(holder) is dict])
        level = [item for item in itertools.chain.from_iterable(holders) if type(item) in _HOLDERS]
        if not level:
            return count
    raise ValueError("the JSON is nested too deeply")


def _has_known_bounds(text: str) -> bool:
    """Whether every key of a text is short enough and directly precedes its colon, as writers place it."""
    if len(text) > _USUAL_TEXT or "\\" in text or any(f"{blank}:" in text for blank in " \t\r\n"):
        return False
    return all('"' in text[at : at + _STEP] for at in range(0, len(text) - _STEP, _STEP))


def _parsed(text: str) -> Any:
    """Return the value that a text spells."""
    if _has_known_bounds(text):
        value = json.loads(text)
        # There are at least as many of these as keys, so none of them occurs twice in an object.
        if _count_entries(value) == text.count('":'):
            return value
    value = json.loads(text, object_pairs_hook=_ObjectParser().make)
    _count_entries(value)
    return value


def parse_object(data: bytes | str, *, spells_bytes: bool = True) -> dict[str, Any]:
    """Return a JSON object; ValueError, saying what is wrong, where the text is none.

    Half a character that is spelled is an error, unless it `spells_bytes`: our own texts do so.
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        del data  # the text is as large
        _check_size(text)
        has_surrogates = _SPELLED_SURROGATE.search(text) is not None
        value = _parsed(text)
        del text  # the value replaces it in memory
        if has_surrogates:
            errors = "surrogateescape" if spells_bytes else "strict"
            json.dumps(value, ensure_ascii=False).encode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise ValueError(f"the text is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON: {error.msg.lower()} at character {error.pos}") from error
    except UnicodeEncodeError as error:
        raise ValueError(f"a string has half of a surrogate pair, {error.object[error.start]!a}") from error
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError(f"found a JSON {type(value).__name__}; expected an object")  # noqa: TRY004  the text is at fault
    return value
