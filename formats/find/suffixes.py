"""The formats that a target's suffix names, and whether the suffix fits the format that is written.

Content decides what a file is. The suffix only decides what is written, and must not contradict it. One rule
covers every command that writes a checkpoint: a known suffix belongs to the format that is written, and an
unknown one (`.ckpt`, the `.5` of `step-1.5`) is free. A format's suffixes are in its record. The table here
has files that are not checkpoints; a format's own suffix takes precedence.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import CheckpointError, ConversionError
from ..model.checkpoint_files import is_leftover
from ..store.siblings import SHARD

if TYPE_CHECKING:
    from ..location import Location
    from ..model.reader import Format


_NEVER_WRITTEN = {
    "PyTorch programs": ".pt2 .pte .ptl .torch",
    "Python pickles": ".pkl .pickle .joblib .dill",
    "TensorFlow graphs": ".pbtxt .meta",
    "TFRecord files": ".tfrecord .tfrecords",
    "TFLite models": ".lite",
    "ONNX models": ".ort",
    "GGUF models": ".llamafile",
    "GGML models": ".ggml",
    "Core ML models": ".mlmodel .mlpackage .mlmodelc",
    "TensorRT engines": ".engine .plan .trt",
    "PaddlePaddle files": ".pdparams .pdopt .pdmodel .pdiparams",
    "Caffe models": ".caffemodel",
    "MATLAB files": ".mat",
    "single arrays": ".npy",
    "Zarr arrays": ".zarr",
    "HDF4 and netCDF files": ".hdf .hdf4 .nc",
    "archives": ".zip .tar .gz .tgz .bz2 .tbz2 .xz .txz .zst .lz4 .lzma .7z .rar .whl",
    "text files": ".txt .csv .tsv .md .rst .yaml .yml .toml .ini .xml .html .htm .jsonl .ndjson .log",
    "programs": ".py .ipynb .sh",
    "tables": ".parquet .arrow .feather .orc .avro",
    "databases": ".db .sqlite .sqlite3",
    "pictures": ".png .jpg .jpeg .gif .svg .pdf",
}
"""Kinds of files -> the suffixes that name them. None of them is written as a checkpoint."""

_UNWRITTEN = {suffix: what for what, suffixes in _NEVER_WRITTEN.items() for suffix in suffixes.split()}

_INDEX = ".index"


def _part_in_name(name: str) -> str | None:
    """Return what a name says a file is a part of, or left by, by which no checkpoint is found."""
    if name.endswith(_INDEX):
        return "the index of a TensorFlow checkpoint"
    if SHARD.fullmatch(name):
        return "a data shard of a TensorFlow checkpoint"
    if is_leftover(name, directory=False):
        return "a leftover of an interrupted save"
    return None


def _written(path: str) -> list[tuple[str, Format]]:
    """Return the suffixes at the end of a path that formats have, with each such format."""
    from .registry import all_formats

    name = path.lower()
    return [(suffix, found) for found in all_formats() for suffix in found.suffixes if name.endswith(suffix)]


def format_of_suffix(path: str) -> Format | None:
    """Return the format that a path's suffix says; None if it says none, as a prefix does."""
    if "." not in os.path.basename(path) or path.endswith(_INDEX):
        return None
    found = _written(path)
    return max(found, key=lambda match: len(match[0]))[1] if found else None


def without_suffix(name: str) -> str:
    """Return a name without the suffix of a format, including formats that are not written."""
    if "." not in name or name.endswith(_INDEX):
        return name
    known = [suffix for suffix, _ in _written(name)]
    known += [suffix for suffix in _UNWRITTEN if name.lower().endswith(suffix)]
    return name[: -max(map(len, known))] or name if known else name


def _is_true(own: Format, other: Format, name: str) -> bool:
    """Whether a name ends as files of a format may; `other` is the format of its longest suffix.

    Formats may share a container, as `.h5` and `.weights.h5` do.  Text is none: `.json` is the suffix of
    listings, which have no values, and the end of what maps of shards are called.
    """
    if not (own.has_values and other.has_values):
        return other.name == own.name
    longest = max((suffix for suffix in other.suffixes if name.endswith(suffix)), key=len)
    return any(mine.endswith(longest) or longest.endswith(mine) for mine in own.suffixes)


def refuse_false_suffix(
    own: Format, target: Location, why: str | None = None, hint: str | None = None
) -> None:
    """Refuse a target whose suffix says another format than it will have, which would deceive people.

    `why` says why the format follows. An existing target of this format keeps its name. A suffix that formats
    of one container share fits each of them: Keras' `.weights.h5` files may end in `.h5`, and the reverse,
    with a note about how Keras reads them.
    """
    name = os.path.basename(target).lower()
    stem, suffix = os.path.splitext(name)
    other = format_of_suffix(target)
    part = None if own.is_bundle else _part_in_name(name)
    if part is not None:
        message = f"this is the name of {part}, but {why or f'the output is {own.name}'}"
        hints: tuple[str, ...] = ("choose another name",)
    elif not stem or not suffix or (other is not None and _is_true(own, other, name)):
        return
    elif other is not None and other.writer is not None:
        message = f"the name has the suffix of {other.name}, but {why or f'the output is {own.name}'}"
        hints = (hint,) if hint is not None else ()
    elif other is not None or suffix in _UNWRITTEN:
        written_by = other.name if other is not None else _UNWRITTEN[suffix]
        message = f"ckpt does not write {suffix} files ({written_by})"
        hints = (f"use one of {_endings()}, or a prefix for a TensorFlow checkpoint",)
    else:
        return
    if not _is_there(own, target):
        raise ConversionError(message, path=target, hints=hints)


def _endings() -> str:
    """Return the suffixes that people can choose from: a bundle has a prefix, a listing no values."""
    from .registry import all_formats

    written = (each for each in all_formats() if each.writer and each.has_values and not each.is_bundle)
    return ", ".join(sorted({each.suffixes[0] for each in written if each.suffixes}))


def _is_there(own: Format, target: Location) -> bool:
    from .registry import detect_format
    from .resolve import resolve

    try:
        return detect_format(resolve(target)) == own.name
    except CheckpointError:
        return False
