"""Making a checkpoint, in the format of an id.

with formats.create_checkpoint("out/ckpt-1", format="tf-name", specs=specs) as writer:
    writer.write("net/l1/kernel", array)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..core.dtypes import as_dtype
from ..location import parse_location
from ..model.facts import Facts, Nothing

if TYPE_CHECKING:
    import os

    from ..core.region import Extents
    from ..core.spec import TensorSpec
    from ..model.object_graph import ObjectGraph
    from ..model.public import CheckpointWriter
    from ..store.journal import Journal
from ..model.writer import FormatWriter, WriteTarget, check_specs


def create_checkpoint(
    path: str | os.PathLike[str],
    *,
    format: str,  # noqa: A002  the word of the field
    specs: Mapping[str, TensorSpec] | Iterable[TensorSpec],
    overwrite: bool = False,
    object_graph: ObjectGraph | None = None,
    slices: Mapping[str, Sequence[Extents]] | None = None,
    shard_size: int | None = None,
    facts: Facts | None = None,
) -> CheckpointWriter:
    """Return a writer of a new checkpoint at `path`, in the format of that id; it is a context manager.

    `specs` are those of all tensors to be written, or a reader's `specs`; a dtype may be
    given by TensorFlow's name for it, or as numpy's.  The object
    graph of a tf-object checkpoint is written from `object_graph`, where given, instead
    of being one of the tensors.  `slices` keeps tensors partitioned, by their extents;
    `shard_size` bounds the bytes of a data shard (a tensor is not split for it).  `facts` is
    the file's metadata, like a reader's `facts`.

    Raises CheckpointExistsError if the target exists, unless `overwrite`.  Raises
    UnsupportedDtypeError, DuplicateKeyError or ConversionError if the format cannot hold the
    tensors, if it can only be read, or if the suffix of `path` belongs to another format.
    Raises UnsupportedFeatureError for a URL that can only be read.
    """
    return create_writer(
        path,
        format=format,
        specs=specs,
        overwrite=overwrite,
        object_graph=object_graph,
        slices=slices,
        shard_size=shard_size,
        facts=facts,
    )


def create_writer(
    path: str | os.PathLike[str],
    *,
    format: str,  # noqa: A002  the word of the field
    specs: Mapping[str, TensorSpec] | Iterable[TensorSpec],
    overwrite: bool = False,
    object_graph: ObjectGraph | None = None,
    slices: Mapping[str, Sequence[Extents]] | None = None,
    shard_size: int | None = None,
    facts: Facts | None = None,
    rehearsal: bool = False,
    prove_sent: bool = True,
    journal: Journal | None = None,
    is_shared: bool = False,
    compression: str | None = None,
) -> FormatWriter:
    """Return the writer of a new checkpoint, as `create_checkpoint` does, with more options for the commands.

    The writer of a `rehearsal` writes nothing, but raises the same errors.  An upload is compared with the
    store's report of it if `prove_sent`.  With a `journal` that was begun, the writer resumes an interrupted
    process. If `is_shared`, other processes upload the data shards of a bundle
    (`formats.store.remote.upload.DelegatedUpload`). With `compression` "zstd", Orbax' chunks are zstd frames.
    """
    from .registry import format_named
    from .suffixes import refuse_false_suffix

    found = format_named(format)
    where = parse_location(path)
    where.is_object()  # or raises UnsupportedFeatureError
    create = found.require_writer(where)
    refuse_false_suffix(found, where)
    given = specs.values() if isinstance(specs, Mapping) else specs
    listed = tuple(map(_taken, given))
    target = WriteTarget(
        where,
        listed,
        overwrite,
        object_graph,
        dict(slices or {}),
        shard_size,
        Nothing() if facts is None else facts,
        rehearsal,
        prove_sent,
        journal,
        is_shared,
        compression,
    )
    check_specs(target, found)
    return create(target)


def _taken(spec: TensorSpec) -> TensorSpec:
    """Return a spec with ckpt's dtype and an immutable shape; the same object if it has these."""
    dtype, shape = as_dtype(spec.dtype), tuple(spec.shape)
    return spec if dtype is spec.dtype and shape is spec.shape else spec._replace(dtype=dtype, shape=shape)
