"""A bucket behind a proxy that fails: right values, or one clear line."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from formats import location
from formats.store import content_cache
from formats.store.remote import bucket_objects, transport
from tests.servers.proxy import Asked, Proxy, Said, proxied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cli.conftest import Result

pytestmark = pytest.mark.servers

READING = (
    "ls -l S3/run/ckpt-1",
    "stats S3/run/ckpt-1",
    "show S3/run/ckpt-1 layer_7/kernel",
    "verify S3/run/ckpt-1",
    "stats S3/interop/weights.npz",
    "stats S3/keras_mlp/mlp.with_optimizer.h5",
    "verify S3/keras3_rnn/rnn.keras",
    "stats S3/hf",
)


@pytest.fixture(scope="module")
def behind(s3: str) -> Iterator[Proxy]:
    import os

    with proxied(os.environ["AWS_ENDPOINT_URL"]) as found:
        yield found


@pytest.fixture
def proxy(behind: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", behind.url)
    monkeypatch.setattr(transport, "pause", lambda _: None)
    anew(behind)
    yield behind
    anew(behind)


def anew(proxy: Proxy) -> None:
    proxy.forget()
    location._kept.clear()
    content_cache._kept.files.clear()
    for store in bucket_objects.STORES:
        store.forget()


def _length(said: Said) -> dict[str, str]:
    return {**said.headers, "Content-Length": str(len(said.body))}


def _cut(_: Asked, said: Said) -> Said:
    return said._replace(headers=_length(said), body=said.body[: len(said.body) // 2])


def _shorten(_: Asked, said: Said) -> Said:
    begin, end, size = map(int, re.findall(r"\d+", said.headers["Content-Range"]))
    end = begin + (end - begin) // 2
    headers = {**said.headers, "Content-Range": f"bytes {begin}-{end}/{size}"}
    short = said._replace(headers=headers, body=said.body[: end + 1 - begin])
    return short._replace(headers=_length(short))


def _saying(status: int, code: str = "Whatever") -> Callable[[Asked, Said], Said]:
    body = f"<Error><Code>{code}</Code><Message>topsecret</Message></Error>".encode()
    return lambda _, __: Said(status, {"Content-Type": "application/xml"}, body)


PASSING: dict[str, Callable[[Asked, Said], Said | None]] = {
    "cut": _cut,
    "short": _shorten,
    "hung up": lambda _, __: None,
    "busy": _saying(429),
    "slow down": _saying(503, "SlowDown"),
    "failing": _saying(500, "InternalError"),
}


@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize("line", READING)
def test_what_passes_changes_no_answer(
    line: str, fault: str, proxy: Proxy, ckpt: Callable[..., Result]
) -> None:
    words = line.replace("S3", "s3://bucket").split()
    sound = ckpt(*words)
    assert sound.code == 0, sound.err
    anew(proxy)
    seen: set[tuple[str, str]] = set()

    def first(asked: Asked, said: Said) -> Said | None:
        """The first request for each range gets the fault; later ones get the sound answer."""
        what = asked.target, asked.range
        is_first = what not in seen
        seen.add(what)
        return PASSING[fault](asked, said) if is_first else said

    proxy.fault = first
    assert ckpt(*words) == sound
    assert seen


def _changed(_: Asked, said: Said) -> Said:
    return said._replace(headers={**said.headers, "ETag": '"another"', "Etag": '"another"'})


def _grown(_: Asked, said: Said) -> Said:
    told = said.headers["Content-Range"].partition("/")
    return said._replace(headers={**said.headers, "Content-Range": f"{told[0]}/{int(told[2]) + 1}"})


def _elsewhere(_: Asked, said: Said) -> Said:
    begin, end, size = map(int, re.findall(r"\d+", said.headers["Content-Range"]))
    return said._replace(headers={**said.headers, "Content-Range": f"bytes {begin + 1}-{end + 1}/{size + 1}"})


def _whole(_: Asked, said: Said) -> Said:
    headers = {name: value for name, value in said.headers.items() if name != "Content-Range"}
    return said._replace(status=200, headers=headers)


LASTING: dict[str, tuple[Callable[[Asked, Said], Said | None], str]] = {
    "hung up": (lambda _, __: None, "the server did not answer, or the connection was cut (5 attempts)"),
    "cut": (_cut, "the server did not answer, or the connection was cut (5 attempts)"),
    "failing": (_saying(500), "the server answered 500 (5 attempts)"),
    "forbidden": (_saying(403, "AccessDenied"), "the server answered 403, AccessDenied"),
    "gone": (_saying(404, "NoSuchKey"), "this file changed since it was opened"),
    "replaced": (_saying(412, "PreconditionFailed"), "this file changed since it was opened"),
    "changed": (_changed, "this file changed since it was opened"),
    "grown": (_grown, "this file changed since it was opened"),
    "another range": (_elsewhere, "a different range than requested"),
    "no ranges": (_whole, "does not support range requests"),
}


@pytest.mark.parametrize("fault", LASTING)
@pytest.mark.parametrize("line", READING)
def test_what_lasts_is_one_clear_line(
    line: str, fault: str, proxy: Proxy, ckpt: Callable[..., Result]
) -> None:
    proxy.fault, message = LASTING[fault]
    done = ckpt(*line.replace("S3", "s3://bucket").split())
    assert done.code in (1, 3)
    assert message in done.out + done.err
    assert "topsecret" not in done.out + done.err
    assert "Traceback" not in done.err


def test_a_slow_server_is_waited_for_once_a_request(proxy: Proxy, ckpt: Callable[..., Result]) -> None:
    proxy.delay = 0.05
    begun = time.monotonic()
    assert ckpt("ls", "s3://bucket/run/ckpt-1").code == 0
    assert len(proxy.asked) == 2
    assert time.monotonic() - begun >= 0.1
