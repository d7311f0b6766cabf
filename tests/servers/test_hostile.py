"""A server that speaks as S3 does and means harm: no answer without end, no name that leads elsewhere."""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from formats import CheckpointError, location
from formats.location import parse_location
from formats.store.remote import bucket_objects
from tests.servers.programs import KEY, SECRET
from tests.servers.web import Handler, Web, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.servers

DATA = bytes(range(256)) * 1000
TOKEN = "topsecrettoken"


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """A bucket with one object, `run/x`, and credentials: a session of Amazon's, an Azure SAS."""
    found = Web()
    with serving(found):
        found.files["/bucket/run/x"] = DATA
        found.fault = lambda handler, _: listed(handler, ["run/x"])
        for name, value in {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_SESSION_TOKEN": TOKEN,
            "AWS_ENDPOINT_URL": found.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AZURE_STORAGE_ACCOUNT_NAME": "a",
            "AZURE_STORAGE_SAS_TOKEN": f"sv=1&sig={TOKEN}",
            "AZURE_STORAGE_ENDPOINT": found.url,
            "AZURE_ALLOW_HTTP": "true",
        }.items():
            monkeypatch.setenv(name, value)
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.upper(), raising=False)
        location._kept.clear()
        for store in bucket_objects.STORES:
            store.forget()
        yield found
        location._kept.clear()
        for store in bucket_objects.STORES:
            store.forget()


def listed(handler: Handler, keys: list[str], *, folders: tuple[str, ...] = (), goes_on: str = "") -> bool:
    """Answer a question for a listing; False where it is another one."""
    if "list-type" not in parse_qs(urlsplit(handler.path).query):
        return False
    etag = handler.headers_of(DATA)["ETag"]
    about = f"<LastModified>2026-01-01T00:00:00Z</LastModified><ETag>{etag}</ETag><Size>{len(DATA)}</Size>"
    body = "".join(f"<Contents><Key>{key}</Key>{about}</Contents>" for key in keys)
    body += "".join(f"<CommonPrefixes><Prefix>{each}/</Prefix></CommonPrefixes>" for each in folders)
    body += f"<IsTruncated>{'true' if goes_on else 'false'}</IsTruncated>"
    if goes_on:
        body += f"<NextContinuationToken>{goes_on}</NextContinuationToken>"
    handler.say(200, f"<ListBucketResult>{body}</ListBucketResult>".encode())
    return True


def redirecting(elsewhere: str) -> Callable[[Handler, bytes | None], bool]:
    """Redirect each request to the same path on another server."""
    return lambda handler, _: bool(handler.say(307, b"", {"Location": f"{elsewhere}{handler.path}"})) or True


def hold_not_followed(url: str, asked: Web, other: Web, where: str) -> None:
    """Hold that no one continues from one server to another, and that the error has no secret."""
    with pytest.raises(
        CheckpointError, match=f"redirects to another {where}, which is not followed"
    ) as caught:
        parse_location(url).listing()
    assert asked.requests
    assert not other.requests
    assert "topsecret" not in str(caught.value)


