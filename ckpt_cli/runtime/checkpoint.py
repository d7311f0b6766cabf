"""tf.train.Checkpoint: saving and restoring everything reachable from a root."""

from __future__ import annotations

import copy
import inspect
import logging
import os
from typing import TYPE_CHECKING, Any

from formats.find.opening import is_directory
from formats.find.resolve import saved_model_prefix
from formats.location import parse_location
from formats.model.object_graph import ROOT, ObjectGraph

from .errors import NotFoundError
from .graph_view import GraphView, referred
from .reader import no_files, opened
from .restore import NameBasedRestore, Restore
from .saving import save_graph
from .state_file import update_state_file
from .status import CheckpointLoadStatus, InitializationOnlyStatus, LoadStatus, NameBasedSaverStatus
from .trackable import AutoTrackable, Trackable
from .variable import Variable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Checkpoint", "CheckpointOptions", "read_into", "write_checkpoint"]

logger = logging.getLogger("ckpt_cli.runtime")


class CheckpointOptions:
    """Options for saving and restoring; of TensorFlow's, the callbacks mean something on one machine."""

    def __init__(
        self,
        experimental_io_device: str | None = None,
        experimental_enable_async_checkpoint: bool = False,
        experimental_write_callbacks: list[Callable[..., Any]] | None = None,
        enable_async: bool = False,
    ) -> None:
        self.experimental_io_device = experimental_io_device
        self.experimental_enable_async_checkpoint = experimental_enable_async_checkpoint or enable_async
        self.experimental_write_callbacks = experimental_write_callbacks
        for callback in experimental_write_callbacks or ():
            _count_parameters(callback)

    def with_callback(self, callback: Callable[..., Any]) -> CheckpointOptions:
        """Return the same options with one more callback."""
        options = copy.copy(self)
        options.experimental_write_callbacks = [*(self.experimental_write_callbacks or ()), callback]
        return options


def write_checkpoint(prefix: str, view: GraphView, options: CheckpointOptions | None = None) -> str:
    """Write what hangs on a root now; then call the options' callbacks, with the path if they take it."""
    save_graph(prefix, view.graph())
    for callback in (options.experimental_write_callbacks or ()) if options else ():
        callback(*[prefix][: _count_parameters(callback)])
    return prefix


def _count_parameters(callback: Callable[..., Any]) -> int:
    """Return how many parameters a callback has; AssertionError where they are more than one."""
    count = len(inspect.signature(callback).parameters)
    if count > 1:
        raise AssertionError(
            "Callback functions for checkpoint are required to have 0 or 1 parameters, but this has "
            f"{count} parameters: {callback}"
        )
    return count


def read_into(path: str | None, view: GraphView) -> LoadStatus:
    """Restore a checkpoint into what hangs on a root, and into what will."""
    if path is None:
        return InitializationOnlyStatus()
    with opened(path) as reader:
        if not reader.format.has_object_graph:
            return _read_by_name(path, view, reader)
        graph: ObjectGraph = reader.load_object_graph()  # type: ignore[attr-defined]
        restore = Restore(path, graph)
        restore.restore(ROOT, view.root, reader)
        edges: dict[str, int] = {}
        for name, node in graph.children(ROOT):
            edges.setdefault(name, node)
        for name, child in view.attached:
            number = edges.get(name)
            if name != "root" and number is not None and restore.matching.bound.get(number) is None:
                restore.restore(number, child, reader)
        return CheckpointLoadStatus(restore, view)


def _read_by_name(path: str, view: GraphView, reader: Any) -> LoadStatus:
    logger.warning(
        "Restoring a name-based tf.train.Saver checkpoint using the object-based restore API. This mode "
        "uses global "
        "names to match variables, and so is somewhat fragile. Prefer re-encoding training checkpoints in "
        "the "
        "object-based format: run save() on the object-based saver and use that checkpoint in the future."
    )
    restore = NameBasedRestore(path)
    for trackable in view.graph().objects:
        trackable._links.by_name.append(restore)
        restore.restore(trackable, reader)
    return NameBasedSaverStatus(restore, view)


