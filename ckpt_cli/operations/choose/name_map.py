"""Files that give new names: two columns, or one JSON object.

    old TAB new        lines; unsafe bytes as ckpt prints them, `\\xNN` and `\\\\`
    {"old": "new"}     JSON, bytes that are not UTF-8 as lone surrogates

Empty lines are passed over, and lines that begin with `#` and have no TAB.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from formats.core.spec import key_text
from formats.errors import CheckpointError
from formats.store.paths import open_file

if TYPE_CHECKING:
    from collections.abc import Iterable


LARGEST_MAP = 1 << 28  # bytes; a line for each of a million tensors is less
_ESCAPED = re.compile(rb"\\(?:\\|x([0-9a-fA-F]{2}))")


def read_map(path: str) -> dict[str, str]:
    """Return the new names in a file by the old ones; CheckpointError where it is none of both kinds."""
    with open_file(path) as file:
        data = file.read(0, LARGEST_MAP + 1)
    if len(data) > LARGEST_MAP:
        raise CheckpointError(f"more than {LARGEST_MAP} bytes for a map", path=path)
    pairs = _json_pairs(path, data) if data.lstrip()[:1] == b"{" else _lines(path, data)
    names: dict[str, str] = {}
    for old, new in pairs:
        if names.setdefault(old, new) != new:
            raise CheckpointError(f"{old!r} is to become {names[old]!r} and {new!r}", path=path)
    return names


def _json_pairs(path: str, data: bytes) -> list[tuple[str, str]]:
    def only_pairs(pairs: list[tuple[str, object]]) -> list[tuple[str, object]]:
        return pairs

    try:
        pairs = json.loads(data, object_pairs_hook=only_pairs)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"begins like JSON, and is none: {error}", path=path) from error
    for old, new in pairs:
        if not isinstance(new, str):
            raise CheckpointError(f"the new name of {old!r} is no string", path=path)
    return list(pairs)


def _lines(path: str, data: bytes) -> Iterable[tuple[str, str]]:
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip() or (line.startswith(b"#") and b"\t" not in line):
            continue
        columns = line.split(b"\t")
        if len(columns) != 2:
            message = f"line {number} has {len(columns)} TAB-separated columns, expected old and new"
            raise CheckpointError(message, path=path)
        old, new = (key_text(_ESCAPED.sub(_unescape_one, column)) for column in columns)
        yield old, new


def _unescape_one(match: re.Match[bytes]) -> bytes:
    return bytes.fromhex(match[1].decode()) if match[1] else b"\\"
