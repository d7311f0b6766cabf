"""Comparing, against `cmp` and h5diff."""

from __future__ import annotations

import os
import shutil
from functools import partial
from typing import TYPE_CHECKING

from tests.benchmarks.data import large_bundle, large_h5
from tests.benchmarks.harness import CKPT, Row, at_most, faster, installed, run
from tests.benchmarks.reading import beyond_start
from tests.benchmarks.writing import SHARD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import Scale


def rows(directory: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    source = large_bundle(os.path.join(directory, "source-1"), 200, scale.of(2 << 30))
    same = os.path.join(directory, "same-1")
    for suffix in (".index", SHARD):
        shutil.copy(source + suffix, same + suffix)
    name = "diff, equal checksums: 2 GB / 200 MB of as many tensors"
    yield name, partial(_equal, name, directory, source, same, scale)
    name = "diff --exact 2 GB, as fast as cmp"
    yield name, partial(_exact, name, source, same, scale)
    # h5diff would take minutes for all of it.
    nbytes = scale.of(400 << 20)
    h5 = [large_h5(os.path.join(directory, f"{seed}.h5"), 40, nbytes, seed) for seed in (1, 2)]
    bundles = [large_bundle(os.path.join(directory, f"{seed}-1"), 40, nbytes, seed) for seed in (1, 2)]
    for what, ours in (("bundles", bundles), (".h5", h5)):
        name = f"diff of different values, 400 MB, {what}, as fast as h5diff"
        yield name, partial(_different, name, ours, h5, scale)


def _equal(name: str, directory: str, source: str, same: str, scale: Scale) -> Row:
    tiny = large_bundle(os.path.join(directory, "tiny-1"), 200, 200 << 20)
    return at_most(
        name,
        lambda: run([*CKPT, "diff", "-q", source, same]).seconds,
        lambda: run([*CKPT, "diff", "-q", tiny, tiny], watch=False).seconds,
        1.1,
        rounds=2 * scale.rounds,
    )


def _exact(name: str, source: str, same: str, scale: Scale) -> Row:
    program = installed("cmp", "diffutils")
    return faster(
        name,
        lambda: beyond_start("diff", "-q", "--exact", source, same),
        lambda: run([program, source + SHARD, same + SHARD], watch=False).seconds,
        0.7,
        scale.rounds,
    )


def _different(name: str, ours: list[str], theirs: list[str], scale: Scale) -> Row:
    rival = [installed("h5diff", "hdf5-tools"), *theirs]
    return faster(
        name,
        lambda: beyond_start("diff", *ours, fails=True),
        lambda: run(rival, fails=True, watch=False).seconds,
        3,
        scale.heavy_rounds,
    )
