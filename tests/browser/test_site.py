"""The site of docs/ in a browser: nothing is loaded from elsewhere, and pages fit a phone and a desk."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from tests.readme import DOCS, PAGES, README, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

PATHS = sorted(os.path.relpath(page, DOCS)[:-3].removesuffix("index") for page in PAGES if page != README)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        """Say nothing of each request."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site as `make docs` does, and serve it on this machine; its address."""
    folder = str(tmp_path_factory.mktemp("site"))
    python = os.path.join(ROOT, ".venv-docs", "bin", "python")
    subprocess.run(
        [python, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    handler = functools.partial(_Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize("path", PATHS)
def test_a_page_asks_no_other_host_and_fits_a_phone_and_a_desk(
    browser: Browser, site: str, path: str
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 844})
    asked: list[str] = []
    failed: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.on("response", lambda response: failed.append(response.url) if response.status >= 400 else None)
    page.goto(site + (path.rstrip("/") + "/" if path else ""), wait_until="networkidle")
    assert "404" not in page.title()
    widths = []
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        widths.append(page.evaluate("document.documentElement.scrollWidth") - width)
    page.close()
    assert [url for url in asked if not url.startswith((site, "data:", "blob:"))] == []
    assert failed == []
    assert max(widths) <= 0


def test_errors_are_found_by_searching(browser: Browser, site: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(site, wait_until="networkidle")
    page.locator("[data-md-component=search-query]").click()
    page.keyboard.type("file signature not found", delay=5)
    page.locator(".md-search-result__link[href*=errors]").first.wait_for(timeout=10_000)
    page.close()
