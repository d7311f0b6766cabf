"""tf.compat.v1.train.Saver: variables under their names, and which checkpoints are kept.

    <path>-<step>.index, .data-00000-of-00001   name-based, as TensorFlow's Saver writes it
    checkpoint                                  the state file, paths relative to it

No `.meta` is written: there is no graph for it, and an Estimator continues without one. A restore compares
every variable with the checkpoint before it changes the first. tensorflow/python/training/saver.py
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formats.location import parse_location
from formats.model.object_keys import VARIABLE_VALUE
from formats.store.base import FILE
from formats.tf.run.state_file import FILE_NAME

from .. import graphs
from ..checkpoint import read_into, write_checkpoint
from ..compat.v1.train import global_step as step_of
from ..compat.v1.train import remove_checkpoint
from ..errors import InvalidArgumentError, NotFoundError
from ..reader import checkpoint_exists, cpp_name, opened
from ..saving import NamedArray, save_arrays
from ..sessions import Session
from ..state_file import get_checkpoint_state, update_state_file
from ..tensor import TensorLike
from ..unknown import refuse
from ..variable import Variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from formats.model.reader import FormatReader

    from ..checkpoint import Checkpoint

__all__ = ["ObjectSaver", "Saver", "keys_by_name"]

logger = logging.getLogger("ckpt_cli.runtime")

_MOST_SHOWN = 5


class _Kept(NamedTuple):
    path: str
    saved: float  # seconds since 1970


class _Keeper(ABC):
    """Writes checkpoints by step, keeps the latest few, and remembers which in the state file."""

    def __init__(self, max_to_keep: int | None, keep_checkpoint_every_n_hours: float | None) -> None:
        self._max_to_keep = max_to_keep
        self._hours = keep_checkpoint_every_n_hours or 0.0
        self._next_preserved = time.time() + self._hours * 3600.0
        self._kept: list[_Kept] = []
        self._step_digits = 0
        self.restored_from: str | None = None

    @property
    def last_checkpoints(self) -> list[str]:
        """The checkpoints that may one day be deleted, oldest first; none where all are kept."""
        return [one.path for one in self._kept]

    def set_last_checkpoints(self, last_checkpoints: Iterable[str]) -> None:
        self._kept = [_Kept(path, time.time()) for path in last_checkpoints]

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time: Iterable[tuple[str, float]]) -> None:
        self._kept = [_Kept(path, saved) for path, saved in last_checkpoints_with_time]

    def recover_last_checkpoints(self, checkpoint_paths: Iterable[str]) -> None:
        """Take over checkpoints that an earlier saver wrote and that are still there."""
        kept = []
        for path in checkpoint_paths:
            for file in (path + ".index", path):
                entry = parse_location(file).entry()
                if entry is not None and entry.kind == FILE:
                    kept.append(_Kept(path, entry.modified))
                    break
        self._kept = kept

    def recover(self, directory: str) -> None:
        """Take over the checkpoints in a directory's state file that exist.

        A copy of a run may name the checkpoints of the run it is a copy of, which are not
        its own to delete.  Paths are taken as this saver would write them, so that one that is
        saved again is not thought to be another.
        """
        state = get_checkpoint_state(directory)
        listed = state.all_model_checkpoint_paths if state is not None else []
        here = parse_location(directory).real()
        self.recover_last_checkpoints(
            os.path.join(directory, os.path.basename(path))
            for path in listed
            if parse_location(path).parent.real() == here
        )

    def save(
        self,
        sess: Any,
        save_path: str | os.PathLike[str],
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str:
        """Write `<save_path>-<step>`; then name it in the state file and delete what is one too many.

        Raises ValueError for a state file elsewhere, or of the checkpoint's own name.
        """
        path, state = os.fspath(save_path), latest_filename or FILE_NAME
        if os.path.dirname(state):
            raise ValueError("'latest_filename' must not contain path components")
        if isinstance(global_step, TensorLike):
            global_step = step_of(sess, global_step)
        if global_step is not None:
            path = f"{path}-{int(global_step):0{self._step_digits}d}"
        elif os.path.basename(path) == state:
            raise ValueError(f"'latest_filename' collides with 'save_path': '{state}' and '{path}'")
        with _values_of(sess):
            self._write(path)
        if write_state:
            gone = self._note(path)
            update_state_file(os.path.dirname(path), path, self.last_checkpoints or [path], name=state)
            for one in gone:
                self._delete(one)
        return path

    def _note(self, path: str) -> list[_Kept]:
        """Note the newest checkpoint, if not all are kept; return those that are too many now."""
        if not self._max_to_keep:
            return []
        own = parse_location(path).real()
        others = (one for one in self._kept if parse_location(one.path).real() != own)
        kept = [*others, _Kept(path, time.time())]
        surplus = max(len(kept) - self._max_to_keep, 0)
        self._kept = kept[surplus:]
        return kept[:surplus]

    def _delete(self, one: _Kept) -> None:
        if self._hours and one.saved > self._next_preserved:
            self._next_preserved += self._hours * 3600.0
            return
        remove_checkpoint(parse_location(one.path))

    def restore(self, sess: Any, save_path: str | os.PathLike[str]) -> None:
        """Restore a checkpoint, or nothing of it: raise before the first variable is changed."""
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        path = os.fspath(save_path)
        # Within a graph an Estimator looks for another where one was deleted meanwhile: NotFoundError.
        is_estimators = graphs.current() is not None and not isinstance(sess, Session)
        if not is_estimators and not checkpoint_exists(path):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {path}")
        with _values_of(sess):
            self._read(path)
        self.restored_from = parse_location(path).real()

    @abstractmethod
    def _write(self, path: str) -> None:
        """Write a checkpoint at this prefix."""

    @abstractmethod
    def _read(self, path: str) -> None:
        """Take all values from a checkpoint, or raise before the first is taken."""


class Saver(_Keeper):
    """Saves variables by name; `var_list` is a list of them, or a dict that names them otherwise."""

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float | None = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: Any = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = 2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ) -> None:
        other_version = None if write_version == 2 else write_version
        refuse("Saver", saver_def=saver_def, builder=builder, filename=filename, write_version=other_version)
        if defer_build and var_list is not None:
            raise ValueError(
                "If `var_list` is provided then build cannot be deferred. Either set defer_build=False or "
                "var_list=None."
            )
        # Paths are always relative here, and a directory that was moved stays whole.
        super().__init__(max_to_keep, keep_checkpoint_every_n_hours)
        self._var_list = var_list
        self._allow_empty, self._is_reshaping = allow_empty, reshape
        self._step_digits = 8 if pad_step_number else 0
        self._graph = graphs.current()
        if self._graph is None and var_list is None:
            raise RuntimeError(
                "When eager execution is enabled, `var_list` must specify a list or dict of variables to save"
            )
        # Eagerly TensorFlow looks at the list each time, and nothing is wrong with it before.
        self._built = None if defer_build or self._graph is None else self._found()

    def _variables(self) -> dict[str, Variable]:
        """Return the variables by key: in a graph those that there were when the saver was built."""
        found = self._found() if self._built is None else self._built
        if self._graph is not None:
            self._built = found
        return found

    def _found(self) -> dict[str, Variable]:
        if self._var_list is None:
            assert self._graph is not None
            found: Mapping[str, Any] = _by_name(self._graph.global_variables())
        elif isinstance(self._var_list, dict):
            found = self._var_list
        else:
            found = _by_name(self._var_list)
        for key, variable in found.items():
            if not isinstance(variable, Variable):
                raise TypeError(f"Variable to save is not a Variable: {key}: {variable}")
        if not found and not self._allow_empty:
            raise ValueError("No variables to save")
        return dict(sorted(found.items()))

    def _write(self, path: str) -> None:
        tensors = [
            NamedArray(key, variable._serialize()[VARIABLE_VALUE])
            for key, variable in self._variables().items()
        ]
        save_arrays(path, "tf-name", tensors)

    def _read(self, path: str) -> None:
        variables = self._variables()
        with opened(path) as reader:
            keys = keys_by_name(reader)
            _check(path, variables, keys, reader, is_reshaping=self._is_reshaping)
            values = {name: reader[keys[name]].read() for name in variables}
        for name, variable in variables.items():
            value = np.asarray(values[name])
            variable._set(value.reshape(variable._value.shape) if self._is_reshaping else value)


def _values_of(sess: Any) -> Any:
    """Return a context in which variables have the values of a Session, and one keeps those they get."""
    return sess.values() if isinstance(sess, Session) else contextlib.nullcontext()


def _by_name(variables: Iterable[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable in variables:
        name = getattr(variable, "_shared_name", None)
        if found.get(str(name), variable) is not variable:
            raise ValueError(f"At least two variables have the same name: {name}")
        found[str(name)] = variable
    return found


def keys_by_name(reader: FormatReader) -> dict[str, str]:
    """Return the keys of a checkpoint by variable name; those of an object-based one by full name."""
    if not reader.format.has_object_graph:
        return {key: key for key in reader.specs}
    graph = reader.load_object_graph()  # type: ignore[attr-defined]
    attributes = [attribute for node in graph.nodes for attribute in node.attributes]
    return {one.full_name: one.checkpoint_key for one in attributes if one.full_name}


def _check(
    path: str,
    variables: dict[str, Variable],
    keys: dict[str, str],
    reader: FormatReader,
    *,
    is_reshaping: bool,
) -> None:
    """Raise NotFoundError or InvalidArgumentError where variables and checkpoint do not go together."""
    missing, other = [], []
    for name, variable in variables.items():
        spec = reader.specs.get(keys[name]) if name in keys else None
        if spec is None:
            missing.append(f"Key {name} not found in checkpoint")
        elif not _fits(variable, spec.shape, is_reshaping=is_reshaping):
            wanted, stored = ",".join(map(str, variable._value.shape)), ",".join(map(str, spec.shape))
            other.append(
                f"tensor_name = {name}; shape in shape_and_slice spec [{wanted}] does not match the shape "
                f"stored in checkpoint: [{stored}]"
            )
        elif spec.dtype.name != variable.dtype.name:
            wanted, stored = cpp_name(variable.dtype.name), cpp_name(spec.dtype.name)
            other.append(
                f"tensor_name = {name}; expected dtype {wanted} does not equal original dtype {stored}"
            )
    if other:
        raise InvalidArgumentError(_refusal(path, [*other, *missing]))
    if missing:
        raise NotFoundError(_refusal(path, missing))


def _fits(variable: Variable, shape: tuple[int, ...], *, is_reshaping: bool) -> bool:
    if is_reshaping:
        return math.prod(shape) == variable._value.size
    return variable.shape.is_compatible_with(shape)


def _refusal(path: str, reasons: list[str]) -> str:
    shown = reasons[:_MOST_SHOWN]
    if len(reasons) > len(shown):
        shown.append(f"and {len(reasons) - len(shown)} more")
    refused = _REFUSED.format(path=path, reasons="\n".join(shown))
    return refused if graphs.current() is None else refused + _OF_ESTIMATORS


_REFUSED = """\
Restoring from checkpoint failed. This is most likely due to a mismatch between the current graph and the \
graph from the checkpoint. Please ensure that you have not altered the graph expected based on the \
checkpoint. Original error:

