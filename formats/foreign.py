"""Files that are no checkpoint `formats` reads, and what to tell the person who has one.

People meet these under a checkpoint's name: a pointer that Git LFS left in place of
the file, a web page saved by a download that needed a login, another framework's file.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from .probe import Probe

__all__ = ["Foreign", "foreign_directory", "recognise"]


class Foreign(NamedTuple):
    """What a file is, and the next step."""

    what: str
    hint: str


def _starts(*magics: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magics)


_HTML = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)

_CONTENTS: tuple[tuple[Callable[[bytes], bool], Foreign], ...] = (
    (
        _starts(b"version https://git-lfs.github.com/spec/"),
        Foreign("this is a Git LFS pointer, not the file", "fetch the file itself: git lfs pull"),
    ),
    (
        lambda head: bool(_HTML.match(head)),
        Foreign(
            "this is an HTML page, not a checkpoint",
            "the download saved a web page; download the file itself",
        ),
    ),
    (_starts(b"GGUF"), Foreign("this is a GGUF model", "GGUF is not read here; use the gguf package")),
    (
        _starts(b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
        Foreign(
            "this is a Python pickle",
            "loading a pickle runs its code; save it as .safetensors where it was made",
        ),
    ),
    (
        _starts(b"\x1f\x8b"),
        Foreign("this is a gzip archive, not a checkpoint", "unpack it first: tar xzf or gunzip"),
    ),
)

_ORBAX_FILES = ("_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt", "_sharding")


def recognise(probe: Probe) -> Foreign | None:
    """Return what the file is, if it is one of those known not to be read here."""
    if probe.size == 0:
        return Foreign("the file is empty", "the copy or the save was interrupted; copy it again")
    for matches, foreign in _CONTENTS:
        if matches(probe.head):
            return foreign
    return None


def foreign_directory(path: str) -> Foreign | None:
    """Return what a directory without checkpoints of ours is."""
    try:
        names = set(os.listdir(path))
    except OSError:
        return None
    if names.intersection(_ORBAX_FILES):
        return Foreign(
            "this is an Orbax checkpoint directory", "Orbax is not read here; use orbax-checkpoint"
        )
    return None
