"""The modules whose functions pass under TensorFlow and under the runtime, and how to run one."""

import importlib
import inspect

FILES = ("behaviours", "checkpoint", "checkpoint_management", "data_structures", "tracking", "saving")
MODULES = [f"tensorflow_tests.{name}" for name in FILES]


def names(prefix=""):
    """Return `module.function` of every case; `prefix` is the package of the modules."""
    found = []
    for module in MODULES:
        functions = inspect.getmembers(importlib.import_module(prefix + module), inspect.isfunction)
        found += [
            f"{module}.{name}" for name, one in functions if list(_parameters(one)) == ["tf", "directory"]
        ]
    return found


def _parameters(function):
    return inspect.signature(function).parameters


def run(name, tf, directory, prefix=""):
    """Run one case in an empty directory, with nothing left over from another."""
    module, _, function = name.rpartition(".")
    tf.keras.backend.clear_session()
    getattr(importlib.import_module(prefix + module), function)(tf, directory)
