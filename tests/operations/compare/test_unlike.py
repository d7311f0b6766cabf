"""Comparing the indexes of two large bundles finds the same tensors equal as comparing every tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckpt_cli.operations.compare.diff import diff_pairs
from ckpt_cli.operations.compare.index_difference import UnequalPairs, unequal_pairs
from ckpt_cli.operations.compare.pairs import pair_up
from formats import CorruptCheckpointError
from formats.core.spec import TensorSpec
from formats.find.opening import locate, open_location
from formats.location import parse_location
from formats.tf.bundle import reader
from tests.support import Entries, partitioned, strings, write_bundle

if TYPE_CHECKING:
    from pathlib import Path

VALUES: list[Any] = [
    np.zeros(3, np.float32),
    np.ones(3, np.float32),
    np.zeros(3, np.int32),
    np.zeros((3, 1), np.float32),
    strings([b"a"]),
    strings([b"b"]),
    partitioned(np.zeros((2, 2), np.float32), [((0, 1), (0, -1)), ((1, 1), (0, -1))]),
]
SIDE = st.dictionaries(st.integers(0, 60), st.integers(0, len(VALUES) - 2), max_size=60)


@pytest.fixture(autouse=True)
def _every_index_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MANY_BLOCKS", 0)


def told(one: str, other: str) -> UnequalPairs | None:
    with (
        open_location(locate(parse_location(one)), loaded=False) as left,
        open_location(locate(parse_location(other)), loaded=False) as right,
    ):
        return unequal_pairs(left, right)


def check(one: str, other: str) -> None:
    """Hold what is left over, compared, against a comparison of all."""
    found = told(one, other)
    assert found is not None
    with (
        open_location(locate(parse_location(one))) as left,
        open_location(locate(parse_location(other))) as right,
    ):
        every = diff_pairs(left, right, pair_up(left, right))
        some = diff_pairs(left, right, found.pairs)._replace(same=found.same)
    assert some.summary == every.summary
    assert some.shown(everything=False) == every.shown(everything=False)


@given(SIDE, SIDE, st.integers(20, 3000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_left_over_is_all_that_differs(
    tmp_path: Path, left: dict[int, int], right: dict[int, int], block_size: int
) -> None:
    paths = []
    for name, side in (("left", left), ("right", right)):
        prefix = str(tmp_path / name)
        tensors = {f"layer/{number:02d}/w": VALUES[value] for number, value in side.items()}
        write_bundle(prefix, tensors, block_size=block_size if name == "left" else 100)
        paths.append(prefix)
    check(*paths)


def test_keys_that_are_not_utf_8_keep_their_order(tmp_path: Path) -> None:
    one, other = str(tmp_path / "left"), str(tmp_path / "right")
    keys = [b"a", b"\x80", b"\xc3\xa9", b"\xef\xbf\xbd", b"\xf0\x9f\x98\x80", b"\xff"]
    write_bundle(one, dict.fromkeys(keys, VALUES[0]))
    write_bundle(other, dict.fromkeys(keys[::2], VALUES[0]))
    check(one, other)
    check(other, one)


def test_what_is_not_decoded_is_not_the_same(tmp_path: Path) -> None:
    def spoil(entries: Entries) -> None:
        entries[b"b"].dtype = 99

    prefix = str(tmp_path / "c")
    write_bundle(prefix, {"a": VALUES[0], "b": VALUES[0]}, edit=spoil)
    found = told(prefix, prefix)
    assert found is not None
    assert ([pair.key for pair in found.pairs], found.same) == (["b"], 1)


@pytest.mark.parametrize("checksum", [0, 1, (1 << 32) - 1])
def test_every_checksum_is_one(tmp_path: Path, checksum: int) -> None:
    def stored(entries: Entries) -> None:
        entries[b"a"].crc32c = checksum

    one, other = str(tmp_path / "c"), str(tmp_path / "d")
    write_bundle(one, {"a": VALUES[0], "b": VALUES[0]}, edit=stored)
    write_bundle(other, {"a": VALUES[0], "b": VALUES[0]})
    found = told(one, one)
    assert found == UnequalPairs([], 2)
    found = told(one, other)
    assert found is not None
    assert ([pair.key for pair in found.pairs], found.same) == (["a"], 1)


def test_columns_without_checksums_tell_nothing(tmp_path: Path) -> None:
    prefix, sliced = str(tmp_path / "c"), str(tmp_path / "s")
    write_bundle(prefix, {"a": VALUES[0], "b": VALUES[1]})
    write_bundle(sliced, {"a": VALUES[0], "b": VALUES[-1]}, block_size=20)
    assert told(prefix, sliced) is None


def test_damage_is_raised(tmp_path: Path) -> None:
    prefix, spoiled = str(tmp_path / "c"), tmp_path / "s"
    tensors = {f"{number:04d}": VALUES[0] for number in range(200)}
    write_bundle(prefix, tensors, block_size=500)
    write_bundle(str(spoiled), tensors, block_size=500)
    index = bytearray((tmp_path / "s.index").read_bytes())
    index[2000] ^= 1
    (tmp_path / "s.index").write_bytes(index)
    with pytest.raises(CorruptCheckpointError, match="the block has checksum"):
        told(prefix, str(spoiled))


def test_specs_are_not_gone_through_for_each_key_that_one_side_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = str(tmp_path / "left"), str(tmp_path / "right")
    for prefix, last in ((one, "x"), (other, "y")):
        write_bundle(prefix, {f"{at:03d}/{last}": np.zeros((at % 40, 1), np.uint8) for at in range(300)})
    calls = []

    def counted(spec: TensorSpec) -> int:
        calls.append(spec)
        return hash(tuple(spec))

    monkeypatch.setattr(TensorSpec, "__hash__", counted)
    found = told(one, other)
    assert found is not None
    assert len(found.pairs) == 600
    assert 0 < len(calls) < 2000
