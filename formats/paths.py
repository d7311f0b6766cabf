"""From what people type to where a checkpoint lies.

A checkpoint may be named by its prefix (`run/ckpt-10`), by any of its files, by its
directory, by the state file in it, by a SavedModel's directory or a Hugging Face folder.
`resolve` answers for all but directories and state files, whose answer depends on what
lies in them; those are `formats.opening`'s.  Names are taken literally: a `[` or `*` is a character.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import NamedTuple

from .beside import SAFETENSORS_SHARD, SHARD, V1_SHARD, files_beside
from .errors import CheckpointError, CheckpointNotFoundError, InaccessibleError
from .obstacles import obstacle
from .urls import refuse_url

__all__ = [
    "SAFETENSORS_SHARD",
    "SHARD",
    "V1_SHARD",
    "Location",
    "beside_index",
    "bundle_prefix",
    "data_shards",
    "find",
    "find_listed",
    "is_event_file",
    "is_leftover",
    "is_part",
    "is_shard_beside_index",
    "lone_shards",
    "resolve",
    "saved_model_prefix",
    "sharded_folder",
    "shards_beside",
    "step_of",
    "suggest",
]

WEIGHTS_SHARD = re.compile(r"(?P<prefix>.+)_\d{5,}\.weights\.h5", re.DOTALL)
"""A shard of Keras' weights, where PREFIX.weights.json lies beside it."""


INDEX_SUFFIX = ".safetensors.index.json"
MAP = re.compile(r".+(\.safetensors\.index(\.[^.]+)?\.json|\.weights\.json)", re.DOTALL)
"""A map of shards; that of a variant of a model is called NAME.safetensors.index.VARIANT.json."""

_FOLDER_INDEXES = ("model" + INDEX_SUFFIX, "diffusion_pytorch_model" + INDEX_SUFFIX)
"""What transformers and diffusers call the index of a folder that is one model."""

FILE_SUFFIXES = (INDEX_SUFFIX, ".h5", ".hdf5", ".weights.json", ".keras", ".npz", ".safetensors")
"""Suffixes that say of a damaged file that it was to be a checkpoint."""

_STEP = re.compile(r"-(\d+)$")
_SUFFIXES = (
    ".weights.h5",
    ".weights.json",
    INDEX_SUFFIX,
    ".ckpt",
    ".h5",
    ".hdf5",
    ".keras",
    ".npz",
    ".safetensors",
)

# What interrupted saves leave behind (tensor_bundle.cc, saver.py): none of it is a checkpoint.
_LEFTOVER_FILE = re.compile(r".+\.tempstate\d+", re.DOTALL)
_LEFTOVER_DIRECTORY = re.compile(r".+_temp(_[0-9a-f]{32})?", re.DOTALL)


Fingerprint = dict[str, tuple[int, int, int, int]]


class Location(NamedTuple):
    """Where a checkpoint lies.

    `path` is how it is called: the prefix of a bundle, the pattern of a sharded V1
    checkpoint, else the file.  `head` is the file that says what it is.
    `note` tells what was chosen and why, where there was a choice.
    """

    path: str
    head: str
    note: str | None = None

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def spelling(self) -> str:
        """The path that opens it: its own, or its index where that path is another checkpoint's file."""
        if self.head != self.path + ".index" or not is_part(self.name):
            return self.path
        other = find(self.path)
        return self.path if other is None or other.path == self.path else self.head

    def files(self) -> list[str]:
        """Return the files of this checkpoint that are there: the head first, then data shards."""
        found = [self.head] if os.path.isfile(self.head) else []
        if self.head == self.path + ".index":
            return found + data_shards(self.path)
        if self.head != self.path:
            return v1_shards(self.path) or lone_shards(self.head) or found
        if MAP.fullmatch(self.head):
            from .weight_map import files_of_map

            return found + [path for path in files_of_map(self.head) if os.path.isfile(path)]
        return found

    def nbytes(self) -> int:
        """Return the size of all files that can be looked at."""
        return sum(size for _, _, size, _ in self.fingerprint().values())

    def fingerprint(self) -> Fingerprint:
        """Return, by file, what changes when one is written to, replaced or removed."""
        found = {}
        for path in self.files():
            with contextlib.suppress(OSError):  # it has just gone, or is a link that leads nowhere
                status = os.stat(path)
                found[path] = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        return found


def bundle(prefix: str) -> Location:
    return Location(prefix, prefix + ".index")


def _beside(prefix: str, pattern: re.Pattern[str]) -> list[str]:
    try:
        return files_beside(prefix, pattern)
    except (OSError, ValueError):  # ValueError: a NUL, which a state file's path can hold
        return []


def data_shards(prefix: str) -> list[str]:
    """Return the data shards that lie beside a bundle's index, whatever count their names say."""
    return _beside(prefix, SHARD)


