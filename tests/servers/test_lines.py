"""Every command reads checkpoints from buckets as it does from a disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from formats.store.remote import bucket_objects
from tests.cli.anywhere import KINDS, compare_kinds, forget, some_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.anywhere import Place
    from tests.cli.conftest import Result

pytestmark = pytest.mark.servers


def anew() -> None:
    forget(bucket_objects.STORES)


@pytest.mark.parametrize("line", some_lines(0, 40))
def test_a_line_comes_to_the_same_over_s3(line: str, s3: str, place: Place) -> None:
    place.compare(line, f"{s3}/place", anew, dates=False)


@pytest.mark.parametrize("line", some_lines(1, 20))
def test_a_line_comes_to_the_same_over_google(line: str, gs: str, place: Place) -> None:
    place.compare(line, f"{gs}/place", anew, dates=False)


@pytest.mark.parametrize("line", some_lines(2, 20))
def test_a_line_comes_to_the_same_over_azure(line: str, az: str, place: Place) -> None:
    place.compare(line, f"{az}/place", anew, dates=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bucket", ["s3", "gs", "az"])
def test_every_kind_of_directory_is_one_in_a_bucket(
    kind: str, bucket: str, request: pytest.FixtureRequest, ckpt: Callable[..., Result]
) -> None:
    compare_kinds(kind, request.getfixturevalue(bucket), ckpt, anew)


@pytest.mark.parametrize("bucket", ["s3", "gs", "az"])
def test_paths_and_keys_of_buckets_are_completed(
    bucket: str, request: pytest.FixtureRequest, offered: Callable[..., list[str]]
) -> None:
    run = f"{request.getfixturevalue(bucket)}/guide_adam_legacy/tf_ckpts"
    anew()
    assert offered("ls", f"{run}/ckpt-") == [f"{run}/ckpt-{step}" for step in (10, 8, 9)]
    assert offered("show", f"{run}/ckpt-10", "net/l1/b")[0] == "net/l1/bias"
    assert run in offered("ls", run[:-1])
