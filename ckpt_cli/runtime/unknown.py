"""Saying no: arguments that TensorFlow has and this runtime does not follow.

Accepting and ignoring one would compute something else than the caller wanted.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

__all__ = ["absent", "accept", "namespace", "refuse"]


def refuse(where: str, **arguments: Any) -> None:
    """Raise NotImplementedError for the first argument that was given; None, False and 0 are not given."""
    for name, value in arguments.items():
        if value is not None and value is not False and not (isinstance(value, int | float) and value == 0):
            raise NotImplementedError(f"{where}: argument {name}={value!r} is not supported")


def accept(where: str, options: dict[str, Any], without_effect: str) -> None:
    """Take options that say how to run something, which has no effect here; TypeError for any other."""
    for name in options:
        if name not in without_effect.split():
            raise TypeError(f"{where}() got an unexpected keyword argument '{name}'")


def absent(module: str, name: str) -> AttributeError:
    """Return the error of a name that a module of TensorFlow may have and the runtime's does not."""
    place = module.replace("ckpt_cli.runtime", "tf", 1)
    if name.startswith("__"):
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return AttributeError(
        f"{place}.{name} is not part of ckpt's runtime (module {module!r} has no attribute {name!r}); "
        "docs/runtime-names.md lists what is"
    )


def namespace(name: str, **members: Any) -> ModuleType:
    """Return a module with these members, whose other names are absent."""
    module = ModuleType(f"ckpt_cli.runtime.{name}")

    def missing(attribute: str) -> object:
        raise absent(module.__name__, attribute)

    module.__dict__.update(members, __all__=sorted(members), __getattr__=missing)
    return module