def v1_shards(path: str) -> list[str]:
    """Return the files of a sharded V1 checkpoint, from its prefix or pattern."""
    match = V1_SHARD.fullmatch(path)
    prefix = match["prefix"] if match else path
    count = match["count"] if match and match["count"].isdigit() else None
    found = _beside(prefix, V1_SHARD)
    return [name for name in found if count is None or name.endswith(f"-of-{count}")]


def beside_index(shard: str) -> str:
    """Return the name of the index that a shard of Hugging Face's belongs to, whether it is there or not."""
    match = SAFETENSORS_SHARD.fullmatch(os.path.basename(shard))
    assert match is not None
    return match["prefix"] + INDEX_SUFFIX


def is_shard_beside_index(path: str) -> bool:
    """Whether a file is a shard of Hugging Face's whose index, which stands for it, is there."""
    match = SAFETENSORS_SHARD.fullmatch(path)
    return match is not None and os.path.isfile(match["prefix"] + INDEX_SUFFIX)


def shards_beside(path: str) -> list[str]:
    """Return the shards that lie beside an index of Hugging Face's, whatever count their names say."""
    return _beside(path.removesuffix(INDEX_SUFFIX), SAFETENSORS_SHARD)


def lone_shards(shard: str) -> list[str]:
    """Return the shards of Hugging Face's that are there of the set that one belongs to."""
    match = SAFETENSORS_SHARD.fullmatch(shard)
    found = _beside(match["prefix"], SAFETENSORS_SHARD) if match else []
    return [path for path in found if match and path.endswith(f"-of-{match['count']}.safetensors")]


def sharded_folder(directory: str) -> str | None:
    """Return the index of a folder that is one sharded model, as Hugging Face's are; None where it is none.

    A folder with the whole model beside it, or with a state file, is a directory of checkpoints.
    """
    there = [path for name in _FOLDER_INDEXES if os.path.isfile(path := os.path.join(directory, name))]
    beside = [path.removesuffix(".index.json") for path in there] + [os.path.join(directory, "checkpoint")]
    return there[0] if len(there) == 1 and not any(map(os.path.isfile, beside)) else None


def is_leftover(name: str, *, directory: bool) -> bool:
    """Whether a name is one that interrupted saves leave behind."""
    return bool((_LEFTOVER_DIRECTORY if directory else _LEFTOVER_FILE).fullmatch(name))


def is_part(name: str) -> bool:
    """Whether a file is a part of a bundle that its index stands for."""
    return bool(SHARD.fullmatch(name)) or name.endswith((".index", ".meta"))


def is_event_file(name: str) -> bool:
    """Whether a file is one of TensorBoard's event files, by what TensorBoard knows them by."""
    return "tfevents" in name


def bundle_prefix(path: str) -> str:
    """Return the prefix of the bundle that a path names: itself, or what its index or a shard begins with."""
    shard = SHARD.fullmatch(path)
    return shard["prefix"] if shard else path.removesuffix(".index")


def step_of(name: str) -> int | None:
    """Return the step in a checkpoint's name, the integer after its last `-`."""
    base = _without_shard(os.path.basename(name))
    for suffix in _SUFFIXES:
        base = base.removesuffix(suffix)
    match = _STEP.search(_without_shard(base))
    return int(match[1]) if match else None


def _without_shard(base: str) -> str:
    """Return a name without the number and count of a shard, which are no step."""
    match = V1_SHARD.fullmatch(base)
    return match["prefix"] if match else base


def saved_model_prefix(directory: str) -> str | None:
    """Return the prefix of a SavedModel's variables, or None where this is no SavedModel."""
    prefix = os.path.join(directory, "variables", "variables")
    is_one = os.path.isfile(os.path.join(directory, "saved_model.pb")) or os.path.isfile(prefix + ".index")
    return prefix if is_one else None


def resolve(path: str) -> Location:
    """Return the checkpoint that `path` names.

    `path` is no directory, unless that of a SavedModel or of a sharded model.  Raises
    CheckpointNotFoundError where there is none, InaccessibleError where something is there that
    cannot be opened, UnsupportedFeatureError for a URL.
    """
    found = find(path)
    if found is None:
        raise _absent(path)
    return found


