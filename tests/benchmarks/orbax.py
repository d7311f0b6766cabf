"""Orbax: listing a database of many arrays, against tensorstore."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from tests.benchmarks.harness import CKPT, ROOT, Missing, Row, at_most, python, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import Scale

ORBAX = os.environ.get("CKPT_ORBAX", os.path.join(ROOT, ".venv-orbax"))

_SAVE = """
import numpy, orbax.checkpoint as ocp
tree = {{f"layer_{{at}}": {{"w": numpy.zeros((2, 3), numpy.float32)}} for at in range({count})}}
ocp.PyTreeCheckpointer().save({path!r}, tree)
"""

_LIST = """
import tensorstore as ts
base = "file://{path}/"
context = ts.Context()
store = ts.KvStore.open({{"driver": "ocdbt", "base": base}}, context=context).result()
names = [key.decode()[:-8] for key in store.list().result() if key.endswith(b"/.zarray")]
def opened(name):
    kvstore = {{"driver": "ocdbt", "base": base, "path": name + "/"}}
    return ts.open({{"driver": "zarr", "kvstore": kvstore}}, open=True, context=context)
for name, array in [(name, opened(name)) for name in names]:
    found = array.result()
    print(name, found.dtype.name, found.shape)
"""


def rows(directory: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    count = scale.of(16_000)
    name = f"ls, {count:,} arrays of Orbax / tensorstore, import included"
    yield name, partial(_listing, name, os.path.join(directory, "many"), count, scale)


def _orbax(code: str) -> list[str]:
    interpreter = os.path.join(ORBAX, "bin", "python")
    if not os.path.exists(interpreter):
        raise Missing("Orbax is not installed: make .venv-orbax/installed")
    return python(code, interpreter=interpreter)


def _listing(name: str, path: str, count: int, scale: Scale) -> Row:
    run(_orbax(_SAVE.format(path=path, count=count)))
    rival = _orbax(_LIST.format(path=path))
    return at_most(
        name, lambda: run([*CKPT, "ls", path]).seconds, lambda: run(rival).seconds, 0.3, scale.heavy_rounds
    )
