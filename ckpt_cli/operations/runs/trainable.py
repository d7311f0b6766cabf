"""The tensors of a checkpoint that a program trains, from the graph next to it, `PREFIX.meta`, and from
names.

A graph of another step is as good as the checkpoint's own, because a run has one graph; a note says which one
was used. A graph whose variables have other shapes belongs to another model and is ignored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import CheckpointError
from formats.model.checkpoint_files import step_of
from formats.store.siblings import V1_SHARD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.location import Location
    from formats.model.reader import FormatReader
    from formats.tf.run.meta_graph import MetaGraph


class Trainable(NamedTuple):
    """Whether a tensor is trained, by key, as far as known, and the graph that shows it.

    `borrowed` says that this is the graph of another step, `flaws` what is wrong with it.
    """

    marks: dict[str, bool]
    graph: str | None = None
    borrowed: bool = False
    flaws: tuple[str, ...] = ()


def trainable_tensors(reader: FormatReader) -> Trainable:
    """Return the content of the graph next to a checkpoint, which is empty without one."""
    shard = V1_SHARD.fullmatch(reader.location.path)
    prefix = reader.location.path.of(shard["prefix"]) if shard else reader.location.path
    path = _nearest_graph(prefix)
    if path is None:
        return Trainable({})
    from formats.tf.run.meta_graph import read_meta_graph

    try:
        graph = read_meta_graph(path)
    except CheckpointError as error:
        return Trainable({}, flaws=(f"{error}; ckpt cannot tell which tensors are trainable",))
    marks, flaws = _compare(reader, graph, path)
    if not marks:
        return Trainable(marks, flaws=flaws)
    return Trainable(marks, path, path != prefix + ".meta", flaws)


def _nearest_graph(prefix: Location) -> Location | None:
    """Return the graph of a checkpoint; where it has none, that of the nearest step of the same run."""
    own = prefix + ".meta"
    if own.is_file():
        return own
    step = step_of(prefix)
    if step is None:
        return None
    directory, base = prefix.split_name()
    pattern = re.compile(re.escape(base.rpartition("-")[0]) + r"-(\d+)\.meta", re.DOTALL)
    try:
        names = directory.listing()
    except CheckpointError:
        return None
    found = [match for name, _ in names if (match := pattern.fullmatch(name))]
    nearest = min(found, key=lambda match: (abs(int(match[1]) - step), int(match[1])), default=None)
    return None if nearest is None else (directory / nearest[0])


def _compare(reader: FormatReader, graph: MetaGraph, path: str) -> tuple[dict[str, bool], tuple[str, ...]]:
    """Return the marks of the tensors that a graph knows, and how it contradicts the checkpoint."""
    names = reader.full_names
    marks: dict[str, bool] = {}
    misfits, unknown = [], []
    for key, spec in reader.specs.items():
        variable = graph.variables.get(names.get(key, key))
        if variable is None:
            if reader.kinds.get(key) in ("variable", "slot"):
                unknown.append(key)
        elif variable.shape is not None and variable.shape != spec.shape:
            misfits.append(
                f"{key} is {list(variable.shape)} in the graph, but {list(spec.shape)} in the checkpoint"
            )
        else:
            marks[key] = variable.trainable
    if misfits:
        more = f"; {len(misfits) - 1:,} more shapes differ" if len(misfits) > 1 else ""
        return {}, (f"ignored {path}, because this graph belongs to another model: {misfits[0]}{more}",)
    if unknown:
        known = f"does not list {len(unknown):,} weights and slots" if marks else "has none of the tensors"
        message = (
            f"{path}: this graph {known}, such as {unknown[0]}; it may belong to an older or another model"
        )
        return marks, (message,)
    return marks, ()


_UNTRAINED = frozenset(
    (
        *("moving_mean", "moving_variance", "moving_stddev", "renorm_mean", "renorm_stddev"),
        *("running_mean", "running_var", "ExponentialMovingAverage"),
    )
)
"""The frameworks' names for statistics and averages, which training changes without gradients."""

_STATISTICS = "batch_stats"
"""The collection of these in Flax."""

_NUMBERED = re.compile(r"(.*(?:^|/)batch_normalization(?:_\d+)?/vars)/(\d+)", re.DOTALL)
"""A weight of Keras 3's, by the number it has in its layer: the last two are the moving ones."""


def trained_and_not(
    reader: FormatReader, weights: Sequence[str], marks: Mapping[str, bool]
) -> tuple[list[str], list[str]]:
    """Part weights into those that are trained and moving statistics.

    `marks` say so of those that they know, of the others names do.
    """
    paths, names = reader.object_paths, reader.full_names
    found = [(match[1], int(match[2]), key) for key in weights if (match := _NUMBERED.fullmatch(key))]
    last = {group: number for group, number, _ in sorted(found)}
    moving = {key for group, number, key in found if number > last[group] - 2}

    def is_trained(key: str) -> bool:
        if key in marks:
            return marks[key]
        parts = re.split(r"[/.]", names.get(key) or paths.get(key, key))
        return not (parts[-1] in _UNTRAINED or _STATISTICS in parts or key in moving)

    trained = [key for key in weights if is_trained(key)]
    kept = set(trained)
    return trained, [key for key in weights if key not in kept]
