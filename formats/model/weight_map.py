"""Weight maps: the JSON file next to shards that maps tensors to shards.

    {"metadata": {"total_size": bytes, ...},
     "weight_map": {name: file, or [file, ...], ...}}

    NAME.safetensors.index.json   Hugging Face: tensors, by key, in safetensors files
    NAME.bin.index.json           Hugging Face: tensors, by key, in PyTorch files
    NAME.msgpack.index.json       Hugging Face: tensors, by key, in Flax' files
    NAME.h5.index.json            Hugging Face: variables of TensorFlow, by full name, in HDF5 files
    NAME.weights.json             Keras 3: objects, by path, in HDF5 files

The names of the shards distinguish these. A map is untrusted, so the files that it names must be in its own
folder, not in others and not behind links to others. One exception is the cache of huggingface_hub, which
keeps maps and shards as links into one folder: if the map itself is such a link, its target's folder may hold
shards, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError
from ..store.content_cache import whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..location import Location


WEIGHT_MAP = "weight_map"
MOST_SHARDS = 10_000

SAFETENSORS, PYTORCH, FLAX, H5, KERAS = ".safetensors", ".bin", ".msgpack", ".h5", ".weights.h5"
INDEX = ".index.json"
_PYTORCH_SUFFIXES = (".bin", ".pt", ".pth")


def is_map(document: dict[str, Any] | None) -> bool:
    return document is not None and isinstance(document.get(WEIGHT_MAP), dict) and "tensors" not in document


def shard_suffix(document: dict[str, Any] | None, path: str) -> str | None:
    """Return which suffix the shards of a weight map have; None if the file at `path` is no such map."""
    if document is None or not is_map(document):
        return None
    # A map that names nothing is what its own name says.
    names = list(_flat(document[WEIGHT_MAP].values())) or [path.removesuffix(INDEX)]
    for suffixes, found in ((SAFETENSORS, SAFETENSORS), (_PYTORCH_SUFFIXES, PYTORCH), (FLAX, FLAX)):
        if any(isinstance(name, str) and name.endswith(suffixes) for name in names):
            return found
    is_h5 = any(isinstance(name, str) and name.endswith(H5) and not name.endswith(KERAS) for name in names)
    return H5 if is_h5 else KERAS


def _flat(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        yield from value if isinstance(value, list) else (value,)


def files_by_name(document: dict[str, Any], path: str) -> dict[str, tuple[str, ...]]:
    """Return the files in which a map at `path` says each name to be.

    Raises CorruptCheckpointError if it names none, UnsupportedFeatureError if it leads elsewhere.
    """
    if not document[WEIGHT_MAP]:
        raise CorruptCheckpointError("weight_map is empty", path=path, code="header")
    found: dict[str, tuple[str, ...]] = {}
    files: set[str] = set()
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    for name, value in document[WEIGHT_MAP].items():
        listed = value if isinstance(value, list) else [value]
        for file in listed:
            if not isinstance(file, str):
                raise CorruptCheckpointError(
                    f"weight_map has no file name for {name!r}", path=path, code="header"
                )
            if file in ("", ".", "..") or any(character in file for character in "/\\\0"):
                message = f"weight_map places {name!r} in {file!r}, which is not a file in this folder"
                raise UnsupportedFeatureError(message, path=path, code="header")
        one = tuple(listed)
        found[name] = known.setdefault(one, one)
        files.update(listed)
    if len(files) > MOST_SHARDS:
        raise UnsupportedFeatureError(
            f"weight_map names {len(files)} files; at most {MOST_SHARDS} are supported",
            path=path,
            code="header",
        )
    return found


def shard_path(path: Location, file: str) -> Location:
    """Return the location of a file that the map at `path` names.

    Raises UnsupportedFeatureError if it is a link that leads to another folder.
    """
    folder = path.parent
    found = folder / file
    if found.is_link():
        homes = {folder.real(), path.real().parent}
        if found.real().parent not in homes:
            message = f"weight_map names {file!r}, which is a link to another folder"
            raise UnsupportedFeatureError(message, path=path, code="header")
    return found


def named_files(path: Location) -> list[Location]:
    """Return the paths of the files that a map names, existing or not, sorted; empty if it is not a map.

    Raises CheckpointError, and ValueError for text that is not JSON.
    """
    from ..wire.jsontext import parse_object  # not needed for a bundle

    with path.open() as file:
        document = parse_object(whole(file))
    if not is_map(document):
        return []
    files = {each for listed in files_by_name(document, path).values() for each in listed}
    return [shard_path(path, each) for each in sorted(files)]


def files_of_map(path: Location) -> list[Location]:
    """Return what `named_files` does; none if it cannot be read."""
    try:
        return named_files(path)
    except (CheckpointError, ValueError):
        return []
