"""`ckpt convert --link`: which bytes stay in place, which are written, and the messages."""

from __future__ import annotations

import errno
import io
import os
import shutil
import subprocess
import tempfile
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formats import open_checkpoint
from formats.location import parse_location, reachable
from formats.model.checkpoint_files import data_shards
from formats.store.memory import MemoryStore
from formats.store.work import counters
from formats.tf.bundle import shards
from tests.cli.running import ROOT
from tests.faults.steps import no_links
from tests.support import data_path, partitioned, same, shard_path, write_bundle
from tests.writing import files, read_all, save

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Result

    Ckpt = Callable[..., Result]

OBJECTS = ("guide_adam_legacy", "tf_ckpts", "ckpt-10")
NAMES = ("name_based", "adam", "model.ckpt-5")
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
ARRAYS = {
    "dense/kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "dense/bias": np.array([0.5, -0.0, np.nan], np.float64),
    "count": np.array(7, np.int64),
    "small": np.arange(5, dtype=np.uint8),
}


def copied(parts: tuple[str, ...], directory: Path, name: str = "c-1") -> str:
    source = data_path(*parts)
    for path in [f"{source}.index", *data_shards(parse_location(source))]:
        shutil.copy(path, directory / (name + path.removeprefix(source)))
    return str(directory / name)


def values(path: object) -> dict[str, np.ndarray[Any, Any]]:
    return {key: value for key, value in read_all(path).items() if key != GRAPH}


def is_shared(path: str, target: object) -> bool:
    """Whether a file is one of the shards of a bundle."""
    return any(os.path.samefile(path, shard) for shard in data_shards(parse_location(str(target))))


def own_bytes(target: object, *shared: str) -> int:
    """Return the bytes of the shards that are a bundle's alone."""
    mine = [
        path
        for path in data_shards(parse_location(str(target)))
        if not any(map(os.path.samefile, [path] * 9, shared))
    ]
    return sum(map(os.path.getsize, mine))


