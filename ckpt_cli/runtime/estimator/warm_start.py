"""Warm start: variables that begin with the values of another run's checkpoint.

Each call of `train` looks the values up; a checkpoint of the run itself takes their place.
tensorflow/python/training/warm_starting_util.py
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from .. import graphs
from ..compat.v1 import GraphKeys, get_collection
from ..reader import checkpoint_exists, opened
from ..state_file import latest_checkpoint
from ..unknown import refuse
from ..variable import Variable
from .saver import keys_by_name

__all__ = ["WarmStartSettings", "init_from_checkpoint", "settings_of", "warm_start"]

logger = logging.getLogger("ckpt_cli.runtime")


class _Fields(NamedTuple):
    ckpt_to_initialize_from: str
    vars_to_warm_start: Any
    var_name_to_vocab_info: Any
    var_name_to_prev_var_name: Any


class WarmStartSettings(_Fields):
    """The checkpoint that a run begins with, and which of its variables."""

    __slots__ = ()

    def __new__(
        cls, ckpt_to_initialize_from: str, vars_to_warm_start: Any = ".*",
        var_name_to_vocab_info: Any = None, var_name_to_prev_var_name: Any = None,
    ) -> WarmStartSettings:  # fmt: skip
        if not ckpt_to_initialize_from:
            raise ValueError("`ckpt_to_initialize_from` MUST be set in WarmStartSettings")
        refuse("WarmStartSettings", var_name_to_vocab_info=var_name_to_vocab_info or None)
        return super().__new__(
            cls, ckpt_to_initialize_from, vars_to_warm_start, var_name_to_vocab_info or {},
            var_name_to_prev_var_name or {},
        )  # fmt: skip


def settings_of(warm_start_from: Any) -> WarmStartSettings | None:
    """Return the settings that an argument of an Estimator gives."""
    if warm_start_from is None or isinstance(warm_start_from, WarmStartSettings):
        return warm_start_from
    if not isinstance(warm_start_from, str | bytes):
        raise ValueError(  # noqa: TRY004  TensorFlow's
            f"warm_start_from must be a string or a WarmStartSettings, instead got {type(warm_start_from)}"
        )
    path = os.fsdecode(warm_start_from)
    saved = os.path.join(path, "variables", "variables")
    return WarmStartSettings(saved if checkpoint_exists(saved) else path)


def _chosen(wanted: Any) -> dict[str, Variable]:
    """Return the variables of the graph that is open, by name: trainable ones, or any that a list names."""
    if wanted is None or isinstance(wanted, str):
        found: list[Any] = get_collection(GraphKeys.TRAINABLE_VARIABLES, wanted)
    elif isinstance(wanted, list) and all(isinstance(one, str) for one in wanted):
        found = [one for scope in wanted for one in get_collection(GraphKeys.GLOBAL_VARIABLES, scope)]
    elif isinstance(wanted, list) and all(isinstance(one, Variable) for one in wanted):
        found = wanted
    else:
        kinds = [type(one) for one in wanted] if isinstance(wanted, list) else type(wanted)
        raise ValueError(
            f"`vars_to_warm_start` must be a str, or a list of all `Variable` or all `str`. Given: {kinds}"
        )
    return {one._full_name(): one for one in found}


def warm_start(settings: WarmStartSettings) -> None:
    """Give variables of the current graph their values in a checkpoint; ValueError if one has none there."""
    path, wanted, _, previous = settings
    variables = _chosen(wanted)
    unused = set(previous) - set(variables)
    if unused:
        raise ValueError(
            "You provided the following variables in var_name_to_prev_var_name that were not used: "
            f"{unused}.  Perhaps you misspelled them?  Here is the list of viable variable names: "
            f"{list(variables)}"
        )
    chosen = variables.items() if wanted is not None else ()
    for variable, value in _read(path, [(one, previous.get(name, name)) for name, one in chosen]):
        variable._set(value)
    logger.info("Warm-started %d variables.", len(chosen))


def _read(path: str, wanted: list[tuple[Variable, str]]) -> list[tuple[Variable, Any]]:
    """Return variables with their values in a checkpoint; ValueError if one has none there."""
    found = []
    with opened(latest_checkpoint(path) or path) as reader:
        keys = keys_by_name(reader)
        for variable, name in wanted:
            key = keys.get(name, name)
            if key not in reader.specs:
                raise ValueError(f"Tensor {key} is not found in {path} checkpoint {sorted(keys)}")
            shape = reader.specs[key].shape
            if not variable.shape.is_compatible_with(shape):
                raise ValueError(
                    f"Shape of variable {variable.name} ({variable.shape}) doesn't match with shape of "
                    f"tensor {key} ({list(shape)}) from checkpoint reader."
                )
            found.append((variable, reader[key].read().astype(variable._value.dtype)))
    return found


def init_from_checkpoint(ckpt_dir_or_file: str, assignment_map: Any) -> None:
    """Let variables of the graph that is open begin with the values in a checkpoint.

    The map leads from names in the checkpoint to variables or their names, or from scopes to scopes.
    """
    graph = graphs.current()
    if graph is None:
        raise NotImplementedError("init_from_checkpoint without a graph is not supported")
    known = {one._full_name(): one for one in graph.global_variables()}
    items = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    wanted: list[tuple[Variable, str]] = []
    for key, target in sorted(items, key=lambda pair: str(pair[0])):
        if isinstance(target, Variable) or target in known:
            wanted.append((known.get(target, target) if isinstance(target, str) else target, key))
            continue
        scope = target.rpartition("/")[0]
        if not key.endswith("/"):
            raise ValueError(
                f"Assignment map with scope only name {scope} should map to scope only {key}. Should be "
                "'scope/': 'other_scope/'."
            )
        above, prefix = f"{scope}/" if scope else "", "" if key == "/" else key
        inside = sorted(name for name in known if name.startswith(above))
        wanted += [(known[name], prefix + name.removeprefix(above)) for name in inside]
    for variable, value in _read(ckpt_dir_or_file, wanted):
        graph.begin_with(variable, value)
