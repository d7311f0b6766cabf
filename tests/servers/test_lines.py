"""What reads checkpoints reads them from buckets as from a disk: lines of every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from formats.store import remote
from tests.cli.anywhere import Place, forget, some_lines
from tests.cli.conftest import ckpt as ckpt  # noqa: PLC0414  a fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Result

pytestmark = pytest.mark.servers


@pytest.fixture
def place(
    laid_out: Path, tmp_path: Path, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> Place:
    return Place(laid_out, tmp_path, ckpt, monkeypatch)


def anew() -> None:
    forget(remote.STORES)


@pytest.mark.parametrize("line", some_lines(0, 40))
def test_a_line_comes_to_the_same_over_s3(line: str, s3: str, place: Place) -> None:
    place.compare(line, f"{s3}/place", anew, dates=False)


@pytest.mark.parametrize("line", some_lines(1, 20))
def test_a_line_comes_to_the_same_over_google(line: str, gs: str, place: Place) -> None:
    place.compare(line, f"{gs}/place", anew, dates=False)


@pytest.mark.parametrize("line", some_lines(2, 20))
def test_a_line_comes_to_the_same_over_azure(line: str, az: str, place: Place) -> None:
    place.compare(line, f"{az}/place", anew, dates=False)
