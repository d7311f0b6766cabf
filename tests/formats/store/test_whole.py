"""Files that are read whole are read once, and few bytes of them are kept."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from ckpt_cli.operations.runs.listing import directory_document
from formats import location
from formats.location import as_if_there, parse_location
from formats.store import content_cache as module
from formats.store.content_cache import whole
from formats.store.local import files
from formats.store.local.files import LocalFile
from tests.support import write_bundle

if TYPE_CHECKING:
    from pathlib import Path


def put_in_place(source: Path, target: Path) -> None:
    """Have the bytes of files in the place of others, which keep their number, size and time."""
    for path in source.iterdir():
        place = target / path.name
        before = place.stat()
        with open(place, "r+b") as file:
            file.write(path.read_bytes())
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
        after = place.stat()
        assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
            before.st_ino,
            before.st_size,
            before.st_mtime_ns,
        )


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two checkpoints whose files have the same sizes and times."""
    for name, key in (("a", "old"), ("b", "new")):
        (tmp_path / name).mkdir()
        write_bundle(str(tmp_path / name / "ckpt-1"), {key: np.full(3, ord(name), np.float32)})
        for path in (tmp_path / name).iterdir():
            os.utime(path, (0, 0))
    return tmp_path / "a", tmp_path / "b"


def keys_and_checksums(path: Path) -> list[tuple[str, float, int | None]]:
    with formats.open_checkpoint(path) as reader:
        return [(key, float(reader[key].read()[0]), reader[key].stored.crc32c) for key in reader]


def test_another_file_of_the_same_number_size_and_time_is_read_again(two: tuple[Path, Path]) -> None:
    expected = [keys_and_checksums(path / "ckpt-1") for path in two]
    assert expected[0] != expected[1]
    put_in_place(two[1], two[0])
    assert keys_and_checksums(two[0] / "ckpt-1") == expected[1]
    document, _, _ = directory_document(parse_location(str(two[0])))
    assert [row["tensors"] for row in document["checkpoints"]] == [1]


def test_a_number_that_was_given_to_another_file_is_not_taken_for_it(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    """A file that was unpacked from an archive and removed, and another one unpacked in its place."""
    expected = [keys_and_checksums(path / "ckpt-1") for path in two]
    place = tmp_path / "x"
    for _ in range(20):
        numbers = []
        for source, found in zip(two, expected, strict=True):
            shutil.copytree(source, place)
            numbers.append({path.stat().st_ino for path in place.iterdir()})
            assert keys_and_checksums(place / "ckpt-1") == found
            shutil.rmtree(place)
        if numbers[0] & numbers[1]:  # as most file systems do, but those in memory
            break


def test_two_changes_within_a_tick_of_the_clock(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version is the same then, and so what was read counts for those alone who asked before."""
    monkeypatch.setattr(LocalFile, "version", property(lambda file: file.identity))
    expected = [keys_and_checksums(path / "ckpt-1") for path in two]
    module.forget_unsettled()
    monkeypatch.setattr(files, "_is_settled", lambda changed, now: False)
    assert keys_and_checksums(two[0] / "ckpt-1") == expected[0]
    put_in_place(two[1], two[0])
    assert keys_and_checksums(two[0] / "ckpt-1") == expected[1]


def test_a_directory_of_the_same_number_and_time_is_listed_again(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "a").touch()
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        os.utime(folder, (0, 0))
        assert [each.name for each in parse_location(str(folder)).listing()] == [name]
        time.sleep(0.02)  # until what was listed is kept
        assert [each.name for each in parse_location(str(folder)).listing()] == [name]
        (folder / name).rename(folder / other)
    assert location._kept[str(folder)].stamp is not None


def test_two_files_that_do_not_exist_yet_are_two(tmp_path: Path) -> None:
    path = str(tmp_path / "x.index")
    for data in (b"one", b"two"):
        with as_if_there(parse_location(path), data), parse_location(path).open() as file:
            assert whole(file) == data


def test_bytes_are_kept_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kept", module._KeptFiles())
    monkeypatch.setattr(module, "_MOST_KEPT", 10_000)
    for number in range(100):
        path = tmp_path / f"{number}"
        path.write_bytes(bytes([number]) * 300)
        for _ in range(2):
            with parse_location(str(path)).open() as file:
                assert whole(file) == bytes([number]) * 300
        kept = module._kept.files.values()
        assert 0 < sum(map(len, kept)) <= 10_000
    assert len(kept) == 100 % (10_000 // 300)


def test_a_large_file_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kept", module._KeptFiles())
    monkeypatch.setattr(module, "LARGEST_KEPT", 100)
    (tmp_path / "c").write_bytes(bytes(101))
    with parse_location(str(tmp_path / "c")).open() as file:
        assert whole(file) == bytes(101)
    assert not module._kept.files
