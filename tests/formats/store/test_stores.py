"""Paths lead to stores, and never from one to another; files are opened again where they are unpickled."""

from __future__ import annotations

import pickle
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats import CheckpointError, CheckpointNotFoundError, InaccessibleError, UnsupportedFeatureError
from formats.find.directory import Directory
from formats.find.opening import locate, open_checkpoint
from formats.location import local_location, parse_location, reachable
from formats.store.file_object import FileObject
from formats.store.local.files import LOCAL, _is_settled
from formats.store.memory import MemoryStore
from formats.store.work.executors import Processes
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from formats.store.base import File


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    found = MemoryStore()
    with reachable(found):
        yield found


def test_a_path_says_where_it_is(store: MemoryStore) -> None:
    assert parse_location("mem://run/ckpt-1").store is parse_location("MEM://run").store is store
    for path in ("run/ckpt-1", "./mem://run", "/mem://run", "1s://x", "mem:/run", ":// x", ""):
        assert parse_location(path).store is LOCAL
    for url in ("ftp://host/run", "nothing+such://x"):
        with pytest.raises(UnsupportedFeatureError, match="URLs are not supported"):
            parse_location(url)


def test_a_store_is_connected_as_long_as_it_is_used() -> None:
    store = MemoryStore()
    store.put("mem://run/x", b"x")
    with reachable(store):
        with reachable(MemoryStore()), pytest.raises(CheckpointNotFoundError):
            parse_location("mem://run/x").open()
        with parse_location("mem://run/x").open() as file:
            assert file.store is store
    with pytest.raises(UnsupportedFeatureError, match="mem:// URLs are not supported"):
        parse_location("mem://run/x").open()


def test_paths_are_decoded_as_their_store_does(store: MemoryStore) -> None:
    assert parse_location("mem://run/ckpt-1").split_name() == ("mem://run", "ckpt-1")
    assert parse_location("mem://run").split_name() == ("mem://", "run")
    for folder in ("mem://run", "mem://run/"):
        assert (parse_location(folder) / "ckpt-1") == "mem://run/ckpt-1"
        assert parse_location("mem://run/sub/ckpt-1").relative_to(folder) == "sub/ckpt-1"
    assert (parse_location("mem://") / "run" / "ckpt-1") == "mem://run/ckpt-1"
    assert parse_location("mem://run/").absolute() == parse_location("mem://run").real() == "mem://run"
    assert store.split("mem://a/b") == (parse_location("mem://a/b").parent, parse_location("mem://a/b").name)


@pytest.mark.parametrize("name", ["/etc/passwd", "s3://bucket/x", "file:///etc/passwd", "../../etc/passwd"])
def test_no_name_leads_out_of_its_store(name: str, store: MemoryStore, tmp_path: Path) -> None:
    """State files may contain anything."""
    for folder, home in (("mem://run", store), (str(tmp_path), LOCAL), ("", LOCAL), (".", LOCAL)):
        assert parse_location(parse_location(folder) / name).store is home


def test_a_state_file_elsewhere_opens_nothing_here(store: MemoryStore, tmp_path: Path) -> None:
    prefix = str(tmp_path / "ckpt-1")
    write_bundle(prefix, {"v": np.float32(1)})
    store.put("mem://run/checkpoint", f'model_checkpoint_path: "{prefix}"\n'.encode())
    with pytest.raises(CheckpointError):
        open_checkpoint("mem://run")
    for suffix in (".index", ".data-00000-of-00001"):
        store.put_tree("mem://run", prefix + suffix)
    with open_checkpoint("mem://run") as reader:
        assert reader.location.path == "mem://run/ckpt-1"
        assert reader.location.store is store
        assert reader["v"].read() == 1


def _one(where: str, store: MemoryStore, tmp_path: Path, data: bytes) -> str:
    if where == "memory":
        store.put("mem://run/x", data)
        return "mem://run/x"
    (tmp_path / "x").write_bytes(data)
    return str(tmp_path / "x")


@pytest.fixture(params=["local", "memory"])
def where(request: pytest.FixtureRequest) -> str:
    return request.param


def test_every_store_opens_looks_and_lists_alike(where: str, store: MemoryStore, tmp_path: Path) -> None:
    path = _one(where, store, tmp_path, b"0123456789")
    folder = parse_location(path).parent
    entry = parse_location(path).entry()
    assert entry is not None
    assert (entry.kind, entry.size) == ("file", 10)
    assert [tuple(listed) for listed in parse_location(folder).listing()] == [("x", "file")]
    assert (
        parse_location(path).is_file(),
        parse_location(path).is_folder(),
        parse_location(path).exists(),
    ) == (True, False, True)
    assert (parse_location(folder).is_file(), parse_location(folder).is_folder()) == (False, True)
    with parse_location(path).open() as file:
        assert (file.path, file.size, file.identity) == (path, 10, entry.identity)
        assert [file.read(*at) for at in ((0, 4), (8, 4), (10, 1), (99, 1), (1 << 70, 1), (3, 0))] == [
            b"0123",
            b"89",
            b"",
            b"",
            b"",
            b"",
        ]
        out = bytearray(3)
        file.read_into(2, memoryview(out))
        assert (bytes(out), file.read_exactly(4, 2)) == (b"234", b"45")
        for short in (lambda: file.read_exactly(8, 4), lambda: file.read_into(8, memoryview(bytearray(4)))):
            with pytest.raises(CheckpointError, match="expected 4 bytes, but the file ends after 2"):
                short()
    assert file.closed
    for read in (lambda: file.read(0, 1), lambda: file.read_into(0, memoryview(bytearray(1)))):
        with pytest.raises(CheckpointError, match="closed"):
            read()
    with pytest.raises(CheckpointNotFoundError, match="no such file"):
        parse_location(path + "y").open()
    with pytest.raises(InaccessibleError, match="this is a directory, not a regular file"):
        parse_location(folder).open()
    with pytest.raises(CheckpointNotFoundError, match="no such directory"):
        parse_location(path + "y").listing()
    assert parse_location(path + "y").entry() is None


