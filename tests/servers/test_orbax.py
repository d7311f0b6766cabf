"""Orbax checkpoints in buckets: written with their mark last, read, and unfinished without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

import ckpt_cli
import formats
from formats.errors import CheckpointError
from formats.location import parse_location
from tests.servers.test_writing import bucket, google_server, written_gs
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.servers.google import Google

__all__ = ["bucket", "google_server", "written_gs"]

pytestmark = pytest.mark.servers

SOURCE = data_path("orbax", "new/pytree")
MARK = "commit_success.txt"


def values(path: str) -> Mapping[str, Any]:
    with formats.open_checkpoint(path) as reader:
        assert not reader.findings
        return {key: reader[key].read().tolist() for key in reader}


def test_a_step_that_is_sent_is_complete(bucket: str) -> None:
    run = f"{bucket}-orbax"
    for step in (3, 12):
        ckpt_cli.convert(SOURCE, f"{run}/{step}", to="orbax")
        assert values(f"{run}/{step}") == values(SOURCE)
    names = [name for name, _ in parse_location(f"{run}/3").listing()]
    assert MARK in names
    assert ckpt_cli.match(SOURCE, f"{run}/12").consumed
    assert [row["step"] for row in ckpt_cli.ls(run).to_dict()["checkpoints"]] == [3, 12]
    with pytest.raises(CheckpointError, match="already exists"):
        ckpt_cli.convert(SOURCE, f"{run}/3", to="orbax", overwrite=True)
    assert values(f"{run}/3") == values(SOURCE)
    for folder in (run + "/12", run + "/12/default"):
        mark = parse_location(f"{folder}/{MARK}")
        mark.object_store.delete([mark])
    mark.object_store.forget_listings()
    assert [row["step"] for row in ckpt_cli.ls(run).to_dict()["checkpoints"]] == [3]
    with formats.open_checkpoint(f"{run}/12") as reader:
        assert "unfinished" in reader.findings[0].message


def test_the_mark_of_a_step_is_the_last_object_written(google_server: Google, written_gs: str) -> None:
    """Orbax deletes a step without its mark; a step with it counts as complete even if files are missing."""
    run = f"{written_gs}/marked"
    ckpt_cli.convert(SOURCE, f"{run}/3", to="orbax", shard_size=64)
    written = {
        path.partition("/marked/")[2]: each.generation
        for path, each in google_server.objects.items()
        if "/marked/" in path
    }
    in_order = sorted(written, key=written.__getitem__)
    assert len(in_order) > 10
    assert in_order[-1] == f"3/{MARK}"

    def refuse(method: str, path: str, _: Mapping[str, str]) -> int | None:
        return 403 if method == "PUT" and f"/4/{MARK}" in unquote(path) else None

    google_server.fault = refuse
    try:
        with pytest.raises(CheckpointError, match="the server answered 403"):
            ckpt_cli.convert(SOURCE, f"{run}/4", to="orbax")
    finally:
        google_server.fault = lambda *_: None
    assert not [path for path in google_server.objects if "/marked/4/" in path]


def test_a_file_of_flax_is_sent(bucket: str) -> None:
    target = f"{bucket}-flax/model.msgpack"
    ckpt_cli.convert(SOURCE, target)
    assert values(target) == values(SOURCE)