def find(path: str) -> Location | None:
    """Return the checkpoint that `path` names; None where there is none."""
    refuse_url(path)
    if os.path.isdir(path):
        prefix = saved_model_prefix(path)
        if prefix is not None:
            return _bundle_at(prefix)
        index = sharded_folder(path)
        if index is not None:
            return Location(index, index)
    shard = SHARD.fullmatch(path)
    if shard:
        return _part_of(_bundle_at(shard["prefix"]), path)
    for suffix in (".index", ".meta"):
        prefix = path.removesuffix(suffix)
        if prefix != path and os.path.isfile(prefix + ".index"):
            return _part_of(bundle(prefix), path)
    if path.endswith(".meta") and not os.path.isfile(path + ".index") and _has_values(path[:-5]):
        return find(path[:-5])
    # Where a V2 and a V1 checkpoint share a name, TensorFlow reads the V2 one, and so does this.
    if os.path.isfile(path + ".index"):
        other = f"{path}: the checkpoint with this prefix, not the file of this name"
        return bundle(path)._replace(note=other if os.path.isfile(path) else None)
    if os.path.isfile(path):
        shard = V1_SHARD.fullmatch(path)
        return (
            _v1(shard["prefix"], shard["count"], path) if shard else Location(path, path, _shard_note(path))
        )
    if path.endswith(".safetensors") and os.path.isfile(path + ".index.json"):
        return Location(path + ".index.json", path + ".index.json")
    shards = v1_shards(path)
    if shards:
        match = V1_SHARD.fullmatch(shards[0])
        assert match is not None
        return _v1(match["prefix"], match["count"], shards[0])
    return None


def find_listed(path: str) -> Location | None:
    """Return the checkpoint that a state file's `path` names, which is a prefix before it is a file."""
    return _bundle_at(path) or find(path)


def _bundle_at(prefix: str) -> Location | None:
    return bundle(prefix) if os.path.isfile(prefix + ".index") else None


def _part_of(location: Location | None, path: str) -> Location | None:
    """Return a bundle that one of its files names, with a note where that is a prefix as well."""
    if location is None or not (os.path.isfile(path) and os.path.isfile(path + ".index")):
        return location
    own = "the index" if path == location.head else "a file"
    note = f"{path}: {own} of {location.path}; the checkpoint with this prefix is named by {path}.index"
    return location._replace(note=note)


def _shard_note(path: str) -> str | None:
    """Return what a person should know who names one shard of several."""
    match = SAFETENSORS_SHARD.fullmatch(path)
    if match is None or int(match["count"]) < 2:
        return None
    index = match["prefix"] + INDEX_SUFFIX
    whole = index if os.path.isfile(index) else f"{index}, which is not there"
    return f"{path}: one shard of {int(match['count'])}; the whole checkpoint is {whole}"


def _has_values(prefix: str) -> bool:
    """Whether there are a V1 checkpoint's files, or a bundle's shards, of a prefix."""
    return os.path.isfile(prefix) or bool(v1_shards(prefix) or data_shards(prefix))


def _v1(prefix: str, count: str, head: str) -> Location:
    return Location(f"{prefix}-?????-of-{count}", head)


def _prefix_meant(path: str) -> str:
    """Return the prefix of the bundle that a path would name, were there one."""
    shard = SHARD.fullmatch(path)
    return shard["prefix"] if shard else saved_model_prefix(path) or path


def _absent(path: str) -> CheckpointError:
    """Return the error that says what lies where `path` was looked for."""
    if path.endswith(".meta") and not os.path.isfile(path + ".index") and _has_values(path[:-5]):
        return _absent(path[:-5])
    prefix = _prefix_meant(path)
    for place in dict.fromkeys((prefix + ".index", path)):
        found = obstacle(place)
        if found is not None:
            if not found.startswith("this is"):  # it lies on the way there
                return InaccessibleError(found, path=path)
            wanted = "not a file or directory" if place == path else "not an index"
            return InaccessibleError(f"{found}, {wanted}", path=place)
    shards = data_shards(prefix)
    if shards:
        message = f"{os.path.basename(shards[0])} is there, but not {os.path.basename(prefix)}.index"
        hints = (
            "the index is written last: this save was interrupted, or the file was not copied",
            f"to rebuild it by another checkpoint of the same run: ckpt rescue {prefix} OUT --sibling OTHER",
        )
        return CheckpointNotFoundError(message, path=path, hints=hints)
    return CheckpointNotFoundError("no such file, prefix or directory", path=path, hints=suggest(prefix))


def suggest(path: str) -> tuple[str, ...]:
    """Return a hint that names what lies where `path` was looked for."""
    import difflib

    directory, base = os.path.split(path)
    if directory and not os.path.isdir(directory):
        there = os.path.lexists(directory)
        return (f"{directory} is no directory" if there else f"the directory {directory} does not exist",)
    names = {
        re.sub(r"(\.index|\.data-\d{5,}-of-\d{5,}|\.meta)$", "", name)
        for name in os.listdir(directory or ".")
    }
    close = difflib.get_close_matches(base, names, 3, 0.5)
    if not close:
        return (f"to see what is there: ckpt ls {directory or '.'}",)
    return ("did you mean " + " or ".join(os.path.join(directory, name) for name in close) + "?",)
