"""tf.compat.v1.train: the global step, and what reads and names checkpoints."""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import TYPE_CHECKING, Any

from formats.location import parse_location
from formats.model.checkpoint_files import data_shards
from formats.tf.run.state_file import FILE_NAME

from ... import graphs
from ...averages import ExponentialMovingAverage
from ...checkpoint import Checkpoint
from ...names import name_scope
from ...reader import CheckpointReader, checkpoint_exists, list_variables, load_checkpoint, load_variable
from ...state_file import (
    checkpoints_iterator,
    get_checkpoint_state,
    latest_checkpoint,
    update_state_file,
)
from ...unknown import absent, refuse
from ...variable import Variable

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = [
    "Checkpoint", "ExponentialMovingAverage", "NewCheckpointReader", "checkpoint_exists",
    "checkpoints_iterator", "create_global_step", "get_checkpoint_state",
    "get_global_step", "get_or_create_global_step", "global_step", "global_step_scope", "latest_checkpoint",
    "list_variables", "load_checkpoint", "load_variable", "remove_checkpoint", "update_checkpoint_state",
]  # fmt: skip


_LAZY = {
    "AdagradOptimizer": "optimizers",
    "AdamOptimizer": "optimizers",
    "CheckpointSaverHook": "saving",
    "CheckpointSaverListener": "saving",
    "FtrlOptimizer": "optimizers",
    "GradientDescentOptimizer": "optimizers",
    "LoggingTensorHook": "hooks",
    "MomentumOptimizer": "optimizers",
    "NanLossDuringTrainingError": "hooks",
    "NanTensorHook": "hooks",
    "RMSPropOptimizer": "optimizers",
    "Saver": "saver",
    "Scaffold": "scaffold",
    "SessionRunArgs": "hooks",
    "SessionRunContext": "hooks",
    "SessionRunHook": "hooks",
    "SessionRunValues": "hooks",
    "StepCounterHook": "saving",
    "StopAtStepHook": "hooks",
    "init_from_checkpoint": "warm_start",
}
"""Names by their module of `estimator`, which is imported at its first use."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        package = __name__.removesuffix(".compat.v1.train")
        return getattr(importlib.import_module(f"{package}.estimator.{_LAZY[name]}"), name)
    raise absent(__name__, name)


def _graph() -> graphs.Graph:
    return graphs.current() or graphs.DEFAULT


@contextlib.contextmanager
def global_step_scope() -> Iterator[None]:
    """Open a graph, which has no global step yet."""
    with graphs.Graph().opened():
        yield


def get_global_step(graph: Any = None) -> Variable | None:
    """Return the global step, None where there is none."""
    return (graph or _graph()).global_step


def create_global_step(graph: Any = None) -> Variable:
    """Make the global step; ValueError where there is one."""
    graph = graph or _graph()
    if graph.global_step is not None:
        raise ValueError('"global_step" already exists.')
    with name_scope(None):
        graph.global_step = Variable(0, dtype="int64", name="global_step", trainable=False)
    return graph.global_step


def get_or_create_global_step(graph: Any = None) -> Variable:
    step = get_global_step(graph)
    return step if step is not None else create_global_step(graph)


def global_step(sess: Any, global_step_tensor: Any) -> int:
    return int(sess.run(global_step_tensor) if sess is not None else global_step_tensor)


def NewCheckpointReader(filepattern: str) -> CheckpointReader:  # noqa: N802  TensorFlow's name
    return CheckpointReader(filepattern)


def update_checkpoint_state(
    save_dir: str, model_checkpoint_path: str, all_model_checkpoint_paths: Any = None,
    latest_filename: str | None = None, all_model_checkpoint_timestamps: Any = None,
    last_preserved_timestamp: Any = None,
) -> None:  # fmt: skip
    """Write a directory's state file."""
    refuse(
        "update_checkpoint_state", latest_filename=None if latest_filename == FILE_NAME else latest_filename,
        all_model_checkpoint_timestamps=all_model_checkpoint_timestamps,
        last_preserved_timestamp=last_preserved_timestamp,
    )  # fmt: skip
    paths = list(all_model_checkpoint_paths or ())
    if model_checkpoint_path not in paths:
        paths.append(model_checkpoint_path)
    update_state_file(save_dir, model_checkpoint_path, paths)


def remove_checkpoint(
    checkpoint_prefix: str, checkpoint_format_version: int = 2, meta_graph_suffix: str = "meta"
) -> None:
    """Delete a checkpoint's files, its .meta among them."""
    refuse("remove_checkpoint", checkpoint_format_version=None if checkpoint_format_version == 2 else "1")
    prefix = parse_location(checkpoint_prefix)
    paths = [f"{prefix}.{meta_graph_suffix}", prefix + ".index", *data_shards(prefix)]
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    if os.path.isfile(checkpoint_prefix):
        os.unlink(checkpoint_prefix)
