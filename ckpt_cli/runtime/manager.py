"""tf.train.CheckpointManager.

The manager numbers checkpoints, keeps the latest few, and remembers in the state file
which those are.  Nothing is deleted before the new checkpoint and the state file that
names it are on the disk.
tensorflow/python/checkpoint/checkpoint_management.py
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Any

from formats.location import parse_location
from formats.model.checkpoint_files import data_shards

from .state_file import get_checkpoint_state, update_state_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.location import Location

    from .checkpoint import Checkpoint, CheckpointOptions

__all__ = ["CheckpointManager"]

logger = logging.getLogger("ckpt_cli.runtime")


def _delete(prefix: Location) -> None:
    """Delete a checkpoint: the index first, so that no moment shows a checkpoint without its data."""
    for path in (prefix + ".index", *data_shards(prefix)):
        try:
            os.unlink(path)
        except FileNotFoundError:
            if not path.endswith(".index"):
                logger.warning("%s was deleted meanwhile, by another process perhaps", path)


class CheckpointManager:
    """Keep the latest checkpoints of a directory; only one manager should work on it at a time."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: str | os.PathLike[str],
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], Any] | None = None,
    ) -> None:
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(f"Expected a positive integer or `None` for `max_to_keep`, got {max_to_keep}.")
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError("`step_counter` should be passed if `checkpoint_interval` is not None.")
        self._checkpoint = checkpoint
        self._directory = os.fspath(directory)
        self._prefix = os.path.join(self._directory, checkpoint_name)
        self._max_to_keep = max_to_keep
        self._every_n_hours = keep_checkpoint_every_n_hours
        self._step_counter = step_counter
        self._checkpoint_interval = checkpoint_interval
        self._last_step: int | None = None
        self._init_fn = init_fn
        self._active: dict[str, float] = {}
        self._recover()

    def _recover(self) -> None:
        """Take over an earlier manager's checkpoints; those that it has preserved are never deleted."""
        state = get_checkpoint_state(self._directory)
        now = time.time()
        if state is None:
            self._latest: str | None = None
            self._last_preserved = now - 1.0
            return
        self._latest = state.model_checkpoint_path
        self._last_preserved = state.last_preserved_timestamp
        if now < self._last_preserved:
            logger.warning(
                "time.time() returned a value %f seconds behind the last preserved checkpoint timestamp.",
                self._last_preserved - now,
            )
            self._last_preserved = now
        paths = state.all_model_checkpoint_paths
        times = state.all_model_checkpoint_timestamps or [self._last_preserved] * len(paths)
        for path, saved in zip(paths, times, strict=False):
            if min(saved, now) > self._last_preserved:
                self._active[path] = min(saved, now)

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def checkpoint(self) -> Checkpoint:
        return self._checkpoint

    @property
    def checkpoint_interval(self) -> int | None:
        return self._checkpoint_interval

    @property
    def latest_checkpoint(self) -> str | None:
        """The prefix of the latest checkpoint, None where there is none."""
        return self._latest

    @property
    def checkpoints(self) -> list[str]:
        """The prefixes that may one day be deleted, oldest first."""
        return list(self._active)

    def _is_due(self, check_interval: bool) -> bool:
        """Whether enough steps have gone by; notes the step when they have."""
        interval = self._checkpoint_interval
        if interval is None:
            return True
        step = int(self._step_counter)
        last = self._last_step
        if last is not None and (step == last or (check_interval and step < last + interval)):
            return False
        self._last_step = step
        return True

    def save(
        self,
        checkpoint_number: Any = None,
        check_interval: bool = True,
        options: CheckpointOptions | None = None,
    ) -> str | None:
        """Save a checkpoint and delete what is one too many; None where the interval is not over."""
        from .checkpoint import CheckpointOptions

        if not self._is_due(check_interval):
            return None
        counter = self._checkpoint.save_counter.assign_add(1)
        number = int(counter if checkpoint_number is None else checkpoint_number)
        options = (options or CheckpointOptions()).with_callback(self._saved)
        return self._checkpoint._write(f"{self._prefix}-{number}", options)

    def _saved(self, path: str) -> None:
        self._active.pop(path, None)
        self._active[path] = time.time()
        self._latest = path
        self._record()
        self._sweep()
        self._record()

    def _record(self) -> None:
        assert self._latest is not None
        update_state_file(
            self._directory,
            self._latest,
            list(self._active),
            list(self._active.values()),
            self._last_preserved,
        )

    def _sweep(self) -> None:
        """Delete the oldest while there are too many, except one every few hours."""
        while self._max_to_keep and len(self._active) > self._max_to_keep:
            path = next(iter(self._active))
            saved = self._active.pop(path)
            hours = self._every_n_hours
            if hours and saved - hours * 3600.0 >= self._last_preserved:
                self._last_preserved = saved
                continue
            _delete(parse_location(path))

    def restore_or_initialize(self) -> str | None:
        """Restore the latest checkpoint and return its path; without one call `init_fn` and return None."""
        if self._latest is not None:
            self._checkpoint.restore(self._latest)
            if self._checkpoint_interval is not None:
                self._last_step = int(self._step_counter)
            return self._latest
        if self._init_fn is not None:
            self._init_fn()
        return None

    def sync(self) -> None:
        """Do nothing: saves are done when they return."""
