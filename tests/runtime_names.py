"""`python -m tests.runtime_names` writes docs/runtime-names.md: what the runtime has, by its modules."""

from __future__ import annotations

import importlib
import os
from itertools import groupby

from tests.interop.signatures import public_names, signature

PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "runtime-names.md")
_HEAD = """# Names in the runtime

This page lists every function and class of `ckpt_cli.runtime`, as `tf`, with its arguments.
`tf.compat.v1.keras` has the names of `tf.keras`. A name that is not here raises AttributeError.
An argument that is not supported raises NotImplementedError.
"""
_SAME = "compat.v1.keras."
_TUTORIALS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "tutorials", "names.txt")


def of_tutorials() -> dict[str, bool]:
    """Return the names that TensorFlow's guides and tutorials use, and whether the runtime has them."""
    with open(_TUTORIALS, encoding="utf-8") as file:
        return {name: _is_here(name) for name in file.read().split()}


def _is_here(name: str) -> bool:
    value = importlib.import_module("ckpt_cli.runtime")
    for part in name.split("."):
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


def _about_tutorials() -> str:
    found = of_tutorials()
    absent = ", ".join(f"`{name}`" for name, is_here in found.items() if not is_here)
    return (
        f"\nOf {len(found)} names that TensorFlow's guides and tutorials use, {sum(found.values())} are "
        f"here. These are not: {absent}.\n"
    )


def page() -> str:
    importlib.import_module("ckpt_cli.runtime")
    # Keras is found below compat.v1, where it is the same module.
    names = {}
    for name, value in public_names().items():
        if name.startswith("ops."):
            continue  # the tables of operations, which TensorFlow does not export
        names[name.removeprefix("compat.v1.") if name.startswith(_SAME) else name] = value
    parts = [_HEAD, _about_tutorials()]
    by_module = sorted(names, key=lambda name: (name.rpartition(".")[0], name))
    for module, found in groupby(by_module, lambda name: name.rpartition(".")[0]):
        parts.append(f"\n## `tf{'.' * bool(module)}{module}`\n\n")
        for name in found:
            arguments = ", ".join(signature(names[name]))
            parts.append(f"- `{name.rpartition('.')[2]}({arguments})`\n")
    return "".join(parts)


def main() -> None:
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page())


if __name__ == "__main__":
    main()
