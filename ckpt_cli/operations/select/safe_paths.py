"""Keys as paths of files, or of datasets in one. Files stay below one directory, for any key.

    net/l1/kernel        net/l1/kernel
    ../../x  /etc/x      %2E%2E/%2E%2E/x   %_/etc/x
    a\\n:b  50%           a%0A%3Ab          50%25

A component keeps letters, digits and the characters that file systems agree on. Other bytes become %XX, so
that two keys never share a path; an empty component is `%_`. A name that is too long ends in a part of its
hash. If a file system does not distinguish two paths, as `A` and `a`, the second gets a number.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import TYPE_CHECKING

from formats.core.spec import key_bytes
from formats.core.words import counted
from formats.errors import ConversionError, DuplicateKeyError
from formats.h5.writer import MOST_COMPONENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_UNSAFE = re.compile(rb'[\x00-\x1f\x7f"%*:<>?\\|]')
_LONGEST_NAME = 200
"""Bytes of a component; file systems take 255, and a suffix and a number come behind it."""

_LONGEST_PATH = 1000
"""Bytes of a path; systems take 4096 with the directory before it, and some less."""


def safe_paths(keys: Iterable[str], suffix: str) -> dict[str, str]:
    """Return a relative path for each key, ending in `suffix`; no path is another, or leads through it."""
    plain = {key: _path(key) for key in keys}
    directories = {
        _folded(path[:at]) for path in plain.values() for at, character in enumerate(path) if character == "/"
    }
    taken: set[str] = set()
    paths = {}
    for key, path in plain.items():
        number, name = 1, path + suffix
        while _folded(name) in taken or _folded(name) in directories:
            number += 1
            name = f"{path}~{number}{suffix}"
        taken.add(_folded(name))
        paths[key] = name
    return paths


def dataset_names(keys: Sequence[str], path: str) -> tuple[dict[str, str], list[str]]:
    """Return names in an HDF5 file, and notes on those that are not the keys.

    No tensor has to be a group for another: where `v` is one, `v/Adam` becomes `v.Adam`.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for key in sorted(keys, key=lambda key: key.count("/")):
        if key.count("/") > MOST_COMPONENTS:
            raise ConversionError("this is not a valid path for a dataset", path=path, key=key[:100] + "…")
        name, at = key, key.find("/")
        while at >= 0:
            if name[:at] in taken:
                name = f"{name[:at]}.{name[at + 1 :]}"
            at = name.find("/", at + 1)
        if name in taken:
            raise DuplicateKeyError(f"{key!r} would also be written under this key", path=path, key=name)
        taken.add(name)
        names[key] = name
    changed = [key for key in keys if names[key] != key]
    more = f", and {counted(len(changed) - 1, 'more tensor')} in the same way" if len(changed) > 1 else ""
    notes = [f"{changed[0]} is written as {names[changed[0]]}{more}"] if changed else []
    return {key: names[key] for key in keys}, notes


def _path(key: str) -> str:
    path = "/".join(map(_component, key.split("/")))
    if len(path.encode()) <= _LONGEST_PATH:
        return path
    return f"long-{hashlib.sha256(key_bytes(key)).hexdigest()}"


def _component(text: str) -> str:
    data = key_bytes(text)
    if not data:
        return "%_"
    # bytes that are not UTF-8 are surrogates in the key, which a file system may reject
    safe = _UNSAFE.sub(_spell, data)
    name = safe.decode("utf-8", "backslashreplace").replace("\\x", "%")
    if set(name) == {"."}:
        name = name.replace(".", "%2E")
    if len(name.encode()) > _LONGEST_NAME:
        head = name.encode()[: _LONGEST_NAME - 17].decode("utf-8", "ignore")
        name = f"{head}-{hashlib.sha256(data).hexdigest()[:16]}"
    return name


def _spell(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match[0][0]


def _folded(path: str) -> str:
    """Return a path as file systems compare it that tell neither case nor spellings of accents apart."""
    return unicodedata.normalize("NFC", path).casefold()