{path}: {reasons}

Nothing was restored and nothing was written. To continue from this checkpoint, give the model the sizes and \
names it was trained with (`ckpt ls` lists them)"""
_OF_ESTIMATORS = "; to train the changed model, give it another model_dir."


def _names(variables: list[Any]) -> str:
    return ", ".join(variable.name for variable in variables)


class ObjectSaver(_Keeper):
    """Saves what hangs on a Checkpoint, object-based: what a Scaffold makes of `saver=Checkpoint`."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float | None = 10000.0,
    ) -> None:
        super().__init__(max_to_keep, keep_checkpoint_every_n_hours)
        self._checkpoint = checkpoint
        self._graph = graphs.current()
        self._has_warned = False

    def _write(self, path: str) -> None:
        forgotten = self._unsaved(self._checkpoint._view.graph().objects)
        if forgotten and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%s: not saved, they do not hang on the Scaffold's saver: %s", path, _names(forgotten)
            )
        write_checkpoint(path, self._checkpoint._view)

    def _read(self, path: str) -> None:
        before = [(variable, variable._value) for variable in self._unsaved(())]
        try:
            read_into(path, self._checkpoint._view).assert_existing_objects_matched()
        except (AssertionError, ValueError, InvalidArgumentError) as error:
            for variable, value in before:
                variable._set(value)
            raise InvalidArgumentError(_refusal(path, [str(error)])) from error
        forgotten = self._unsaved(self._checkpoint._view.graph().objects)
        if forgotten:
            raise InvalidArgumentError(
                f"Variables not initialized: {_names(forgotten)}. They do not hang on the Checkpoint that "
                "the Scaffold has as its saver, and checkpoints do not hold them; attach their owner to it."
            )

    def _unsaved(self, saved: Iterable[Any]) -> list[Any]:
        known = {id(one) for one in saved}
        variables = self._graph.global_variables() if self._graph is not None else []
        return [variable for variable in variables if id(variable) not in known]
