"""The loop of a session: batch after batch through a recording, with hooks around each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..graphs import Done
from ..nest import flatten, map_structure
from ..tensor import Tensor, TensorLike
from ..unknown import refuse
from .hooks import SessionRunArgs, SessionRunContext, SessionRunValues

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .hooks import SessionRunHook
    from .inputs import Batch
    from .recording import Recording

__all__ = ["Session"]


class Session:
    """The `session` argument of hooks, which also runs them."""

    def __init__(self, recording: Recording, hooks: Sequence[SessionRunHook], first: Batch) -> None:
        self._recording, self._hooks, self._batch = recording, list(hooks), first
        self.should_stop = False

    def open(self) -> None:
        """Tell hooks that the variables have their values; nothing can be added to the graph from here on."""
        self._recording.graph.finalize()
        for hook in self._hooks:
            hook.after_create_session(self, None)

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None) -> Any:
        """Return the values of variables as they are, of tensors for the latest batch; nothing is changed."""
        refuse("Session.run", feed_dict=feed_dict or None)
        return self._values(fetches, changes=False)

    def _values(self, fetches: Any, *, changes: bool) -> Any:
        """Return arrays for tensors and variables, None for what has no value."""
        leaves = flatten(fetches)
        for leaf in leaves:
            if not (leaf is None or isinstance(leaf, TensorLike | Done)):
                raise TypeError(
                    f"Fetch argument {leaf!r} is neither a tensor nor a variable; names are not looked up"
                )
        found = {id(leaf): leaf.numpy() for leaf in leaves if _is_variable(leaf)}
        tensors = [leaf for leaf in leaves if leaf.__class__ is Tensor]
        if tensors or changes:
            made = self._recording.fetch(tensors, self._batch, changes=changes)
            found.update((id(leaf), value.numpy()) for leaf, value in zip(tensors, made, strict=True))
        return map_structure(lambda leaf: found.get(id(leaf)), fetches)

    def step(self, batch: Batch, fetches: Any) -> Any:
        """Make the step of one batch and return what is fetched."""
        self._batch = batch
        context = SessionRunContext(SessionRunArgs(fetches), self)
        asked = [hook.before_run(context) for hook in self._hooks]
        wanted = [None if one is None else one.fetches for one in asked]
        result, *told = self._values([fetches, *wanted], changes=True)
        for hook, values in zip(self._hooks, told, strict=True):
            hook.after_run(context, SessionRunValues(values))
        self.should_stop = context.stop_requested
        return result

    def steps(self, batches: Iterator[Batch], fetches: Any) -> Iterator[Any]:
        """Make steps until a hook asks to stop or the batches end; then tell hooks of the end."""
        for batch in batches:
            yield self.step(batch, fetches)
            if self.should_stop:
                break
        for hook in self._hooks:
            hook.end(self)


def _is_variable(leaf: Any) -> bool:
    return isinstance(leaf, TensorLike) and leaf.__class__ is not Tensor
