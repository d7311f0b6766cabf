"""The meaning of an error message, and the commands that help, with names from the message filled in.

The text comes from anywhere and is only searched: what it names goes into a command as one word
of a shell's, and only if it is printable.  Time is bounded by the patterns, which take no more
than 512 characters for a name, and by `MOST_BYTES`.
"""

from __future__ import annotations

import bisect
import itertools
import os
import re
import shlex
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from .complaints import Complaint, complaints, naming, placeholders, topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Explanation", "explain", "explain_topic", "read_end", "troubleshooting_markdown", "way_out"]

MOST_BYTES = 1_000_000
"""The bytes of a text that are searched, from its end, because an error ends a log."""


class Explanation(NamedTuple):
    """A result: a row of a complaint or a topic, with its commands filled in.

    `stand_ins` explains the words in capitals that remain in the commands.
    """

    title: str
    meaning: str
    commands: tuple[str, ...]
    entries: tuple[tuple[str, str], ...] = ()
    stand_ins: Mapping[str, str] = MappingProxyType({})

    def document(self) -> dict[str, Any]:
        """Return the fields of the JSON document; what a topic lists is part of its meaning."""
        lines = [self.meaning, *(f"{word}: {text}" for word, text in self.entries)]
        return {"title": self.title, "meaning": "\n".join(lines), "commands": list(self.commands)}


def read_end(file: IO[bytes]) -> tuple[bytes, int]:
    """Return the last bytes of a file or a stream, and how many went before them."""
    kept, total = b"", 0
    if file.seekable():
        total = max(0, file.seek(0, os.SEEK_END) - MOST_BYTES)
        file.seek(total)
    while piece := file.read(MOST_BYTES):
        total += len(piece)
        kept = (kept + piece)[-MOST_BYTES:]
    return kept, total - len(kept)


def explain(text: str) -> list[Explanation]:
    """Return explanations of the complaints in a text, in their order."""
    text = _COLOUR.sub("", text.replace("\r\n", "\n"))
    found = [
        (place, row, found_values) for row in complaints() for place, found_values in _look_for(row, text)
    ]
    found.sort(key=lambda one: one[0])
    named = _named(text) if found else []
    return [_filled_in(row, found_values, _nearest(named, place)) for place, row, found_values in found]


def way_out(message: str) -> str | None:
    """Return a command that helps with one of ckpt's errors, if one is known that can be typed unchanged."""
    for match in explain(f"ckpt: error: {message}"):
        for command in match.commands:
            if not _stand_ins((command,)):
                return command
    return None


def explain_topic(name: str) -> Explanation | None:
    """Return what there is to know of a topic, if it is one."""
    row = topics().get(name)
    if row is None:
        return None
    entries = row.entries or _ENTRIES[row.source]()
    return Explanation(row.title, row.meaning, row.commands, entries, _stand_ins(row.commands))


def _formats() -> tuple[tuple[str, str], ...]:
    from formats.find.registry import all_formats

    return tuple((found.name, found.summary) for found in all_formats())


def _maps() -> tuple[tuple[str, str], ...]:
    from ..select.name_map import packs

    return tuple(packs().items())


_ENTRIES: dict[str | None, Any] = {"formats": _formats, "maps": _maps, None: tuple}
"""The source of a topic's entries, by the word in its row."""


# Looking ------------------------------------------------------------------------------

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,30}[A-Za-z]")
_TEMPLATE = re.compile(r"%[a-z]|\{[^{}]{0,100}\}")

_MOST_MATCHES = 100
"""Places of one pattern that are looked at: the first ones may be in the source that a traceback shows."""


