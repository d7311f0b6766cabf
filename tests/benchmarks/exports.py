"""Exported models: listing large ones against small ones, and dequantizing against numpy's multiplication."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tests.benchmarks.harness import CKPT, ROOT, Row, at_most, printed, python, run
from tests.export_files import Hole, field, gguf, onnx_external, onnx_model, tflite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import Scale

TENSORS = 100
SMALL, LARGE = 1 << 16, 1 << 30
EXTERNAL = "model.bin"
_Q8_0 = 8

READ_OURS = f"""
import sys; sys.path.insert(0, {ROOT!r})
import time, formats
with formats.open_checkpoint({{path!r}}) as reader:
    keys = list(reader)
    reader[keys[0]].read()
    started = time.process_time()
    for key in keys: reader[key].read()
    print(time.process_time() - started)
"""
MULTIPLIED = """
import time, numpy
def read(offset):
    blocks = numpy.fromfile({path!r}, numpy.uint8, {nbytes}, offset=offset).reshape(-1, 34)
    scale = blocks[:, :2].copy().view(numpy.float16).astype(numpy.float32)
    return scale * blocks[:, 2:].view(numpy.int8)
read({begin})
started = time.process_time()
for number in range({count}): read({begin} + number * {nbytes})
print(time.process_time() - started)
"""


def rows(directory: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    for title, write in (("GGUF", _gguf), ("TFLite", _tflite), ("ONNX, external data", _onnx)):
        paths = []
        for size in (scale.of(LARGE), SMALL):
            folder = os.path.join(directory, f"{title[:4]}-{size}")
            os.mkdir(folder)
            paths.append(write(folder, _tensors(size), size))
        name = f"ls, 1 GB of {title} / a small one of as many tensors"
        yield name, partial(_listed, name, *paths, scale)
    name = "read 1 GB of Q8_0 / numpy's multiplication of the blocks, CPU"
    yield name, partial(_dequantized, name, directory, scale)


def _tensors(size: int) -> dict[str, Hole]:
    shape = (size // TENSORS // 4 // 64, 64)
    return {f"model.layers.{number}.weight": Hole(shape, np.dtype(np.float32)) for number in range(TENSORS)}


def _written(path: str, head: bytes, size: int) -> str:
    """Write a file that is a hole except for its head."""
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + size)
    return path


def _gguf(folder: str, tensors: dict[str, Hole], size: int) -> str:
    return _written(os.path.join(folder, "model.gguf"), gguf(tensors), size)


def _tflite(folder: str, tensors: dict[str, Hole], size: int) -> str:
    return _written(os.path.join(folder, "model.tflite"), tflite(tensors, is_behind=True), size)


def _onnx(folder: str, tensors: dict[str, Hole], size: int) -> str:
    _written(os.path.join(folder, EXTERNAL), b"", size)
    graph, offset = b"", 0
    for key, hole in tensors.items():
        graph += field(5, onnx_external(key, hole, EXTERNAL, offset))
        offset += hole.nbytes
    return _written(os.path.join(folder, "model.onnx"), onnx_model(graph), 0)


def _listed(name: str, large: str, small: str, scale: Scale) -> Row:
    seconds = (lambda path=path: run([*CKPT, "ls", path], watch=False).seconds for path in (large, small))
    return at_most(name, *seconds, 2, rounds=scale.rounds)


def _dequantized(name: str, directory: str, scale: Scale) -> Row:
    """Both read tensors of 16 MB one after the other, and let each go."""
    blocks, count = 493_440, scale.of(64)  # its bytes are a multiple of the alignment
    nbytes = blocks * 34
    hole = Hole((blocks, 32), np.dtype(np.float32), (_Q8_0, nbytes))
    header = gguf({f"blk.{number}.weight": hole for number in range(count)})
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (blocks, 34), np.uint8)
    raw[:, :2] = rng.random(blocks).astype(np.float16).view(np.uint8).reshape(-1, 2)
    path = os.path.join(directory, "q8_0.gguf")
    with open(path, "wb") as file:
        file.write(header)
        for _ in range(count):
            file.write(raw.tobytes())
    theirs = python(MULTIPLIED.format(path=path, begin=len(header), count=count, nbytes=nbytes))
    ours = python(READ_OURS.format(path=path))
    return at_most(name, lambda: printed(ours), lambda: printed(theirs), 2, rounds=scale.heavy_rounds)
