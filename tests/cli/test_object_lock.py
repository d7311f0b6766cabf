"""The lock object of a checkpoint in a bucket: who gets it, who is named, and when it has expired."""

from __future__ import annotations

import json
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from formats import CheckpointError
from formats.core import notices
from formats.errors import CheckpointExistsError, InaccessibleError
from formats.find.directory import Directory
from formats.location import parse_location, reachable
from formats.store.memory import MemoryStore
from formats.store.remote import object_lock
from formats.store.remote.object_lock import ObjectLock, lock_path
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cli.conftest import Result

RUN = data_path("guide_adam_legacy/tf_ckpts")
NEW = f"{RUN}/ckpt-10"
TARGET = "mem://b/run/c-1"
PATH = "mem://b/run/c-1_temp_34fc35e6aa09ac5ee5b8acd9c6fbf360/ckpt.lock"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryStore]:
    """Return a store, with the seconds of a lock a hundred times as short."""
    for name in ("BEAT", "_LOOK_EVERY", "_SETTLED", "_LEAVES", "_REPORT_AFTER"):
        monkeypatch.setattr(object_lock, name, getattr(object_lock, name) / 20)
    monkeypatch.setenv("CKPT_LOCK_TIMEOUT", "0.5")
    object_lock._warned.clear()
    found = MemoryStore()
    with reachable(found):
        yield found


def leave(store: MemoryStore, *, pid: int = 4711, **said: Any) -> None:
    """Leave the lock of a process of another machine."""
    process = {"pid": pid, "host": "other", "machine": "another", "started": "1"}
    told = {"lock": 1, "name": "c-1", "token": "theirs", "released": False, "number": 1, **process, **said}
    store.keep(PATH, [json.dumps(told).encode()])


def told_by(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data)
    return found


def held(store: MemoryStore) -> dict[str, Any] | None:
    found = store.get(PATH, 4096)
    return None if found is None else told_by(found[0])


def test_it_is_there_as_long_as_it_is_held(store: MemoryStore) -> None:
    lock = ObjectLock(parse_location(TARGET))
    lock.acquire()
    first = held(store)
    assert first is not None
    deadline = time.monotonic() + 10
    while held(store) == first and time.monotonic() < deadline:
        time.sleep(0.01)
    assert held(store) != first, "it is still being renewed"
    lock.check()
    lock.release()
    lock.release()
    assert store.names == []


def test_the_running_command_is_reported_once(store: MemoryStore, ckpt: Callable[..., Result]) -> None:
    leave(store)
    over = threading.Event()

    def renew() -> None:
        number = 1
        while not over.wait(0.05):
            number += 1
            leave(store, number=number)

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        done = ckpt("convert", NEW, TARGET)
    finally:
        over.set()
        thread.join()
    assert done.code == 3
    assert f"ckpt: error: {TARGET}: process 4711 on other is writing this checkpoint" in done.err
    assert store.names == [PATH]


def test_a_lock_that_did_not_change_has_expired(store: MemoryStore, ckpt: Callable[..., Result]) -> None:
    leave(store)
    began = time.monotonic()
    done = ckpt("convert", NEW, TARGET)
    assert done.code == 0, done.err
    assert time.monotonic() - began >= 0.5
    assert "process 4711 on other has not renewed its lock; waiting up to 0.5 s" in done.err
    assert done.err.count("has not renewed its lock") == 1
    assert PATH not in store.names
    assert ckpt("verify", TARGET).code == 0


