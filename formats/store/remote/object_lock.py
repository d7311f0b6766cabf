"""A lock on a checkpoint in a bucket: an object that only one command can create.

    TARGET_temp_<32 hex>/ckpt.lock    JSON: who holds it, and a number that grows every BEAT seconds

The command that creates the object holds the lock, and renews it for as long as it writes.  Others do not
compare clocks with it.  A lock that changes while another command watches is held.  One that does not
change for CKPT_LOCK_TIMEOUT seconds has expired, and is taken over: the watcher replaces the object on the
condition that it is still the one that was watched.  It is never deleted and created again, because two
watchers could do that one after the other.  A holder that was taken over notices when it renews the lock,
which it does before it publishes an object, and it then deletes nothing.  A command that ends writes a
body that says so, and deletes the object.

On this machine a process that has ended is known to have ended, so its lock has expired at once.

All of this needs a server that keeps conditions (`If-None-Match: *`, `If-Match`, or Google's generations).
Whether it does is tried with each lock: a second create must fail.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core import notices
from ...core.version import VERSION
from ...core.words import command_line
from ...errors import CheckpointError, CheckpointExistsError
from ..local.locks import lock_timeout
from ..local.process import Process
from ..siblings import staging_pattern
from ..work.cancellation import cancelled_by, sleep
from .objects import NOTHING, ObjectStore, Precondition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...location import Location
    from ..base import Entry

LOCK = "ckpt.lock"
"""Its name, in a folder that all listings take for what a save in progress has left."""

BEAT = 2.0
"""Seconds after which a holder renews its lock."""

_FEWEST_BEATS = 4
"""Beats that a watcher waits for, even where CKPT_LOCK_TIMEOUT is shorter: a living holder has one."""

_LOOK_EVERY = 0.5
_SETTLED = 0.5
"""Seconds after which a lock that was taken over is renewed: SeaweedFS may let two updates succeed."""

_LEAVES = 5.0
"""Seconds within which a command that wrote that it has ended deletes its lock."""

_REPORT_AFTER = 2 * BEAT
_LONGEST = 4096
_INDEX = ".index.json"

_warned: set[str] = set()
_own: set[str] = set()
"""Tokens of the locks that this process holds."""


def lock_path(target: Location) -> Location:
    """Return the path of a target's lock; a sharded target has the lock of the one file that it replaces."""
    name = target.name.removesuffix(_INDEX)
    digest = hashlib.sha256(f"lock {name}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return (target.parent / (f"{staging_pattern(name)[0]}_temp_{digest}")) / LOCK


def patience() -> float:
    """Return how many seconds a lock must stay the same to have expired."""
    return max(lock_timeout(), _FEWEST_BEATS * BEAT)


# The holder of a lock --------------------------------------------------------------------


class StoredLock(NamedTuple):
    """A lock object as stored; the fields about its holder are None if they cannot be parsed."""

    data: bytes
    entry: Entry
    token: str
    is_released: bool
    process: Process | None
    name: str

    @property
    def has_ended(self) -> bool:
        """Whether its holder is known to have ended without releasing it."""
        if self.process is None:
            return False
        is_own = self.process == Process.own()
        return self.token not in _own if is_own else self.process.has_ended

    @property
    def holder(self) -> str:
        if self.token in _own:
            return "another thread of this process"
        return "an unknown command" if self.process is None else str(self.process)


def _stored_lock_at(store: ObjectStore, path: str) -> StoredLock | None:
    found = store.get(path, _LONGEST)
    if found is None:
        return None
    data, entry = found
    try:
        lock_content: Any = json.loads(data)
        process = Process(
            int(lock_content["pid"]), *(str(lock_content[name]) for name in Process._fields[1:])
        )
        return StoredLock(
            data,
            entry,
            str(lock_content["token"]),
            lock_content["released"] is True,
            process,
            str(lock_content["name"]),
        )
    # the content comes from anyone who can write there
    except (ValueError, KeyError, TypeError, RecursionError):
        return StoredLock(data, entry, "", False, None, "")


def _body(name: str, token: str, number: int, *, is_released: bool) -> bytes:
    lock_content = {"lock": 1, "name": name, "version": VERSION, "token": token, "number": number}
    return json.dumps({**lock_content, **Process.own()._asdict(), "released": is_released}).encode()


# Watching --------------------------------------------------------------------------------


class Watch:
    """The state of a lock that a waiting process observes."""

    def __init__(self, path: Location) -> None:
        store = path.store
        assert isinstance(store, ObjectStore)
        self.path = path
        self.held: StoredLock | None = None
        self._store = store
        self._patience = patience()
        self._has_changed = False
        self._unchanged = 0.0
        self._looked = self._began = time.monotonic()
        self._has_reported = False

    def look(self) -> StoredLock | None:
        """Read the lock, and return it, or None if there is none."""
        before, self.held = self.held, _stored_lock_at(self._store, self.path)
        last, self._looked = self._looked, time.monotonic()
        # A machine that was suspended stopped the holder, too: it needs time to renew the lock.
        self._unchanged += min(self._looked - last, BEAT)
        if before is None or self.held is None or before.data != self.held.data:
            self._has_changed = before is not None
            self._unchanged = 0.0
        return self.held

    @property
    def is_alive(self) -> bool:
        """Whether a command was seen to renew the lock."""
        return self.held is not None and self._has_changed and not self.held.is_released

    @property
    def has_expired(self) -> bool:
        held = self.held
        if held is None or self.is_alive:
            return False
        return held.has_ended or self._unchanged >= (_LEAVES if held.is_released else self._patience)

    def wait(self) -> None:
        """Wait a moment, and name the holder once the wait is long."""
        if (
            not self._has_reported
            and self.held is not None
            and time.monotonic() - self._began >= _REPORT_AFTER
        ):
            self._has_reported = True
            text = f"has not renewed its lock; waiting up to {self._patience:g} s to see whether it has ended"
            notices.status(f"{self.path}: {self.held.holder} {text}")
        sleep(_LOOK_EVERY)


# Holding ---------------------------------------------------------------------------------


class ObjectLock:
    """The lock of a target in a bucket, held from `acquire` to `release`."""

    def __init__(self, target: Location) -> None:
        self.target = target
        self.path = lock_path(target)
        store = target.store
        assert isinstance(store, ObjectStore)
        self._store = store
        self._token = os.urandom(16).hex()
        self._number = 0
        self._entry: Entry | None = None
        self._renewed = 0.0
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._mutex = threading.Lock()
        self._taken_by: str | None = None
        self._other: str | None = None
        self.waited_for: str | None = None
        """The holder that released the lock."""

    def acquire(self) -> None:
        """Take the lock, from a command that has ended if need be.

        Raises CheckpointError if another command holds it.
        """
        watch = Watch(self.path)
        _own.add(self._token)
        while not self._create():
            held = watch.look()
            if held is None:
                continue
            self.waited_for = held.holder
            if watch.is_alive or held.token in _own:
                raise _busy(self.target, held)
            if not watch.has_expired:
                watch.wait()
            elif self._take_over(held):
                break
        if not self._store.keeps_conditions(self.path, self._body()):
            self._give_up()
            return
        self._thread = threading.Thread(target=self._beat, name="ckpt lock", daemon=True)
        self._thread.start()

    def _create(self) -> bool:
        self._renewed = time.monotonic()
        try:
            self._entry = self._store.put(self.path, self._body(), NOTHING)
        except CheckpointExistsError:
            return self._settle()
        except CheckpointError:
            if not self._settle():
                raise
        return True

    def _settle(self) -> bool:
        """Find out whether the stored lock is ours: the answer to an attempt may have been lost."""
        found = _stored_lock_at(self._store, self.path)
        if found is not None and found.token == self._token:
            self._entry = found.entry
            return True
        self._other = None if found is None else found.holder
        return False

    def _take_over(self, held: StoredLock) -> bool:
        """Replace the lock of a command that has ended; return False if another command was faster."""
        self._entry = held.entry
        try:
            self._renew()
            sleep(_SETTLED)
            self._renew()
        except CheckpointExistsError:
            self._entry = self._taken_by = None
            return False
        return True

    def _give_up(self) -> None:
        """Continue without a lock if the server does not support conditions."""
        self._entry = None
        _own.discard(self._token)
        self._store.delete([self.path])
        bucket = "/".join(self.path.split("/")[:3])
        if bucket not in _warned:
            _warned.add(bucket)
            text = "this server ignores conditional requests, so two commands can write"
            notices.warn(f"{bucket}: {text} the same checkpoint at the same time")

    def _body(self, *, released: bool = False) -> bytes:
        return _body(self.target.name, self._token, self._number, is_released=released)

    @property
    def is_lost(self) -> bool:
        """Whether another command has taken the lock over."""
        return self._taken_by is not None

    def check(self) -> None:
        """Raise CheckpointError unless the lock is still held; asks where it was not renewed just now."""
        if self._entry is not None and (self.is_lost or time.monotonic() - self._renewed > BEAT):
            self._renew()

    def _beat(self) -> None:
        with cancelled_by(self._over):  # `release` cancels a request that hangs
            while not self._over.wait(BEAT):
                try:
                    self._renew()
                except CheckpointError:  # `check` reports a lost lock; a server that is gone is tried again
                    if self.is_lost:
                        return

    def _renew(self, *, released: bool = False) -> None:
        """Renew the lock on the condition that it is still ours.

        Raises CheckpointExistsError if it is another's, InaccessibleError.
        """
        with self._mutex:
            if self._taken_by is not None:
                raise self._lost(self._taken_by)
            self._number += 1
            began = time.monotonic()
            try:
                body = self._body(released=released)
                self._entry = self._store.put(self.path, body, Precondition(entry=self._entry))
            except CheckpointError as error:
                if not self._settle():
                    self._taken_by = self._other or "another command, which has ended"
                    raise self._lost(self._taken_by) from error
            self._renewed = began

    def _lost(self, holder: str) -> CheckpointExistsError:
        message = f"this command did not renew its lock in time, and {holder} took it over"
        verify = command_line("verify", self.target)
        hints = (f"run the command again; nothing was deleted. To see what is there: {verify}",)
        return CheckpointExistsError(message, path=self.target, hints=hints)

    def release(self) -> None:
        """Say that it is over, on the condition that the lock is still ours; then delete it."""
        _own.discard(self._token)
        self._over.set()
        if self._entry is None or self.is_lost:
            return
        try:
            self._renew(released=True)
            self._store.delete([self.path])
        except CheckpointError as error:
            if not self.is_lost:
                notices.status(f"{self.path}: cannot delete the lock, which will expire: {error.message}")
        finally:
            self._entry = None


def _busy(target: str, held: StoredLock) -> CheckpointError:
    hints = ("run this again when that command has finished, or write to another path",)
    return CheckpointError(f"{held.holder} is writing this checkpoint", path=target, hints=hints)


# Locks that were left --------------------------------------------------------------------


class FoundLock(NamedTuple):
    """The lock of a command that has ended, or, with `in_the_way`, of one that has not."""

    path: Location
    what: str
    modified: float
    held: StoredLock
    in_the_way: str | None = None
    aside: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        return self.held.entry.size

    def frees(self, _: object) -> int:
        """Return the bytes that removing it frees."""
        return self.nbytes

    def clear(self) -> None:
        """Delete it, unless it has been taken over by now: it is replaced on its condition before."""
        store = self.path.store
        assert isinstance(store, ObjectStore)
        released_body = _body(self.held.name, os.urandom(16).hex(), 0, is_released=True)
        try:
            store.put(self.path, released_body, Precondition(entry=self.held.entry))
        except CheckpointExistsError:
            return
        store.delete([self.path])


def locks_in(folder: Location) -> list[FoundLock]:
    """Return the locks in a folder, sorted. Observe those that may or may not have expired."""
    store = folder.store
    if not isinstance(store, ObjectStore):
        return []
    watches = [watch for watch in map(Watch, _lock_paths(folder)) if watch.look() is not None]
    while any(watch.held and not watch.is_alive and not watch.has_expired for watch in watches):
        held = [watch for watch in watches if watch.look() is not None]
        if held:  # otherwise their holders have released all of them
            held[0].wait()
    return sorted(_left(watch.path, watch.held, watch.is_alive) for watch in watches if watch.held)


def _lock_paths(folder: Location) -> Iterator[Location]:
    for name, is_folder in folder.names():
        stem, found, _ = name.rpartition("_temp_")
        if is_folder and found and staging_pattern(stem)[1].fullmatch(name):
            yield ((folder / name) / LOCK)


def _left(path: Location, held: StoredLock, is_alive: bool) -> FoundLock:
    what = f"the lock on {held.name}, held by {held.holder}"
    why = "its holder is still running" if is_alive else None
    return FoundLock(path, what, held.entry.modified, held, why)