class Checkpoint(AutoTrackable):
    """A group of trackables that is saved and restored together; keyword arguments become attributes."""

    _save_counter: Variable | None
    _attached: list[tuple[str, Any]] | None
    _view_root: Any

    def __init__(self, root: Any = None, **kwargs: Any) -> None:
        put = super().__setattr__
        own = object.__setattr__
        own(self, "_save_counter", None)
        attached: list[tuple[str, Any]] | None = None
        own(self, "_view_root", root)
        if root is not None:
            kwargs["root"] = root
            root = referred(root)
            _assert_trackable(root, "root")
            attached = []
            own(self, "_save_counter", root._lookup_child("save_counter"))
        for name, value in sorted(kwargs.items()):
            put(name, value)
            given = getattr(self, name)
            tracked = referred(given)
            _assert_trackable(tracked, name)
            if attached is None:
                continue
            child = root._lookup_child(name)
            if child is None:
                attached.append((name, given))
            elif child is not tracked:
                raise ValueError(
                    f"Cannot create a Checkpoint with keyword argument {name} if root.{name} already exists."
                )
        own(self, "_attached", attached)

    @property
    def _view(self) -> GraphView:
        return GraphView(self._root, self._attached)

    @property
    def _root(self) -> Trackable:
        """The root that was given, or this object."""
        root = self if self._view_root is None else referred(self._view_root)
        assert root is not None, "the object that a weak reference was given for is gone"
        return root

    def _ensure_save_counter(self) -> Variable:
        counter = self._save_counter
        if counter is None:
            counter = Variable(0, dtype="int64", trainable=False, name="save_counter")
            object.__setattr__(self, "_save_counter", counter)
            self._track(counter, "save_counter")
            if self._attached is not None:
                self._attached.append(("save_counter", counter))
                self._root._settle("save_counter", counter)
        return counter

    @property
    def save_counter(self) -> Variable:
        """The number of saves, an int64 variable that is saved with the rest."""
        return self._ensure_save_counter()

    def write(self, file_prefix: str | os.PathLike[str], options: CheckpointOptions | None = None) -> str:
        """Write a checkpoint at exactly this prefix, counting nothing."""
        return self._write(os.fspath(file_prefix), options)

    def _write(self, prefix: str, options: CheckpointOptions | None = None) -> str:
        return write_checkpoint(prefix, self._view, options)

    def save(self, file_prefix: str | os.PathLike[str], options: CheckpointOptions | None = None) -> str:
        """Count up, write `<prefix>-<count>`, and make it the latest in its directory's state file."""
        number = int(self.save_counter.assign_add(1))
        options = (options or CheckpointOptions()).with_callback(
            lambda path: update_state_file(os.path.dirname(path), path, [path])
        )
        return self._write(f"{os.fspath(file_prefix)}-{number}", options)

    def read(
        self, save_path: str | os.PathLike[str] | None, options: CheckpointOptions | None = None
    ) -> LoadStatus:
        """Restore a checkpoint that `write` made: no save counter is expected."""
        return read_into(os.fspath(save_path) if save_path is not None else None, self._view)

    def restore(
        self, save_path: str | os.PathLike[str] | None, options: CheckpointOptions | None = None
    ) -> Any:
        """Restore a checkpoint; what has no object yet is restored when its object arrives.

        None restores nothing, and returns a status all of whose assertions fail.
        """
        path = parse_location(save_path) if save_path is not None else None
        if path is not None and path.is_folder():
            prefix = saved_model_prefix(path)
            if prefix is not None:
                path = prefix
            elif is_directory(path):
                raise NotFoundError(self._wrapped(path, no_files(path)))
        try:
            status = self.read(path, options)
        except NotFoundError as error:
            raise NotFoundError(self._wrapped(save_path, error.message)) from error
        self._ensure_save_counter()
        if isinstance(status, NameBasedSaverStatus):
            status.add_to_optionally_restored(self.save_counter)
        return status

    @staticmethod
    def _wrapped(path: Any, message: str) -> str:
        return (
            f"Error when restoring from checkpoint or SavedModel at {path}: {message}\nPlease double-check "
            "that the path "
            "is correct. You may be missing the checkpoint suffix (e.g. the '-1' in 'path/to/ckpt-1')."
        )

    def sync(self) -> None:
        """Do nothing: saves are done when they return."""


def _assert_trackable(value: Any, name: str) -> None:
    if not isinstance(value, Trackable):
        raise ValueError(  # noqa: TRY004  TensorFlow's
            f"`Checkpoint` was expecting {name} to be a trackable object (an object derived from "
            "`Trackable`), got "
            f"{value}. If you believe this object should be trackable (i.e. it is part of the TensorFlow "
            "Python API and "
            "manages state), please open an issue."
        )
