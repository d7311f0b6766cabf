"""The state file `checkpoint`: which checkpoints a directory holds, and which is the latest.

Text of a CheckpointState message, one field a line as TensorFlow writes it:

    model_checkpoint_path: "ckpt-3"
    all_model_checkpoint_paths: "ckpt-2"
    all_model_checkpoint_paths: "ckpt-3"
    all_model_checkpoint_timestamps: 1795248679.3034415
    last_preserved_timestamp: 1795248678.276934

Paths are relative to the file's directory, or absolute.  Reading takes all of the text
format that these four fields can use: both quotes, adjacent literals, escapes,
comments, several fields a line.  An unknown field makes TensorFlow ignore the whole
file, so it is an error here and never written.
tensorflow/python/training/checkpoint_state.proto, python/checkpoint/checkpoint_management.py
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ...errors import CorruptCheckpointError

if TYPE_CHECKING:
    from ...location import Location

FILE_NAME = "checkpoint"
_LONGEST_PATH = 1 << 20  # No system opens one of more than a few thousand.
_LARGEST = 1 << 26  # A million paths; a larger file is not a state file.

# Strings are possessive (`++`): kept for going back, each character would take a hundred bytes.
_TOKEN = re.compile(
    rb"""
      (?P<skip>   [ \t\r\n\f\v,;]+ | \#[^\n]* )
    | (?P<name>   [A-Za-z_]\w* )
    | (?P<number> [-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]? )
    | (?P<negative> -[A-Za-z]+ )
    | (?P<string> "(?:[^"\\\n]++|\\.)*+" | '(?:[^'\\\n]++|\\.)*+' )
    | (?P<colon>  : )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|[xX][0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_SIMPLE = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_NOT_FINITE = re.compile(rb"(-?(?:inf|infinity|nan))f?", re.IGNORECASE)

_PATH, _PATHS, _TIMES, _PRESERVED = (
    "model_checkpoint_path",
    "all_model_checkpoint_paths",
    "all_model_checkpoint_timestamps",
    "last_preserved_timestamp",
)


def looks_like_state_file(head: bytes) -> bool:
    """Whether a file beginning so is a state file, by its first field."""
    return bool(re.match(rb"\s*(?:#[^\n]*\n\s*)*(?:all_)?model_checkpoint_paths?\s*:", head))


class NoLatestError(CorruptCheckpointError):
    """A state file that can be read, and names no latest checkpoint: an empty one, perhaps."""


class _IncompleteError(ValueError):
    """The parsed content lacks the latest checkpoint."""


class StateFile(NamedTuple):
    """A state file's fields; `timestamps` are seconds since 1970, as many as `paths` or none."""

    latest: str
    paths: tuple[str, ...] = ()
    timestamps: tuple[float, ...] = ()
    last_preserved: float | None = None

    @classmethod
    def read(cls, path: Location) -> StateFile:
        """Return the state file at `path`; CorruptCheckpointError if it is none, or names no latest."""
        with path.open() as file:
            if file.size > _LARGEST:
                raise CorruptCheckpointError(
                    f"the file has {file.size} bytes, which is too large for a state file", path=path
                )
            text = file.read(0, file.size)
        try:
            return cls.parse(text)
        except ValueError as error:
            kind = NoLatestError if isinstance(error, _IncompleteError) else CorruptCheckpointError
            raise kind(f"this is not a checkpoint state file: {error}", path=path) from error

    @classmethod
    def parse(cls, text: bytes) -> StateFile:
        """Return the state in `text`; ValueError if it is none."""
        strings: dict[str, list[str]] = {_PATH: [], _PATHS: []}
        numbers: dict[str, list[float]] = {_TIMES: [], _PRESERVED: []}
        tokens = _tokens(text)
        position = 0
        while position < len(tokens):
            kind, raw = tokens[position]
            name = raw.decode("ascii", "replace")
            if kind != "name" or (name not in strings and name not in numbers):
                raise ValueError(f"the field {name!r} is unknown")
            if tokens[position + 1 : position + 2] != [("colon", b":")]:
                raise ValueError(f"a colon is missing after field {name!r}")
            position += 2
            start = position
            if name in strings:
                while position < len(tokens) and tokens[position][0] == "string":
                    position += 1
                length = sum(len(literal) for _, literal in tokens[start:position])
                if length > _LONGEST_PATH:
                    raise ValueError(f"a path has {length} bytes, which is over the limit")
                value = b"".join(_unquote(literal) for _, literal in tokens[start:position])
                strings[name].append(value.decode("utf-8", "surrogateescape"))
            elif position < len(tokens) and (number := _number(*tokens[position])) is not None:
                numbers[name].append(number)
                position += 1
            if position == start:
                raise ValueError(f"field {name!r} has no value")
        if not strings[_PATH] or not strings[_PATH][-1]:
            raise _IncompleteError(f"it has no {_PATH}")
        preserved = numbers[_PRESERVED]
        return cls(
            strings[_PATH][-1],
            tuple(strings[_PATHS]),
            tuple(numbers[_TIMES]),
            preserved[-1] if preserved else None,
        )

    def with_latest(self, path: str, timestamp: float) -> StateFile:
        """Return the state after a save to `path` (as it shall be listed), which is the latest then.

        Timestamps stay as many as paths: an entry without one, in a file that has none,
        counts as saved when this one was.
        """
        times = self.timestamps if len(self.timestamps) == len(self.paths) else (timestamp,) * len(self.paths)
        kept = [(old, time) for old, time in zip(self.paths, times, strict=True) if old != path]
        paths, stamps = zip(*kept, (path, timestamp), strict=True)
        return StateFile(path, paths, stamps, self.last_preserved)

    def text(self) -> bytes:
        """Return the file as TensorFlow writes it."""
        lines = [f"{_PATH}: {_quote(self.latest)}"]
        lines += [f"{_PATHS}: {_quote(path)}" for path in self.paths]
        lines += [f"{_TIMES}: {time!r}" for time in self.timestamps]
        if self.last_preserved is not None:
            lines.append(f"{_PRESERVED}: {self.last_preserved!r}")
        return "".join(line + "\n" for line in lines).encode("ascii")


def _number(kind: str, raw: bytes) -> float | None:
    if kind == "number":
        return float(raw.rstrip(b"fF"))
    named = _NOT_FINITE.fullmatch(raw)
    return float(named[1]) if named else None


def _tokens(text: bytes) -> list[tuple[str, bytes]]:
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"unexpected byte {text[position]:#04x} at offset {position}")
        position = match.end()
        if match.lastgroup and match.lastgroup != "skip":
            tokens.append((match.lastgroup, match[0]))
    return tokens


def _unquote(literal: bytes) -> bytes:
    def character(match: re.Match[bytes]) -> bytes:
        escape = match[1]
        if escape[:1].isdigit():
            return bytes((int(escape, 8) & 0xFF,))
        if escape[:1] in b"xX" and len(escape) > 1:
            return bytes((int(escape[1:], 16),))
        if escape[:1] in b"uU" and len(escape) > 1:
            code = int(escape[1:], 16)
            return chr(code).encode("utf-8", "surrogatepass") if code < 0x110000 else b"?"
        return _SIMPLE.get(escape, escape)

    return _ESCAPE.sub(character, literal[1:-1])


def _quote(text: str) -> str:
    """Return a literal as protobuf's text format prints it: everything but printable ASCII in octal."""
    named = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x22: '\\"', 0x27: "\\'", 0x5C: "\\\\"}
    body = "".join(
        named.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}")
        for byte in text.encode("utf-8", "surrogateescape")
    )
    return f'"{body}"'
