"""Writing to a store of objects equals writing to a disk, old or new at every instant.

The store is `mem://`, which calls back before each object: a kill leaves the objects of that instant.
"""

from __future__ import annotations

import errno
import itertools
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats.location import reachable
from formats.store import ranges
from formats.store.memory import MemoryStore
from formats.store.remote import object_lock, upload
from formats.tf.bundle import stream, writer
from formats.wire import crc32c
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.conftest import Result

RUN = data_path("guide_adam_legacy/tf_ckpts")
PREFIX, OLD = "mem://b/run/c-1", f"{RUN}/ckpt-9"
NEW = f"{RUN}/ckpt-10"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryStore]:
    monkeypatch.setattr(object_lock, "_SETTLED", 0.0)
    found = MemoryStore()
    with reachable(found):
        yield found


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "BLOCK", 64)


def values(path: str) -> dict[str, object]:
    with formats.open_checkpoint(path) as reader:
        return {key: reader[key].read().tolist() for key in reader}


def content(store: MemoryStore, path: str) -> bytes:
    with store.open(path) as file:
        return file.read(0, file.size)


ONE_FILE = {
    "npz": ("convert", NEW, "{}/w.npz", "--weights-only"),
    "h5": ("extract", NEW, "--kind", "variable", "-o", "{}/w.h5"),
    "safetensors": ("convert", NEW, "{}/w.safetensors", "--weights-only"),
    "v1": ("convert", NEW, "{}/v1", "--to", "v1"),
    "keras": ("convert", data_path("keras3_rnn/rnn.keras"), "{}/m.keras"),
    "weights": ("convert", data_path("keras3_rnn/rnn.keras"), "{}/m.weights.h5"),
    "npy": ("extract", NEW, "net/l1/kernel", "-o", "{}/k.npy"),
    "json": ("extract", NEW, "net/l1/kernel", "-o", "{}/k.json"),
    "listing": ("convert", NEW, "{}/l.json", "--to", "listing"),
}
MADE_FIRST = ("npz", "h5", "keras", "weights")


