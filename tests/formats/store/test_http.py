"""Web servers: requests to them, their mistakes, and secrets that only they may see."""

from __future__ import annotations

import os
import socket
import threading
import traceback
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formats import (
    CheckpointError,
    CheckpointNotFoundError,
    ChecksumError,
    InaccessibleError,
    UnsupportedFeatureError,
    open_checkpoint,
)
from formats.find.directory import Directory
from formats.location import parse_location
from formats.store.remote import http, transport
from tests.servers.web import MODIFIED, Handler, Web, serving
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATA = bytes(range(256)) * 4096


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Skip the pauses, and record them."""
    found: list[float] = []
    monkeypatch.setattr(transport, "pause", found.append)
    for store in http.STORES:
        store.forget()
    return found


@pytest.fixture
def web() -> Iterator[Web]:
    found = Web()
    with serving(found):
        found.files["/run/x"] = DATA
        yield found


def read(web: Web, begin: int = 0, size: int = len(DATA), path: str = "/run/x") -> bytes:
    with parse_location(web.url + path).open() as file:
        return file.read(begin, size)


def test_a_file_is_looked_at_once_and_its_ranges_are_requested(web: Web) -> None:
    path = f"{web.url}/run/x"
    entry = parse_location(path).entry()
    assert entry is not None
    assert (entry.kind, entry.size, entry.modified) == ("file", len(DATA), MODIFIED)
    with parse_location(path).open() as file:
        assert (file.size, file.identity) == (len(DATA), entry.identity)
        assert file.read_exactly(300, 1000) == DATA[300:1300]
        assert file.read_exactly(500_000, 200_000) == DATA[500_000:700_000]
    assert web.asked() == [("HEAD", "/run/x"), ("GET", "/run/x"), ("GET", "/run/x")]
    assert web.sent == (64 << 10) + 200_000
    with pytest.raises(CheckpointNotFoundError, match="no such file"):
        parse_location(path + "y").open()
    with pytest.raises(InaccessibleError, match="this is a directory"):
        parse_location(f"{web.url}/run").open()


def test_connections_are_kept(web: Web) -> None:
    seen = set()

    def note(handler: Handler, _: bytes | None) -> bool:
        seen.add(handler.client_address)
        return False

    web.fault = note
    with parse_location(f"{web.url}/run/x").open() as file:
        for at in range(0, 1_000_000, 200_000):
            file.read(at, 100)
    assert len(web.requests) == 6
    assert len(seen) == 1


def test_a_folder_is_listed_where_the_server_does_in_json(web: Web) -> None:
    web.files |= {"/run/sub/y": b"", "/run/a b%.h5": b"0"}
    with pytest.raises(
        InaccessibleError, match="cannot be listed: the server does not answer with JSON"
    ) as caught:
        parse_location(f"{web.url}/run").listing()
    assert caught.value.hints
    for store in http.STORES:
        store.forget()
    web.lists = True
    found = parse_location(f"{web.url}/run").listing()
    assert [tuple(each) for each in found] == [("a b%.h5", "file"), ("sub", "folder"), ("x", "file")]
    path = parse_location(f"{web.url}/run") / "a b%.h5"
    assert parse_location(path).split_name() == (f"{web.url}/run", "a b%.h5")
    with parse_location(path).open() as file:
        assert file.read(0, 9) == b"0"
    assert parse_location(f"{web.url}/run/sub").is_folder()
    with pytest.raises(CheckpointNotFoundError, match="no such directory"):
        parse_location(f"{web.url}/other").listing()


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".", "..", "/etc/passwd", "a\0b", "\ud800"])
def test_a_listing_names_nothing_elsewhere(name: str, web: Web) -> None:
    import json

    def lie(handler: Handler, _: bytes | None) -> bool:
        body = json.dumps([{"name": name, "type": "file"}]).encode()
        handler.say(200, body, {"Content-Type": "application/json"})
        return True

    web.fault = lie
    with pytest.raises(InaccessibleError, match="the server's listing has the invalid name"):
        parse_location(f"{web.url}/run").listing()


@pytest.mark.parametrize(
    "body", [b"<html>", b"{}", b"[1]", b'[{"name": 1}]', b"[" * 100_000, b'["x"]', b"\xff"]
)
def test_a_listing_that_is_none_is_none(body: bytes, web: Web) -> None:
    def lie(handler: Handler, _: bytes | None) -> bool:
        handler.say(200, body, {"Content-Type": "application/json"})
        return True

    web.fault = lie
    with pytest.raises(InaccessibleError, match="cannot be listed"):
        parse_location(f"{web.url}/run").listing()


def test_names_lead_to_no_other_server() -> None:
    folder = "https://host/run"
    for name, path in {
        "ckpt-1": "https://host/run/ckpt-1",
        "/etc/passwd": "https://host/run/etc/passwd",
        "../other/x": "https://host/other/x",
        "../../../x": "https://host/x",
        "https://host/y": "https://host/y",
        "https://host.evil/y": "https://host/run/https%3A%2F%2Fhost.evil%2Fy",
        "http://host/y": "https://host/run/http%3A%2F%2Fhost%2Fy",
        "a?b#c%d": "https://host/run/a%3Fb%23c%25d",
    }.items():
        assert (parse_location(folder) / name) == path
    assert (parse_location("https://host") / "x") == "https://host/x"
    assert parse_location("https://host/x").split_name() == ("https://host", "x")


# What goes wrong ---------------------------------------------------------------------------


def faulty(times: int, does: Any) -> Any:
    """Return a fault that GETs come upon, that many times."""
    left = [times]

    def fault(handler: Handler, data: bytes | None) -> bool:
        if handler.command != "GET" or left[0] == 0:
            return False
        left[0] -= 1
        does(handler, data)
        return True

    return fault


def cut(handler: Handler, data: bytes) -> None:
    told = {**handler.headers_of(data), "Content-Range": f"bytes 0-9999/{len(data)}"}
    handler.say(206, data[:1000], told, 10_000)
    handler.close_connection = True


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_busy_server_is_requested_again_after_ever_longer_pauses(
    status: int, web: Web, pauses: list[float]
) -> None:
    web.fault = faulty(3, lambda handler, _: handler.say(status))
    assert read(web) == DATA
    assert len(pauses) == 3
    assert 0.1 <= pauses[0] <= 0.3
    assert 0.4 <= pauses[2] <= 1.2


def test_a_server_that_stays_busy_is_an_error(web: Web, pauses: list[float]) -> None:
    web.fault = faulty(-1, lambda handler, _: handler.say(503))
    with pytest.raises(InaccessibleError, match=r"answered 503 Service Unavailable [(]5 attempts"):
        read(web)
    assert len(web.asked("GET")) == 5
    assert len(pauses) == 4


def test_a_server_says_when_to_come_back_within_reason(web: Web, pauses: list[float]) -> None:
    answers = iter(["2", "999999", "soon"])
    web.fault = faulty(3, lambda handler, _: handler.say(429, b"", {"Retry-After": next(answers)}))
    assert read(web) == DATA
    assert pauses[0] == 2
    assert pauses[1] == 10
    assert pauses[2] < 2


def test_what_came_before_a_connection_was_cut_is_kept(web: Web) -> None:
    web.fault = faulty(1, cut)
    assert read(web, 0, 10_000) == DATA[:10_000]
    assert [each.headers["Range"] for each in web.requests if each.method == "GET"] == [
        "bytes=0-65535",
        "bytes=1000-65535",
    ]


def test_a_connection_that_is_always_cut_is_an_error(web: Web) -> None:
    def drop(handler: Handler, _: bytes) -> None:
        handler.close_connection = True

    web.fault = faulty(-1, drop)
    with pytest.raises(InaccessibleError, match=r"the connection was cut [(]5 attempts"):
        read(web)


def test_a_short_range_is_requested_again_and_never_the_end(web: Web) -> None:
    def shorten(handler: Handler, data: bytes) -> None:
        begin = int(handler.headers["Range"].partition("=")[2].partition("-")[0])
        told = f"bytes {begin}-{begin + 19_999}/{len(data)}"
        handler.say(206, data[begin : begin + 20_000], {**handler.headers_of(data), "Content-Range": told})

    web.fault = faulty(-1, shorten)
    assert read(web, 0, 70_000) == DATA[:70_000]
    for store in http.STORES:
        store.forget()
    with pytest.raises(InaccessibleError, match=r"only 100,000 of 200,000 bytes arrived [(]5 attempts"):
        read(web, 0, 200_000)


def test_another_range_than_requested_is_an_error(web: Web) -> None:
    def other(handler: Handler, data: bytes) -> None:
        handler.say(
            206, data[1:101], {**handler.headers_of(data), "Content-Range": f"bytes 1-100/{len(data)}"}
        )

    web.fault = faulty(-1, other)
    with pytest.raises(InaccessibleError, match="a different range than requested"):
        read(web, 0, 100)


@pytest.mark.parametrize("etag", [None, 'W/"same"'])
def test_an_object_that_changes_is_an_error(etag: str | None, web: Web) -> None:
    """By its ETag, and without a strong one by its size."""
    if etag is not None:
        web.etags["/run/x"] = etag
    with parse_location(f"{web.url}/run/x").open() as file:
        file.read(0, 10)
        web.files["/run/x"] = DATA[:-1] + (b"?" if etag is None else b"")
        with pytest.raises(CheckpointError, match="this file changed since it was opened"):
            file.read(500_000, 10)
        del web.files["/run/x"]
        with pytest.raises(CheckpointError, match="this file changed since it was opened"):
            file.read(700_000, 10)


def test_who_opens_a_checkpoint_again_gets_what_is_there_now(web: Web, tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        write_bundle(str(tmp_path / "ckpt-1"), {"x": np.full(5, value)})
        for name in os.listdir(tmp_path):
            web.files[f"/run/{name}"] = (tmp_path / name).read_bytes()
        with open_checkpoint(f"{web.url}/run/ckpt-1") as reader:
            assert reader["x"].read().tolist() == [value] * 5


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_weak_e_tag_keeps_no_bytes_in_memory(web: Web, tmp_path: Path, knows_ranges: bool) -> None:
    """Nor does a time of whole seconds: another index of its size was taken for the one in memory."""
    web.knows_ranges = knows_ranges
    for value in (1.0, 2.0):
        write_bundle(str(tmp_path / "ckpt-1"), {"x": np.full(5, value)})
        for name in os.listdir(tmp_path):
            web.files[f"/run/{name}"] = (tmp_path / name).read_bytes()
            web.etags[f"/run/{name}"] = 'W/"same"'
        with open_checkpoint(f"{web.url}/run/ckpt-1") as reader:
            assert reader["x"].read().tolist() == [value] * 5


def test_a_checkpoint_that_is_replaced_while_it_is_read_is_not_a_mixture(web: Web, tmp_path: Path) -> None:
    def put(value: float) -> None:
        write_bundle(str(tmp_path / "ckpt-1"), {"x": np.full(100_000, value), "y": np.full(100_000, value)})
        for name in os.listdir(tmp_path):
            web.files[f"/run/{name}"] = (tmp_path / name).read_bytes()

    put(1.0)
    with open_checkpoint(f"{web.url}/run/ckpt-1") as reader:
        put(2.0)  # before a shard is requested: the index belongs to one, the shard to the other
        with pytest.raises(ChecksumError):
            reader["x"].read()
    with open_checkpoint(f"{web.url}/run/ckpt-1") as reader:
        assert reader["x"].read()[0] == 2.0
        put(3.0)
        with pytest.raises(CheckpointError, match="this file changed since it was opened"):
            reader["y"].read()
    with open_checkpoint(f"{web.url}/run/ckpt-1") as reader:
        assert reader["y"].read()[0] == 3.0


def test_an_object_that_changes_where_if_match_is_not_known(web: Web) -> None:
    with parse_location(f"{web.url}/run/x").open() as file:

        def newer(handler: Handler, data: bytes) -> None:
            web.etags[handler.place] = '"new"'
            handler.say(206, data[:10], {"ETag": '"new"', "Content-Range": f"bytes 0-9/{len(data)}"})

        web.fault = faulty(-1, newer)
        with pytest.raises(CheckpointError, match="this file changed since it was opened"):
            file.read(0, 10)


def test_a_server_without_ranges_is_read_whole_once(web: Web) -> None:
    web.knows_ranges = False
    with parse_location(f"{web.url}/run/x").open() as file:
        assert file.read(1000, 10) == DATA[1000:1010]
        assert file.read(900_000, 10) == DATA[900_000:900_010]
    assert web.asked() == [("HEAD", "/run/x"), ("GET", "/run/x")]


def test_more_than_a_server_shows_is_not_a_file_of_that_size(web: Web) -> None:
    """A body in chunks says no length; what was read was its beginning."""

    def more(handler: Handler, data: bytes | None) -> bool:
        if handler.command == "HEAD":
            return False
        handler.send_response(200)
        for name, value in {**handler.headers_of(data or b""), "Connection": "close"}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write((data or b"") + b"more")
        return True

    web.fault = more
    with pytest.raises(InaccessibleError, match="sends more than the 1,048,576 bytes it announced"):
        read(web, 0, 10)


def test_a_large_file_of_a_server_without_ranges_is_rejected(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_LARGEST_ANSWER", len(DATA) - 1)
    web.knows_ranges = False
    with pytest.raises(
        InaccessibleError, match="does not support range requests, and 1,048,576 bytes are too many"
    ):
        read(web, 0, 10)


def test_what_was_given_up_is_not_waited_for_once_more(web: Web) -> None:
    """Each look at a file to determine its format repeated all attempts."""
    web.fault = lambda handler, _: handler.command == "GET" and (handler.say(503) or True)
    with pytest.raises(InaccessibleError, match=r"503 Service Unavailable [(]5 attempts"):
        open_checkpoint(f"{web.url}/run/x")
    assert web.asked("GET") == [("GET", "/run/x")] * transport.ATTEMPTS
    web.fault = lambda _, __: False
    with pytest.raises(CheckpointError, match="this is not a known checkpoint format"):  # opening asks again
        open_checkpoint(f"{web.url}/run/x")


def test_compressed_answers_are_rejected(web: Web) -> None:
    web.fault = lambda handler, data: (
        bool(handler.say(200, data or b"", {"Content-Encoding": "gzip"})) or True
    )
    with pytest.raises(InaccessibleError, match="sends the file with content encoding"):
        read(web)


def test_no_request_takes_longer_than_it_may(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKPT_TIMEOUT", "0.05")
    ended = threading.Event()
    web.fault = faulty(-1, lambda handler, _: ended.wait(30))
    try:
        with pytest.raises(
            InaccessibleError,
            match=r"the server did not answer within 0.05 seconds \(CKPT_TIMEOUT\) [(]5 attempts",
        ):
            read(web)
    finally:
        ended.set()
    monkeypatch.setenv("CKPT_TIMEOUT", "soon")
    with pytest.raises(InaccessibleError, match="CKPT_TIMEOUT is 'soon'; expected a number of seconds"):
        read(web, path="/other")


@pytest.mark.parametrize(
    ("method", "begins", "goes_on", "message"),
    [
        ("HEAD", b"", b"H", "the server did not answer within"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nX: ", b"x", "the server did not answer within"),
        ("HEAD", b"", b"HTTP/1.1 100 Continue\r\n\r\n", "the server did not answer within"),
        ("GET", b"", b"0", "only 0 of 10 bytes arrived"),
        ("GET", b"0\r\n", b"X: y\r\n", "only 0 of 10 bytes arrived"),
    ],
)
def test_a_byte_now_and_then_puts_no_end_off(
    method: str, begins: bytes, goes_on: bytes, message: str, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte of a header, an interim answer or a trailer restarted the timeout."""
    monkeypatch.setenv("CKPT_TIMEOUT", "0.05")
    monkeypatch.setattr(transport, "ATTEMPTS", 2)
    monkeypatch.setattr("formats.store.remote.range_cache.LOOK", 1)
    ended = threading.Event()

    def drip(handler: Handler, data: bytes | None) -> bool:
        if handler.command == method:
            if method == "GET":
                handler.send_response(206)
                chunks = {"Content-Range": f"bytes 0-9/{len(DATA)}", "Transfer-Encoding": "chunked"}
                for name, value in {**handler.headers_of(data or b""), **chunks}.items():
                    handler.send_header(name, value)
                handler.end_headers()
            handler.wfile.write(begins)
            for _ in range(50):
                if ended.wait(0.02):
                    break
                handler.wfile.write(goes_on)
            handler.close_connection = True
        return handler.command == method

    web.fault = drip
    try:
        with pytest.raises(InaccessibleError, match=message):
            read(web, 0, 10)
    finally:
        ended.set()


