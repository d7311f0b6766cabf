"""tf.compat.v1: the names that programs of the first version still use.

There are no graphs and no sessions here: what a graph would hold is an eager value.
"""

from __future__ import annotations

from ... import keras, nn
from ...functions import *  # noqa: F403
from ...functions import __all__ as _functions
from ...variable import Variable
from . import train

__all__ = ["Variable", "global_variables_initializer", "keras", "nn", "set_random_seed", "train", *_functions]  # noqa: PLE0604


def set_random_seed(seed: int) -> None:
    """Seed everything random from here on."""
    from ...ops.random import reset_seed

    reset_seed(seed)


def global_variables_initializer() -> None:
    """Do nothing: variables have their values when they are made."""
