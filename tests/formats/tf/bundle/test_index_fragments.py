"""The rest of a damaged index: which header is believed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from formats.location import parse_location
from formats.tf.bundle.index_fragments import read_remains
from formats.wire.messages import BundleHeaderProto, VersionDef
from tests.support import write_bundle

ENTRY = {"w": np.ones(3, np.float32)}


def remains(
    prefix: Path, header: BundleHeaderProto | bytes | None, names: list[str]
) -> tuple[int, int, list[str]]:
    """Return the count of shards, the byte order, and the findings for an index next to such files."""
    write_bundle(str(prefix), ENTRY, header=header)
    Path(f"{prefix}.data-00000-of-00001").unlink()
    for name in names:
        Path(f"{prefix}.data-{name}").touch()
    found = read_remains(parse_location(str(prefix)))
    assert list(found.sound) == [b"w"]
    assert all((each.severity, each.code, each.offset) == ("warning", "header", 0) for each in found.findings)
    return found.header.num_shards, found.header.endianness, [each.message for each in found.findings]


@pytest.mark.parametrize("header", [None, b"\xff"])
def test_without_a_header_files_tell_how_many_shards_there_are(
    tmp_path: Path, header: BundleHeaderProto | bytes | None
) -> None:
    assert remains(tmp_path / "a", header, []) == (0, 0, [])
    assert remains(tmp_path / "b", header, ["00000-of-00003"]) == (3, 0, [])
    assert remains(tmp_path / "c", header, ["00000-of-00003", "00000-of-00002"]) == (3, 0, [])


def test_a_header_that_files_contradict_is_corrected(tmp_path: Path) -> None:
    header = BundleHeaderProto(num_shards=2, version=VersionDef(producer=1))
    assert remains(tmp_path / "a", header, []) == (2, 0, [])
    assert remains(tmp_path / "b", header, ["00001-of-00002"]) == (2, 0, [])
    assert remains(tmp_path / "c", header, ["00000-of-00003", "00001-of-00002"]) == (2, 0, [])
    assert remains(tmp_path / "d", header, ["00000-of-00003", "00001-of-00004"]) == (2, 0, [])
    said = "the header declares 2 shards, but the file names say 3; using 3"
    assert remains(tmp_path / "e", header, ["00000-of-00003"]) == (3, 0, [said])


@pytest.mark.parametrize(("stored", "used"), [(0, 0), (1, 1), (2, 0), (-1, 0)])
def test_an_order_of_bytes_that_is_none_is_little_endian(tmp_path: Path, stored: int, used: int) -> None:
    header = BundleHeaderProto(num_shards=1, endianness=stored, version=VersionDef(producer=1))
    assert remains(tmp_path / "a", header, []) == (1, used, [])


def test_a_missing_index_is_reported(tmp_path: Path) -> None:
    found = read_remains(parse_location(str(tmp_path / "none")))
    assert (found.sound, found.doubtful, found.header.num_shards) == ({}, {}, 0)
    (finding,) = found.findings
    assert (finding.code, finding.message, finding.file) == (
        "shard-missing",
        "the index is missing",
        f"{tmp_path / 'none'}.index",
    )