def test_an_unreachable_server_is_reported_at_once(web: Web, pauses: list[float]) -> None:
    with pytest.raises(InaccessibleError, match=r"127.0.0.1 cannot be reached: connection refused"):
        parse_location("http://127.0.0.1:1/run/x").open()
    assert pauses == []


def test_what_may_not_be_read_is_not_absent(web: Web) -> None:
    web.fault = lambda handler, _: handler.say(403) or True
    with pytest.raises(InaccessibleError, match="the server answered 403 Forbidden"):
        read(web)


@pytest.mark.parametrize(
    ("answer", "scheme", "message"),
    [
        (b"SSH-2.0-OpenSSH_9.9\r\n", "http", r"the server does not speak HTTP [(]5"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "https", r"the server does not speak HTTPS [(]5"),
        (b"", "http", r"the connection was cut [(]5 attempts"),
    ],
)
def test_what_speaks_another_language_is_not_cut(answer: bytes, scheme: str, message: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            for _ in range(transport.ATTEMPTS):
                connection, _ = server.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(answer)

        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        with pytest.raises(InaccessibleError, match=message):
            parse_location(f"{scheme}://127.0.0.1:{server.getsockname()[1]}/x").open()
        thread.join()


def test_a_rejected_request_has_a_hint(web: Web) -> None:
    for status, query, message in (
        (401, "", "401 Unauthorized; put credentials into the URL: https://USER:PASSWORD@HOST/PATH$"),
        (403, "", "403 Forbidden$"),
        (403, "?sig=topsecret", "403 Forbidden; the signature in the URL may have expired$"),
    ):
        web.fault = lambda handler, _, status=status: handler.say(status) or True
        http.STORES[1].forget()
        with pytest.raises(InaccessibleError, match=message):
            read(web, path=f"/run/x{query}")
    web.fault = lambda handler, data: data is None and (handler.say(401) or True)
    with pytest.raises(
        InaccessibleError, match="cannot be listed: the server answered 401 Unauthorized; put credentials"
    ):
        parse_location(f"{web.url}/run").listing()


def test_a_server_that_knows_no_size_without_the_file_is_requested_a_byte(web: Web) -> None:
    """A server that generates its answers may report 0; the file was called empty."""
    web.fault = lambda handler, _: handler.command == "HEAD" and (handler.say(200) or True)
    assert read(web, 10, 10) == DATA[10:20]
    web.files["/empty"] = b""
    assert read(web, path="/empty") == b""


@pytest.mark.parametrize("status", [403, 405, 501])
def test_a_server_that_answers_no_head_is_requested_a_byte(status: int, web: Web) -> None:
    web.fault = lambda handler, _: handler.command == "HEAD" and (handler.say(status) or True)
    assert read(web, 10, 10) == DATA[10:20]


# Redirects ---------------------------------------------------------------------------------


def redirecting(where: str) -> Any:
    def fault(handler: Handler, data: bytes | None) -> bool:
        if data is None:
            handler.say(302, b"", {"Location": where})
        return data is None

    return fault


def test_redirects_are_followed_a_few_times(web: Web) -> None:
    web.fault = redirecting("/run/x")
    assert read(web, 0, 10, "/moved") == DATA[:10]
    count = iter(range(10**6))
    web.fault = lambda handler, _: handler.say(302, b"", {"Location": f"/on/{next(count)}"}) or True
    with pytest.raises(InaccessibleError, match="the server redirects more than 5 times"):
        read(web, path="/other")


@pytest.mark.parametrize("where", ["/run/x y", "/run/é", "/run/%C3%A9", "/run/a|b?sig=a/b%2Fc|d"])
def test_redirects_lead_to_odd_names(where: str, web: Web) -> None:
    """Servers write blanks and UTF-8 as they are, where a URL has none."""
    asked = []
    web.files.update({f"/run/{name}": DATA for name in ("x y", "é", "a|b")})

    def fault(handler: Handler, data: bytes | None) -> bool:
        asked.append(handler.path)
        if data is None:
            handler.say(302, b"", {"Location": where.encode().decode("latin-1")})
        return data is None

    web.fault = fault
    assert read(web, 0, 10, "/moved") == DATA[:10]
    assert {"/run/a|b?sig=a/b%2Fc|d", "/run/x%20y", "/run/%C3%A9"}.issuperset(asked[1::2])


@pytest.mark.parametrize("where", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x"])
def test_redirects_lead_to_no_other_scheme(where: str, web: Web) -> None:
    web.fault = redirecting(where)
    with pytest.raises(InaccessibleError, match=r"the server redirects from http to (file|ftp|data), which"):
        read(web, path="/moved")


def test_https_is_not_left_for_http() -> None:
    answer = transport.Answer(302, {"Location": "http://host/x"}, b"", "https://host/x")
    with pytest.raises(
        InaccessibleError, match="the server redirects from https to http, which is not followed"
    ):
        transport.redirected(answer, "https://host/x")


@pytest.mark.parametrize("where", ["", "http://", "http://[", "http://host:port/"])
def test_redirects_lead_somewhere(where: str, web: Web) -> None:
    web.fault = redirecting(where)
    with pytest.raises(InaccessibleError, match=r"redirects to|redirects more than 5 times"):
        read(web, path="/moved")


# Secrets -----------------------------------------------------------------------------------


def test_secrets_go_to_their_server_and_nowhere_else(web: Web) -> None:
    other = Web()
    with serving(other):
        other.files["/run/x"] = DATA
        web.fault = lambda handler, _: handler.say(302, b"", {"Location": f"{other.url}/run/x"}) or True
        url = web.url.replace("http://", "http://me:pass%20word@") + "/run/x?token=secret"
        path = parse_location(url)
        assert path.startswith("http://***")
        assert path.endswith("/run/x")
        assert parse_location(path) == path == parse_location(url)
        with parse_location(path).open() as file:
            assert file.read(0, 10) == DATA[:10]
    for each in web.requests:
        assert each.headers["Authorization"] == "Basic bWU6cGFzcyB3b3Jk"
        assert each.query == "token=secret"
    assert len(other.requests) == 2
    for each in other.requests:
        assert "Authorization" not in each.headers
        assert each.query == ""


@pytest.mark.parametrize("end", ["", "/"])
def test_a_server_without_a_path_is_a_folder_and_no_other_server(
    end: str, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`host` and a bundle's `.index` made `host.index`, which received the password; a port caused a
    traceback.
    """
    places = []
    connection = transport._connection

    def connecting(parts: Any, *arguments: Any) -> Any:
        places.append(parts.netloc)
        return connection(parts, *arguments)

    monkeypatch.setattr(transport, "_connection", connecting)
    place = web.url.partition("://")[2]
    with pytest.raises(InaccessibleError, match="cannot be listed: the server does not answer with JSON"):
        open_checkpoint(f"http://user:secret@{place}{end}")
    assert set(places) == {place}
    web.lists = True
    assert [each.name for each in parse_location(parse_location(web.url + end)).listing()] == ["run"]


def test_secrets_are_of_one_server() -> None:
    mark = parse_location("http://user:secret@host/x").partition("://")[2].partition("@")[0]
    assert http.STORES[1].request_of(f"http://{mark}@host/y").authorization is not None
    assert http.STORES[1].request_of(f"http://{mark}@host.evil/y").authorization is None
    with pytest.raises(UnsupportedFeatureError, match="replaces a secret in the URL"):
        parse_location(f"http://{mark}@host.evil/y")


def test_names_next_to_are_requested_with_the_same_secrets(web: Web) -> None:
    path = parse_location(f"{web.url}/run/y?token=secret")
    assert not parse_location(path).is_file()
    with parse_location(parse_location(parse_location(path).parent) / "x").open() as file:
        assert file.read(0, 10) == DATA[:10]
    assert {each.query for each in web.requests} == {"token=secret"}


def test_urls_that_differ_in_their_secrets_are_not_one(web: Web) -> None:
    one, two, plain = (parse_location(f"{web.url}/run/x{query}") for query in ("?v=1", "?v=2", ""))
    assert len({one, two, plain}) == 3
    with pytest.raises(UnsupportedFeatureError, match="replaces a secret in the URL"):
        parse_location("https://***99@host/x")


def test_urls_are_taken_as_they_are_typed(web: Web) -> None:
    assert parse_location("http://host/run/") == "http://host/run"
    assert parse_location("http://host/50%/a%20b") == "http://host/50%25/a%20b"
    assert read(web, 0, 10, "/run/x/") == DATA[:10]


def test_urls_that_cannot_be_asked_are_errors() -> None:
    for url in ("https://", "https:///x", "http://[", "http://host:port/x"):
        with pytest.raises(CheckpointError, match="the URL has no host"):
            parse_location(url)


def test_a_file_url_is_a_path(tmp_path: Any) -> None:
    (tmp_path / "a b").write_bytes(b"0")
    for host in ("", "localhost"):
        with parse_location(f"file://{host}{tmp_path}/a%20b").open() as file:
            assert file.path == os.fspath(tmp_path / "a b")
    with pytest.raises(UnsupportedFeatureError, match="names a path on this machine"):
        parse_location("file://other/x")


# Proxies -----------------------------------------------------------------------------------


def test_proxies_of_the_environment_are_requested(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", web.url.replace("http://", "http://user:secret@"))
    monkeypatch.setenv("http_proxy", web.url.replace("http://", "http://user:secret@"))
    web.files["/there/x"] = DATA
    with parse_location("http://far.invalid/there/x").open() as file:
        assert file.read(0, 10) == DATA[:10]
    assert {each.headers["Host"] for each in web.requests} == {"far.invalid"}
    assert {each.headers["Proxy-Authorization"] for each in web.requests} == {"Basic dXNlcjpzZWNyZXQ="}
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert read(web, 0, 10) == DATA[:10]


@pytest.mark.parametrize("proxy", ["http://user:topsecret@host:99999", "http://[topsecret", "host:topsecret"])
def test_a_false_proxy_url_is_reported(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, proxy)
    with pytest.raises(InaccessibleError, match="the proxy in the environment") as caught:
        parse_location("http://far.invalid/x").open()
    assert caught.value.path == "http://far.invalid/x"
    assert "topsecret" not in "".join(traceback.format_exception(caught.value))


# Several files -----------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["run", "hf/model.safetensors", "hf_bin/pytorch_model.bin"])
def test_files_that_are_read_one_after_the_other_are_requested_together(
    what: str, web: Web, tmp_path: Path
) -> None:
    """A run's three indexes, and the headers of three shards: each request waits for the other two."""
    for step in range(3):
        write_bundle(str(tmp_path / f"ckpt-{step}"), {"x": np.zeros(5)})
    for name in os.listdir(tmp_path):
        web.files[f"/many/{name}"] = (tmp_path / name).read_bytes()
    web.put_tree(data_path("hf"))
    web.put_tree(data_path("pytorch", "hf_bin"))
    web.lists = True
    together = threading.Barrier(3)

    def meet(handler: Handler, _: bytes | None) -> bool:
        if handler.place.startswith(("/many/ckpt-", "/hf/model-", "/hf_bin/pytorch_model-")):
            together.wait(30)
        return False

    web.fault = meet
    if what == "run":
        assert len(Directory(parse_location(f"{web.url}/many")).members) == 3
    else:
        open_checkpoint(f"{web.url}/{what}.index.json").close()
    assert not together.broken
