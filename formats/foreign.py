"""Files that are no checkpoint `formats` reads, and what to tell the person who has one.

People meet these under a checkpoint's name: a pointer that Git LFS left in place of
the file, a web page saved by a download that needed a login, another framework's file.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from .h5.superblock import SIGNATURE
from .paths import INDEX_SUFFIX
from .weight_map import PYTORCH, shard_suffix

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

_TORCH = Foreign(
    "this is a PyTorch archive, a zip with a Python pickle",
    "loading a pickle runs its code; save it as .safetensors where it was made",
)
_RENAMED_INDEX = Foreign(
    "this is the index file of a TensorFlow checkpoint under another name",
    "call it NAME.index again, beside NAME.data-00000-of-00001, which holds the values",
)
_EMPTY_ZIP = Foreign("this is an empty zip archive", "the save had nothing to write, or was interrupted")

# Suffix -> what such a file is, and its first bytes.  A suffix does not decide; it words the refusal.
_EXPECTED = {
    ".h5": ("an HDF5 file", SIGNATURE),
    ".hdf5": ("an HDF5 file", SIGNATURE),
    ".keras": ("a zip archive", b"PK\3\4"),
    ".npz": ("a zip archive", b"PK\3\4"),
}

_TORCH_SHARDS = Foreign(
    "this is a sharded PyTorch model, whose .bin files are Python pickles",
    "loading a pickle runs its code; save it as .safetensors where it was made",
)
_BROKEN_INDEX = Foreign(
    "not the index of shards: no JSON with a weight_map",
    "the copy was damaged; copy it again, or read the shards beside it one by one",
)

_ORBAX_FILES = ("_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt", "_sharding")


def recognise(probe: Probe) -> Foreign | None:
    """Return what the file is, if it is one of those known not to be read here."""
    if probe.size == 0:
        return Foreign("the file is empty", "the copy or the save was interrupted; copy it again")
    for matches, foreign in _CONTENTS:
        if matches(probe.head):
            return foreign
    if probe.is_renamed_index:
        return _RENAMED_INDEX
    if shard_suffix(probe) == PYTORCH:
        return _TORCH_SHARDS
    if probe.location.head.endswith(INDEX_SUFFIX):
        return _BROKEN_INDEX
    if probe.zip is not None:
        return _archive(probe.zip.names)
    return _misnamed(probe)


def _archive(names: tuple[str, ...]) -> Foreign | None:
    if any(name == "data.pkl" or name.endswith("/data.pkl") for name in names):
        return _TORCH
    return None if names else _EMPTY_ZIP


def _misnamed(probe: Probe) -> Foreign | None:
    """Return what a file is not, though its name says so."""
    prefix, suffix = os.path.splitext(probe.location.head)
    suffix = suffix.lower()
    if suffix == ".meta":
        what = "this is a graph, which holds no values"
        return Foreign(what, f"the values are in {prefix}.index and its data files, which are not there")
    if suffix not in _EXPECTED or probe.head.startswith(_EXPECTED[suffix][1]):
        return None
    what, magic = _EXPECTED[suffix]
    found = probe.head[: len(magic)]
    return Foreign(
        f"not {what}: begins with {found!r}, expected {magic!r}",
        "the copy was damaged, or the name is wrong; copy it again",
    )


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
    if any(name.endswith(".bin.index.json") for name in names):
        return _TORCH_SHARDS
    return None
