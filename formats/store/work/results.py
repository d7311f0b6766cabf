"""The results of tasks that another process did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...errors import CheckpointError


class Done(NamedTuple):
    """The results of a group of tasks, or of its first ones; `reads` counts bytes and reads by path.

    An error of a task is a result, not a failure of the process.
    """

    results: list[Any]
    reads: Mapping[str, tuple[int, int]] = {}
    error: CheckpointError | None = None
