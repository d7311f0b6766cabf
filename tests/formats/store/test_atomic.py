"""Writes that fail, are interrupted or killed: the target is the old checkpoint or the new one, whole."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats import CheckpointError, CheckpointExistsError, CheckpointNotFoundError, open_checkpoint
from formats.find.directory import Directory
from formats.location import parse_location
from formats.model.checkpoint_files import is_leftover
from formats.store.local.staging import replace_file
from formats.store.siblings import SHARD
from formats.wire.messages import BundleHeaderProto, VersionDef
from tests.faults.each_step import failures, kills
from tests.faults.steps import full, interrupt_after, interrupt_before, no_links, steps
from tests.support import same, write_bundle
from tests.writing import files, read_all, save, spec_of, strings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OLD = {"a": np.arange(5), "b": np.ones((3, 2), np.float32), "s": strings(b"old")}
NEW = {"a": np.arange(7), "c": np.zeros((3, 2), np.float32), "s": strings(b"new", b"er")}


class Scenario:
    """A target with what is there before, how it is written, and whether there are hard links."""

    def __init__(
        self,
        old: dict[str, Any] | None,
        format: str,  # noqa: A002  as create_checkpoint has it
        *,
        links: bool = True,
        damaged: bool = False,
        **new: Any,
    ) -> None:
        self.old, self.format, self.links, self.damaged, self.new = old, format, links, damaged, new

    @property
    def before(self) -> str:
        return "none" if self.old is None else "old"

    def prepare(self, directory: Path) -> str:
        path = str(directory / "ckpt-1")
        if self.old is not None:
            save(path, OLD, self.format, **self.old)
        if self.damaged:
            with open(path + ".index", "r+b") as file:
                file.write(b"\xff\xff")
        return path

    def write(self, path: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if not self.links:
                patch.setattr(os, "link", no_links)
            save(path, NEW, self.format, overwrite=True, **self.new)

    def found(self, path: str) -> str:
        return found(path)


SCENARIOS = {
    "fresh": Scenario(None, "tf-name"),
    "same_names": Scenario({}, "tf-name"),
    "same_names_two_shards": Scenario({"shard_size": 30}, "tf-name", shard_size=40),
    "fewer_shards": Scenario({"shard_size": 1}, "tf-name"),
    "more_shards": Scenario({}, "tf-name", shard_size=1),
    "no_hard_links": Scenario({}, "tf-name", links=False),
    "old_index_damaged": Scenario({}, "tf-name", damaged=True),
    "v1_fresh": Scenario(None, "tf-v1"),
    "v1": Scenario({}, "tf-v1"),
}


def found(path: str) -> str:
    """Say which checkpoint is at a path; anything but a complete one is a failure."""
    try:
        arrays = read_all(path)
    except CheckpointNotFoundError:
        return "none"
    for name, expected in (("old", OLD), ("new", NEW)):
        if list(arrays) == sorted(expected) and all(same(arrays[key], expected[key]) for key in arrays):
            return name
    pytest.fail(f"neither the old nor the new checkpoint: {arrays}")


def check_names(directory: Path) -> None:
    """Check that readers ignore the leftovers, so that the directory has at most one checkpoint."""
    for name in os.listdir(directory):
        is_directory = os.path.isdir(directory / name)
        expected = name in ("ckpt-1", "ckpt-1.index") or SHARD.fullmatch(name)
        assert expected or is_leftover(name, directory=is_directory), name
    assert [member.name for member in Directory(parse_location(str(directory))).members] in ([], ["ckpt-1"])


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "old_index_damaged"])
def test_killed_at_any_step_the_target_is_old_or_new(name: str, tmp_path: Path) -> None:
    count = 0
    for directory, path, _ in kills(SCENARIOS[name], tmp_path):
        check_names(directory)
        # With any leftovers, the next write succeeds, and removes all shards that are not its own.
        SCENARIOS[name].write(path)
        assert found(path) == "new"
        assert len([file for file in files(directory) if file.startswith("ckpt-1.data-")]) <= 3
        count += 1
    assert count >= 8


@pytest.mark.parametrize("act", [full, interrupt_before, interrupt_after])
@pytest.mark.parametrize("name", SCENARIOS)
def test_failing_at_any_step_leaves_nothing_behind(
    name: str, act: Callable[[Callable[[], Any]], Any], tmp_path: Path
) -> None:
    """A failure in tidying up leaves only what readers pass over."""
    for directory in failures(SCENARIOS[name], act, tmp_path):
        check_names(directory)


def test_interrupt_between_tensors_leaves_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "run" / "ckpt-1")

    def chunks() -> Iterator[bytes]:
        yield b"\0" * 8
        signal.raise_signal(signal.SIGINT)
        yield b"\0" * 8

    writer = formats.create_checkpoint(path, format="tf-name", specs=[spec_of("v", np.zeros(2))])
    assert os.listdir(tmp_path) == ["run"]
    with pytest.raises(KeyboardInterrupt), writer:
        writer.write("v", chunks())
    assert os.listdir(tmp_path) == []


def test_exception_in_the_block_leaves_nothing(tmp_path: Path) -> None:
    save(tmp_path / "ckpt-1", OLD)
    before = files(tmp_path)

    def chunks() -> Iterator[bytes]:
        yield b"\0" * 8
        raise ZeroDivisionError

    specs = [spec_of("v", np.zeros(2))]
    writer = formats.create_checkpoint(tmp_path / "ckpt-1", format="tf-name", specs=specs, overwrite=True)
    with pytest.raises(ZeroDivisionError), writer:
        writer.write("v", chunks())
    assert files(tmp_path) == before


def test_full_disk_is_one_error_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, room = os.pwrite, [100]

    def pwrite(fd: int, data: memoryview, offset: int) -> int:
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(fd, data[: room[0]], offset)
        room[0] -= written
        return written

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(CheckpointError) as caught:
        save(tmp_path / "ckpt-1", {"v": np.zeros(1000)})
    assert str(caught.value) == f"{tmp_path}/ckpt-1: cannot be written: no space left on device"
    assert "free some space" in caught.value.hints[0]
    assert os.listdir(tmp_path) == []


def test_full_disk_while_strings_wait_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formats.tf.bundle.writer._MOST_IN_MEMORY", 10)
    monkeypatch.setattr("tempfile._TemporaryFileWrapper", None)

    def no_file(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", no_file)
    with pytest.raises(CheckpointError, match="no space left"):
        save(tmp_path / "ckpt-1", {"v": strings(b"x" * 100)})
    assert os.listdir(tmp_path) == []


def test_writes_in_small_portions_make_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "whole" / "c", NEW)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: real(fd, data[:3], offset))
    save(tmp_path / "portions" / "c", NEW)
    assert files(tmp_path / "whole") == files(tmp_path / "portions")


@pytest.mark.parametrize("refused", [False, True])
def test_the_disk_begins_before_all_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, refused: bool
) -> None:
    """Every byte of a large tensor is announced before the file is synced; nothing depends on it."""
    told: list[tuple[int, int]] = []
    synced: list[int] = []

    def advise(_: int, offset: int, size: int, __: int) -> None:
        told.append((offset, offset + size))
        if refused:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def sync(fd: int) -> None:
        synced.append(len(told))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    monkeypatch.setattr(os, "fsync", sync)
    arrays = {"a": np.arange(10 << 20, dtype=np.float32), "b": np.ones(3, np.float32)}
    save(tmp_path / "b-1", arrays, "tf-name")
    assert [begin for begin, _ in told] == [0, *(end for _, end in told[:-1])]
    assert told[-1][1] >= 32 << 20
    assert synced[0] == len(told)
    read = read_all(tmp_path / "b-1")
    assert all(same(read[key], array) for key, array in arrays.items())


def test_strings_that_wait_in_a_file_make_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "memory" / "c", NEW)
    monkeypatch.setattr("formats.tf.bundle.writer._MOST_IN_MEMORY", 1)
    save(tmp_path / "file" / "c", NEW)
    assert files(tmp_path / "memory") == files(tmp_path / "file")


def test_old_shards_are_not_changed_where_others_link_to_them(tmp_path: Path) -> None:
    """Trap 27: a data shard may be a hard link that another checkpoint shares; none is written in place."""
    save(tmp_path / "ckpt-1", OLD)
    for name in list(files(tmp_path)):
        os.link(tmp_path / name, tmp_path / name.replace("ckpt-1", "ckpt-2"))
    save(tmp_path / "ckpt-1", NEW, overwrite=True)
    assert found(str(tmp_path / "ckpt-1")) == "new"
    assert found(str(tmp_path / "ckpt-2")) == "old"


def test_open_reader_of_the_old_checkpoint_does_not_read_the_new_one(tmp_path: Path) -> None:
    save(tmp_path / "ckpt-1", OLD)
    with open_checkpoint(tmp_path / "ckpt-1") as reader:
        reader["a"].read()
        save(tmp_path / "ckpt-1", NEW, overwrite=True)
        assert all(same(reader[key].read(), OLD[key]) for key in OLD)


def test_target_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "ckpt-1"
    writer = formats.create_checkpoint(path, format="tf-name", specs=[spec_of("v", np.zeros(2))])
    writer.write("v", np.zeros(2))
    save(path, OLD)
    with pytest.raises(CheckpointExistsError, match="another program created this path in the meantime"):
        writer.commit()
    assert found(str(path)) == "old"
    assert len(files(tmp_path)) == 2


def test_read_only_directory_is_one_error_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: Any) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "mkdir", refused)
    with pytest.raises(CheckpointError, match="cannot be written: permission denied") as caught:
        save(tmp_path / "ckpt-1", OLD)
    assert "make the directory writable" in caught.value.hints[0]


CHILD = """
    import os, signal, sys
    import numpy as np
    sys.path.insert(0, sys.argv[1])
    from tests.writing import save
    path, name, at = sys.argv[2], sys.argv[3], int(sys.argv[4])
    real, calls = getattr(os, name), [0]
    def call(*arguments, **options):
        calls[0] += 1
        if calls[0] == at:
            os.kill(os.getpid(), getattr(signal, sys.argv[5]))
        return real(*arguments, **options)
    setattr(os, name, call)
    save(path, {"a": np.arange(7), "c": np.zeros((3, 2), np.float32),
                "s": np.array([b"new", b"er"], object)}, overwrite=True)
