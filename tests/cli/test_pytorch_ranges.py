"""PyTorch's storages are copied and compared in ranges, by several threads, and their CRC-32s with them."""

from __future__ import annotations

import threading
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from ckpt_cli.operations.look import verify
from formats.find.opening import locate
from formats.location import parse_location
from formats.store import ranges
from formats.store.work import workers
from formats.torch import reader
from tests.support import data_path
from tests.torch_files import legacy, storage, tensor, written, zipped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEP = 1 << 12
VALUES = np.random.default_rng(0).standard_normal((50, 60)).astype("<f4")
SMALL = np.arange(7, dtype="<f4")
TARGETS = [("x.safetensors", []), ("x.pt", []), ("x.npz", []), ("x-1", ["--to", "tf-name"]), ("x/", [])]


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut tensors of a few kilobytes into many tasks."""
    for module in (ranges, workers):
        monkeypatch.setattr(module, "TASK_BYTES", STEP)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a file of whole storages, a view, one that is tied, and one of no elements."""
    small = storage("1", 7)
    value = {
        "large": tensor(storage("0", VALUES.size), 0, VALUES.shape, (60, 1)),
        "small": tensor(small, 0, (7,), (1,)),
        "tied": tensor(small, 0, (7,), (1,)),
        "row": tensor(storage("0", VALUES.size), 60, (60,), (1,)),
        "none": tensor(storage("2", 0), 0, (0, 3), (3, 1)),
    }
    storages = {"0": VALUES.tobytes(), "1": SMALL.tobytes(), "2": b""}
    return tmp_path / "source.pt" if written(tmp_path / "source.pt", zipped(value, storages)) else tmp_path


def damage(path: Path, what: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(what) + 5] ^= 1
    path.write_bytes(data)


