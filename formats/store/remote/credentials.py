"""The providers of buckets, and what the environment says about them: endpoints and credentials.

Credentials come from the variables and files that each provider's own programs read, and from nowhere else.

obstore follows redirects, and has no setting to prevent that. It drops the signature of a request, but sends
two secrets on: a session token, which has a header of its own, and an Azure SAS, in the Referer. So requests
to hosts other than the bucket's own and the metadata services go through a proxy that does not exist, and
reach nothing. Two cases remain: if the environment sets a proxy, and redirects to another port of the same
host, which has already received the secrets. A redirect never leads from https to http.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ...errors import InaccessibleError, UnsupportedFeatureError
from .transport import timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

NOWHERE = "127.0.0.1:0"
"""An address where nothing listens, and the error of a connection to it."""

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_THIS_MACHINE = {"127.0.0.1", "::1", "localhost"}
_TRUE = ("1", "true", "yes", "on", "y", "t")
_REGION = re.compile(r"[\w.-]*", re.ASCII)


class Provider(NamedTuple):
    """Who has buckets.

    `client` returns the client of a bucket, through obstore, with this many retries. `settings` are the
    variables that hold credentials, `alias` is another spelling of the scheme, and `has_md5` says whether
    an object's e_tag is usually made of the MD5 of its blocks.
    """

    scheme: str
    client: Callable[[str, int], Any]
    settings: str
    alias: str = ""
    has_md5: bool = False


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() in _TRUE


def _options(retries: int, *, http: bool, alone: Iterable[str] = ()) -> dict[str, Any]:
    """Return how requests are made: once each where they are tried again here.

    `alone` are the only hosts, and domains, that may be reached.
    """
    seconds = f"{timeout():g}s"
    client = {"timeout": seconds, "connect_timeout": seconds, "allow_http": http}
    if alone and not _has_proxy():
        client |= {"proxy_url": f"http://{NOWHERE}", "proxy_excludes": ",".join(alone)}
    return {"client_options": client, "retry_config": {"max_retries": retries}}


def _has_proxy() -> bool:
    """Whether the environment names a proxy."""
    return any(os.environ.get(name) for name in os.environ if name.lower() in _PROXIES)


def _hosts(servers: Mapping[str, str | None], usual: str) -> list[str]:
    """Return the hosts of servers that the environment names, the provider's own where it names none."""
    return [urlsplit(text).hostname or "" for text in servers.values() if text] or [usual]


def _uses_http(servers: Mapping[str, str | None]) -> bool:
    """Whether an endpoint uses http. If none does, every request uses https, redirects included."""
    return any(text and urlsplit(text).scheme == "http" for text in servers.values())


def _arrives_whole(servers: Mapping[str, str | None]) -> bool:
    """Whether no one can change requests in transit: they use https, or stay on this machine."""
    named = [urlsplit(text) for text in servers.values() if text]
    by_http = {each.hostname for each in named if each.scheme == "http"}
    return not by_http or (by_http <= _THIS_MACHINE and not _has_proxy())


def _check_servers(path: str, servers: Mapping[str, str | None], allowing: str, *, http: bool) -> None:
    """Raise InaccessibleError if the environment names a server that obstore would not ask, or panic at.

    The message shows no value, because that may hold a password; `allowing` is the setting that permits http.
    """
    for name, text in servers.items():
        if text is None:
            continue
        try:
            parts = urlsplit(text)
            is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_one = False
        if not is_one or not text.isascii() or not text.isprintable() or " " in text:
            error = InaccessibleError(f"{name} is not a server URL such as https://host:9000", path=path)
            error.hints = (f"set it to a server URL, or remove it: unset {name}",)
            raise error
        if parts.scheme == "http" and not http:
            error = InaccessibleError(f"{name} is an http URL, which requires {allowing}=true", path=path)
            error.hints = (f"export {allowing}=true",)
            raise error