"""


@pytest.mark.parametrize(
    ("name", "at"), [("fsync", 1), ("replace", 1), ("replace", 2), ("replace", 3), ("unlink", 1)]
)
@pytest.mark.parametrize("sent", ["SIGKILL", "SIGINT"])
def test_a_process_that_is_really_killed(name: str, at: int, sent: str, tmp_path: Path) -> None:
    save(tmp_path / "ckpt-1", OLD)
    before = files(tmp_path)
    root = os.path.dirname(os.path.dirname(formats.__file__))
    arguments = [root, str(tmp_path / "ckpt-1"), name, str(at), sent]
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == -getattr(signal, sent), child.stderr
    after = found(str(tmp_path / "ckpt-1"))
    assert after == ("new" if name == "unlink" else "old")
    check_names(tmp_path)
    if sent == "SIGINT" and after == "old":
        assert files(tmp_path) == before


def test_small_file_is_replaced_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    replace_file(parse_location(path), b"old")
    for act in (full, interrupt_before):
        for at in range(1, 6):
            with steps(at, act), pytest.raises((CheckpointError, KeyboardInterrupt)):
                replace_file(parse_location(path), b"new")
            assert files(tmp_path) == {"checkpoint": b"old" if at < 5 else b"new"}
            replace_file(parse_location(path), b"old")
    replace_file(parse_location(path), b"new")
    assert files(tmp_path) == {"checkpoint": b"new"}


def test_file_systems_that_cannot_sync_directories_are_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    save(tmp_path / "ckpt-1", NEW)
    assert found(str(tmp_path / "ckpt-1")) == "new"


def test_old_header_that_counts_as_many_shards_as_there_can_be(tmp_path: Path) -> None:
    save(tmp_path / "ckpt-1", NEW)
    expected = read_all(tmp_path / "ckpt-1")
    for count in (1, (1 << 31) - 1):
        path = str(tmp_path / f"old-{count}")
        header = BundleHeaderProto(num_shards=count, version=VersionDef(producer=1))
        write_bundle(path, {"v": np.arange(3)}, header=header)
        save(path, NEW, overwrite=True)
        assert all(same(array, expected[key]) for key, array in read_all(path).items())
