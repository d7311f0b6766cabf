from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from formats import open_checkpoint
from formats.location import parse_location
from formats.tf.bundle.producer import producer_of
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = {"producer": "tensorflow", "tensorflow_version": "2.15.1"}
META = data_path("name_based", "adam", "model.ckpt-5.meta")


@pytest.mark.parametrize(
    ("path", "metadata"),
    [
        ("name_based/adam/model.ckpt-5", KNOWN),
        ("guide_adam_new/tf_ckpts/ckpt-10", {}),  # no graph is next to it
    ],
)
def test_the_graph_next_to_a_checkpoint_says_who_wrote_it(path: str, metadata: dict[str, str]) -> None:
    with open_checkpoint(data_path(*path.split("/"))) as reader:
        assert reader.facts.document() == metadata


def test_v1_files_and_shards_have_one_graph(tmp_path: Path) -> None:
    for folder, names in (
        ("plain", ("model.ckpt-1",)),
        ("sharded", ("model.ckpt-1-00000-of-00002", "model.ckpt-1-00001-of-00002")),
    ):
        for name in names:
            shutil.copy(data_path("v1_format", folder, name), tmp_path)
        shutil.copy(META, tmp_path / "model.ckpt-1.meta")
        with open_checkpoint(tmp_path / names[0]) as reader:
            assert reader.facts.document() == KNOWN


def test_a_damaged_graph_says_nothing_or_the_truth(tmp_path: Path) -> None:
    with open(META, "rb") as file:
        whole = file.read()
    target = tmp_path / "x.meta"
    version = whole.index(b"2.15.1")
    for cut in (*range(64), *range(version - 4, version + 8), len(whole) // 2, len(whole)):
        target.write_bytes(whole[:cut])
        assert producer_of(parse_location(str(tmp_path / "x"))).document() in ({}, KNOWN)
    for garbage in (
        b"\xff" * 100,
        b"\x0b" * 10,
        b"version https://git-lfs.github.com/spec/v1\n",
        b"\x0a\x04\x2a\x02\x1b[",
    ):
        target.write_bytes(garbage)
        assert producer_of(parse_location(str(tmp_path / "x"))).document() == {}


@pytest.mark.parametrize("before", ["", "0807", "0901020304050607ff", "0d010203ff", "0a0141"])
def test_fields_of_each_wire_type_are_passed_over(tmp_path: Path, before: str) -> None:
    info = bytes.fromhex(before) + b"\x2a\x062.15.1"
    (tmp_path / "x.meta").write_bytes(b"\x0a" + bytes([len(info)]) + info)
    assert producer_of(parse_location(str(tmp_path / "x"))).document() == KNOWN
