"""Many open files of this machine: the system limits their number."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from formats import CheckpointError, InaccessibleError
from formats.store.local import files as local_files
from formats.store.local.files import LOCAL

if TYPE_CHECKING:
    from pathlib import Path

    from formats.store.base import File

COUNT = 20


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[File]:
    """Open files, each of whose content is its number; but three of them are parked."""
    monkeypatch.setattr(local_files, "_MOST_OPEN", 3)
    for number in range(COUNT):
        (tmp_path / str(number)).write_bytes(b"%04d" % number)
    return [LOCAL.open(str(tmp_path / str(number))) for number in range(COUNT)]


def descriptors(folder: Path) -> int:
    """Return how many files in a folder this process has open."""
    found = (os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if is_link(name))
    return sum(path.startswith(str(folder)) for path in found)


def is_link(name: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{name}")


def test_few_are_open_and_all_are_read(tmp_path: Path, files: list[File]) -> None:
    for _ in range(2):
        for number, file in enumerate(files):
            assert (file.read(0, 9), file.closed) == (b"%04d" % number, False)
            out = bytearray(2)
            file.read_into(2, memoryview(out))
            assert bytes(out) == b"%02d" % number
            assert descriptors(tmp_path) <= 3
    for file in files:
        file.close()
    assert descriptors(tmp_path) == 0


def test_a_read_continues_where_another_file_is_parked(files: list[File]) -> None:
    def read(number: int) -> bytes:
        return files[number % COUNT].read(0, 4)

    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(read, range(50 * COUNT))]
    assert found == [b"%04d" % (number % COUNT) for number in range(50 * COUNT)]


def test_a_file_that_was_replaced_while_it_was_parked_is_not_read(tmp_path: Path, files: list[File]) -> None:
    (tmp_path / "new").write_bytes(b"0000")
    os.replace(tmp_path / "new", tmp_path / "0")
    with pytest.raises(CheckpointError, match="this file changed since it was opened"):
        files[0].read(0, 4)
    os.unlink(tmp_path / "1")
    with pytest.raises(CheckpointError, match="no such file"):
        files[1].read(0, 4)
    files[2].close()
    with pytest.raises(CheckpointError, match="closed"):
        files[2].read(0, 4)


def test_opening_a_pipe_waits_for_no_writer(tmp_path: Path) -> None:
    def late(*_: object) -> None:
        raise AssertionError("it waits")

    os.mkfifo(tmp_path / "pipe")
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(10)
    try:
        with pytest.raises(InaccessibleError, match="not a regular file"):
            LOCAL.open(str(tmp_path / "pipe"))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