def _look_for(row: Complaint, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the first position of a complaint, and the values that all of its patterns capture."""
    places: list[int] = []
    found_values: dict[str, str] = {}
    for pattern in row.patterns:
        for match in itertools.islice(pattern.finditer(text), _MOST_MATCHES):
            places.append(match.start())
            found_values = _group_values(match) | found_values
    if places and (row.unless is None or not row.unless.search(text)):
        yield min(places), found_values


def _group_values(match: re.Match[str]) -> dict[str, str]:
    """Return what the groups hold; a traceback also shows the source of a message, with %s for the path."""
    groups = match.groupdict().items()
    return {name: value for name, value in groups if value and not _TEMPLATE.fullmatch(value)}


def _filled_in(row: Complaint, found_values: dict[str, str], near: str | None) -> Explanation:
    """Return a row whose commands have its own captures, or the checkpoint that is named near it."""
    path = _as_path(found_values.get("path", near))
    key = _as_key(found_values["key"] if "key" in found_values else _object_path(found_values.get("node")))
    found = {"path": path, "dir": path and (os.path.dirname(path) or "."), "key": key}
    words = {name: shlex.quote(value) for name, value in found.items() if value}
    # a command about one tensor is of no use without its key
    commands = [command for command in row.commands if key or "{key}" not in command]
    filled = tuple(dict.fromkeys(_fill(command, _HOLES | words) for command in commands))
    left = tuple(_fill(command, _HOLES | dict.fromkeys(words, "")) for command in commands)
    return Explanation(row.title, row.meaning, filled, stand_ins=_stand_ins(left))


_HOLES = {"path": "CHECKPOINT", "dir": "DIR", "key": "KEY"}
"""The placeholders of a command if the text does not have the value."""


def _fill(command: str, words: dict[str, str]) -> str:
    return re.sub(r"\{(path|dir|key)\}", lambda hole: words[hole[1]], command)


def _stand_ins(commands: tuple[str, ...]) -> dict[str, str]:
    """Return of the words in commands that stand for something else what that is."""
    words = set(re.findall(r"\b[A-Z]+\b", " ".join(commands)))
    return {word: text for word, text in placeholders().items() if word in words}


def _named(text: str) -> list[tuple[int, str]]:
    """Return the checkpoints that a text names, and where."""
    return sorted((found.start(), found[1]) for pattern in naming() for found in pattern.finditer(text))


def _nearest(named: list[tuple[int, str]], place: int) -> str | None:
    """Return what is named last before a place, or else first behind it."""
    if not named:
        return None
    return named[max(0, bisect.bisect_right(named, place, key=lambda one: one[0]) - 1)][1]


def _object_path(node: str | None) -> str | None:
    """Return the object path of a node as TensorFlow prints it: (root).net.l1 is net/l1."""
    return node and node.removeprefix("(root)").strip(".").replace(".", "/")


def _as_key(value: str | None) -> str | None:
    """Return a key that can be part of a command; a variable's name loses the number of its output."""
    value = re.sub(r":\d{1,9}\Z", "", value or "")
    return value if value.isprintable() and value and not value.startswith("-") else None


def _as_path(value: str | None) -> str | None:
    """Return a path that can be part of a command, without TensorFlow's suffixes."""
    value = (value or "").partition(" [Op:")[0].partition(" [[")[0].rstrip()
    if not value or not value.isprintable() or value == "-":
        return None
    return f"./{value}" if value.startswith("-") else value


# The page -----------------------------------------------------------------------------

_INTRODUCTION = """\
# Errors

Errors about checkpoints from TensorFlow, Keras, h5py, NumPy, safetensors, PyTorch, transformers, Orbax and
ckpt, with their causes and the commands that help. `ckpt explain` searches this list for you: pass it a file
with the error, or pipe the program's output into it. It fills in the paths and keys that the error names.
"""


def troubleshooting_markdown() -> str:
    """Return the table of complaints as a page, with the errors as its headings."""
    return "\n".join([_INTRODUCTION, *map(_section, complaints())])


def _in_sentence(text: str) -> str:
    """Return a sentence without its capital, unless its first word is a name such as PeftModel."""
    first = text.partition(" ")[0].partition(".")[0]
    return text if first[1:] != first[1:].lower() else text[0].lower() + text[1:]


def _section(row: Complaint) -> str:
    commands = tuple(_fill(command, _HOLES) for command in row.commands)
    legend = "; ".join(f"`{word}` is {text}" for word, text in _stand_ins(commands).items())
    parts = [f"## {_plain(row.title)}", row.meaning, "\n".join(["```sh", *commands, "```"])]
    parts += [f"{legend[0].upper()}{legend[1:]}."] if legend else []
    parts += [f"Typical situation: {_in_sentence(row.seen)}"] if row.seen else []
    parts += [f"{program} says:\n\n```text\n{text}\n```" for program, text in row.quoted]
    return "\n\n".join(parts) + "\n"


def _plain(title: str) -> str:
    """Return a title as Markdown that shows it as it is."""
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", title)
