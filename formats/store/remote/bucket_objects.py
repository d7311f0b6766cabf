"""Objects of Amazon's, Google's and Microsoft's stores, through obstore: read, put, and deleted.

    buckets      entries, and ranges of objects
    credentials  providers, and what the environment says about them
    responses    obstore's answers, translated

A large object is sent as a multipart upload, several parts at a time. Nothing of it is visible before it is
complete.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ...errors import CheckpointExistsError, CheckpointNotFoundError, InaccessibleError
from ..base import FILE, Entry
from ..urls import scheme_of
from ..work.buffers import is_free
from ..work.cancellation import OverdueError, is_ending, run_detached, sleep, time_left
from . import objects
from .buckets import Buckets, parted
from .credentials import PROVIDERS
from .responses import entry_of, is_unknown, library
from .server import count
from .transport import ATTEMPTS, RetryError, trying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .credentials import Provider
    from .objects import Block, Precondition


_SENT_SOON = 0.002
"""Seconds after which one who waits for a part to be sent looks again; it takes ten times as long."""


class _Upload(objects.Stream):
    """An upload in parts, through obstore, which sends several at a time.

    obstore aborts an upload on every error except while it waits for a part or completes the upload. So it
    gets each part only after another has been sent, and completes after all.
    """

    def __init__(self, store: BucketStore, path: str, block: int, at_once: int) -> None:
        obstore = library(path)
        bucket, key = parted(path)
        self._store = store
        self._path = path
        self._block = block
        self._at_once = at_once
        self._is_partial = False
        self._sending: list[bytearray] = []
        with store.translated_errors(path):
            client = store.client(bucket, ATTEMPTS - 1)
            self._writer = obstore.open_writer(client, key, buffer_size=block, max_concurrency=at_once)

    def write(self, block: Block) -> None:
        self._wait(self._at_once - 1)
        memory = block.obj if isinstance(block, memoryview) else block
        self._sent(lambda: self._writer.write(block))
        self._is_partial = len(block) < self._block
        if isinstance(memory, bytearray):
            self._sending = [*(each for each in self._sending if each is not memory), memory]
        count(self._path, 0, sent=len(block))

    def _wait(self, most: int) -> None:
        """Wait until no more parts than that are on their way: obstore lets go of those that it has sent."""
        while True:
            self._sending = [each for each in self._sending if not is_free(each)]
            if len(self._sending) <= most:
                return
            sleep(_SENT_SOON)

    def finish(self) -> None:
        self._wait(1 if self._is_partial else 0)  # A part that is not full is sent with the end.
        with self._store.answering(self._path):
            self._sent(self._writer.close)
        count(self._path, 0)
        self._store.forget_listings()

    def abort(self) -> None:
        # The library takes back what was sent where a block of code is left by an exception.
        error = InaccessibleError("the upload is not complete", path=self._path)

        def remove_parts() -> None:
            with suppress(CheckpointNotFoundError), self._store.translated_errors(self._path):
                if not self._writer.closed():  # An end that failed was taken back.
                    self._writer.__exit__(type(error), error, None)

        left = time_left()
        try:
            run_detached(remove_parts, None if left is None else left / 2)  # others need some, too
        except (RetryError, OverdueError) as why:
            reason = "the server did not answer before this command had to stop"
            message = "the upload is not complete, and the uploaded part cannot be deleted: "
            message += str(why) if isinstance(why, RetryError) else reason
            raise InaccessibleError(message, path=self._path) from None

    def _sent(self, send: Callable[[], object]) -> None:
        try:
            with self._store.translated_errors(self._path):
                run_detached(send)
        except RetryError as error:
            raise InaccessibleError(f"cannot be written: {error}", path=self._path) from None
        except CheckpointNotFoundError:
            raise _no_bucket(self._path) from None


class BucketStore(Buckets, objects.ObjectStore):
    """The buckets of one provider, into which objects are put."""

    def __init__(self, provider: Provider) -> None:
        self.has_md5 = provider.has_md5
        self._unanswered: set[str] = set()
        super().__init__(provider)

    def put(self, path: str, data: Block, precondition: Precondition) -> Entry:
        bucket, key = parted(path)
        appeared = CheckpointExistsError(
            "another program created or changed this path in the meantime", path=path
        )

        def send_request() -> Entry:
            obstore = library(path)
            client = self.client(bucket)
            try:
                with self.translated_errors(path):
                    mode: Any = "overwrite" if precondition.anything else "create"
                    if precondition.entry is not None:
                        found = obstore.head(client, key)
                        if not objects.is_same(entry_of(found).identity, precondition.entry.identity):
                            raise appeared
                        # Amazon and Azure go by the one, Google by the other.
                        mode = {name: found[name] for name in ("e_tag", "version") if found[name]}
                    try:
                        e_tag = _put(client, key, data, mode)
                        return Entry(FILE, len(data), time.time(), (e_tag, len(data)))
                    except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
                        # Also what an attempt before this one has written, the answer to which was lost.
                        raise appeared from None
            except CheckpointNotFoundError:
                raise (_no_bucket(path) if precondition.entry is None else appeared) from None
            finally:
                count(path, 0, sent=len(data))

        try:
            with self.answering(path):
                return trying(path, lambda: run_detached(send_request))
        finally:
            self.forget_listings()

    @contextmanager
    def answering(self, path: str) -> Iterator[None]:
        """Note that an object may or may not exist, because the process stopped waiting for the answer."""
        try:
            yield
        except Exception as error:
            if is_ending() and not isinstance(error, CheckpointExistsError):
                self._unanswered.add(path)
            raise
        except BaseException:
            self._unanswered.add(path)
            raise

    def is_unanswered(self, path: str) -> bool:
        return path in self._unanswered

    def stream(self, path: str, block: int, at_once: int) -> objects.Stream:
        return _Upload(self, path, block, at_once)

    def current(self, path: str) -> Entry | None:
        bucket, key = parted(path)

        def send_request() -> Entry:
            obstore = library(path)
            try:
                with self.translated_errors(path):
                    return entry_of(obstore.head(self.client(bucket), key))
            finally:
                count(path, 0)

        try:
            return trying(path, lambda: run_detached(send_request))
        except CheckpointNotFoundError:
            return None

    def get(self, path: str, most: int) -> tuple[bytes, Entry] | None:
        bucket, key = parted(path)

        def send_request() -> tuple[bytes, Entry]:
            obstore = library(path)
            data = b""
            try:
                with self.translated_errors(path):
                    got = obstore.get(self.client(bucket), key)
                    data = b"" if got.meta["size"] > most else bytes(got.bytes())
                    return data, entry_of(got.meta)
            finally:
                count(path, len(data))

        try:
            return trying(path, lambda: run_detached(send_request))
        except CheckpointNotFoundError:
            return None

    def keeps_conditions(self, path: str, data: Block) -> bool:
        bucket, key = parted(path)

        def send_request() -> bool:
            obstore = library(path)
            client = self.client(bucket)
            try:
                with self.translated_errors(path):
                    try:
                        obstore.put(client, key, data, mode="create", use_multipart=False)
                    except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
                        return True
                    except Exception as error:
                        if not is_unknown(error):
                            raise
                    return False
            finally:
                count(path, 0, sent=len(data))

        return trying(path, lambda: run_detached(send_request))

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._delete(path)
        self.forget_listings()

    def _delete(self, path: str) -> None:
        bucket, key = parted(path)

        def send_request() -> None:
            obstore = library(path)
            try:
                with self.translated_errors(path):
                    obstore.delete(self.client(bucket), key)
            finally:
                count(path, 0)

        with suppress(CheckpointNotFoundError):
            trying(path, lambda: run_detached(send_request))


class Alias(BucketStore):
    """Another spelling of a scheme. Paths have it only until they are resolved."""

    def __init__(self, store: BucketStore) -> None:
        super().__init__(store.provider._replace(scheme=store.provider.alias))
        self._named = store.named

    def named(self, path: str) -> str:
        return self._named(path)


def _put(client: Any, key: str, data: Block, mode: Any) -> str:
    """Put an object on a condition. If a server does not support that (501), check for the object first."""
    import obstore

    try:
        put = obstore.put(client, key, data, mode=mode, use_multipart=False)
    except Exception as error:
        if not is_unknown(error):
            raise
        if mode == "create" and _is_there(client, key):
            raise obstore.exceptions.AlreadyExistsError(key) from None
        put = obstore.put(client, key, data, mode="overwrite", use_multipart=False)
    return put["e_tag"] or ""


def _is_there(client: Any, key: str) -> bool:
    import obstore

    try:
        obstore.head(client, key)
    except FileNotFoundError:
        return False
    return True


def _no_bucket(path: str) -> CheckpointNotFoundError:
    """Return the error for a write to a bucket that does not exist."""
    bucket = f"{scheme_of(path)}://{parted(path)[0]}"
    message = f"cannot be written: {bucket} does not exist, or another program ended the upload"
    hints = ("create the bucket with the provider's own tools",)
    return CheckpointNotFoundError(message, path=path, hints=hints)


_REAL = tuple(BucketStore(each) for each in PROVIDERS)

STORES = (*_REAL, *(Alias(each) for each in _REAL if each.provider.alias))
