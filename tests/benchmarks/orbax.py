"""Orbax: listing a database of many arrays and reading chunks, against tensorstore and copying."""

from __future__ import annotations

import os
import shutil
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import formats
from formats import TensorSpec
from formats.core.dtypes import BY_NAME
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


_READ = """
import tensorstore as ts
context = ts.Context({{"cache_pool": {{"total_bytes_limit": 0}}}})
for name in {names!r}:
    kvstore = {{"driver": "file", "path": {path!r} + "/" + name + "/"}}
    ts.open({{"driver": "zarr", "kvstore": kvstore}}, open=True, context=context).result().read().result()
"""

_TENSORS, _CHUNK = 16, 16_000_000


def rows(directory: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    count = scale.of(16_000)
    name = f"ls, {count:,} arrays of Orbax / tensorstore, import included"
    yield name, partial(_listing, name, os.path.join(directory, "many"), count, scale)
    raw, zstd = _large(directory, scale.of(2 << 30))
    target = os.path.join(directory, "chunks.safetensors")
    copied, bare, whole = (
        partial(_seconds, target, command)
        for command in (
            lambda source: ["cp", "-r", source, target],
            lambda source: [*CKPT, "convert", source, target, "--verify", "none"],
            lambda source: [*CKPT, "convert", source, target],
        )
    )
    names = [f"layers.{number}" for number in range(_TENSORS)]
    read = partial(_read, _READ.format(names=names, path=zstd))
    for what, ours, rival, bar in (
        ("2 GB of raw chunks, not verified / cp", partial(bare, raw), partial(copied, raw), 1.5),
        ("2 GB of raw chunks, verified / not verified", partial(whole, raw), partial(bare, raw), 1.5),
        ("2 GB of zstd chunks, not verified / tensorstore reads them", partial(bare, zstd), read, 1.2),
        ("2 GB of zstd chunks, verified / not verified", partial(whole, zstd), partial(bare, zstd), 1.5),
    ):
        title = f"convert {what}"
        yield title, partial(at_most, title, ours, rival, bar, scale.heavy_rounds)


def _large(directory: str, nbytes: int) -> tuple[str, str]:
    """Write tensors as trees of raw and of compressed chunks: float32 with the digits of bfloat16."""
    values = np.random.default_rng(0).standard_normal(nbytes // _TENSORS // 4, np.float32)
    values = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).reshape(-1, 64)
    source = os.path.join(directory, "chunks.safetensors")
    specs = [TensorSpec(f"layers/{at}", BY_NAME["float32"], values.shape) for at in range(_TENSORS)]
    with formats.create_checkpoint(source, format="safetensors", specs=specs, overwrite=True) as writer:
        for spec in specs:
            writer.write(spec.key, values)
    trees = []
    for name, options in (("raw", ()), ("zstd", ("--compress", "zstd", "--shard-size", str(_CHUNK)))):
        trees.append(os.path.join(directory, name))
        run([*CKPT, "convert", source, trees[-1], "--to", "orbax", "--verify", "none", *options])
    return trees[0], trees[1]


def _seconds(target: str, command: Callable[[str], list[str]], source: str) -> float:
    shutil.rmtree(target, ignore_errors=True)
    if os.path.isfile(target):
        os.remove(target)
    return run(command(source)).seconds


def _read(code: str) -> float:
    return run(_orbax(code)).seconds


def _orbax(code: str) -> list[str]:
    interpreter = os.path.join(ORBAX, "bin", "python")
    if not os.path.exists(interpreter):
        raise Missing("Orbax is not installed: make .venv-orbax/installed-keras")
    return python(code, interpreter=interpreter)


def _listing(name: str, path: str, count: int, scale: Scale) -> Row:
    run(_orbax(_SAVE.format(path=path, count=count)))
    rival = _orbax(_LIST.format(path=path))
    return at_most(
        name, lambda: run([*CKPT, "ls", path]).seconds, lambda: run(rival).seconds, 0.3, scale.heavy_rounds
    )
