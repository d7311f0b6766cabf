"""JSON from files that nobody vouches for: a header, a configuration, a listing.

A key given twice means one thing to one reader and another to the next, so it is an
error; nesting that exhausts the parser is one, too, and not a crash.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["parse_object"]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {twice!r} occurs twice")
    return out


def parse_object(data: bytes | str) -> dict[str, Any]:
    """Return a JSON object; ValueError, saying what is wrong, where the text is none."""
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        value = json.loads(text, object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg.lower()} at character {error.pos}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError(f"a JSON {type(value).__name__}, expected an object")  # noqa: TRY004  the text is at fault
    return value