# Between names and objects -----------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ["--to", "name"],
        ["--to", "object"],
        ["--to", "name", "--sub", "e=>E"],
        ["--to", "object", "--add-prefix", "x/"],
        ["--to", "name", "--weights-only"],
        ["--to", "object", "--exclude", "*bias*"],
        ["--to", "name", "--cast", "float16"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("source", [OBJECTS, NAMES], ids=["objects", "names"])
def test_a_bundle_that_shares_is_the_bundle_that_does_not(
    ckpt: Ckpt, tmp_path: Path, source: tuple[str, ...], options: list[str]
) -> None:
    path = copied(source, tmp_path)
    before = files(tmp_path)
    assert ckpt("convert", path, tmp_path / "plain-1", *options).code == 0
    done = ckpt("convert", path, tmp_path / "linked-1", *options, "--link", "--json")
    assert (done.code, done.json["verified"], done.json["verification"]) == (0, True, "linked")
    assert is_shared(shard_path(path), tmp_path / "linked-1")
    assert ckpt("diff", "--exact", tmp_path / "plain-1", tmp_path / "linked-1").code == 0
    assert ckpt("verify", tmp_path / "linked-1", "--json").json["results"][0]["findings"] == []
    assert {name: content for name, content in files(tmp_path).items() if name in before} == before


def test_what_is_new_goes_to_one_small_shard(ckpt: Ckpt, tmp_path: Path) -> None:
    path = copied(NAMES, tmp_path)
    done = ckpt("convert", path, tmp_path / "linked-1", "--to", "object", "--link")
    assert done.code == 0
    linked = tmp_path / "linked-1"
    with open_checkpoint(str(linked)) as reader:
        own = {key for key in reader if reader[key].stored.shard}
        assert {GRAPH, "save_counter/.ATTRIBUTES/VARIABLE_VALUE"} <= own
        assert all(not reader[key].stored.crc32c or key in own for key in own)
    assert len(data_shards(parse_location(str(linked)))) == 2
    assert own_bytes(linked, shard_path(path)) < 10_000


def test_like_takes_the_values_from_where_they_are(ckpt: Ckpt, tmp_path: Path) -> None:
    names = tmp_path / "names-10"
    template = copied(OBJECTS, tmp_path, "template-1")
    assert ckpt("convert", template, names, "--to", "name").code == 0
    done = ckpt("convert", names, tmp_path / "linked-1", "--like", template, "--link", "--json")
    assert (done.code, done.json["verification"]) == (0, "linked")
    assert is_shared(shard_path(str(names)), tmp_path / "linked-1")
    assert ckpt("diff", "--exact", template, tmp_path / "linked-1").code == 0


def test_momentum_that_is_turned_by_the_rate_is_written_again(ckpt: Ckpt, tmp_path: Path) -> None:
    source = copied(("optimizers", "tf1", "momentum", "ckpt-3"), tmp_path)
    like = ["--like", data_path("optimizers", "legacy", "momentum", "fresh-1"), "--learning-rate", "0.5"]
    done = ckpt("convert", source, tmp_path / "linked-1", *like, "--link", "--json")
    assert (done.code, done.json["verification"]) == (0, "linked")
    with open_checkpoint(str(tmp_path / "linked-1")) as reader:
        shards_of = {reader.kinds[key]: reader[key].stored.shard for key in reader}
    assert (shards_of["variable"], shards_of["slot"], shards_of["graph"]) == (0, 1, 1)
    assert ckpt("convert", source, tmp_path / "plain-1", *like).code == 0
    assert ckpt("diff", "--exact", tmp_path / "plain-1", tmp_path / "linked-1").code == 0


def test_slices_stay_where_they_are_and_merged_ones_are_copied(ckpt: Ckpt, tmp_path: Path) -> None:
    pieces = partitioned(np.eye(3, dtype=np.float32), [((0, 2), (0, -1)), ((2, 1), (0, -1))])
    write_bundle(str(tmp_path / "w-1"), {"w": pieces, "v": np.arange(4.0)})
    for target, options, own in (("a-1", [], 0), ("b-1", ["--merge-slices"], 36)):
        done = ckpt("convert", tmp_path / "w-1", tmp_path / target, "--link", *options)
        assert done.code == 0
        assert own_bytes(tmp_path / target, shard_path(str(tmp_path / "w-1"))) == own
        assert ckpt("verify", tmp_path / target).code == 0
        expected = read_all(tmp_path / "w-1")
        assert all(same(value, expected[key]) for key, value in read_all(tmp_path / target).items())


def test_shards_that_hold_nothing_of_it_are_not_taken_along(ckpt: Ckpt, tmp_path: Path) -> None:
    save(tmp_path / "c-1", {"a": np.zeros(40), "b": np.ones(40), "c": np.ones(3)}, shard_size=100)
    done = ckpt("convert", tmp_path / "c-1", tmp_path / "d-1", "b", "c", "--link", "--json")
    assert done.code == 0
    assert len(data_shards(parse_location(str(tmp_path / "d-1")))) == 2
    assert not is_shared(shard_path(str(tmp_path / "c-1"), 0, 3), tmp_path / "d-1")
    assert set(values(tmp_path / "d-1")) == {"b", "c"}


# Files that are not bundles --------------------------------------------------------------


def _safetensors(path: Path) -> None:
    save(path, ARRAYS, "safetensors")


def _npz(path: Path) -> None:
    np.savez(path, **ARRAYS)  # type: ignore[arg-type]  # their stub takes the arrays for options


def _plain_npz(path: Path) -> None:
    """An archive without zip64, as other programs write it, with members at arbitrary offsets."""
    with zipfile.ZipFile(path, "w") as archive:
        for key, array in ARRAYS.items():
            member = io.BytesIO()
            np.save(member, array)
            archive.writestr(f"{key}.npy", member.getvalue())


def _hdf5(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for key, array in ARRAYS.items():
            file[key] = array


FILES: dict[str, Callable[[Path], None]] = {
    "m.safetensors": _safetensors,
    "m.npz": _npz,
    "plain.npz": _plain_npz,
    "m.hdf5": _hdf5,
}


@pytest.mark.parametrize("to", ["name", "object"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_becomes_a_data_shard(ckpt: Ckpt, tmp_path: Path, name: str, to: str) -> None:
    path = tmp_path / name
    FILES[name](path)
    before = path.read_bytes()
    done = ckpt("convert", path, tmp_path / "linked-1", "--to", to, "--link", "--json")
    assert (done.code, done.json["verification"]) == (0, "linked")
    assert is_shared(str(path), tmp_path / "linked-1")
    assert path.read_bytes() == before
    assert ckpt("convert", path, tmp_path / "plain-1", "--to", to).code == 0
    assert ckpt("diff", "--exact", tmp_path / "plain-1", tmp_path / "linked-1").code == 0
    assert ckpt("verify", tmp_path / "linked-1", "--json").json["results"][0]["findings"] == []
    with open_checkpoint(str(tmp_path / "linked-1")) as reader:
        spot = next(reader[key].stored for key in reader if key.startswith("dense/kernel"))
        assert spot.shard == 0


@pytest.mark.parametrize(
    ("parts", "to"),
    [
        (("keras_mlp", "mlp.with_optimizer.h5"), "name"),
        (("keras_mlp", "mlp.with_optimizer.h5"), "object"),
        (("keras3_mlp", "mlp.weights.h5"), "name"),
        (("interop", "weights.safetensors"), "object"),
        (("hf", "model.safetensors.index.json"), "name"),
    ],
)
def test_files_of_their_producers_become_data_shards(
    ckpt: Ckpt, tmp_path: Path, parts: tuple[str, ...], to: str
) -> None:
    shutil.copytree(data_path(parts[0]), tmp_path / "run")
    path = tmp_path / "run" / parts[1]
    options = ["--to", to]
    assert ckpt("convert", path, tmp_path / "plain-1", *options).code == 0
    done = ckpt("convert", path, tmp_path / "linked-1", *options, "--link", "--json")
    assert (done.code, done.json["verification"]) == (0, "linked")
    assert ckpt("diff", "--exact", tmp_path / "plain-1", tmp_path / "linked-1").code == 0
    assert ckpt("verify", tmp_path / "linked-1").code == 0


def _odd_npz(path: Path) -> None:
    np.savez(
        path,
        plain=np.arange(6.0),
        fortran=np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        big=np.arange(3, dtype=">f4"),
        flag=np.array([True, False]),
        text=np.array([b"ab", b"c"]),
    )


def _odd_hdf5(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file["plain"] = np.arange(6.0)
        file["big"] = np.arange(3, dtype=">f4")
        file["flag"] = np.array([True, False])
        file["text"] = np.array([b"ab", b"c"])
        file.create_dataset("chunked", data=np.arange(6.0), chunks=(2,))
        file.create_dataset("packed", data=np.arange(6.0), compression="gzip")
        file.create_dataset("unwritten", (4,), "f4")


@pytest.mark.parametrize(("name", "make"), [("m.npz", _odd_npz), ("m.hdf5", _odd_hdf5)])
def test_what_is_stored_in_another_way_is_copied(
    ckpt: Ckpt, tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    path = tmp_path / name
    make(path)
    done = ckpt("convert", path, tmp_path / "linked-1", "--to", "name", "--link")
    assert done.code == 0
    assert f"shared {path} (1 tensor, 48 bytes); copied " in done.err
    with open_checkpoint(str(tmp_path / "linked-1")) as reader:
        assert [key for key in reader if reader[key].stored.shard == 0] == ["plain"]
    found, expected = read_all(tmp_path / "linked-1"), read_all(path)
    assert found.keys() == expected.keys()
    assert all(same(found[key], expected[key]) for key in found)
    assert ckpt("verify", tmp_path / "linked-1").code == 0


def test_a_deflated_archive_is_copied_and_that_is_reported(ckpt: Ckpt, tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "m.npz", **ARRAYS)  # type: ignore[arg-type]
    done = ckpt("convert", tmp_path / "m.npz", tmp_path / "c-1", "--to", "name", "--link", "--json")
    assert (done.code, done.json["verification"]) == (0, "full")
    assert (
        "everything is copied: values are not stored as in a data shard (they may be compressed" in done.err
    )


def test_of_what_is_among_metadata_that_is_reported(ckpt: Ckpt, tmp_path: Path) -> None:
    """Compact datasets, enums and bools were called compressed, in chunks, big-endian or cast."""
    import h5py

    with h5py.File(tmp_path / "m.hdf5", "w") as file:
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((4,))
        h5py.h5d.create(file.id, b"small", h5py.h5t.IEEE_F32LE, space, compact)
    with h5py.File(tmp_path / "e.hdf5", "w") as file:
        file["choice"] = np.array([1, 2], h5py.enum_dtype({"a": 1, "b": 2}, "i4"))
    save(tmp_path / "m.safetensors", {"mask": np.array([True, False])}, "safetensors")
    for name, why in ("m.hdf5", "inside metadata"), ("m.safetensors", "bool"), ("e.hdf5", "an enum"):
        done = ckpt("convert", tmp_path / name, tmp_path / f"{name}-1", "--to", "name", "--link")
        assert done.code == 0
        assert f"{why}, " in next(line for line in done.err.splitlines() if "nothing is shared" in line)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (("keras3_mlp", "mlp.keras"), "a .keras archive contains its weights as an HDF5 file"),
        (("v1_format", "plain", "model.ckpt-1"), "a V1 checkpoint stores its values in compressed blocks"),
    ],
)
def test_of_formats_that_are_not_shards_it_is_reported_why(
    ckpt: Ckpt, tmp_path: Path, parts: tuple[str, ...], why: str
) -> None:
    words = ["convert", data_path(*parts), tmp_path / "c-1", "--to", "name", "--link", "--json"]
    for options, verification in (["-n"], "none"), ([], "full"):
        done = ckpt(*words, *options)
        assert (done.code, done.json["verification"]) == (0, verification)
        assert f"nothing is shared, so everything is copied: {why}" in done.err
    assert ckpt("diff", data_path(*parts), tmp_path / "c-1", "--kind", "variable").code == 0


@pytest.mark.parametrize("name", ["m.safetensors", "m.npz", "m.hdf5"])
@pytest.mark.parametrize("jobs", ["1", "3"])
def test_a_file_is_read_once_and_its_bytes_are_not_copied_about(
    ckpt: Ckpt, tmp_path: Path, name: str, jobs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `verify` does, which has the same bar in tests/benchmarks/writing.py."""
    monkeypatch.setattr(counters, "_tallies", None)
    path = tmp_path / name
    arrays = {f"w{number}": np.arange(700_001 + number, dtype=np.float32) for number in range(4)}
    monkeypatch.setitem(globals(), "ARRAYS", arrays)
    FILES[name](path)
    counted = counters.count_reads()
    assert ckpt("convert", path, tmp_path / "c-1", "--to", "name", "--link", "-j", jobs).code == 0
    expected = sum(array.nbytes for array in arrays.values())
    assert expected <= counted[str(path)].nbytes < expected + 100_000
    assert ckpt("verify", tmp_path / "c-1").code == 0
    assert all(same(value, arrays[key]) for key, value in values(tmp_path / "c-1").items())


def test_a_damaged_member_is_found_before_it_is_shared(ckpt: Ckpt, tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    _npz(path)
    data = bytearray(path.read_bytes())
    at = data.index(ARRAYS["dense/kernel"].tobytes())
    data[at + 5] ^= 1
    path.write_bytes(data)
    done = ckpt("convert", path, tmp_path / "out" / "c-1", "--to", "name", "--link")
    assert done.code == 3
    assert "CRC-32" in done.err
    assert not (tmp_path / "out").exists()


def test_layouts_that_change_the_bytes_are_copied(ckpt: Ckpt, tmp_path: Path) -> None:
    """An average, a cast, a multiple: computed values are in no file."""
    path = copied(OBJECTS, tmp_path)
    done = ckpt("convert", path, tmp_path / "c-1", "--overwrite", "--cast", "float64", "--link", "--json")
    assert (done.code, done.json["verification"]) == (0, "linked")
    plain = copied(OBJECTS, tmp_path, "plain-1")
    assert ckpt("convert", plain, tmp_path / "cast-1", "--cast", "float64").code == 0
    assert ckpt("diff", "--exact", tmp_path / "cast-1", path).code == 0


# Where nothing can be shared --------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.EXDEV, "on another file system"),
        (errno.EPERM, "the system forbids hard links to another owner's file"),
        (errno.EMLINK, "the maximum number of hard links"),
        (errno.EOPNOTSUPP, "neither clones nor hard links"),
    ],
)
def test_where_files_cannot_be_shared_the_values_are_copied_and_compared(
    ckpt: Ckpt, tmp_path: Path, number: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(shards, "_clone", no_links)
    path = copied(NAMES, tmp_path)
    done = ckpt("convert", path, tmp_path / "linked-1", "--to", "object", "--link", "--json")
    assert (done.code, done.json["verification"]) == (0, "full")
    assert f"copied {shard_path(path)}, which cannot be shared: " in done.err
    assert why in done.err
    done = ckpt("rename", path, tmp_path / "renamed-1", "--link", "--add-prefix", "x/", "--json")
    assert (done.code, done.json["verification"]) == (0, "full")
    assert why in done.err
    assert ckpt("convert", path, tmp_path / "plain-1", "--to", "object").code == 0
    assert ckpt("diff", "--exact", tmp_path / "plain-1", tmp_path / "linked-1").code == 0


def test_what_is_in_another_store_is_copied(ckpt: Ckpt, tmp_path: Path) -> None:
    store = MemoryStore()
    with reachable(store):
        source = store.put_tree("mem://", os.path.dirname(data_path(*NAMES))) + f"/{NAMES[-1]}"
        done = ckpt("convert", source, tmp_path / "c-1", "--to", "name", "--link", "--json")
        renaming = ["rename", source, tmp_path / "r-1", "--link", "--add-prefix", "x/"]
        renamed = [ckpt(*renaming, *options) for options in (["--dry-run"], [])]
    assert (done.code, done.json["verification"]) == (0, "full")
    assert "cannot be shared" in done.err
    assert ckpt("diff", "--exact", data_path(*NAMES), tmp_path / "c-1").code == 0
    for one in renamed:
        assert "data shards are copied because they cannot be shared: they are not both local" in one.err


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[str]:
    """A directory on another file system than `tmp_path`: the checkout's, that of /tmp, or memory."""
    for folder in (ROOT, "/tmp", "/var/tmp", "/dev/shm"):
        if os.access(folder, os.W_OK) and os.stat(folder).st_dev != os.stat(tmp_path).st_dev:
            with tempfile.TemporaryDirectory(dir=folder, prefix=".elsewhere-") as other:
                yield other
            return
    pytest.skip("there is no second file system")


def test_another_file_system_is_known_in_a_dry_run_too(ckpt: Ckpt, tmp_path: Path, elsewhere: str) -> None:
    path = copied(NAMES, tmp_path)
    words = ["convert", path, f"{elsewhere}/new/c-1", "--link", "--json"]
    for options, verification in (["-n"], "none"), ([], "full"):
        done = ckpt(*words, *options)
        assert (done.code, done.json["verification"]) == (0, verification)
        assert "which cannot be shared: the target is on another file system" in done.err
    done = ckpt("rename", path, f"{elsewhere}/new/r-1", "--link", "--add-prefix", "x/")
    assert "they cannot be shared: the target is on another file system" in done.err
    assert ckpt("diff", path, f"{elsewhere}/new/c-1").code == 0


@pytest.fixture
def reflinks(tmp_path: Path) -> Iterator[Path]:
    """A directory on an XFS in a file, if this machine can mount one."""
    image, folder = tmp_path / "image", tmp_path / "mounted"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(400 << 20)
    for command in (["mkfs.xfs", "-q", "-m", "reflink=1", image], ["mount", "-o", "loop", image, folder]):
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=60)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("no file system with clones can be mounted here; a stand-in is tested above")
    yield folder
    subprocess.run(["umount", folder], check=True, timeout=60)


@pytest.mark.parametrize("command", [["convert", "--to", "name"], ["rename", "--add-prefix", "x/"]])
def test_clones_share_blocks_until_one_of_both_changes(
    ckpt: Ckpt, reflinks: Path, command: list[str]
) -> None:
    source = reflinks / "large-1"
    save(source, {"w": np.arange(5_000_000, dtype=np.float32)})
    os.sync()
    before = os.statvfs(reflinks).f_bfree
    done = ckpt(command[0], source, reflinks / "linked-1", *command[1:], "--link", "--json")
    os.sync()
    used = (before - os.statvfs(reflinks).f_bfree) * os.statvfs(reflinks).f_bsize
    assert (done.code, used < 2_000_000, "hard links" in done.err) == (0, True, False)
    assert os.stat(shard_path(str(source))).st_nlink == 1
    with open(shard_path(str(source)), "r+b") as file:
        file.write(b"another")
    assert ckpt("verify", source).code == 1
    assert ckpt("verify", reflinks / "linked-1").code == 0


def test_what_is_linked_is_brought_to_disk_like_the_rest(
    ckpt: Ckpt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SRC may be as new as its link: the index may not be on disk before the values that it speaks of."""
    path = copied(NAMES, tmp_path)
    synced: list[int] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_ino), sync(fd))[1])
    for words in (
        ["convert", path, tmp_path / "d-1"],
        ["rename", path, tmp_path / "r-1", "--add-prefix", "x/"],
    ):
        synced.clear()
        assert ckpt(*words, "--link").code == 0
        assert os.stat(shard_path(path)).st_ino in synced


def test_clones_are_files_of_their_own(ckpt: Ckpt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FICLONE is the file system's; here it is in for itself, and what goes around it is ours."""
    import fcntl

    def clone(target: int, request: int, source: int) -> int:
        assert request == 0x40049409
        return os.pwrite(target, os.pread(source, os.fstat(source).st_size, 0), 0)

    monkeypatch.setattr(fcntl, "ioctl", clone)
    path = copied(NAMES, tmp_path)
    os.chmod(shard_path(path), 0o640)
    done = ckpt("convert", path, tmp_path / "linked-1", "--link", "--json")
    assert (done.code, done.json["verification"]) == (0, "linked")
    assert not is_shared(shard_path(path), tmp_path / "linked-1")
    assert "hard links" not in done.err


def test_a_shared_file_keeps_its_mode_and_its_inode(ckpt: Ckpt, tmp_path: Path) -> None:
    path = copied(NAMES, tmp_path)
    os.chmod(shard_path(path), 0o440)

    def told() -> tuple[int, int, int]:
        status = os.stat(shard_path(path))
        return status.st_ino, status.st_mode, status.st_mtime_ns

    before = told()
    assert ckpt("convert", path, tmp_path / "linked-1", "--to", "object", "--link").code == 0
    assert told() == before
    assert os.stat(shard_path(path)).st_nlink == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["out.npz"], 3, "npz has no data shards to share"),
        (["out.safetensors", "--weights-only"], 3, "safetensors has no data shards to share"),
        (["out-1", "--to", "v1"], 3, "tf-v1 has no data shards to share"),
        (["out-1", "--shard-size", "100"], 2, "--shard-size does nothing with --link"),
    ],
)
def test_what_cannot_be_linked_is_rejected_by_name(
    ckpt: Ckpt, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    path = copied(NAMES, tmp_path)
    before = files(tmp_path)
    for dry_run in ([], ["-n"]):
        done = ckpt("convert", path, tmp_path / arguments[0], *arguments[1:], "--link", *dry_run)
        assert done.code == code
        assert message in done.err
        assert files(tmp_path) == before


def test_a_dry_run_says_what_would_be_shared(ckpt: Ckpt, tmp_path: Path) -> None:
    path = copied(NAMES, tmp_path)
    before = files(tmp_path)
    done = ckpt("convert", path, tmp_path / "out" / "o-1", "--to", "object", "--link", "-n", "--json")
    assert (done.code, done.json["verification"]) == (0, "none")
    assert f"would share {shard_path(path)} (" in done.err
    assert files(tmp_path) == before


def test_each_checkpoint_shares_its_own(ckpt: Ckpt, tmp_path: Path) -> None:
    shutil.copytree(data_path(*OBJECTS[:2]), tmp_path / "run")
    done = ckpt("convert", tmp_path / "run", tmp_path / "out", "--each", "--to", "name", "--link", "--json")
    assert done.code == 0
    assert [one["verification"] for one in done.json["checkpoints"]] == ["linked"] * 3
    for name in ("ckpt-8", "ckpt-9", "ckpt-10"):
        assert is_shared(shard_path(str(tmp_path / "run" / name)), tmp_path / "out" / name)


@pytest.mark.parametrize("named", ["c-1", "c-1.index", "best"])
def test_nothing_is_reported_for_links_to_files_that_are_replaced(
    ckpt: Ckpt, tmp_path: Path, named: str
) -> None:
    path = copied(NAMES, tmp_path)
    expected = values(path)
    if named == "best":
        for file in [f"{path}.index", *data_shards(parse_location(path))]:
            os.symlink(file, file.replace("c-1", "best"))
    words = ["convert", path, tmp_path / named, "--to", "name", "--link", "--overwrite", "--json"]
    done = ckpt(*words)
    assert (done.code, done.json["verification"]) == (0, "linked")
    assert "with SRC as hard links" not in done.err
    assert all(os.stat(shard).st_nlink == 1 for shard in data_shards(parse_location(path)))
    assert values(path).keys() == expected.keys()
    assert all(same(value, expected[key]) for key, value in values(path).items())
    assert "with SRC as hard links" in ckpt("convert", path, tmp_path / "d-1", "--to", "name", "--link").err


# What hard links mean -----------------------------------------------------------------------


def test_the_other_checkpoint_survives_every_change_of_one(ckpt: Ckpt, tmp_path: Path) -> None:
    """Writers replace files: if one checkpoint is overwritten, renamed or deleted, the other keeps its
    data.
    """
    path = copied(OBJECTS, tmp_path, "ckpt-1")
    linked = tmp_path / "ckpt-2"
    expected = values(path)
    assert ckpt("convert", path, linked, "--link", "--json").json["verification"] == "linked"
    found = values(linked)
    assert ckpt("rename", "--in-place", linked, "--sub", "^net=>model").code == 0
    assert ckpt("average", path, path, "-o", linked, "--overwrite").code == 0
    assert all(same(value, expected[key]) for key, value in values(path).items())
    assert ckpt("convert", path, linked, "--link", "--overwrite").code == 0
    assert ckpt("convert", data_path(*NAMES), path, "--overwrite").code == 0
    assert all(same(value, found[key]) for key, value in values(linked).items())
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "ckpt-2"\nall_model_checkpoint_paths: "ckpt-1"\n'
        'all_model_checkpoint_paths: "ckpt-2"\n'
    )
    assert ckpt("state", tmp_path, "--keep", "1").code == 0
    assert not os.path.exists(path + ".index")
    assert all(same(value, found[key]) for key, value in values(linked).items())


def test_what_is_shared_is_marked_and_not_counted_twice(ckpt: Ckpt, terminal: Ckpt, tmp_path: Path) -> None:
    path = copied(NAMES, tmp_path, "ckpt-1")
    shutil.copy(path + ".index", tmp_path / "other-1.index")
    shutil.copy(shard_path(path), shard_path(str(tmp_path / "other-1")))
    before = {row["name"]: row for row in ckpt("ls", tmp_path, "--json").json["checkpoints"]}
    assert {(tuple(row["shared_with"]), row["shared_nbytes"]) for row in before.values()} == {((), 0)}
    assert ckpt("convert", path, tmp_path / "ckpt-2", "--to", "object", "--link").code == 0
    rows = {row["name"]: row for row in ckpt("ls", tmp_path, "--json").json["checkpoints"]}
    size = os.path.getsize(shard_path(path))
    assert (rows["ckpt-1"]["shared_with"], rows["ckpt-1"]["shared_nbytes"]) == (["ckpt-2"], size)
    assert (rows["ckpt-2"]["shared_with"], rows["ckpt-2"]["shared_nbytes"]) == (["ckpt-1"], size)
    assert (rows["other-1"]["shared_with"], rows["other-1"]["shared_nbytes"]) == ([], 0)
    assert rows["ckpt-1"]["nbytes"] == before["ckpt-1"]["nbytes"]
    assert "with ckpt-2" in terminal("ls", tmp_path, columns=160).out
    shard, other = os.path.basename(shard_path(path)), "ckpt-2.data-00000-of-00002"
    assert ckpt("show", path, "--json").json["shared"] == [{"name": shard, "with": [other]}]
    assert ["shared", f"{shard} is also {other}"] in ckpt("show", path).rows


def test_deleting_says_what_it_frees(ckpt: Ckpt, tmp_path: Path) -> None:
    path = copied(NAMES, tmp_path, "ckpt-1")
    assert ckpt("convert", path, tmp_path / "ckpt-2", "--to", "object", "--link").code == 0
    (change,) = ckpt("state", tmp_path, "--keep", "1", "-n", "--json").json["changes"]
    index = os.path.getsize(path + ".index")
    assert (change["name"], change["nbytes"]) == ("ckpt-1", index)
    copied(NAMES, tmp_path, "ckpt-3")
    changes = ckpt("state", tmp_path, "--keep", "1", "-n", "--json").json["changes"]
    assert [change["name"] for change in changes] == ["ckpt-1", "ckpt-2"]
    own = sum(os.path.getsize(tmp_path / f"ckpt-2{suffix}") for suffix in (".index", ".data-00001-of-00002"))
    assert [change["nbytes"] for change in changes] == [index, own + os.path.getsize(shard_path(path))]


def test_of_a_damaged_one_the_rest_is_saved(ckpt: Ckpt, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    _safetensors(path)
    assert ckpt("convert", path, tmp_path / "c-1", "--to", "object", "--link").code == 0
    assert ckpt("convert", path, tmp_path / "d-1", "--to", "object", "--link").code == 0
    os.unlink(tmp_path / "d-1.index")  # an index that is lost is made again of another's
    assert ckpt("rescue", tmp_path / "d-1", tmp_path / "again-1", "--sibling", tmp_path / "c-1").code == 0
    assert ckpt("diff", "--exact", tmp_path / "c-1", tmp_path / "again-1").code == 0
    data = path.read_bytes()
    at = data.index(ARRAYS["dense/kernel"].tobytes())
    with open(path, "r+b") as file:
        file.seek(at + 5)
        file.write(bytes([data[at + 5] ^ 1]))
    done = ckpt("rescue", tmp_path / "c-1", tmp_path / "saved-1", "--json")
    assert done.code == 1
    assert [lost["key"] for lost in done.json["lost"]] == ["dense/kernel/.ATTRIBUTES/VARIABLE_VALUE"]
    found = {key.partition("/.ATT")[0]: value for key, value in values(tmp_path / "saved-1").items()}
    expected = {key: value for key, value in ARRAYS.items() if key != "dense/kernel"}
    assert found.keys() == {*expected, "save_counter"}
    assert all(same(found[key], np.asarray(value)) for key, value in expected.items())


def test_what_overwrites_a_file_in_place_is_found(ckpt: Ckpt, tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    _npz(path)
    done = ckpt("convert", path, tmp_path / "c-1", "--to", "name", "--link")
    assert "DST shares its data shards with SRC as hard links" in done.err
    assert "np.savez" in done.err
    with open(path, "r+b") as file:  # as np.savez does
        file.write(b"\0" * os.path.getsize(path))
    assert ckpt("verify", tmp_path / "c-1").code == 1


def test_no_file_is_kept_for_the_sake_of_what_is_empty(ckpt: Ckpt, tmp_path: Path) -> None:
    write_bundle(str(tmp_path / "a-1"), {"e": np.zeros((0, 3), np.float32)})
    write_bundle(str(tmp_path / "b-1"), {"e": np.zeros((0, 3), np.float32), "f": np.ones(3)})
    for name, shared in ("a", False), ("b", True):
        for options in ["--dry-run"], []:
            words = ["convert", tmp_path / f"{name}-1", tmp_path / f"{name}-2", "--to", "object", "--link"]
            done = ckpt(*words, *options)
            assert (done.code, "nothing is shared" not in done.err) == (0, shared)
        assert is_shared(shard_path(str(tmp_path / f"{name}-1")), tmp_path / f"{name}-2") is shared
        assert values(tmp_path / f"{name}-2")["e/.ATTRIBUTES/VARIABLE_VALUE"].shape == (0, 3)
