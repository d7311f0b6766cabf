"""Files of no format, and what to tell the person who has one.

These files are often mistaken for checkpoints: a Git LFS pointer, a web page that a download saved, a file of
another program. A format recognises files related to its own in its record (`Format.refusal`,
`Format.magic`). Formats come first: a row here is dead once a format reads such files.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from ..errors import CheckpointError, UnknownFormatError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..location import Location
    from .probe import Probe


class Foreign(NamedTuple):
    """A description of a file, and the next step; another one for a file on a server."""

    what: str
    hint: str
    hint_on_server: str = ""

    def error(self, path: Location, code: str = "footer") -> UnknownFormatError:
        return UnknownFormatError(self.what, path=path, code=code, hints=(self.hint,))


CUT_OFF = ("copy the file again from its source; it was truncated or overwritten",)
"""The hint of a file whose beginning, or name, says more than is there."""


# What a file begins with ----------------------------------------------------------------


def _starts(*magics: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magics)


def _holds(magic: bytes, offset: int) -> Callable[[bytes], bool]:
    return lambda head: head[offset : offset + len(magic)] == magic


_HTML = rb"(?is)\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b"


def _is_core_ml(head: bytes) -> bool:
    """Whether this is a Core ML model: its version, then a description, which begins with its inputs."""
    return re.match(rb"\x08[\x01-\x14]\x12.{1,3}?[\x0a\x52\xa2]", head, re.DOTALL) is not None


def _is_saved_model(head: bytes) -> bool:
    """Whether this is a SavedModel: its version, and a graph that begins with its operations or tags."""
    return re.match(rb"\x08\x01\x12.{1,5}?\x0a.{1,4}?[\x12\x22]", head, re.DOTALL) is not None


AS_STATE_DICT = "in the program that made the file, save a state dict with torch.save"
"""The hint of a pickle that is none of PyTorch's files."""

_POINTER = b"version https://git-lfs.github.com/spec/"
_POINTED = rb"(?m)^oid (?P<oid>sha256:[0-9a-f]{64})\n(?:.*\n)*?size (?P<size>\d{1,19})$"

_CONTENTS: tuple[tuple[Callable[[bytes], bool], Foreign], ...] = (
    (
        _starts(_POINTER),
        Foreign(
            "this is a Git LFS pointer, not the file",
            "fetch the file itself: git lfs pull",
            "use the file's own URL: hf://ORG/REPO/PATH on the Hub, "
            "https://media.githubusercontent.com/media/ORG/REPO/REVISION/PATH on GitHub",
        ),
    ),
    (
        lambda head: bool(re.match(_HTML, head)),
        Foreign(
            "this is an HTML page, not a checkpoint",
            "download the file itself; the download saved a web page",
            "use the URL of the file itself: "
            "hf://ORG/REPO/PATH on the Hub, https://github.com/ORG/REPO/raw/REVISION/PATH on GitHub",
        ),
    ),
    (
        _starts(b"\x93NUMPY"),
        Foreign(
            "this is a single array, written by numpy.save",
            ("to give the array a key, save it again: numpy.savez(OUT, NAME=array)"),
        ),
    ),
    (
        _starts(b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
        Foreign("this is a Python pickle, not a file of torch.save; loading it can run code", AS_STATE_DICT),
    ),
    (
        _starts(b"\x1f\x8b"),
        Foreign("this is a gzip archive, not a checkpoint", "unpack it first: tar xzf or gunzip"),
    ),
    (_holds(b"ustar", 257), Foreign("this is a tar archive, not a checkpoint", "unpack it first: tar xf")),
    (
        _starts(b"7z\xbc\xaf\x27\x1c"),
        Foreign("this is a 7z archive, not a checkpoint", "unpack it first: 7z x"),
    ),
    (
        _starts(b"Rar!\x1a\x07"),
        Foreign("this is a RAR archive, not a checkpoint", "unpack it first: unrar x"),
    ),
    (
        _starts(b"\xfd7zXZ\0"),
        Foreign("this is an xz archive, not a checkpoint", "unpack it first: tar xJf or xz -d"),
    ),
    (
        _holds(b"1AY&SY", 4),
        Foreign("this is a bzip2 archive, not a checkpoint", "unpack it first: tar xjf or bunzip2"),
    ),
    (
        _starts(b"\x28\xb5\x2f\xfd"),
        Foreign("this is a zstd archive, not a checkpoint", "unpack it first: zstd -d"),
    ),
    (
        _starts(
            b"node {", b"node{", b"library {", b"versions {", b"saved_model_schema_version", b"meta_graphs"
        ),
        Foreign(
            "this is a TensorFlow graph as text (.pbtxt), which cannot be read",
            "in the program that made the graph, write it in binary "
            "form: tf.io.write_graph(GRAPH, DIR, NAME, as_text=False)",
        ),
    ),
    (
        _is_saved_model,
        Foreign(
            "this is the graph of a SavedModel; its weights are in the folder 'variables', which is missing",
            "copy variables/variables.index and its data files from the source of this file",
        ),
    ),
    (
        _is_core_ml,
        Foreign(
            "this is a Core ML model, which cannot be read",
            "convert the original model, or save the weights of this one with coremltools",
        ),
    ),
)

# Directories ----------------------------------------------------------------------------

_ORBAX_FILES = {"_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt", "_sharding"}
_MOST_STEPS = 10
"""Entries of a directory that are looked into: Orbax managers have a directory for each step."""


def recognise(probe: Probe) -> Foreign | None:
    """Return what a file of no format is; None if its content does not tell."""
    if probe.size == 0:
        return Foreign("the file is empty", "copy the file again; it was not completely saved or copied")
    for matches, foreign in _CONTENTS:
        if matches(probe.head):
            is_on_server = bool(foreign.hint_on_server and "://" in probe.location.head)
            return foreign._replace(hint=foreign.hint_on_server) if is_on_server else foreign
    return None


def foreign_directory(path: Location) -> Foreign | None:
    """Return what a directory without checkpoints of ours is, or holds."""
    names = _names(path)
    steps = (path / name for name in itertools.islice(sorted(names), _MOST_STEPS))
    if any(_ORBAX_FILES & found for found in (names, *map(_names, steps))):
        return Foreign(
            "this directory has files of an Orbax checkpoint, but no tree: _METADATA is missing",
            "copy the whole directory again",
        )
    return None


def _names(path: Location) -> set[str]:
    try:
        return {name for name, _ in path.listing()}
    except CheckpointError:
        return set()


class Pointer(NamedTuple):
    """A Git LFS pointer: the SHA-256 of the file, and its size in bytes."""

    oid: str
    size: int


_LONGEST_POINTER = 1024
"""Bytes; Git LFS takes nothing longer for one."""


def lfs_pointer(path: Location) -> Pointer | None:
    """Return what a file says that Git LFS left; None if this is no such file."""
    if not path.is_file():
        return None
    with path.open() as file:
        data = file.read(0, min(file.size, _LONGEST_POINTER)) if file.size <= _LONGEST_POINTER else b""
    found = re.search(_POINTED, data) if data.startswith(_POINTER) else None
    return None if found is None else Pointer(found["oid"].decode(), int(found["size"]))