def _s3(bucket: str, retries: int) -> Any:
    path, http = f"s3://{bucket}", _is_set("AWS_ALLOW_HTTP")
    first = "AWS_ENDPOINT_URL_S3"  # counts alone where it is set
    servers = (first,) if first in os.environ else ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    named = {name: os.environ.get(name) for name in servers}
    _check_servers(path, named, "AWS_ALLOW_HTTP", http=http)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if not _REGION.fullmatch(os.environ.get(name, "us-east-1")):
            raise InaccessibleError(f"{name} is not a region name such as us-east-1", path=path)
    from obstore.store import S3Store

    has_key, has_profile = (bool(os.environ.get(name)) for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"))
    alone = _hosts(named, "amazonaws.com")
    if not has_key and not has_profile:  # An anonymous request has nothing to send on.
        alone = [] if _is_set("AWS_SKIP_SIGNATURE") else [*alone, *_role_hosts()]
    settings = _options(retries, http=_uses_http(named), alone=alone)
    # The store checks the MD5 of each part. A signed SHA-256 of the parts would cost half as much again.
    if retries and "AWS_UNSIGNED_PAYLOAD" not in os.environ and _arrives_whole(named):
        settings["unsigned_payload"] = True
    if has_profile and not has_key:
        settings["credential_provider"] = _profile()
    return S3Store(bucket, **settings)


_ROLE_SERVERS = ("169.254.169.254", "fd00:ec2::254", "169.254.170.2", "169.254.170.23", "amazonaws.com")
"""Whom an instance and a container ask which role they have, and who gives a role to a token."""

_NAMED_FOR_ROLES = ("AWS_METADATA_ENDPOINT", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_ENDPOINT_URL_STS")


def _role_hosts() -> list[str]:
    """Return the metadata services that report a machine's role, including those that the environment
    names.
    """
    named = [urlsplit(os.environ.get(name, "")).hostname for name in _NAMED_FOR_ROLES]
    return [*_ROLE_SERVERS, *filter(None, named)]


def _profile() -> Any:
    """Return what reads Amazon's files of profiles.

    Raises UnsupportedFeatureError if nothing does, InaccessibleError if the profile proves nothing.
    """
    try:
        from boto3 import Session
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        message = "AWS_PROFILE is set, but boto3, which reads profiles, is not installed"
        raise UnsupportedFeatureError(message, path="s3://", hints=("pip install boto3",)) from None
    try:
        return Boto3CredentialProvider(Session())
    except (BotoCoreError, ValueError):  # no such profile, a file that cannot be read, or nothing in it
        error = InaccessibleError("boto3 finds no credentials for the profile in AWS_PROFILE", path="s3://")
        error.hints = (
            "check ~/.aws/config and ~/.aws/credentials; to see what boto3 finds: aws configure list",
        )
        raise error from None


def _gs(bucket: str, retries: int) -> Any:
    import json

    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    url = None
    if emulator:
        url = emulator if "://" in emulator else f"http://{emulator}"
        _check_servers(f"gs://{bucket}", {"STORAGE_EMULATOR_HOST": url}, "", http=True)
    from obstore.store import GCSStore

    if url is None:
        return GCSStore(bucket, **_options(retries, http=False))
    key = {
        "gcs_base_url": url,
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    options = _options(retries, http=_uses_http({"STORAGE_EMULATOR_HOST": url}))
    return GCSStore(bucket, service_account_key=json.dumps(key), **options)


_SIGNED = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")
_AZURE_LOGIN = "login.microsoftonline.com"
"""Credential provider to use when a SAS token is also given."""


def _az(container: str, retries: int) -> Any:
    is_emulated = _is_set("AZURE_STORAGE_USE_EMULATOR")
    http = _is_set("AZURE_ALLOW_HTTP") or is_emulated
    servers = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
    named = {name: os.environ.get(name) for name in servers}
    _check_servers(f"az://{container}", named, "AZURE_ALLOW_HTTP", http=http)
    from obstore.store import AzureStore

    signed = any(os.environ.get(name) for name in _SIGNED)
    alone = [*_hosts(named, "core.windows.net"), _AZURE_LOGIN] if signed and not is_emulated else ()
    return AzureStore(container, **_options(retries, http=is_emulated or _uses_http(named), alone=alone))


PROVIDERS = (
    Provider(
        "s3",
        _s3,
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or AWS_SKIP_SIGNATURE=true",
        has_md5=True,
    ),
    Provider("gs", _gs, "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SKIP_SIGNATURE=true", "gcs"),
    Provider(
        "az",
        _az,
        "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
        "abfs",
    ),
)
