"""OCDBT databases that no tensorstore wrote: each is an error, in little time and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cramjam
import numpy as np
import pytest

import formats
from formats.orbax.ocdbt import NodePosition, decode_node
from tests.orbax_files import (
    MANIFEST,
    NODE,
    frame,
    interior_body,
    leaf_body,
    manifest,
    numbers,
    save,
    stored,
    write,
)
from tests.support import same

if TYPE_CHECKING:
    from pathlib import Path

W = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
LEAF = frame(NODE, leaf_body(stored({"w": W})))


def test_a_database_by_hand_is_read(tmp_path: Path) -> None:
    with formats.open_checkpoint(save(str(tmp_path / "o"), {"w": W, "b": W[0], "n": np.array(3)})) as reader:
        assert same(reader["w"].read(), W)
        assert (list(reader), reader["n"].read()) == (["b", "n", "w"], 3)


def test_an_interior_node_leads_to_leaves(tmp_path: Path) -> None:
    first, second = (frame(NODE, leaf_body(stored({name: W}))) for name in "bw")
    children = [(b"b/", 0, len(first)), (b"w/", len(first), len(second))]
    root = frame(NODE, interior_body(children, 1))
    nodes = first + second + root
    path = write(
        str(tmp_path / "o"),
        [("b",), ("w",)],
        manifest(len(first + second), len(root), height=1),
        nodes,
    )
    with formats.open_checkpoint(path) as reader:
        assert same(reader["b"].read(), reader["w"].read())


@pytest.mark.parametrize(("common", "is_read"), [(1, True), (2, True), (3, False)])
def test_children_have_keys_without_their_common_beginning(
    tmp_path: Path, common: int, is_read: bool
) -> None:
    """It may be all of the first key, and no more."""
    leaves = [
        frame(NODE, leaf_body({key[common:]: value for key, value in stored({name: W}).items()}))
        for name in "bw"
    ]
    first, second = map(len, leaves)
    root = frame(NODE, interior_body([(b"b/", 0, first), (b"w/", first, second)], 1, common=common))
    path = write(
        str(tmp_path / "o"),
        [("b",), ("w",)],
        manifest(first + second, len(root), height=1),
        b"".join(leaves) + root,
    )
    if not is_read:
        with pytest.raises(formats.CheckpointError, match="begin with more than their own key has"):
            formats.open_checkpoint(path)
        return
    with formats.open_checkpoint(path) as reader:
        assert same(reader["b"].read(), reader["w"].read())


def _circle() -> tuple[bytes, bytes]:
    body = interior_body([(b"w", 0, 0)], 1)
    size = len(frame(NODE, body))
    root = frame(NODE, interior_body([(b"v", 0, size), (b"w", 0, size)], 2))
    return manifest(0, len(root), height=2), root


def _of_root(body: bytes, compression: int = 0, height: int = 0) -> tuple[bytes, bytes]:
    node = frame(NODE, body, compression)
    return manifest(0, len(node), height=height), node


def _twice() -> tuple[bytes, bytes]:
    root = frame(NODE, interior_body([(b"v", 0, len(LEAF)), (b"w", 0, len(LEAF))], 1))
    return manifest(len(LEAF), len(root), height=1), LEAF + root


BOMB = bytes(cramjam.zstd.compress(bytes(200_000_000), 19))
DAMAGED = {
    "twice in the tree": _circle(),
    "occurs twice": _twice(),
    "a node has height 0; expected 3": _of_root(leaf_body(stored({"w": W})), height=3),
    "has height 200": (manifest(0, len(LEAF), height=200), LEAF),
    "do not ascend": _of_root(leaf_body({b"w/1": b"", b"w/0": b""})),
    "has no entries": _of_root(bytes([0]) + numbers(0, 0)),
    "expected 3 numbers": _of_root(bytes([0]) + numbers(3, 0, 0, 0)),
    "1099511627776 entries": _of_root(bytes([0]) + numbers(0, 1 << 40)),
    "1099511627776 entries are": _of_root(bytes([0]) + numbers(1 << 40)),
    "runs past the end": _of_root(bytes([0]) + b"\xff" * 20),
    "follow the last field": _of_root(leaf_body(stored({"w": W})) + b"x"),
    "at most 100000000 bytes of content": _of_root(BOMB, 1),
    "not a zstd frame": _of_root(b"xxxx", 1),
    "compression 7": _of_root(b"", 7),
    "not in this folder": (manifest(0, len(LEAF), path=b"../../etc/passwd"), LEAF),
    "is missing": (manifest(0, len(LEAF), path=b"d/1"), LEAF),
    "but the file has": (manifest(len(LEAF), len(LEAF)), LEAF),
    "a node has 1152921504606846976 bytes": (manifest(0, 1 << 60), LEAF),
    "begins with": (frame(NODE, b""), LEAF),
    "a frame has 3 bytes": (b"abc", LEAF),
    "a frame should have": (manifest(0, len(LEAF)) + b"x", LEAF),
    "more bytes, ": (frame(MANIFEST, bytes(8)), LEAF),
    "no version": (
        frame(MANIFEST, bytes(16) + numbers(0, 1, 1) + b"\0" + numbers(0, 0, 0, 0)),
        LEAF,
    ),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_what_contradicts_the_format_is_an_error(tmp_path: Path, what: str) -> None:
    root, nodes = DAMAGED[what]
    path = write(str(tmp_path / "o"), [("w",)], root, nodes)
    for lenient in (False, True):
        with pytest.raises(formats.CheckpointError, match=what):
            formats.open_checkpoint(path, lenient=lenient)


@pytest.mark.parametrize(("size", "is_supported"), [(1 << 16, True), ((1 << 16) + 1, False)])
def test_a_key_has_64_kib_at_most(size: int, is_supported: bool) -> None:
    first = b"k" * (size - 1)
    data = frame(NODE, leaf_body({first: b"1", first + b"k": b"2"}))  # of the second, one byte is stored
    position = NodePosition(b"", b"", 0, len(data), 0)
    if is_supported:
        found = decode_node(data, position, b"", len(data))
        assert [(len(key), value) for key, value in found.values] == [(size - 1, b"1"), (size, b"2")]
    else:
        with pytest.raises(
            ValueError, match=f"a name shares {size - 1} bytes with one of {size - 1}, and adds 1"
        ):
            decode_node(data, position, b"", len(data))


@pytest.mark.parametrize("common", [0, 1, 2, 3])
def test_children_may_share_the_whole_of_their_first_key(common: int) -> None:
    data = frame(NODE, interior_body([(b"ab", 0, 9), (b"ac", 9, 9)], 1, common=common))
    position = NodePosition(b"", b"", 0, len(data), 1)
    if common > 2:
        with pytest.raises(ValueError, match="begin with more than their own key has"):
            decode_node(data, position, b"p/", len(data))
        return
    found = decode_node(data, position, b"p/", len(data))
    assert [begin for begin, _ in found.children] == [b"p/" + key[:common] for key in (b"ab", b"ac")]
    assert [(child.offset, child.length, child.height) for _, child in found.children] == [
        (0, 9, 0),
        (9, 9, 0),
    ]