def files(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


def values(path: Path) -> dict[str, bytes]:
    with formats.open_checkpoint(path) as reader:
        assert [found for step in reader.verify() for found in step.findings] == []
        return {key: reader[key].read().tobytes() for key in reader.specs}


def test_verifying_is_shared_by_threads(
    source: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only archives with HDF5 in them are read in a process of their own, by one thread."""
    who: set[str] = set()
    range_sum = reader._sum

    def watched(task: Any) -> Any:
        who.add(threading.current_thread().name)
        return range_sum(task)

    monkeypatch.setattr(reader, "_sum", watched)
    done = ckpt("verify", source, "--json", "-j4")
    assert done.code == 0, done.err
    assert who
    assert threading.current_thread().name not in who
    assert done.json == ckpt("verify", source, "--json", "-j1").json
    damage(source, VALUES.tobytes()[-9:])
    found = [ckpt("verify", source, "--json", "-j", jobs) for jobs in (1, 4)]
    assert {each.code for each in found} == {1}
    assert found[0].json == found[1].json


def test_a_large_directory_is_read_once(tmp_path: Path) -> None:
    """It takes as much memory as it is large, in this process or in one of its own."""
    found = []
    for number in (10, 300):
        path = str(tmp_path / f"{number}.npz")
        with zipfile.ZipFile(path, "w") as archive:
            for member in range(number):
                archive.writestr(f"{member}" + "x" * 60_000, b"")
        found.append(verify._needs_a_child(locate(parse_location(path))))
    assert found == [False, True]


@pytest.mark.parametrize(("name", "options"), TARGETS)
def test_as_many_as_work_on_it_the_bytes_are_the_same(
    name: str, options: list[str], source: Path, tmp_path: Path, ckpt: Callable
) -> None:
    made = {}
    for jobs in (1, 4):
        out = tmp_path / f"out{jobs}"
        more = ["--to", "pytorch", "--shard-size", "5000"] if name == "x/" else options
        done = ckpt("convert", source, f"{out}/{name}", "-j", jobs, *more)
        assert done.code == 0, done.err
        made[jobs] = files(out)
    assert made[1]
    assert made[1] == made[4]
    found = values(out / name)
    assert found["large"] == VALUES.tobytes()
    assert found["row"] == VALUES[1].tobytes()
    assert found["small"] == found["tied"] == SMALL.tobytes()


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize(
    "what",
    [SMALL.tobytes(), VALUES[:1].tobytes(), VALUES[40:41].tobytes()],
    ids=["small", "first part", "last part"],
)
def test_every_reader_finds_a_flipped_bit(
    what: bytes, jobs: int, source: Path, tmp_path: Path, ckpt: Callable
) -> None:
    sound = tmp_path / "sound.pt"
    sound.write_bytes(source.read_bytes())
    damage(source, what)
    keys = ("small", "tied") if what == SMALL.tobytes() else ("large", "row")
    lines: list[list[Any]] = [
        *(["convert", source, tmp_path / "out" / name, *options] for name, options in TARGETS[:-1]),
        ["convert", source, tmp_path / "out" / "x.safetensors", "--no-verify"],
        ["convert", source, tmp_path / "out" / "x.safetensors", "--cast", "float64"],
        ["convert", source, tmp_path / "out" / "x-1", "--to", "tf-name", "--link"],
        ["average", source, sound, "-o", tmp_path / "out" / "x.pt"],
        ["stats", source],
        ["diff", source, sound],
        ["diff", sound, source, "--exact"],
        ["ls", source, "--digest", "crc32c"],
        ["ls", source, "--digest", "sha256"],
    ]
    for line in lines:
        done = ckpt(*line, "-j", jobs)
        assert done.code == 3, (line, done.out)
        assert "CRC-32" in done.err, line
        assert any(f"tensor {key!r}" in done.err for key in keys), line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "options"), [("x.safetensors", []), ("x.pt", []), ("x.pt", ["--no-verify"])]
)
def test_each_byte_is_scanned_once_for_its_crc_32(
    name: str,
    options: list[str],
    tmp_path: Path,
    ckpt: Callable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not once more for what is written, nor when that is read back."""
    value = {"large": tensor(storage("0", VALUES.size), 0, VALUES.shape, (60, 1))}
    source = written(tmp_path / "source.pt", zipped(value, {"0": VALUES.tobytes()}))
    seen, real = [0], zlib.crc32

    def counted(data: Any, crc: int = 0) -> int:
        seen[0] += len(data) if len(data) > 1000 else 0
        return real(data, crc)

    monkeypatch.setattr(zlib, "crc32", counted)
    assert ckpt("convert", source, tmp_path / name, "-j", 3, *options).code == 0
    assert seen[0] == VALUES.nbytes


def test_a_written_directory_is_compared_with_what_passed(
    source: Path, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading back a .pt computes no new checksum, so its stored CRC-32 is compared separately."""
    from formats.store.archive.writer import Zipped

    real = Zipped.fill
    monkeypatch.setattr(Zipped, "fill", lambda self, name, offset, crc: real(self, name, offset, crc ^ 1))
    done = ckpt("convert", source, tmp_path / "x.pt")
    assert done.code == 3
    assert "verification failed: the values differ from those of the source" in done.err
    assert not (tmp_path / "x.pt").exists()


def test_where_the_values_of_a_whole_storage_are_is_reported_with_its_crc_32(source: Path) -> None:
    with formats.open_checkpoint(source) as reader:
        found = {key: reader[key].file_range() for key in reader.specs}
        assert {key for key, there in found.items() if there is not None} == {
            "large",
            "none",
            "small",
            "tied",
        }
        there = found["large"]
        assert there is not None
        assert there.file.read(there.offset, there.size) == VALUES.tobytes()
        assert there.crc32 == zlib.crc32(VALUES.tobytes())


def test_a_count_of_the_legacy_form_is_compared_with_the_object_before_values_are_copied(
    tmp_path: Path, ckpt: Callable
) -> None:
    value = {"w": tensor(storage("0", 7), 0, (7,), (1,))}
    sound = written(tmp_path / "sound.pt", legacy(value, {"0": (7, SMALL.tobytes())}))
    assert ckpt("convert", sound, tmp_path / "x.safetensors").code == 0
    path = written(tmp_path / "source.pt", legacy(value, {"0": (8, SMALL.tobytes())}))
    for options in ([], ["--link", "--to", "tf-name"]):
        done = ckpt("convert", path, tmp_path / ("y-1" if options else "y.safetensors"), *options)
        assert done.code == 3
        assert "the storage has 8 elements, but the object says 7" in done.err


def test_a_conversion_that_was_interrupted_still_compares_the_crc_32(
    source: Path, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has the ranges from before the interruption; the rest is read."""
    from formats.model.writer import Placement

    whole, real = bytes(VALUES.tobytes()), Placement.write

    def ends(self: Placement, at: int, data: Any) -> None:
        if at >= 2 * STEP:
            raise KeyboardInterrupt
        real(self, at, data)

    target = tmp_path / "x.safetensors"
    monkeypatch.setattr(Placement, "write", ends)
    ckpt("convert", source, target, "--resume", "-j", 1)
    monkeypatch.setattr(Placement, "write", real)
    assert not target.exists()
    done = ckpt("convert", source, target, "--resume")
    assert done.code == 0, done.err
    assert "resumed the conversion: " in done.err
    assert values(target)["large"] == whole


def test_chunks_of_a_distributed_checkpoint_are_reported_with_their_crc_32() -> None:
    with formats.open_checkpoint(data_path("pytorch", "dcp")) as reader:
        found = [there for key in reader.specs if (there := reader[key].file_range()) is not None]
        assert found
        for there in found:
            assert zlib.crc32(there.file.read(there.offset, there.size)) == there.crc32
