"""Whether a written tensor holds what its source holds, and which plans can be sent by several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ckpt_cli.operations.convert import bucket_tasks
from ckpt_cli.operations.convert.execute import same_tensor
from ckpt_cli.operations.convert.plan import Move
from ckpt_cli.operations.convert.planner import plan_conversion
from ckpt_cli.operations.convert.source import Settings
from formats import open_checkpoint
from formats.location import parse_location
from tests.support import data_path, partitioned, shard_path, strings, write_bundle
from tests.writing import save

if TYPE_CHECKING:
    from pathlib import Path

    from ckpt_cli.operations.convert.plan import Plan

FLOATS, OTHERS = np.arange(5, dtype=np.float32), np.arange(5, 10, dtype=np.float32)


def holds(there: Path, here: Path) -> bool:
    """Return whether the tensor of one checkpoint is that of the other, which is its source."""
    with open_checkpoint(there) as written, open_checkpoint(here) as source:
        spec = written.specs["t"]
        return same_tensor(written["t"], Move(spec, "t", source["t"]))


@pytest.mark.parametrize("kinds", [("tf-name", "tf-name"), ("npz", "tf-name"), ("tf-name", "npz")])
def test_numbers_are_the_same_or_not(kinds: tuple[str, str], tmp_path: Path) -> None:
    """With a checksum on both sides, on one of them, or on neither."""
    paths = [
        tmp_path / f"{name}-1{'.npz' if kind == 'npz' else ''}"
        for name, kind in zip("ab", kinds, strict=True)
    ]
    for path, kind in zip(paths, kinds, strict=True):
        save(path, {"t": FLOATS}, kind)
    assert holds(*paths)
    save(paths[1], {"t": OTHERS}, kinds[1], overwrite=True)
    assert not holds(*paths)


@pytest.mark.parametrize("other", [np.arange(5, dtype=np.float64), np.arange(6, dtype=np.float64)])
def test_what_was_cast_is_compared_with_the_cast(other: Any, tmp_path: Path) -> None:
    write_bundle(str(tmp_path / "a-1"), {"t": FLOATS})
    write_bundle(str(tmp_path / "b-1"), {"t": other})
    assert holds(tmp_path / "a-1", tmp_path / "b-1") == (len(other) == 5)


@pytest.mark.parametrize(
    ("one", "other"),
    [([b"a", b""], [b"a", b""]), ([b"a", b""], [b"a", b"b"]), ([b"ab", b""], [b"a", b"b"])],
)
def test_strings_are_the_same_or_not(one: list[bytes], other: list[bytes], tmp_path: Path) -> None:
    write_bundle(str(tmp_path / "a-1"), {"t": strings(one)})
    write_bundle(str(tmp_path / "b-1"), {"t": strings(other)})
    assert holds(tmp_path / "a-1", tmp_path / "b-1") == (one == other)


def test_what_has_the_checksum_and_not_the_bytes_is_another(tmp_path: Path) -> None:
    for name in "ab":
        write_bundle(str(tmp_path / f"{name}-1"), {"t": FLOATS})
    shard = shard_path(str(tmp_path / "a-1"))
    with open(shard, "r+b") as file:
        file.seek(4)
        file.write(b"!")
    assert not holds(tmp_path / "a-1", tmp_path / "b-1")


# Tasks for buckets ----------------------------------------------------------------------


def plan_of(tmp_path: Path, tensors: dict[str, Any]) -> tuple[Any, Plan]:
    write_bundle(str(tmp_path / "a-1"), tensors)
    reader = open_checkpoint(tmp_path / "a-1")
    settings = Settings()
    target = parse_location(str(tmp_path / "b-1"))
    return reader, plan_conversion(reader, list(reader), target, reader.format, settings)


def test_strings_wait_in_memory_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, plan = plan_of(tmp_path, {"t": FLOATS, "s": strings([b"12345"])})
    with reader:
        # The values are read, and a length, the checksum of lengths and the string are written.
        waiting = 2 * (1 + 4 + 5)
        monkeypatch.setattr(bucket_tasks, "_MOST_WAITING", waiting)
        assert bucket_tasks.can_be_shared(plan)
        monkeypatch.setattr(bucket_tasks, "_MOST_WAITING", waiting - 1)
        assert not bucket_tasks.can_be_shared(plan)
        only_numbers = plan._replace(moves=tuple(move for move in plan.moves if move.spec.key == "t"))
        monkeypatch.setattr(bucket_tasks, "_MOST_WAITING", 0)
        assert bucket_tasks.can_be_shared(only_numbers)
        made = only_numbers._replace(moves=(only_numbers.moves[0]._replace(tensor=None, value=FLOATS),))
        assert not bucket_tasks.can_be_shared(made)


def test_a_graph_waits_too_and_slices_are_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, plan = plan_of(tmp_path, {"t": FLOATS})
    with reader, open_checkpoint(data_path("guide_adam_new", "tf_ckpts", "ckpt-10")) as objects:
        graph = objects.object_graph
        assert graph is not None
        plan = plan._replace(object_graph=graph)
        monkeypatch.setattr(bucket_tasks, "_MOST_WAITING", len(graph.encode()))
        assert bucket_tasks.can_be_shared(plan)
        monkeypatch.setattr(bucket_tasks, "_MOST_WAITING", len(graph.encode()) - 1)
        assert not bucket_tasks.can_be_shared(plan)
    sliced = partitioned(np.zeros((2, 2), np.float32), [((0, 1), (0, -1)), ((1, 1), (0, -1))])
    (tmp_path / "s").mkdir()
    reader, plan = plan_of(tmp_path / "s", {"t": sliced})
    with reader:
        assert plan.slices
        assert not bucket_tasks.can_be_shared(plan)
