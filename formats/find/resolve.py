"""From the user's text to the location of a checkpoint.

A checkpoint can be named by its prefix (`run/ckpt-10`), by any of its files, by its directory, by the state
file in it, or by a SavedModel's directory. `resolve` handles everything except directories and state files,
whose result depends on their content; `formats.find.opening` handles those. Names are literal: `[` and `*`
are characters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..core.words import command_line
from ..errors import SHARD_MISSING, CheckpointError, CheckpointNotFoundError, InaccessibleError
from ..model.checkpoint_files import (
    DCP_METADATA,
    DCP_SUFFIX,
    FILE_SUFFIXES,
    FLAX_INDEX_SUFFIX,
    H5_INDEX_SUFFIX,
    INDEX_SUFFIX,
    TORCH_INDEX_SUFFIX,
    CheckpointLocation,
    bundle,
    data_shards,
    dcp_metadata,
    index_of,
    is_part,
    v1_shards,
)
from ..model.orbax_files import location_of_file, orbax_location
from ..model.weight_map import files_of_map
from ..store.siblings import SHARD, V1_SHARD, gguf_parts, hub_shard

if TYPE_CHECKING:
    from ..location import Location

_FOLDER_INDEXES = (
    ("model" + INDEX_SUFFIX, "diffusion_pytorch_model" + INDEX_SUFFIX),
    ("pytorch_model" + TORCH_INDEX_SUFFIX, "diffusion_pytorch_model" + TORCH_INDEX_SUFFIX),
    ("tf_model" + H5_INDEX_SUFFIX,),
    ("flax_model" + FLAX_INDEX_SUFFIX, "diffusion_flax_model" + FLAX_INDEX_SUFFIX),
)
"""The index names of transformers and diffusers for a folder that is one model; the first are preferred."""


_SAVED_MODEL_FILES = ("saved_model.pb", "keras_metadata.pb", "fingerprint.pb")

HUB_WEIGHTS = tuple(
    name
    for indexes in _FOLDER_INDEXES
    for index in indexes
    for name in (index.removesuffix(".index.json"), index)
)
"""Files that are the weights of a folder of Hugging Face's, those that are preferred first."""


def sharded_folder(directory: Location) -> Location | None:
    """Return what names the files of a folder that is one checkpoint; None if it is none.

    That is the index of one of Hugging Face's sharded models, or a distributed checkpoint's metadata. A
    folder that also has the whole model, or a state file, is a directory of checkpoints.
    """
    for rank, names in enumerate(_FOLDER_INDEXES):  # noqa: B007  the rank of what is found
        there = [path for name in names if (path := directory / name).is_file()]
        if there:
            break
    else:
        return dcp_metadata(directory)
    # A whole model goes before the shards of its kind, and of those that are less preferred.
    whole = (name.removesuffix(".index.json") for names in _FOLDER_INDEXES[: rank + 1] for name in names)
    if any((directory / name).is_file() for name in (*whole, "checkpoint")):
        return None
    return there[0] if len(there) == 1 else None


def _other_checkpoints_note(index: Location) -> str | None:
    """Return the note for a folder that is one model, and also holds other checkpoints."""
    directory, own = index.split_name()
    named = {own, *(path.name for path in files_of_map(index))}
    try:
        there = directory.listing()
    except InaccessibleError:  # a folder that may be entered, but not listed
        return None
    others = []
    for name, _ in there:
        shard = hub_shard(name)
        is_own = name in named or (shard is not None and index_of(shard) == own)
        if name.endswith((".index", *FILE_SUFFIXES)) and not is_own:
            others.append(name)
    if not others:
        return None
    more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
    return (
        f"{index}: ckpt reads the checkpoint of this folder; to read another file, name it: {others[0]}{more}"
    )


def saved_model_prefix(directory: Location) -> Location | None:
    """Return the prefix of a SavedModel's variables, or None if this is not a SavedModel."""
    prefix = directory / "variables" / "variables"
    is_one = (directory / "saved_model.pb").is_file() or (prefix + ".index").is_file()
    return prefix if is_one else None


def resolve(path: Location) -> CheckpointLocation:
    """Return the checkpoint that `path` names.

    `path` is a file, or the directory of a SavedModel or of a sharded model. Raises CheckpointNotFoundError
    if nothing is there, InaccessibleError if something cannot be opened, and UnsupportedFeatureError for a
    URL.
    """
    found = find(path)
    if found is None:
        raise _absent(path)
    return found


def is_prefix_at_once(path: Location) -> bool:
    """Whether a path is a bundle's prefix by one request, where each name is one.

    A file with the name of the prefix is not looked for then.
    """
    is_file_by_name = path.endswith((".index", *FILE_SUFFIXES))
    return not path.store.lists_first and not is_file_by_name and (path + ".index").is_file()


