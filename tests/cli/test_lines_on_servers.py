"""Reading commands work on a web server, and on the Hub, as on a disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from formats.store.remote import http, hub
from tests.cli.anywhere import KINDS, compare_kinds, forget, some_lines
from tests.servers.hub import Hub, serving_hub
from tests.servers.web import Web, serving
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cli.anywhere import Place
    from tests.cli.conftest import Result


@pytest.fixture(scope="module")
def web(laid_out: Path) -> Iterator[str]:
    """Return the URL of the directory on a web server that lists directories."""
    found = Web()
    found.lists = True
    with serving(found):
        for name in KINDS:
            found.put_tree(data_path(name), f"/{parent}" if (parent := os.path.dirname(name)) else "")
        yield found.put_tree(str(laid_out))


@pytest.fixture(scope="module")
def repository(laid_out: Path) -> Iterator[str]:
    """Return the URL of the directory in a repository of the Hub."""
    found = Hub()
    for path in laid_out.rglob("*"):
        if path.is_file():
            found.files[f"place/{path.relative_to(laid_out)}"] = path.read_bytes()
    for name in KINDS:
        for path in Path(data_path(name)).rglob("*"):
            if path.is_file():
                found.files[f"{name}/{path.relative_to(data_path(name))}"] = path.read_bytes()
    with serving_hub(found), pytest.MonkeyPatch.context() as patch:
        patch.delenv("HF_HUB_OFFLINE", raising=False)
        patch.setenv("HF_ENDPOINT", found.web.url)
        yield "hf://org/repo/place"


def anew() -> None:
    forget((*http.STORES, *hub.STORES))


@pytest.mark.parametrize("line", some_lines(0, 20))
def test_a_line_comes_to_the_same_on_a_web_server(line: str, web: str, place: Place) -> None:
    place.compare(line, web, anew, dates=False)


@pytest.mark.parametrize("line", some_lines(1, 20))
def test_a_line_comes_to_the_same_on_the_hub(line: str, repository: str, place: Place) -> None:
    place.compare(line, repository, anew, dates=False)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_directory_is_one_on_a_web_server(
    kind: str, web: str, ckpt: Callable[..., Result]
) -> None:
    compare_kinds(kind, web.removesuffix("/place"), ckpt, anew)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_directory_is_one_on_the_hub(
    kind: str, repository: str, ckpt: Callable[..., Result]
) -> None:
    compare_kinds(kind, repository.removesuffix("/place"), ckpt, anew)