def test_a_lock_has_not_expired_while_the_machine_was_suspended(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that stood still for an hour stopped the holder, too."""
    now = [0.0]
    monkeypatch.setattr(object_lock, "time", SimpleNamespace(monotonic=lambda: now[0]))
    leave(store)
    watch = object_lock.Watch(parse_location(PATH))
    watch.look()
    now[0] += 3600
    watch.look()
    assert not watch.has_expired
    for _ in range(5):
        assert not watch.has_expired
        now[0] += object_lock.BEAT
        watch.look()
    assert watch.has_expired


def test_locks_that_are_released_while_they_are_watched_are_not_listed(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(store)
    looks: list[str] = []

    def look(watch: object_lock.Watch, look=object_lock.Watch.look) -> object_lock.StoredLock | None:
        looks.append(watch.path)
        if len(looks) == 2:
            store.delete([PATH])
        return look(watch)

    monkeypatch.setattr(object_lock.Watch, "look", look)
    assert object_lock.locks_in(parse_location("mem://b/run")) == []
    assert len(looks) == 2


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'{"pid": []}', b"x" * 10_000, b"[" * 4000])
def test_a_lock_that_cannot_be_read_expires_too(
    data: bytes, store: MemoryStore, ckpt: Callable[..., Result]
) -> None:
    store.keep(PATH, [data])
    assert ckpt("convert", NEW, TARGET).code == 0
    assert PATH not in store.names


def test_of_a_process_of_this_machine_it_is_known_that_it_has_ended(
    store: MemoryStore, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CKPT_LOCK_TIMEOUT", "600")
    own = object_lock.Process.own()
    leave(store, **own._replace(started="1")._asdict())  # its number was given to another
    assert ckpt("convert", NEW, TARGET).code == 0
    lost = ObjectLock(parse_location(TARGET))
    lost.acquire()
    done = ckpt("convert", NEW, TARGET, "--overwrite")
    assert done.code == 3
    assert "another thread of this process is writing this checkpoint" in done.err
    lost.release()


def test_a_released_lock_is_there_for_a_moment(
    store: MemoryStore, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CKPT_LOCK_TIMEOUT", "600")
    leave(store, released=True)
    assert ckpt("convert", NEW, TARGET).code == 0
    assert PATH not in store.names


def test_of_many_who_take_it_over_one_gets_it(store: MemoryStore) -> None:
    leave(store)
    got: list[ObjectLock] = []
    refused: list[CheckpointError] = []

    def take() -> None:
        lock = ObjectLock(parse_location(TARGET))
        try:
            lock.acquire()
            got.append(lock)
        except CheckpointError as error:
            refused.append(error)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 7)
    got[0].check()
    got[0].release()


def test_it_is_never_deleted_and_created(store: MemoryStore) -> None:
    changes: list[str] = []
    leave(store)
    store.before = lambda what, path: changes.append(what) if path == PATH else None
    lock = ObjectLock(parse_location(TARGET))
    lock.acquire()
    assert "delete" not in changes
    lock.release()
    assert changes[-2:] == ["put", "delete"]
    assert changes.count("delete") == 1


def test_who_was_taken_over_publishes_and_deletes_nothing(
    store: MemoryStore, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_lock, "BEAT", 0.0)  # asked before each object

    def take(what: str, path: str) -> None:
        if ".data-00000-of-" in path:
            leave(store)

    store.before = take
    done = ckpt("convert", NEW, TARGET, "--shard-size", "200")
    assert done.code == 3
    assert f"{TARGET}: this command did not renew its lock in time, and process 4711 on other" in done.err
    assert "hint: run the command again; nothing was deleted" in done.err
    # The other may have sent the same bytes by now, which have the same e_tag.
    shards = [name for name in store.names if ".data-00000-of-" in name]
    assert store.names == sorted([PATH, *shards])
    assert len(shards) == 1


def test_one_of_another_is_not_released(store: MemoryStore) -> None:
    lock = ObjectLock(parse_location(TARGET))
    lock.acquire()
    leave(store)
    lock.release()
    found = held(store)
    assert found is not None
    assert found["token"] == "theirs"


def test_a_lost_answer_is_not_a_loss(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put = store.put

    def lose(*arguments: Any) -> Any:
        put(*arguments)
        raise InaccessibleError("no answer came", path=PATH)

    monkeypatch.setattr(store, "put", lose)
    lock = ObjectLock(parse_location(TARGET))
    lock.acquire()
    lock._renew()
    lock.release()
    assert store.names == []


def test_a_server_without_conditions_is_warned_of_once(
    store: MemoryStore, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "conditional", False)
    for target, warnings in ((TARGET, 1), ("mem://b/run/c-2", 0)):
        done = ckpt("convert", NEW, target, "-q")
        assert done.code == 0, done.err
        assert done.err.count("warning: mem://b: this server ignores conditional requests") == warnings
    assert not [name for name in store.names if "lock" in name]
    warned: list[str] = []
    monkeypatch.setattr(notices, "_warner", warned.append)
    object_lock._warned.clear()
    ObjectLock(parse_location("mem://b/c-3")).acquire()
    assert len(warned) == 1


@pytest.mark.usefixtures("store")
def test_a_sharded_target_has_the_lock_of_the_one_file() -> None:
    assert lock_path(parse_location(TARGET)) == PATH
    assert lock_path(parse_location("mem://b/x.safetensors.index.json")) == lock_path(
        parse_location("mem://b/x.safetensors")
    )
    assert lock_path(parse_location("mem://b/x.safetensors")) != lock_path(
        parse_location("mem://b/y.safetensors")
    )
    assert lock_path(parse_location("mem://b/" + "x" * 60)) != lock_path(
        parse_location("mem://b/" + "x" * 61)
    )


def test_it_is_listed_as_nothing(store: MemoryStore, ckpt: Callable[..., Result]) -> None:
    run = store.put_tree("mem://b", RUN)
    before = [ckpt("ls", "-R", "mem://b").out, ckpt("state", run, "--json").out]
    store.keep(PATH.replace("mem://b/run", run), [b"{}"])
    assert [ckpt("ls", "-R", "mem://b").out, ckpt("state", run, "--json").out] == before
    assert len(Directory(parse_location(run)).members) == 3


def test_fix_removes_locks_that_have_expired(store: MemoryStore, ckpt: Callable[..., Result]) -> None:
    run = store.put_tree("mem://b", RUN)
    path = lock_path(parse_location(f"{run}/c-1"))
    leave(store)
    data = store.get(PATH, 4096)
    assert data is not None
    store.keep(path, [data[0]])
    done = ckpt("state", run, "--fix", "--dry-run", "--json")
    (change,) = done.json["changes"]
    assert change["action"] == "remove"
    assert change["why"] == "the lock on c-1, held by process 4711 on other"
    assert path in store.names
    done = ckpt("state", run, "--fix")
    assert done.code == 0, done.err
    assert path not in store.names


def test_fix_leaves_what_is_being_written(store: MemoryStore, ckpt: Callable[..., Result]) -> None:
    run = store.put_tree("mem://b", RUN)
    lock = ObjectLock(parse_location(f"{run}/c-1"))
    lock.acquire()
    done = ckpt("state", run, "--fix")
    assert done.code == 0, done.err
    assert "(the lock on c-1, held by another thread of this process) is kept, because " in done.err
    lock.check()
    lock.release()


def test_fix_does_not_remove_a_lock_that_was_taken_over_meanwhile(store: MemoryStore) -> None:
    leave(store)
    (left,) = object_lock.locks_in(parse_location("mem://b/run"))
    leave(store, number=2)
    left.clear()
    assert store.names == [PATH]
    (left,) = object_lock.locks_in(parse_location("mem://b/run"))
    left.clear()
    assert store.names == []


def test_an_old_checkpoint_is_not_replaced_under_a_foreign_lock(store: MemoryStore) -> None:
    lock = ObjectLock(parse_location(TARGET))
    lock.acquire()
    leave(store)
    with pytest.raises(
        CheckpointExistsError, match="this command did not renew its lock in time, and process 4711 on other"
    ):
        lock._renew()
    assert lock.is_lost
    with pytest.raises(CheckpointExistsError):
        lock.check()
