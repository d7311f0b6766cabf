"""Whom a URL asks."""

from __future__ import annotations

import pytest

from formats.store.remote.transport import origin


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://host/x", ("https", "host", 443)),
        ("http://host/x?y", ("http", "host", 80)),
        ("http://host:8080", ("http", "host", 8080)),
        ("https://HOST:80/", ("https", "host", 80)),
        ("https://user@host", ("https", "host", 443)),
        ("https://[::1]:9/", ("https", "::1", 9)),
    ],
)
def test_a_server_has_a_scheme_a_host_and_a_port(url: str, expected: tuple[str, str, int]) -> None:
    assert origin(url) == expected
