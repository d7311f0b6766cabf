"""The same work by threads, by processes, and by workers of dask.distributed on this machine.

The cluster runs before anything is measured, and what a command takes to reach it is subtracted: it is what
the same command takes over a small checkpoint.  A conversion finds no target to remove, and memory for
a new one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.data import large_bundle
from tests.benchmarks.harness import ROOT, Missing, faster, run, supply_memory
from tests.cluster.programs import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import Row, Scale

CLUSTER = os.environ.get("CKPT_CLUSTER", os.path.join(ROOT, ".venv-cluster"))
PYTHON = os.path.join(CLUSTER, "bin", "python")


def rows(directory: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    small = large_bundle(os.path.join(directory, "small-1"), 1, 1 << 20)
    large = {"verify": 8, "convert": 2}
    for command, gigabytes in large.items():
        path = large_bundle(os.path.join(directory, "large-1"), 64, scale.of(gigabytes << 30))
        shared = _Shared(command, path, small, os.path.join(directory, "target"), scale)
        name = f"{command} {gigabytes} GB by"
        yield f"{name} 2 processes, as fast as 2 threads", partial(shared.by_processes, name)
        yield f"{name} 2 workers of Dask, as fast as 2 threads", partial(shared.by_dask, name)
        yield f"{name} 2 workers of Dask, as fast as 1", partial(shared.by_more, name)
        os.unlink(f"{path}.data-00000-of-00001")


class _Shared:
    """A command over a large checkpoint, with what reaching its executor takes subtracted."""

    def __init__(self, command: str, path: str, small: str, target: str, scale: Scale) -> None:
        self._command = command
        self._path = path
        self._small = small
        self._target = target
        self._scale = scale

    def _seconds(self, executor: str) -> float:
        found = []
        for path in (self._path, self._small):
            more = self._place_for(path) if self._command == "convert" else []
            line = [PYTHON, "-m", "ckpt_cli", self._command, path, *more, "--executor", executor]
            found.append(run(line, watch=False).seconds)
        return found[0] - found[1]

    def _place_for(self, path: str) -> list[str]:
        """Return where a conversion writes to, with nothing there, and as much memory as it needs."""
        shutil.rmtree(self._target, ignore_errors=True)
        supply_memory(os.path.getsize(f"{path}.data-00000-of-00001") * 5 // 4)
        return [os.path.join(self._target, "target-1")]

    def _row(self, name: str, ours: str, theirs: str, bar: float | None) -> Row:
        if not os.path.exists(PYTHON):
            raise Missing("dask.distributed is not installed: make .venv-cluster/installed")
        return faster(
            name, partial(self._seconds, ours), partial(self._seconds, theirs), bar, self._scale.heavy_rounds
        )

    def by_processes(self, name: str) -> Row:
        return self._row(f"{name} 2 processes, as fast as 2 threads", "processes:2", "threads:2", None)

    def by_dask(self, name: str) -> Row:
        with self._cluster(2) as two:
            return self._row(f"{name} 2 workers of Dask, as fast as 2 threads", two, "threads:2", 0.8)

    def by_more(self, name: str) -> Row:
        with self._cluster(2) as two, self._cluster(1) as one:
            return self._row(f"{name} 2 workers of Dask, as fast as 1", two, one, None)

    @contextmanager
    def _cluster(self, workers: int) -> Iterator[str]:
        """Begin a scheduler and so many workers; return their executor's name once all are there."""
        if not os.path.exists(PYTHON):
            raise Missing("dask.distributed is not installed: make .venv-cluster/installed")
        with tempfile.TemporaryDirectory() as directory, cluster(Path(directory), PYTHON) as found:
            for _ in range(workers):
                found.worker(Path(ROOT))
            found.wait(workers)
            yield found.executor
