"""Finding renamed tensors: what it costs, where there are very many."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np

import formats
from ckpt_cli.operations.compare.diff import DiffOptions, diff_pairs
from ckpt_cli.operations.compare.pairs import pair_up
from formats.core.dtypes import BY_NAME

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 3000


def test_finding_renames_takes_little_memory_a_tensor(tmp_path: Path) -> None:
    """A hundred thousand renames take 150 MB with all else that is held of them: both indexes, too."""
    for name in "ab":
        specs = [
            formats.TensorSpec(f"{name}/{number:06d}/kernel", BY_NAME["int32"], ()) for number in range(COUNT)
        ]
        with formats.create_checkpoint(str(tmp_path / name), format="tf-name", specs=specs) as writer:
            for number, spec in enumerate(specs):
                writer.write(spec.key, np.array(number, np.int32))
    tracemalloc.start()
    try:
        left, right = (formats.open_checkpoint(str(tmp_path / name)) for name in "ab")
        with left, right:
            found = diff_pairs(left, right, pair_up(left, right), DiffOptions(find_renames=True))
            peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.summary["renamed"] == COUNT
    assert peak / COUNT < 1500, peak / COUNT
