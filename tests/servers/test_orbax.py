"""Orbax checkpoints in buckets: written with their mark last, read, and unfinished without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ckpt_cli
import formats
from formats.errors import CheckpointError
from formats.location import parse_location
from tests.servers.test_writing import bucket, google_server, written_gs
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def test_a_file_of_flax_is_sent(bucket: str) -> None:
    target = f"{bucket}-flax/model.msgpack"
    ckpt_cli.convert(SOURCE, target)
    assert values(target) == values(SOURCE)