@pytest.mark.parametrize("name", ONE_FILE)
@pytest.mark.parametrize("proof", ["sent", "full"])
def test_one_object_is_the_file_that_a_disk_gets(
    name: str, proof: str, store: MemoryStore, tmp_path: Path, ckpt: Callable[..., Result], small_blocks: None
) -> None:
    words = ONE_FILE[name]
    more = () if words[0] == "extract" else ("--verify", proof)
    assert ckpt(*(word.format(tmp_path) for word in words)).code == 0
    done = ckpt(*(word.format("mem://b") for word in words), *more, "--json")
    assert done.code == 0, done.err
    assert done.json["verification"] == (more[1] if more else "sent")
    (made,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert store.names == [f"mem://b/{made.name}"]
    mine = made.read_bytes().replace(str(tmp_path).encode(), b"mem://b")  # a listing has its own path
    assert content(store, store.names[0]) == mine
    assert ("is created in" in done.err) == (name in MADE_FIRST)
    again = ckpt(*(word.format("mem://b") for word in words))
    assert again.code == 3
    assert "already exists" in again.err
    assert "--overwrite" in again.err
    assert ckpt(*(word.format("mem://b") for word in words), "--overwrite").code == 0
    assert content(store, store.names[0]) == mine


def test_a_bundle_is_copied_byte_for_byte(store: MemoryStore, ckpt: Callable[..., Result]) -> None:
    assert ckpt("convert", NEW, PREFIX).code == 0
    for suffix in (".index", ".data-00000-of-00001"):
        with open(NEW + suffix, "rb") as file:
            assert content(store, PREFIX + suffix) == file.read()


def test_there_and_back_again(
    store: MemoryStore, tmp_path: Path, ckpt: Callable[..., Result], small_blocks: None
) -> None:
    split = data_path("name_based/partitioned/model.ckpt-4")
    for source in (NEW, split, data_path("max_shard_size/split")):
        steps = (source, "mem://b/one-1", "mem://b/two-1", str(tmp_path / "three-1"))
        for start, end in itertools.pairwise(steps):
            done = ckpt("convert", start, end, "--overwrite")
            assert done.code == 0, done.err
        assert ckpt("diff", "--exact", source, steps[-1]).code == 0


def test_slices_of_a_tensor_that_comes_whole_are_cut(
    store: MemoryStore, tmp_path: Path, ckpt: Callable[..., Result], small_blocks: None
) -> None:
    template = data_path("name_based/partitioned/model.ckpt-4")
    whole = tmp_path / "whole-1"
    assert ckpt("convert", template, whole, "--merge-slices").code == 0
    done = ckpt("convert", whole, "mem://b/c-1", "--like", template, "--verify", "full")
    assert done.code == 0, done.err
    assert ckpt("diff", "--exact", template, "mem://b/c-1").code == 0


def test_shards_are_bounded(store: MemoryStore, tmp_path: Path, ckpt: Callable[..., Result]) -> None:
    prefix = str(tmp_path / "c-1")
    write_bundle(prefix, {f"v{at}": np.full(100, at, np.float32) for at in range(10)})
    for target in ("mem://b/c-1", "mem://b/x.safetensors"):
        assert ckpt("convert", prefix, target, "--shard-size", "900").code == 0
    sizes = {path: len(content(store, path)) for path in store.names}
    assert sum(".data-" in path for path in sizes) == 5
    assert sum(path.endswith("-of-00005.safetensors") for path in sizes) == 5
    assert {size for path, size in sizes.items() if ".data-" in path} == {800}
    assert ckpt("diff", "--exact", "mem://b/c-1", "mem://b/x.safetensors").code == 0


def test_each_byte_is_summed_once_on_its_way(
    store: MemoryStore, tmp_path: Path, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading and writing share one checksum; a byte that has changed is not written."""
    prefix, size = str(tmp_path / "c-1"), 3 << 20
    write_bundle(prefix, {"a": np.ones(size, np.uint8), "b": np.zeros(size, np.uint8)})
    summed = 0

    def extend(crc: int, data: Any) -> int:
        nonlocal summed
        summed += len(data)
        return crc32c.extend(crc, data)

    for module in (ranges, stream, writer):
        monkeypatch.setattr(module, "extend", extend)
    assert ckpt("convert", prefix, PREFIX).code == 0
    assert summed == 2 * size
    with open(f"{prefix}.data-00000-of-00001", "r+b") as file:
        file.seek(size + 5)
        file.write(b"x")
    done = ckpt("convert", prefix, PREFIX, "--overwrite")
    assert done.code == 3
    assert f"tensor 'b': offset {size}: the data has checksum 0x" in done.err
    assert content(store, f"{PREFIX}.data-00000-of-00001") == b"\1" * size + b"\0" * size
    assert len(store.names) == 2


def test_without_overwrite_nothing_is_touched(store: MemoryStore, ckpt: Callable[..., Result]) -> None:
    assert ckpt("convert", OLD, PREFIX).code == 0
    before = dict(store._blobs)
    done = ckpt("convert", NEW, PREFIX)
    assert done.code == 3
    assert f"{PREFIX}.index: this path already exists" in done.err
    assert store._blobs == before


OVERWRITES = {
    "bundle": (PREFIX, ()),
    "shards": (PREFIX, ("--shard-size", "30")),
    "safetensors": ("mem://b/run/x.safetensors", ("--weights-only",)),
    "safetensors shards": ("mem://b/run/x.safetensors", ("--weights-only", "--shard-size", "20")),
    "npz": ("mem://b/run/x.npz", ("--weights-only",)),
}


@pytest.fixture(params=OVERWRITES)
def overwrite(request: pytest.FixtureRequest) -> tuple[str, tuple[str, ...]]:
    return OVERWRITES[request.param]


@pytest.mark.parametrize(
    ("after", "name"),
    [
        (after, name)
        for name, (target, _) in OVERWRITES.items()
        for after in (None, *OVERWRITES)
        if after is None or OVERWRITES[after][0] == target
    ],
)
def test_a_kill_before_any_object_leaves_the_old_or_the_new(
    after: str | None,
    name: str,
    store: MemoryStore,
    ckpt: Callable[..., Result],
    small_blocks: None,
) -> None:
    target, options = OVERWRITES[name]
    if after is not None:
        assert ckpt("convert", OLD, target, *OVERWRITES[after][1]).code == 0
    old = values(target) if after is not None else None
    found: list[dict[str, Any]] = []
    store.before = lambda what, path: found.append(dict(store._blobs))
    done = ckpt("convert", NEW, target, *options, "--overwrite")
    assert done.code == 0, done.err
    store.before = lambda what, path: None
    new = values(target)
    assert new != old
    assert found
    seen = []
    for blobs in [*found, dict(store._blobs)]:
        killed = MemoryStore()
        killed._blobs = blobs
        with reachable(killed):
            try:
                seen.append(values(target))
            except formats.CheckpointNotFoundError:
                seen.append(None)
    assert all(each in (old, new) for each in seen)
    assert seen == sorted(seen, key=lambda each: each == new)
    assert ckpt("verify", target).out.count("\n") == 1  # no surplus


@pytest.mark.parametrize("error", [formats.CheckpointError, KeyboardInterrupt])
def test_what_fails_or_is_interrupted_leaves_nothing(
    error: type[BaseException],
    overwrite: tuple[str, tuple[str, ...]],
    store: MemoryStore,
    ckpt: Callable[..., Result],
    small_blocks: None,
) -> None:
    target, options = overwrite
    assert ckpt("convert", OLD, target, *options).code == 0
    before, old = dict(store._blobs), values(target)
    for at in itertools.count(1):
        failing = _Failing(at, error)
        store.before = failing
        done = ckpt("convert", NEW, target, *options, "--overwrite")
        store.before = lambda what, path: None
        if not failing.failed:
            break
        if done.code == 0:  # everything was done except removing the lock, which may stay and expires
            is_left = any(name.endswith("ckpt.lock") for name in store.names)
            assert ("cannot delete the lock" in done.err) == is_left
        else:
            assert done.code == (3 if error is formats.CheckpointError else 130)
        assert not store.begun
        if dict(store._blobs) != before:  # the new one was there, and an old shard is what could not go
            assert values(target) != old
            assert ckpt("convert", OLD, target, *options, "--overwrite").code == 0
            before = dict(store._blobs)
    assert at > 1
    assert done.code == 0


def test_of_a_store_that_stays_broken_the_first_error_is_reported(
    overwrite: tuple[str, tuple[str, ...]],
    store: MemoryStore,
    ckpt: Callable[..., Result],
    small_blocks: None,
) -> None:
    target, options = overwrite
    assert ckpt("convert", OLD, target, *options).code == 0
    objects, old = dict(store._blobs), values(target)
    for at in itertools.count(1):
        calls = itertools.count(1 - at)

        def fail(what: str, path: str, calls: Iterator[int] = calls) -> None:
            if (number := next(calls)) >= 0:
                raise formats.CheckpointError(f"failure {number}: {what}")

        store.before = fail
        done = ckpt("convert", NEW, target, *options, "--overwrite")
        store.before = lambda what, path: None
        if next(calls) <= 0:
            break
        if done.code:
            assert done.code == 3
            (told,) = (line for line in done.err.splitlines() if "error: " in line)
            assert "failure 0" in told, done.err
        assert values(target) == old or done.code == 0 or "delete" in done.err
        store._blobs.clear()
        store._blobs.update(objects)
    assert at > 3


class _Failing:
    """Raises an error the so-manieth time that it is called."""

    def __init__(self, at: int, error: type[BaseException]) -> None:
        self._left = at
        self._error = error
        self.failed = False

    def __call__(self, what: str, path: str) -> None:
        self._left -= 1
        if self._left == 0:
            self.failed = True
            raise self._error("no more")


def test_the_first_error_is_reported_if_uploads_cannot_be_deleted(
    store: MemoryStore, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    put = store.put

    def race(path: str, *arguments: Any) -> Any:
        entry = put(path, *arguments)
        if path.endswith(".index"):
            store.before = refuse
            store.keep(next(each for each in store.names if "data-" in each), [b"another's"])
        return entry

    def refuse(what: str, path: str) -> None:
        if what == "delete":
            raise formats.CheckpointError("access denied", path=path)

    monkeypatch.setattr(store, "put", race)
    done = ckpt("convert", NEW, PREFIX, "-q")
    assert done.code == 3
    assert "warning: mem://b/run/c-1" in done.err
    assert "cannot delete everything that was uploaded" in done.err
    (told,) = (line for line in done.err.splitlines() if "error: " in line)
    assert told.endswith("another program replaced or removed this path in the meantime")


@pytest.mark.parametrize("words", [(), ("--overwrite",)])
def test_an_index_of_shards_that_another_replaces_is_taken_back(
    words: tuple[str, ...], store: MemoryStore, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that wrote the same at a time, one said that all was well, and its shard was the other's."""
    if words:
        assert ckpt("convert", OLD, PREFIX).code == 0
    put = store.put

    def race(path: str, *arguments: Any) -> Any:
        entry = put(path, *arguments)
        if path.endswith(".index"):
            (name,) = (each for each in store.names if "data-" in each and content(store, each) == new)
            put(name, b"another's")
        return entry

    with open(f"{NEW}.data-00000-of-00001", "rb") as file:
        new = file.read()
    monkeypatch.setattr(store, "put", race)
    done = ckpt("convert", NEW, PREFIX, *words)
    assert done.code == 3
    assert "another program replaced or removed this path in the meantime" in done.err
    assert f"{PREFIX}.index" not in store.names
    assert any(content(store, each) == b"another's" for each in store.names)


def test_what_appears_meanwhile_stays(store: MemoryStore, ckpt: Callable[..., Result]) -> None:
    def appear(what: str, path: str) -> None:
        if path.endswith(".index"):
            store.before = lambda what, path: None
            assert ckpt("convert", OLD, PREFIX).code == 3  # a shard of the other is there
            store.keep(path, [b"of somebody else"])

    store.before = appear
    done = ckpt("convert", NEW, PREFIX)
    assert done.code == 3
    assert f"{PREFIX}.index: another program created this path" in done.err
    assert store.names == [f"{PREFIX}.index"]
    assert content(store, f"{PREFIX}.index") == b"of somebody else"


def test_an_index_of_another_program_is_not_taken_for_ones_own(
    store: MemoryStore, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the store returns no MD5, as Azure: two checkpoints of a run have indexes of one size."""
    monkeypatch.setattr("formats.store.memory.md5_of", lambda sums: "0x8D")
    assert ckpt("convert", OLD, PREFIX).code == 0
    theirs = content(store, f"{PREFIX}.index")

    def appear(what: str, path: str) -> None:
        if path.endswith(".index"):
            store.keep(path, [theirs])

    store.before = appear
    before = store.names
    done = ckpt("convert", NEW, PREFIX, "--overwrite")
    assert done.code == 3
    assert f"{PREFIX}.index: another program created this path" in done.err
    assert store.names == before
    assert values(PREFIX) == values(OLD)


@pytest.mark.parametrize("name", ["put", "finish"])
def test_an_answer_that_is_lost_is_not_a_failure(
    name: str,
    store: MemoryStore,
    ckpt: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
    small_blocks: None,
) -> None:
    monkeypatch.setattr("formats.store.memory.md5_of", lambda sums: "0x8D")
    keep = store.keep

    def lose(path: str, *words: Any) -> None:
        keep(path, *words)
        raise formats.InaccessibleError("the server did not answer, or the connection was cut", path=path)

    def begin(what: str, path: str) -> None:
        if what == name:
            monkeypatch.setattr(store, "keep", lose)

    store.before = begin
    done = ckpt("convert", NEW, PREFIX)
    assert done.code == 0, done.err
    assert values(PREFIX) == values(NEW)


def test_one_object_that_was_being_read_back_is_not_left(
    store: MemoryStore, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: MemoryStore, path: str) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(MemoryStore, "open", interrupt)
    done = ckpt("convert", NEW, "mem://b/x.npz", "--weights-only", "--verify", "full")
    assert done.code == 130
    assert not store.names


@pytest.mark.parametrize("name", MADE_FIRST)
def test_a_full_disk_is_marked_as_the_one_of_this_machine(
    name: str, store: MemoryStore, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    done = ckpt(*(word.format("mem://b") for word in ONE_FILE[name]))
    assert done.code == 3
    assert "no space left on device (the file is created on this machine first)" in done.err
    assert "TMPDIR" in done.err
    assert not store.names


class _Lossy(MemoryStore):
    """A store that keeps another byte than it was sent, in what ends so."""

    suffix = ""

    def keep(self, path: str, blocks: Any, modified: float = 0.0) -> None:
        if path.endswith(self.suffix):
            blocks = [blocks[0][:-1] + bytes([blocks[0][-1] ^ 1]), *blocks[1:]]
        super().keep(path, blocks, modified)


@pytest.mark.parametrize("suffix", ["-of-00001", ".index", ".safetensors", ".npz"])
@pytest.mark.parametrize("block", [64, 8 << 20])
def test_what_a_store_keeps_otherwise_is_an_error(
    suffix: str, block: int, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "BLOCK", block)
    lossy = _Lossy()
    lossy.suffix = suffix
    target = PREFIX if "." not in suffix or suffix == ".index" else f"mem://b/x{suffix}"
    with reachable(lossy):
        done = ckpt("convert", NEW, target, "--weights-only")
        assert done.code == 3
        assert (
            "the stored bytes differ from those that were sent\n"
            "hint: delete this file, then run this again; another program may have written it" in done.err
        )
        assert ckpt("convert", NEW, target, "--weights-only", "--overwrite", "--verify", "none").code == 0


def test_an_e_tag_of_other_bytes_has_the_object_read_back(
    store: MemoryStore, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, small_blocks: None
) -> None:
    monkeypatch.setattr("formats.store.memory.md5_of", lambda sums: "0" * 32)
    assert ckpt("convert", NEW, PREFIX).code == 0
    assert store.read_of(f"{PREFIX}.data-00000-of-00001") == os.path.getsize(f"{NEW}.data-00000-of-00001")


def test_full_reads_everything_back_before_the_index_is_there(
    store: MemoryStore, ckpt: Callable[..., Result], small_blocks: None
) -> None:
    at_index: list[int] = []

    def note(what: str, path: str) -> None:
        if path.endswith(".index"):
            at_index.append(store.read_of(f"{PREFIX}.data-00000-of-00001"))

    store.before = note
    done = ckpt("convert", NEW, PREFIX, "--verify", "full", "--json")
    assert done.json["verification"] == "full"
    assert done.json["verified"] is True
    assert at_index[-1] >= os.path.getsize(f"{NEW}.data-00000-of-00001")


ONE_OBJECT: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "safetensors": ("x.safetensors", (), ()),
    "over its shards": ("x.safetensors", (), ("--shard-size", "20")),
    "npz": ("x.npz", (), ()),
    "hdf5": ("x.h5", ("--to", "hdf5"), ()),
    "v1": ("x", ("--to", "v1"), ()),
}


@pytest.mark.parametrize("name", ONE_OBJECT)
def test_full_puts_no_object_over_one_that_would_be_lost(
    name: str, store: MemoryStore, ckpt: Callable[..., Result]
) -> None:
    target, options, old = ONE_OBJECT[name]
    options = ("--weights-only", *options)
    assert ckpt("convert", OLD, f"mem://b/{target}", *options, *old).code == 0
    before = dict(store._blobs)
    for dry in ((), ("--dry-run",)):
        done = ckpt("convert", NEW, f"mem://b/{target}", *options, "--overwrite", "--verify", "full", *dry)
        assert done.code == 3
        assert "would be lost" in done.err
        assert "--verify sent" in done.err
        assert store._blobs == before
    done = ckpt("convert", NEW, f"mem://new/{target}", *options, "--overwrite", "--verify", "full")
    assert done.code == 0, done.err


def test_how_a_target_is_proved_is_reported(
    store: MemoryStore, tmp_path: Path, ckpt: Callable[..., Result]
) -> None:
    for options, said in (
        ((), "sent"),
        (("--verify", "sent"), "sent"),
        (("--no-verify",), "none"),
        (("--verify", "none"), "none"),
        (("--dry-run",), "none"),
    ):
        assert ckpt("convert", NEW, PREFIX, "--overwrite", "--json", *options).json["verification"] == said
    local = ckpt("convert", NEW, tmp_path / "c-1", "--verify", "sent")
    assert local.code == 2
    assert "--verify sent needs a URL as the target" in local.err
    both = ckpt("convert", NEW, PREFIX, "--verify", "full", "--no-verify")
    assert both.code == 2


def test_a_checkpoint_is_written_over_itself(store: MemoryStore, ckpt: Callable[..., Result]) -> None:
    assert ckpt("convert", OLD, PREFIX).code == 0
    old = values(PREFIX)
    for _ in range(3):
        done = ckpt("convert", PREFIX, PREFIX, "--overwrite")
        assert done.code == 0, done.err
        assert values(PREFIX) == old


def test_a_run_is_converted_with_its_state_file(store: MemoryStore, ckpt: Callable[..., Result]) -> None:
    done = ckpt("convert", RUN, "mem://b/new", "--each")
    assert done.code == 0, done.err
    listed = ckpt("ls", "mem://b/new", "--json").json
    assert listed["latest"] == "ckpt-10"
    assert len(listed["checkpoints"]) == 3
    assert ckpt("average", OLD, NEW, "-o", "mem://b/new/mean-11", "--update-state").code == 0
    assert ckpt("ls", "mem://b/new", "--json").json["latest"] == "mean-11"


def test_a_dry_run_puts_nothing(store: MemoryStore, ckpt: Callable[..., Result]) -> None:
    for words in ONE_FILE.values():
        assert ckpt(*(word.format("mem://b") for word in words), "--dry-run").code == 0
    assert ckpt("convert", NEW, PREFIX, "-n").code == 0
    assert not store.names


def test_python_writes_to_a_store(store: MemoryStore, small_blocks: None) -> None:
    arrays = {f"v{at}": np.arange(at, at + 100, dtype=np.float32) for at in range(5)}
    specs = [formats.TensorSpec(key, "float32", (100,)) for key in arrays]
    for name, key in (("tf-name", "mem://b/c-1"), ("safetensors", "mem://b/x.safetensors")):
        with formats.create_checkpoint(key, format=name, specs=specs, shard_size=700) as writer:
            for each in reversed(arrays):
                writer.write(each, arrays[each])
        assert values(key) == {each: array.tolist() for each, array in arrays.items()}


def changed(before: dict[str, Any], store: MemoryStore) -> set[str]:
    return {path for path in {*before, *store._blobs} if before.get(path) != store._blobs.get(path)}


def test_renaming_in_place_puts_the_index_alone(
    store: MemoryStore, tmp_path: Path, ckpt: Callable[..., Result]
) -> None:
    local = tmp_path / "c-1"
    for target in (local, PREFIX):
        assert ckpt("convert", NEW, target, "--to", "name").code == 0
    before, reads = dict(store._blobs), f"{PREFIX}.data-00000-of-00001"
    store.forget()
    for target, proof in ((local, "linked"), (PREFIX, "linked")):
        done = ckpt("rename", "--in-place", target, "--sub", "net=>model", "--json")
        assert done.code == 0, done.err
        assert done.json["verification"] == proof
    assert changed(before, store) == {f"{PREFIX}.index"}
    assert not store.read_of(reads)
    assert content(store, f"{PREFIX}.index") == (tmp_path / "c-1.index").read_bytes()


def test_an_index_that_was_replaced_meanwhile_is_not_renamed(
    store: MemoryStore, ckpt: Callable[..., Result]
) -> None:
    assert ckpt("convert", NEW, PREFIX, "--to", "name").code == 0

    def replace(what: str, path: str) -> None:
        if path.endswith(".index"):
            store.keep(path, [b"of somebody else"])

    store.before = replace
    done = ckpt("rename", "--in-place", PREFIX, "--sub", "net=>model")
    assert done.code == 3
    assert f"{PREFIX}.index: another program created this path" in done.err
    assert content(store, f"{PREFIX}.index") == b"of somebody else"


def test_a_graph_with_the_names_is_not_renamed_in_place(
    store: MemoryStore, ckpt: Callable[..., Result]
) -> None:
    assert ckpt("convert", NEW, PREFIX).code == 0
    before = dict(store._blobs)
    done = ckpt("rename", "--in-place", PREFIX, "--sub", "net=>model")
    assert done.code == 3
    assert "renaming in a bucket is not supported" in done.err
    assert "hint: to write a new checkpoint, pass the same rules to convert" in done.err
    assert not changed(before, store)
    assert ckpt("convert", PREFIX, f"{PREFIX}0", "--sub", "net=>model").code == 0


def test_state_puts_the_state_file_alone(
    store: MemoryStore, tmp_path: Path, ckpt: Callable[..., Result]
) -> None:
    run = store.put_tree("mem://b", RUN)
    before = dict(store._blobs)
    done = ckpt("state", "--set", "ckpt-8", run, "--dry-run")
    assert done.code == 0, done.err
    assert not changed(before, store)
    assert ckpt("state", "--set", "ckpt-8", run).code == 0
    assert changed(before, store) == {f"{run}/checkpoint"}
    assert ckpt("ls", run, "--json").json["latest"] == "ckpt-8"
    assert ckpt("state", run, "--json").json["latest"] == "ckpt-8"

    for suffix in (".index", ".data-00000-of-00001"):
        store.remove(f"{run}/ckpt-9{suffix}")
    before = dict(store._blobs)
    done = ckpt("state", "--fix", run, "--json")
    assert done.code == 0, done.err
    assert "lifecycle rule" in done.err
    assert [(change["action"], change["name"]) for change in done.json["changes"]] == [("drop", "ckpt-9")]
    assert changed(before, store) == {f"{run}/checkpoint"}
    assert [entry["name"] for entry in done.json["checkpoints"]] == ["ckpt-10", "ckpt-8"]

    before = dict(store._blobs)
    done = ckpt("state", "--keep", "1", run)
    assert done.code == 3
    assert "--keep deletes checkpoints only on a local disk" in done.err
    assert not changed(before, store)


@pytest.mark.parametrize("listed", ["mem://b/moved/{}", "/home/somebody/run/{}"])
def test_paths_of_elsewhere_are_mended(listed: str, store: MemoryStore, ckpt: Callable[..., Result]) -> None:
    run = store.put_tree("mem://b", RUN)
    names = ("ckpt-8", "ckpt-9", "ckpt-10")
    lines = [f'all_model_checkpoint_paths: "{listed.format(name)}"' for name in names]
    text = "\n".join([f'model_checkpoint_path: "{listed.format(names[-1])}"', *lines]) + "\n"
    store.keep(f"{run}/checkpoint", [text.encode()])
    done = ckpt("state", "--fix", run, "--json")
    assert done.code == 0, done.err
    assert [entry["listed"] for entry in done.json["checkpoints"]] == list(names)
    assert all(entry["exists"] for entry in done.json["checkpoints"])


def test_what_is_linked_elsewhere_is_copied_to_a_store(
    store: MemoryStore, ckpt: Callable[..., Result]
) -> None:
    done = ckpt("convert", NEW, PREFIX, "--link", "--json")
    assert done.code == 0, done.err
    assert "note: " in done.err
    assert done.json["verification"] == "sent"
    assert values(PREFIX) == values(NEW)
