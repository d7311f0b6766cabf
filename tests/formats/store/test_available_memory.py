"""The default number of threads is bounded by the memory that is available."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from formats.store.work import available_memory as module
from formats.store.work import workers
from formats.store.work.available_memory import available_memory
from tests.cli.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

GB = 1 << 30
MEMINFO = f"MemTotal:       {32 << 20} kB\nMemFree:        {1 << 20} kB\nMemAvailable:   {16 << 20} kB\n"
UNLIMITED = "9223372036854771712\n"


@pytest.fixture
def system(tmp_path: Path) -> Callable[[dict[str, str]], int | None]:
    """Return what is available on a system with these files."""

    def available(files: dict[str, str]) -> int | None:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return available_memory(str(tmp_path))

    return available


def group(path: str, limit: str, used: int, cached: int = 0) -> dict[str, str]:
    """Return the files of a control group, as version 2 has them."""
    stat = f"anon {used - cached}\nactive_file {cached // 2}\ninactive_file {cached - cached // 2}\nslab 3\n"
    files = {"memory.max": f"{limit}\n", "memory.current": f"{used}\n", "memory.stat": stat}
    return {f"sys/fs/cgroup/{path}{name}": text for name, text in files.items()}


def test_a_system_says_how_much_it_has(system: Callable) -> None:
    assert system({}) is None
    assert system({"proc/meminfo": MEMINFO}) == 16 * GB


def test_a_container_has_what_its_group_has_left(system: Callable) -> None:
    """Its own folder is the top one; pages of files are dropped when memory is needed."""
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/\n",
        **group("", str(GB), 700 << 20, 300 << 20),
    }
    assert system(files) == GB - (400 << 20)
    assert system(group("", "max", 700 << 20)) == 16 * GB
    assert system(group("", str(GB), 2 * GB)) == 0


def test_a_group_is_in_others(system: Callable) -> None:
    files = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/batch/job 7:1\n"}
    inner, outer = group("batch/job 7:1/", str(4 * GB), GB), group("batch/", str(3 * GB), 2 * GB)
    assert system({**files, **inner, **outer}) == GB
    assert system(group("batch/", "max", 2 * GB)) == 3 * GB


def test_groups_of_the_first_version_are_known(system: Callable) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/docker/12ab\n0::/\n",
    }
    top = "sys/fs/cgroup/memory/"
    stat = f"cache 5\ninactive_file 1\ntotal_inactive_file {100 << 20}\ntotal_active_file 0\n"
    # In a container the path is the one outside, and its own folder is the top one.
    inside = {f"{top}memory.limit_in_bytes": f"{GB}\n", f"{top}memory.usage_in_bytes": f"{300 << 20}\n"}
    assert system({**files, **inside, f"{top}memory.stat": stat}) == GB - (200 << 20)
    assert system({f"{top}memory.limit_in_bytes": UNLIMITED}) == 16 * GB


def test_this_system_says_it() -> None:
    available = available_memory()
    assert (available is None) == (not Path("/proc/meminfo").exists())
    assert available is None or 1 << 20 < available < 1 << 50


def test_each_thread_by_default_has_64_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "processors", lambda: 6)
    for available, jobs in ((None, 6), (GB, 6), (200 << 20, 3), (100 << 20, 1), (0, 1)):
        monkeypatch.setattr(module, "available_memory", lambda available=available: available)
        assert workers.default_jobs() == jobs
        with workers.workers() as pool:
            assert pool.jobs == jobs
            assert [*pool.map(lambda item: item, range(5), alone=True)] == [*range(5)]
    monkeypatch.setattr(workers, "processors", lambda: 64)
    monkeypatch.setattr(module, "available_memory", lambda: 64 * GB)
    assert workers.default_jobs() == 8
    with workers.workers(12) as pool:  # `--jobs` decides, regardless of the memory
        assert pool.jobs == 12


def test_less_address_space_makes_fewer_threads() -> None:
    program = "from formats.store.work import workers as w; w.processors = lambda: 8; print(w.default_jobs())"

    def jobs(megabytes: int) -> int:
        limit = megabytes << 20
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            capture_output=True,
            check=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )
        return int(done.stdout)

    assert jobs(64 << 10) == 8
    assert 1 <= jobs(200) <= 3
