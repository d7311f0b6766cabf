"""PyTorch's files: listed and converted, against torch and against copying."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import formats
from formats import TensorSpec
from formats.core.dtypes import BY_NAME
from tests.benchmarks.harness import CKPT, Row, at_most, faster, printed, run, torch
from tests.benchmarks.writing import Conversion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import Scale

_LOAD = """
import time, torch
started = time.perf_counter()
torch.load({path!r}, mmap=True, weights_only=True)
print(time.perf_counter() - started)
"""

_CONVERT = """
import os, time, torch
from safetensors.torch import save_file
started = time.perf_counter()
save_file(torch.load({source!r}, mmap=True, weights_only=True), {target!r})
os.sync()
print(time.perf_counter() - started)
"""


def _state_dict(path: str, tensors: int, nbytes: int) -> str:
    """Write a file of so many tensors, of so many bytes together."""
    array = np.random.default_rng(0).standard_normal(max(1, nbytes // tensors // 4), np.float32)
    specs = [
        TensorSpec(f"layers.{number}.weight", BY_NAME["float32"], array.shape) for number in range(tensors)
    ]
    with formats.create_checkpoint(path, format="pytorch", specs=specs, overwrite=True) as writer:
        for spec in specs:
            writer.write(spec.key, array)
    return path


def rows(directory: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    many = _state_dict(os.path.join(directory, "many.pt"), scale.of(20_000), scale.of(20_000) * 16)
    name = f"ls, {scale.of(20_000):,} tensors of a .pt, times as fast as torch.load(mmap=True) without import"
    ours = partial(_seconds, [*CKPT, "ls", many])
    yield name, partial(_against_torch, name, ours, _LOAD.format(path=many), 1, scale)
    large = _state_dict(os.path.join(directory, "large.pt"), 200, scale.of(2 << 30))
    os.sync()
    conversion = Conversion(directory, large, "copy.safetensors")
    for bar, options in ((1.5, ("--no-verify",)), (2.5, ())):
        name = f"convert 2 GB .pt to .safetensors{', not verified' if options else ''} / cp and sync"
        ours, rival = partial(conversion.convert, *options), partial(conversion.copy, sync=True)
        yield name, partial(at_most, name, ours, rival, bar, scale.rounds)
    name = "convert 2 GB .pt to .safetensors, times as fast as torch and safetensors without import"
    code = _CONVERT.format(source=large, target=os.path.join(directory, "torch.safetensors"))
    yield name, partial(_against_torch, name, conversion.convert, code, None, scale)
    name = "convert 2 GB .pt to .pt, not verified / cp and sync"
    again = Conversion(directory, large, "copy.pt")
    yield (
        name,
        partial(
            at_most,
            name,
            partial(again.convert, "--no-verify"),
            partial(again.copy, sync=True),
            None,
            scale.rounds,
        ),
    )


def _seconds(command: list[str]) -> float:
    return run(command, watch=False).seconds


def _against_torch(name: str, ours: Callable[[], float], code: str, bar: float | None, scale: Scale) -> Row:
    rival = torch(code)
    return faster(name, ours, lambda: printed(rival), bar, scale.rounds)
