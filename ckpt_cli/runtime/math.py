"""tf.math: the functions of `tf`, and those that live only here."""

from __future__ import annotations

from .dispatch import dispatch
from .functions import *  # noqa: F403
from .functions import __all__ as _functions
from .further import *  # noqa: F403
from .further import IN_MATH as _FURTHER
from .nn import log_softmax, softmax, softplus
from .tensor import as_tensor
from .unknown import absent

__all__ = ["log_sigmoid", "log_softmax", "softmax", "softplus", *_functions, *_FURTHER]  # noqa: PLE0604


def log_sigmoid(x: object, name: str | None = None) -> object:
    return -softplus(-as_tensor(x))


dispatch(globals(), [*_functions, *_FURTHER], "math")


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
