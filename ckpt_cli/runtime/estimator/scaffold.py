"""Scaffold: what a `model_fn` says of how its variables are begun, saved and restored."""

from __future__ import annotations

from typing import Any

from ..unknown import refuse

__all__ = ["Scaffold"]


class Scaffold:
    """A saver, and a function called once where there is nothing to restore.

    `saver` is a Saver, or a Checkpoint: then checkpoints are object-based.  The operations
    of a session's beginning mean nothing here: variables have their values when they are
    made.
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Any = None,
        init_fn: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Any = None,
        copy_from_scaffold: Any = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        refuse(
            "Scaffold", summary_op=summary_op, init_feed_dict=init_feed_dict or None,
            local_init_feed_dict=local_init_feed_dict or None,
        )  # fmt: skip
        if copy_from_scaffold is not None:
            init_fn = init_fn if init_fn is not None else copy_from_scaffold.init_fn
            saver = saver if saver is not None else copy_from_scaffold.saver
        self.init_fn, self.saver = init_fn, saver
