"""The content of a page that `ckpt report` wrote, as a browser and as a reader of its source find it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

DRAWN = ("<svg", "<canvas")
_LEADS_AWAY = ("src", "href", "action", "formaction", "data", "srcset", "poster", "ping", "background")


class PageSource(HTMLParser):
    """A parsed page: its elements, the text of those that hold any, its policy."""

    def __init__(self, path: Path | str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        with open(path, encoding="utf-8") as file:
            self.source = file.read()
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and data.strip():
            self.texts.append((self.elements[-1][0], data))

    def of(self, tag: str) -> list[str]:
        """Return the texts of all elements of a tag."""
        return [text for name, text in self.texts if name == tag]

    @property
    def still(self) -> str:
        """The text that is readable without the script."""
        return "\n".join(text for tag, text in self.texts if tag not in ("script", "style", "title"))

    @property
    def policy(self) -> str:
        (policy,) = [
            found["content"] or ""
            for tag, found in self.elements
            if tag == "meta" and found.get("http-equiv") == "Content-Security-Policy"
        ]
        return policy

    @property
    def document(self) -> Any:
        """What the script draws."""
        packed = next(text for text in self.of("script") if re.fullmatch(r"[A-Za-z0-9+/=]+", text))
        return json.loads(zlib.decompress(base64.b64decode(packed)))

    def assert_closed(self) -> None:
        """Nothing leads outside, no markup runs, and the policy lets in what is here alone."""
        for tag, found in self.elements:
            leading = {name: value for name, value in found.items() if name in _LEADS_AWAY}
            assert leading in ({}, {"href": "data:,"}), (tag, found)
            assert not any(name.startswith("on") or name == "style" for name in found), (tag, found)
        scripts = [found.get("type") for tag, found in self.elements if tag == "script"]
        assert scripts == ["text/plain", None]
        assert self.policy.startswith("default-src 'none'; ")
        assert "unsafe" not in self.policy
        for tag in ("script", "style"):
            (text,) = [text for text in self.of(tag) if "\n" in text]
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in self.policy


HOSTILE = (
    "</script><script>document.title='run'</script>",
    "--></script><!--<img src=x onerror=alert(1)>",
    "quote\"'`${x}",
    "line\u2028paragraph\u2029",
    "bidi/\u202eevil\u2066/kernel",
    "long/" + "x" * 10_000,
    "deep" + "/a" * 5_000,
    "control\x00\x1b[31m",
    "back\\slash",
    "&amp;lt;",
    b"not utf-8 \xff\xfe",
    "__proto__/constructor",
    "toString",
    "a/b",
    "a/b/c",
    "עברית/kernel",
)
"""Keys with a meaning to HTML, JavaScript, terminals, or to text from right to left."""


def shown(key: str | bytes) -> str:
    """Return how a page spells a name."""
    from ckpt_cli.render.base import escape
    from formats.core.spec import key_text

    return escape(key if isinstance(key, str) else key_text(key))