def test_a_pickled_file_is_opened_again_once(where: str, store: MemoryStore, tmp_path: Path) -> None:
    path = _one(where, store, tmp_path, b"0123456789")
    with parse_location(path).open() as file:
        data = pickle.dumps(file)
        assert len(data) < 1024
        again: list[File] = [pickle.loads(data) for _ in range(2)]
    assert again[0] is again[1] is not file
    assert again[0].read(3, 2) == b"34"
    again[0].close()
    with pickle.loads(data) as third:
        assert third.read(0, 1) == b"0"


def test_a_pickled_file_that_was_replaced_is_rejected(where: str, store: MemoryStore, tmp_path: Path) -> None:
    path = _one(where, store, tmp_path, b"0123456789")
    with parse_location(path).open() as file:
        data = pickle.dumps(file)
    _one(where, store, tmp_path, b"01234")
    with pytest.raises(CheckpointError, match="this file changed since it was opened") as caught:
        pickle.loads(data)
    assert caught.value.path == path


def test_a_file_object_is_sought_as_any(store: MemoryStore) -> None:
    store.put("mem://run/x", b"0123456789")
    with parse_location("mem://run/x").open() as file:
        stream = FileObject(file.read, file.size)
        assert (stream.seek(-3, 2), stream.read(), stream.tell(), stream.read(1)) == (7, b"789", 10, b"")
        assert (stream.seek(2), stream.seek(1, 1), stream.read(2)) == (2, 3, b"34")
        with pytest.raises(OSError, match="before the start of the file"):
            stream.seek(-11, 2)


def test_a_run_is_recognised_in_every_store(store: MemoryStore) -> None:
    folder = store.put_tree("mem://tests", data_path("guide_adam_legacy", "tf_ckpts"))
    there, here = (
        Directory(parse_location(folder)),
        Directory(parse_location(data_path("guide_adam_legacy", "tf_ckpts"))),
    )
    assert [member.name for member in there.members] == [member.name for member in here.members]
    assert [member.modified for member in there.members] == [member.modified for member in here.members]
    assert locate(parse_location(folder)).name == locate(here.path).name
    assert locate(parse_location(folder)).nbytes() == locate(here.path).nbytes()
    assert (
        locate(parse_location(folder + "/ckpt-10.index")).path
        == locate(parse_location(folder + "/ckpt-10")).path
        == f"{folder}/ckpt-10"
    )


def test_hdf5_is_read_from_every_store(store: MemoryStore) -> None:
    path = store.put_tree("mem://tests", data_path("keras_mlp", "mlp.with_optimizer.h5"))
    with (
        open_checkpoint(path) as reader,
        open_checkpoint(data_path("keras_mlp", "mlp.with_optimizer.h5")) as here,
    ):
        assert dict(reader.specs) == dict(here.specs)
        for key in here:
            assert np.array_equal(reader[key].read(), here[key].read())


def test_a_path_may_be_bytes_as_pythons_functions_take_them() -> None:
    class Named:
        def __fspath__(self) -> bytes:
            return b"run/\xff"

    for path in (b"run/\xff", Named()):
        assert parse_location(path) == local_location(path) == "run/\udcff"  # type: ignore[arg-type]


def test_a_file_url_that_lacks_a_slash_is_named_as_it_was_typed() -> None:
    for path in ("file:run/ckpt-1", "file:/run/ckpt-1"):
        with pytest.raises(CheckpointNotFoundError) as caught:
            parse_location(path)
        assert caught.value.path == path
        assert caught.value.hints == ("did you mean file:///run/ckpt-1?",)


def test_paths_of_a_directory_that_was_removed_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert parse_location("HEAD:x") == "HEAD:x"  # no commit's file: git has no repository here
    run = local_location("run")
    for ask in (run.absolute, run.real, lambda: run.relative_to("other")):
        with pytest.raises(InaccessibleError, match="the current directory was removed"):
            ask()
    with (
        closing(Processes(1)) as processes,
        pytest.raises(InaccessibleError, match="no worker can be started"),
    ):
        processes.submit(len, [])


SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("changed", "now", "is_settled"),
    [
        (5 * SECOND + 1, 5 * SECOND + SECOND // 50, True),  # a file system that counts nanoseconds
        (5 * SECOND + 1, 5 * SECOND + 2, False),
        (5 * SECOND, 6 * SECOND, False),  # one that counts seconds
        (5 * SECOND, 7 * SECOND, False),
        (5 * SECOND, 7 * SECOND + 1, True),
        (0, SECOND, False),
    ],
)
def test_a_file_is_settled_once_a_change_would_show(changed: int, now: int, is_settled: bool) -> None:
    assert _is_settled(changed, now) is is_settled
