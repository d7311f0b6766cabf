"""The signatures of TensorFlow 2.15's functions and classes, of the names that the runtime has, too.

`python -m tests.interop.signatures` writes them to `tests/data/signatures/tensorflow.json`.
"""

import importlib
import inspect
import json
import os
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
PATH = os.path.join(os.path.dirname(HERE), "data", "signatures", "tensorflow.json")


def public_names():
    """Return what the runtime exports and that can be called, by dotted names without `tf.`."""
    import ckpt_cli.runtime as tf

    found, seen = {}, set()

    def walk(module, prefix):
        seen.add(module.__name__)
        for name in sorted({*module.__all__, *getattr(module, "_LAZY", ())}):
            value = getattr(module, name)
            if isinstance(value, types.ModuleType):
                if value.__name__ not in seen and hasattr(value, "__all__"):
                    walk(value, f"{prefix}{name}.")
            elif callable(value):
                found[f"{prefix}{name}"] = value

    walk(tf, "")
    seen.clear()
    walk(importlib.import_module("ckpt_cli.runtime.compat.v1"), "compat.v1.")
    return found


def signature(value):
    """Return the parameters of a function or class by name, with what shows their defaults."""
    function = value.__init__ if isinstance(value, type) else value
    if isinstance(value, type) and not isinstance(function, types.FunctionType):
        return {}
    parameters = list(inspect.signature(function).parameters.values())
    kept = parameters[1:] if isinstance(value, type) else parameters
    return {
        ("*" * {2: 1, 4: 2}.get(one.kind.value, 0)) + one.name: None
        if one.default is one.empty
        else shown(one.default)
        for one in kept
    }


def shown(default):
    """Return a default as text that both sides have alike."""
    return repr(default) if isinstance(default, (int, float, str, tuple, list, dict, type(None))) else "..."


def read():
    with open(PATH, encoding="utf-8") as file:
        return json.load(file)


def main():
    sys.path.insert(0, HERE)
    from tests.interop.conftest import TensorFlow

    judge = TensorFlow("2.15")
    try:
        found = judge.ask("runtime", "signatures", names=sorted(public_names()))
    finally:
        judge.close()
    os.makedirs(os.path.dirname(PATH), exist_ok=True)
    with open(PATH, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main()