def find(path: Location) -> CheckpointLocation | None:
    """Return the checkpoint that `path` names; None if there is none."""
    if is_prefix_at_once(path):
        return bundle(path)
    shard = SHARD.fullmatch(path)
    if path.is_folder() and (found := _of_folder(path)) is not None:
        return found
    if shard:
        return _part_of(_bundle_at(path.of(shard["prefix"])), path)
    for suffix in (".index", ".meta"):
        prefix = path.removesuffix(suffix)
        if prefix != path and (prefix + ".index").is_file():
            return _part_of(bundle(prefix), path)
    prefix = path.removesuffix(".meta")
    if prefix != path and not (path + ".index").is_file() and _has_values(prefix):
        return find(prefix)
    return _at(path)


def _of_folder(path: Location) -> CheckpointLocation | None:
    """Return the checkpoint that a folder is: a SavedModel, or a sharded model."""
    prefix = saved_model_prefix(path)
    if prefix is not None:
        return _bundle_at(prefix)
    index = sharded_folder(path)
    if index is None:
        return orbax_location(path)
    return CheckpointLocation(index, index, _other_checkpoints_note(index))


def _at(path: Location) -> CheckpointLocation | None:
    """Return the checkpoint of exactly this name: a prefix, a file, or a file whose index is next to it."""
    # If a V2 and a V1 checkpoint share a name, TensorFlow reads the V2 one, and so does ckpt.
    if (path + ".index").is_file():
        other = f"{path}: ckpt reads the checkpoint with this prefix, not the file with this name"
        return bundle(path)._replace(note=other if path.is_file() else None)
    if path.is_file():
        return _of_chunks(path) if path.endswith(DCP_SUFFIX) else _of_file(path)
    if path.endswith((".safetensors", ".bin", ".msgpack", ".h5")) and (path + ".index.json").is_file():
        return CheckpointLocation(path + ".index.json", path + ".index.json")
    shards = v1_shards(path)
    if not shards:
        return None
    match = V1_SHARD.fullmatch(shards[0])
    assert match is not None
    return _v1(match["prefix"], match["count"], shards[0])


def _of_file(path: Location) -> CheckpointLocation:
    found = location_of_file(path) or _of_saved_model(path)
    if found is not None:
        return found
    shard = V1_SHARD.fullmatch(path)
    if shard:
        return _v1(shard["prefix"], shard["count"], path)
    first = gguf_parts(path)[0]
    if first != path and first.is_file():
        return CheckpointLocation(
            first, first, f"{path}: ckpt reads this file with the other parts of {first.name}"
        )
    return CheckpointLocation(path, path, _shard_note(path))


def _of_saved_model(path: Location) -> CheckpointLocation | None:
    """Return the variables of the SavedModel that contains a file."""
    if path.name not in _SAVED_MODEL_FILES:
        return None
    found = _bundle_at(path.parent / "variables" / "variables")
    return found and found._replace(note=f"{path}: ckpt reads the variables of this SavedModel")


def spelling(location: CheckpointLocation) -> Location:
    """Return the path that opens a checkpoint: its own, or its index where that is another one's file."""
    if location.head != location.path + ".index" or not is_part(location.name):
        return location.path
    other = find(location.path)
    return location.path if other is None or other.path == location.path else location.head


def find_listed(path: Location) -> CheckpointLocation | None:
    """Return the checkpoint that a state file's `path` names, which is a prefix before it is a file."""
    return _bundle_at(path) or find(path)


def _bundle_at(prefix: Location) -> CheckpointLocation | None:
    return bundle(prefix) if (prefix + ".index").is_file() else None


def _of_chunks(path: Location) -> CheckpointLocation:
    """Return the distributed checkpoint that a file of its chunks belongs to."""
    metadata = dcp_metadata(path.parent)
    if metadata is None:
        message = f"this file has chunks of a distributed checkpoint, but {DCP_METADATA} is missing"
        hints = (f"copy {DCP_METADATA}, which lists the tensors, from the source of the chunks",)
        raise CheckpointNotFoundError(message, path=path, code=SHARD_MISSING, hints=hints)
    return CheckpointLocation(metadata, metadata)


def _part_of(location: CheckpointLocation | None, path: Location) -> CheckpointLocation | None:
    """Return a bundle that one of its files names, with a note where that is a prefix as well."""
    if location is None or not path.store.lists_first:
        return location
    if not (path.is_file() and (path + ".index").is_file()):
        return location
    own = "the index" if path == location.head else "a file"
    note = f"{path} is {own} of {location.path}; to read the checkpoint with this prefix, name {path}.index"
    return location._replace(note=note)


