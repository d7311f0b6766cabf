"""Threads that want the same value at the same time send one request."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from formats import location
from formats.errors import CheckpointError, InaccessibleError
from formats.location import parse_location
from formats.store.remote import hub as hub_store
from formats.store.work import single_flight
from formats.store.work.cancellation import cancelled_by, raise_if_cancelled, wait_for
from formats.store.work.single_flight import SingleFlight
from tests.servers.hub import SIGNATURE, Hub, serving_hub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

THREADS = 4
DATA = bytes(range(256)) * 1000


class Slow:
    """A call that takes until `released`; `others` counts the threads that wait for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()
        self._others = threading.Semaphore(0)

        def wait(done: threading.Event) -> None:
            self._others.release()
            wait_for(done)

        monkeypatch.setattr(single_flight, "wait_for", wait)

    def hang(self) -> None:
        self.begun.set()
        assert self.released.wait(10)

    def wait_for_others(self, count: int) -> None:
        for _ in range(count):
            assert self._others.acquire(timeout=10)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    found = Slow(monkeypatch)
    yield found
    found.released.set()


@pytest.fixture
def hub(slow: Slow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A Hub that answers when `slow` is released."""
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    for name in ("HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    hub_store.STORES[0].forget()
    location._kept.clear()
    found = Hub()
    found.files = {"config.json": b"{}", "model.bin": DATA}
    answer = found.web.fault

    def answer_slowly(handler: Any, data: bytes | None) -> bool:
        slow.hang()
        return answer(handler, data)

    found.web.fault = answer_slowly
    with serving_hub(found):
        monkeypatch.setenv("HF_ENDPOINT", found.web.url)
        yield found


def at_once(call: Callable[[], Any], slow: Slow) -> list[Any]:
    """Return the results of a call in several threads, which all call it before it is released."""
    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(call) for _ in range(THREADS)]
        try:
            slow.wait_for_others(THREADS - 1)
        finally:
            slow.released.set()
        return [future.result(30) for future in futures]


def test_a_folder_that_threads_list_at_once_is_requested_once(hub: Hub, slow: Slow) -> None:
    """Now and then each thread sent a request: a command made three instead of two."""
    found = at_once(lambda: parse_location("hf://org/repo").listing(), slow)
    assert [each.name for each in found[0]] == ["config.json", "model.bin"]
    assert all(each is found[0] for each in found)
    assert hub.web.asked() == [("GET", "/api/models/org/repo/tree/main")]


def test_where_a_file_is_is_requested_once_by_threads_that_read_it(hub: Hub, slow: Slow) -> None:
    slow.released.set()
    with parse_location("hf://org/repo/model.bin").open() as file:
        slow.released.clear()
        found = at_once(lambda: file.store.fetch(file.path, file.identity, 5, 9), slow)  # type: ignore[attr-defined]
    assert found == [DATA[5:9]] * THREADS
    assert hub.web.asked("HEAD") == [("HEAD", "/org/repo/resolve/main/model.bin")]


def test_two_threads_may_notice_that_a_signature_has_expired(hub: Hub, slow: Slow) -> None:
    """The second one ended with a KeyError."""
    slow.released.set()
    both = threading.Barrier(2)
    answer = hub.storage.fault

    def answer_two_at_once(handler: Any, data: bytes | None) -> bool:
        if SIGNATURE in handler.path:
            both.wait(10)
        return answer(handler, data)

    with parse_location("hf://org/repo/model.bin").open() as file, ThreadPoolExecutor(2) as pool:
        fetch = partial(file.store.fetch, file.path, file.identity)  # type: ignore[attr-defined]
        assert fetch(0, 9) == DATA[:9]
        hub.signature, hub.storage.fault = "Signature=new", answer_two_at_once
        assert list(pool.map(fetch, [5, 5], [9, 9])) == [DATA[5:9]] * 2
    assert len(hub.web.asked("HEAD")) == 2


def test_threads_that_ask_since_when_a_listing_counts_get_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that got another time listed the folder again."""
    both = threading.Barrier(2)

    class SlowlyRead(dict[str, float]):
        def get(self, key: str, default: Any = None) -> Any:
            found = super().get(key, default)
            with suppress(threading.BrokenBarrierError):
                both.wait(0.5)
            return found

    store = hub_store.HubStore()
    monkeypatch.setattr(store, "_listed", SlowlyRead())
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(store.stamp, ["hf://org/repo"] * 2)
    assert one == other


class Shared:
    """A call that threads share, which hangs before it calls `then`."""

    def __init__(self, slow: Slow, then: Callable[[], None] = lambda: None) -> None:
        self._flights: SingleFlight[str] = SingleFlight()
        self._slow = slow
        self._then = then
        self.known: list[str] = []

    def __call__(self) -> str:
        return self._flights.get("key", lambda: self.known[0] if self.known else None, self._make)

    def _make(self) -> str:
        self._slow.hang()
        self._then()
        self.known.append("answer")
        return "answer"


def test_an_error_is_raised_in_all_threads(slow: Slow) -> None:
    calls: list[str] = []

    def fail() -> None:
        calls.append("made")
        raise InaccessibleError("no answer")

    call = Shared(slow, fail)

    def caught() -> str:
        with pytest.raises(InaccessibleError) as error:
            call()
        return error.value.message

    assert at_once(caught, slow) == ["no answer"] * THREADS
    assert calls == ["made"]


def test_a_thread_that_is_cancelled_leaves_its_call_to_another(slow: Slow) -> None:
    cancel = threading.Event()
    call = Shared(slow, raise_if_cancelled)

    def call_and_be_cancelled() -> str:
        with cancelled_by(cancel):
            return call()

    with ThreadPoolExecutor(THREADS) as pool:
        first = pool.submit(call_and_be_cancelled)
        assert slow.begun.wait(30)
        others = [pool.submit(call) for _ in range(THREADS - 1)]
        try:
            slow.wait_for_others(THREADS - 1)
        finally:
            cancel.set()
            slow.released.set()
        assert [each.result(30) for each in others] == ["answer"] * (THREADS - 1)
        with pytest.raises(CheckpointError, match="cancelled"):
            first.result(30)
    assert call.known == ["answer"]


def test_a_thread_that_waits_for_another_can_be_cancelled(slow: Slow) -> None:
    """No lock is held meanwhile, so that Ctrl-C need not wait for the server."""
    cancel = threading.Event()
    call = Shared(slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(call)
        assert slow.begun.wait(30)
        threading.Timer(0.1, cancel.set).start()
        with cancelled_by(cancel), pytest.raises(CheckpointError, match="cancelled"):
            call()
        assert not first.done()
        slow.released.set()
        assert first.result(30) == "answer"