def test_a_listing_without_end_is_an_error(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKPT_TIMEOUT", "0.5")
    count = itertools.count()
    ends_at = time.monotonic() + 60  # for the thread that asks on
    web.fault = lambda handler, _: listed(
        handler, [f"run/{next(count)}"], goes_on="on" if time.monotonic() < ends_at else ""
    )
    begun = time.monotonic()
    with pytest.raises(CheckpointError, match="did not finish its listing within 1 seconds"):
        parse_location("s3://bucket/run").listing()
    assert time.monotonic() - begun < 20
    ends_at = 0


@pytest.mark.parametrize(
    "name", ["elsewhere/x", "run2/x", "run/x/y", "/etc/passwd", "run/../up", "run//x", "run/."]
)
@pytest.mark.parametrize("kind", ["object", "folder"])
def test_a_listing_names_nothing_elsewhere(name: str, kind: str, web: Web) -> None:
    keys, folders = ([name], ()) if kind == "object" else ([], (name,))
    web.fault = lambda handler, _: listed(handler, keys, folders=folders)
    with pytest.raises(CheckpointError, match="the server's listing has"):
        parse_location("s3://bucket/run").listing()


@pytest.mark.parametrize("url", ["s3://bucket/run/x", "az://bucket/run/x"])
def test_no_redirect_leads_to_another_host(url: str, web: Web) -> None:
    """obstore would send on the token of a session, and an Azure SAS as the page that it comes from."""
    other = Web()
    with serving(other):
        web.fault = redirecting(other.url.replace("127.0.0.1", "localhost"))
        hold_not_followed(url, web, other, "host")


@pytest.mark.parametrize("how", ["instance", "container"])
def test_a_role_is_requested_and_no_redirect_followed(
    how: str, web: Web, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A role's token is a session's: it goes to the bucket, and to who has given it, alone."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    role, other = Web(), Web()
    said = {
        "AccessKeyId": KEY,
        "SecretAccessKey": SECRET,
        "Token": TOKEN,
        "Expiration": "2099-01-01T00:00:00Z",
    }
    answers = {
        "/latest/api/token": "mine",
        "/latest/meta-data/iam/security-credentials/": "role",
        "/latest/meta-data/iam/security-credentials/role": json.dumps({"Code": "Success", **said}),
        "/role": json.dumps(said),
    }
    role.fault = lambda handler, _: bool(handler.say(200, answers[handler.place].encode())) or True
    with serving(role, "127.0.0.2"), serving(other, "127.0.0.3"):
        if how == "instance":
            monkeypatch.setenv("AWS_METADATA_ENDPOINT", role.url)
        else:
            (tmp_path / "token").write_text("mine")
            monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{role.url}/role")
            monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
        with parse_location("s3://bucket/run/x").open() as file:
            assert file.read(0, 10) == DATA[:10]
        assert web.requests[-1].headers["x-amz-security-token"] == TOKEN
        for store in bucket_objects.STORES:
            store.forget()
        location._kept.clear()
        web.fault = redirecting(other.url)
        hold_not_followed("s3://bucket/run", web, other, "host")
    assert role.requests


def test_redirects_on_one_host_are_followed_without_what_signs(web: Web) -> None:
    """obstore does this itself."""
    other = Web()
    with serving(other):
        other.files["/bucket/run/x"] = DATA
        on = redirecting(other.url)
        web.fault = lambda handler, data: listed(handler, ["run/x"]) or on(handler, data)
        with parse_location("s3://bucket/run/x").open() as file:
            assert file.read(0, 10) == DATA[:10]
    assert all("authorization" in each.headers for each in web.requests)
    assert other.requests
    for each in other.requests:
        assert "authorization" not in each.headers
        assert KEY not in str(each)
        assert SECRET not in str(each)


@pytest.mark.parametrize("where", ["ftp://127.0.0.1/x", "file:///etc/passwd", "data:,x", "", "/bucket/run/x"])
def test_redirects_lead_to_no_other_scheme_and_end(where: str, web: Web) -> None:
    web.fault = lambda handler, _: (
        listed(handler, ["run/x"]) or bool(handler.say(307, b"", {"Location": where})) or True
    )
    with parse_location("s3://bucket/run/x").open() as file, pytest.raises(CheckpointError) as caught:
        file.read(0, 10)
    assert "topsecret" not in str(caught.value)


def test_http_is_used_if_it_is_allowed(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(CheckpointError):
        parse_location("s3://bucket/run").listing()
    assert web.requests == []


@pytest.mark.parametrize("url", ["s3://bucket/run/x", "az://bucket/run/x"])
def test_https_is_not_left_for_http(
    url: str, web: Web, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where http is allowed, and the host is the same: the server that is named is one of https."""
    secure = Web()
    with serving(secure, tls=tmp_path):
        for name in ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT"):
            monkeypatch.setenv(name, secure.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        secure.fault = redirecting(web.url)
        hold_not_followed(url, secure, web, "scheme")