def _shard_note(path: Location) -> str | None:
    """Return what a person should know who names one shard of several."""
    match = hub_shard(path)
    if match is None or int(match["count"]) < 2:
        return None
    index = path.of(index_of(match))
    whole = index if index.is_file() else f"{index}, which is missing"
    return f"{path} is one of {int(match['count'])} shards; the whole checkpoint is {whole}"


def _has_values(prefix: Location) -> bool:
    """Whether there are a V1 checkpoint's files, or a bundle's shards, of a prefix."""
    return prefix.is_file() or bool(v1_shards(prefix) or data_shards(prefix))


def _v1(prefix: str, count: str, head: Location) -> CheckpointLocation:
    return CheckpointLocation(head.of(f"{prefix}-?????-of-{count}"), head)


def _prefix_meant(path: Location) -> Location:
    """Return the prefix of the bundle that a path would name, were there one."""
    shard = SHARD.fullmatch(path)
    return path.of(shard["prefix"]) if shard else saved_model_prefix(path) or path


def _absent(path: Location) -> CheckpointError:
    """Return the error that describes what was found instead of `path`."""
    prefix = path.removesuffix(".meta")
    if prefix != path and not (path + ".index").is_file() and _has_values(prefix):
        return _absent(prefix)
    prefix = _prefix_meant(path)
    is_saved_model = saved_model_prefix(path) is not None
    for place in dict.fromkeys((prefix + ".index", prefix if is_saved_model else path)):
        found = place.obstacle() if place == path or place.store.can_be_file(place) else None
        if found is not None:
            if not found.startswith("this is"):  # it is a part of the path
                return InaccessibleError(found, path=path)
            wanted = "a file or a directory" if place == path else "an index"
            return InaccessibleError(f"{found}; expected {wanted}", path=place)
    shards = data_shards(prefix)
    if shards:
        message = f"{shards[0].name} exists, but {prefix.name}.index does not"
        why = (
            "copy the index, or save again; the index is "
            "written last, so a save that was interrupted has none"
        )
        hints = (why, rebuilding(prefix))
        return CheckpointNotFoundError(message, path=path, code=SHARD_MISSING, hints=hints)
    if is_saved_model:
        hint = "copy the weights from the source: variables/variables.index and its data files"
        return CheckpointNotFoundError("this is a SavedModel without its variables", path=path, hints=(hint,))
    missing = path.parent.missing_container()
    if missing is not None:
        return CheckpointNotFoundError(missing, path=path)
    suggested = _no_revision(path) or suggest(prefix)
    return CheckpointNotFoundError("no such file, prefix or directory", path=path, hints=suggested)


_OTHER = "OTHER is another checkpoint of the same run"


def rebuilding(prefix: Location) -> str:
    """Return the hint that rebuilds a lost index, by another checkpoint of the directory if there is one."""
    import difflib
    import shlex

    directory, base = prefix.split_name()
    names = {name.removesuffix(".index") for name, _ in directory.listing() if name.endswith(".index")}
    near = difflib.get_close_matches(base, sorted(names - {base}), 1, 0)
    if not near:
        return f"run ckpt rescue {shlex.quote(prefix)} with --sibling OTHER to rebuild the index; {_OTHER}"
    rescue = command_line("rescue", prefix, "OUT", "--sibling", directory / near[0])
    return f"to rebuild the index from another checkpoint of the same run: {rescue}"


def _no_revision(path: Location) -> tuple[str, ...]:
    """Return a hint where a path reads like `REV:PATH`, and git knows no such REV."""
    from ..store.git import split_revision, why_not_found

    revision, _ = split_revision(path)
    if not revision or path.store.scheme:
        return ()
    return (why_not_found(revision),)


def suggest(path: Location) -> tuple[str, ...]:
    """Return a hint with the names that exist near `path`."""
    import difflib
    import shlex

    directory, base = path.split_name()
    unlisted = directory.why_unlisted()
    if unlisted is not None:
        return (f"name a checkpoint or a file; {directory} may exist, but {unlisted}",)
    if directory and not directory.is_folder():
        there = directory.exists()
        what = "is not a directory" if there else "does not exist"
        return (f"check the path: {directory} {what}",)
    names = {
        re.sub(r"(\.index|\.data-\d{5,}-of-\d{5,}|\.meta)$", "", name) for name, _ in directory.listing()
    }
    if data_shards(path):  # without their index, or the path would be found
        return (rebuilding(path),)
    close = difflib.get_close_matches(base, names, 3, 0.6)
    if not close:
        holds = any(name.endswith(".index") for name, _ in directory.listing())
        if holds or path.store.scheme:
            return (f"to list the checkpoints in this directory: {command_line('ls', directory or '.')}",)
        return (f"to see which files exist: {shlex.join(('ls', str(directory) or '.'))}",)
    return ("did you mean " + " or ".join(directory / name for name in close) + "?",)
