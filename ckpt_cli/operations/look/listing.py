"""What `ls` shows of a checkpoint: its tensors, as data."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

from formats.core.dtypes import INVALID
from formats.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from formats.core.spec import TensorSpec
    from formats.model.reader import CheckpointReader


SORTS = {
    "key": lambda _: (),  # the order a reader lists them in
    "size": lambda spec: -(spec.nbytes or 0),
    "dtype": lambda spec: spec.dtype.name,
    "shape": lambda spec: spec.shape,
}


def tensor_row(
    reader: CheckpointReader,
    spec: TensorSpec,
    *,
    long: bool = False,
    trainable: Mapping[str, bool] | None = None,
    digests: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """Return a tensor as `ls --json` shows it; null for what cannot be told."""
    known = spec.dtype is not INVALID
    row: dict[str, Any] = {
        "key": spec.key,
        "dtype": spec.dtype.name if known else None,
        "shape": list(spec.shape),
        "nbytes": spec.nbytes,
        "kind": reader.kinds.get(spec.key),
    }
    if long:
        stored = _stored(reader, spec) if known else None
        row |= {
            "object_path": reader.object_paths.get(spec.key),
            "full_name": reader.full_names.get(spec.key),
            "shard": stored.shard if stored else None,
            "offset": stored.offset if stored else None,
            "crc32c": stored.crc32c if stored else None,
            "trainable": trainable.get(spec.key) if trainable else None,
        }
    if digests is not None:
        row["digest"] = digests[spec.key]
    return row


def index_is_asked(reader: CheckpointReader, path: str) -> bool:
    """Whether what a bundle's index says is all that is to be told of values: it lies alone, or git asks.

    Git hands over the index of a commit alone (textconv), and for that of the work tree its own path, beside
    which shards lie.  Both must be told in the same words, or what is the same would seem to differ.
    """
    is_git = "GIT_PREFIX" in os.environ and path == reader.location.head != reader.location.path
    return reader.format.is_bundle and (is_git or reader.is_index_alone)


def _stored(reader: CheckpointReader, spec: TensorSpec) -> Any:
    try:
        return reader.tensor(spec.key).stored
    except CheckpointError:
        return None


def total(reader: CheckpointReader, specs: Iterable[TensorSpec]) -> dict[str, int]:
    """Return tensors, parameters (floating and complex elements of kind variable) and bytes.

    Tensors and parameters are counted by each of their names; of those that are one, bytes are once.
    """
    tensors = parameters = nbytes = 0
    kinds, tied = reader.kinds, reader.tied
    counted: set[str] = set()
    for spec in specs:
        tensors += 1
        one = tied.get(spec.key, spec.key)
        nbytes += 0 if one in counted else spec.nbytes or 0
        if tied:
            counted.add(one)
        if spec.dtype.family in ("float", "complex") and kinds.get(spec.key) == "variable":
            parameters += math.prod(spec.shape)
    return {"tensors": tensors, "parameters": parameters, "nbytes": nbytes}


def grouped(reader: CheckpointReader, specs: Iterable[TensorSpec], depth: int) -> list[dict[str, Any]]:
    """Return totals per prefix of `depth` path components, in the order of the keys."""
    groups: dict[str, list[TensorSpec]] = {}
    for spec in specs:
        groups.setdefault("/".join(spec.key.split("/", depth)[:depth]), []).append(spec)
    return [{"prefix": prefix, **total(reader, members)} for prefix, members in groups.items()]


def split_layer(name: str, separator: str = "/") -> tuple[str, str]:
    """Return layer and leaf of a name; a slot goes with its variable: `kernel (m of optimizer)`."""
    layer = name.partition(" (")[0].rpartition(separator)[0]
    return layer, name[len(layer) + 1 :] if layer else name


def in_order(specs: list[TensorSpec], sort: str, *, reverse: bool) -> list[TensorSpec]:
    """Return specs in the order asked for."""
    ordered = specs if sort == "key" else sorted(specs, key=SORTS[sort])
    return ordered[::-1] if reverse else ordered


def missing_shards(reader: CheckpointReader) -> list[str]:
    """Return a warning for each data file that tensors of the listing lie in and that is not there.

    There is none where a listing would take a request more for each of them.
    """
    if not reader.location.store.lists_first:
        return []
    return [f"{path}: missing; its tensors are listed, but cannot be read" for path in reader.missing_files()]
