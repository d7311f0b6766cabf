"""RunConfig: where a run keeps its checkpoints, how often it saves and how many it keeps."""

from __future__ import annotations

import copy
from typing import Any

from ..unknown import refuse

__all__ = ["RunConfig"]

_USE_DEFAULT = object()
_BOTH = "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set."
_AT_LEAST = {
    "save_summary_steps": 0,
    "save_checkpoints_steps": 0,
    "save_checkpoints_secs": 0,
    "keep_checkpoint_max": 0,
    "log_step_count_steps": 1,
}
"""The least that an option can be."""


def _option(name: str) -> Any:
    """Return a property that shows what a RunConfig was given."""
    return property(lambda config: config._options[name])


class RunConfig:
    """The schedule of a run; by default a checkpoint every 600 seconds, and the latest five."""

    def __init__(
        self,
        model_dir: Any = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: Any = _USE_DEFAULT,
        save_checkpoints_secs: Any = _USE_DEFAULT,
        session_config: Any = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float | None = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Any = None,
        protocol: Any = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: Any = None,
        session_creation_timeout_secs: int = 7200,
        checkpoint_save_graph_def: bool = True,
    ) -> None:
        refuse(
            "RunConfig",
            train_distribute=train_distribute,
            eval_distribute=eval_distribute,
            experimental_distribute=experimental_distribute,
        )
        # A session of this runtime has no devices, no other machines and no graph to write.
        steps, seconds = save_checkpoints_steps, save_checkpoints_secs
        if steps is _USE_DEFAULT:
            steps = None
            seconds = 600 if seconds is _USE_DEFAULT else seconds
        elif seconds is _USE_DEFAULT:
            seconds = None
        self._options: dict[str, Any] = {}
        self._set(
            model_dir=model_dir,
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            save_checkpoints_steps=steps,
            save_checkpoints_secs=seconds,
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
        )

    # Properties, so that a subclass can have its own.
    model_dir = _option("model_dir")
    tf_random_seed = _option("tf_random_seed")
    save_summary_steps = _option("save_summary_steps")
    save_checkpoints_steps = _option("save_checkpoints_steps")
    save_checkpoints_secs = _option("save_checkpoints_secs")
    keep_checkpoint_max = _option("keep_checkpoint_max")
    keep_checkpoint_every_n_hours = _option("keep_checkpoint_every_n_hours")
    log_step_count_steps = _option("log_step_count_steps")

    def _set(self, **options: Any) -> None:
        if options.get("save_checkpoints_steps") and options.get("save_checkpoints_secs"):
            raise ValueError(_BOTH)
        for name, value in options.items():
            least = _AT_LEAST.get(name)
            if least is not None and value is not None and value < least:
                raise ValueError(f"{name} should be {'> 0' if least else '>= 0'}")
            if name == "model_dir" and value == "":
                raise ValueError("model_dir should be non-empty")
            self._options[name] = value

    def replace(self, **kwargs: Any) -> RunConfig:
        """Return a copy with other options; one kind of schedule takes the place of the other."""
        unknown = sorted(name for name in kwargs if name not in self._options)
        if unknown:
            raise ValueError(
                f'Replacing "{unknown[0]}" is not supported. Allowed properties are: {list(self._options)}.'
            )
        other = {"save_checkpoints_steps": "save_checkpoints_secs"}
        for one, two in (*other.items(), *((two, one) for one, two in other.items())):
            if kwargs.get(one) is not None:
                kwargs.setdefault(two, None)
        changed = copy.copy(self)
        changed._options = {}
        changed._set(**{**self._options, **kwargs})
        return changed
