"""Restoring the most recent checkpoint of a model_dir, before anything is written there.

Obstacles are reported, and training never restarts over them:

    no state file, or one that names nothing here, and checkpoints beside it   refused
    a checkpoint of another model                                              refused
    one that vanished while it was opened                                      the next is taken

TensorFlow restarts in the first case, and overwrites the run as it goes.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from formats.errors import CheckpointError, CheckpointNotFoundError
from formats.location import parse_location

from ..checkpoint import Checkpoint
from ..errors import FailedPreconditionError, NotFoundError
from ..reader import opened
from ..state_file import latest_checkpoint
from .saver import ObjectSaver, Saver, keys_by_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from .run_config import RunConfig
    from .scaffold import Scaffold

__all__ = ["Restorer", "saver_of"]

logger = logging.getLogger("ckpt_cli.runtime")

_CHECKPOINT = re.compile(r"(.+-(\d+))\.index")
_TRIES = 5  # A run that saves and deletes faster than a checkpoint is opened is not waited for.


def saver_of(scaffold: Scaffold, config: RunConfig) -> Any:
    """Return the saver of a scaffold, one of all variables by name where it has none."""
    saver = scaffold.saver
    keeps = {
        "max_to_keep": config.keep_checkpoint_max,
        "keep_checkpoint_every_n_hours": config.keep_checkpoint_every_n_hours,
    }
    if isinstance(saver, Checkpoint):
        return ObjectSaver(saver, **keeps)
    return saver if saver is not None else Saver(defer_build=True, **keeps)


class Restorer:
    """A directory's most recent checkpoint."""

    def __init__(self, directory: str) -> None:
        self._directory = parse_location(directory)

    def latest(self) -> str | None:
        """Return the most recent checkpoint, None where there is none; refuse to guess."""
        path = latest_checkpoint(self._directory)
        if path is None and (newest := self._newest()) is not None:
            raise FailedPreconditionError(
                f"{self._directory} holds checkpoints, {newest} the latest of them, and its state file "
                "'checkpoint' is missing or names none of them; a new run here would overwrite it. "
                f"`ckpt state --fix {self._directory}` writes the state file; or give another model_dir"
            )
        return path

    def _newest(self) -> str | None:
        """Return the name of the checkpoint with the most steps among the files."""
        try:
            names = self._directory.listing()
        except CheckpointNotFoundError:
            return None
        found = [match for name, _ in names if (match := _CHECKPOINT.fullmatch(name))]
        return max(found, key=lambda match: int(match[2]))[1] if found else None

    def _with_latest(self, use: Callable[[str], Any]) -> tuple[str | None, Any]:
        """Return the latest checkpoint and what `use` makes of it; again where it was deleted meanwhile."""
        path = self.latest()
        for _ in range(_TRIES):
            if path is None:
                break
            try:
                return path, use(path)
            except (NotFoundError, CheckpointError):
                again = self.latest()
                if again == path:
                    raise
                logger.info("%s is gone; taking %s", path, again)
                path = again
        return None, None

    def trained_steps(self) -> int:
        """Return the global step of the latest checkpoint, 0 where there is none."""
        _, step = self._with_latest(_global_step_of)
        return int(step or 0)

    def restore(self, scaffold: Scaffold, checkpoint_path: str | None = None) -> None:
        """Restore a checkpoint, the latest by default; where there is none, call the scaffold's init_fn."""

        def use(path: str) -> None:
            logger.info("Restoring parameters from %s", path)
            scaffold.saver.restore(None, path)

        if checkpoint_path is not None:
            use(checkpoint_path)
            return
        path, _ = self._with_latest(use)
        if path is None:
            logger.info(
                "Could not find trained model in model_dir: %s, running initialization.", self._directory
            )
            if scaffold.init_fn is not None:
                scaffold.init_fn(scaffold, None)


def _global_step_of(path: str) -> int:
    """Return the step that a checkpoint was saved at, 0 where it does not say."""
    with opened(path) as reader:
        key = keys_by_name(reader).get("global_step")
        return int(reader[key].read()) if key is not None else 0
