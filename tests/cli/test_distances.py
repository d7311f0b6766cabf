"""`ckpt diff --matrix`: how far several checkpoints are apart."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

import ckpt_cli
from tests.support import data_path
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GUIDE = data_path("guide_adam_legacy", "tf_ckpts")


@pytest.fixture
def seeds(tmp_path: Path) -> list[Path]:
    """Return four checkpoints: two of one ancestor with a frozen layer, a copy of the second, another one."""
    random = np.random.default_rng(1)
    frozen = random.normal(size=(5, 4)).astype(np.float32)

    def weights(layer: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "base/kernel": layer,
            "head/kernel": random.normal(size=(4, 3)).astype(np.float32),
            "head/bias": np.zeros(3, np.float32),
            "step": np.array(7),
        }

    paths = [tmp_path / f"{name}.npz" for name in "abcd"]
    second = weights(frozen)
    for path, arrays in zip(paths, [weights(frozen), second, second, weights(frozen + 1)], strict=True):
        np.savez(path, **arrays)
    return paths


def distance(one: dict[str, np.ndarray], other: dict[str, np.ndarray], prefix: str = "") -> float:
    keys = [key for key in one if key.startswith(prefix) and one[key].dtype == np.float32]
    left, right = (np.concatenate([side[key].ravel().astype(float) for key in keys]) for side in (one, other))
    return float(np.linalg.norm(left - right) / np.linalg.norm(right))


def test_each_distance_is_that_of_numpy(seeds: list[Path], ckpt: Callable) -> None:
    done = ckpt("diff", "--matrix", *seeds, "--json")
    assert (done.code, done.err) == (0, "")
    arrays = [dict(np.load(path)) for path in seeds]
    expected = [[distance(one, other) for other in arrays] for one in arrays]
    found = done.json
    assert found["schema"] == 1
    assert found["paths"] == [str(path) for path in seeds]
    np.testing.assert_allclose(found["rel_l2"], expected, rtol=1e-12)
    groups = {group["prefix"]: group["rel_l2"] for group in found["groups"]}
    assert list(groups) == ["base", "head"]
    for prefix, table in groups.items():
        expected = [[distance(one, other, prefix) for other in arrays] for one in arrays]
        np.testing.assert_allclose(table, expected, rtol=1e-12)


def test_copies_and_equal_layers_are_named(seeds: list[Path], terminal: Callable) -> None:
    text = terminal("diff", "--matrix", *seeds, "--color", "never").out
    assert "b.npz and c.npz: every tensor is equal" in text
    for name in "bc":
        said = (
            f"a.npz and {name}.npz: 1 layer is equal of 2: base; a common ancestor or frozen weights explain"
        )
        assert said in text
    assert "d.npz:" not in text


def test_rows_for_programs(seeds: list[Path], ckpt: Callable) -> None:
    rows = ckpt("diff", "--matrix", *seeds).rows
    assert len(rows) == 3 * 16
    assert rows[1][:3] == ["", str(seeds[0]), str(seeds[1])]
    header, *cells = csv.reader(io.StringIO(ckpt("diff", "--matrix", *seeds, "--csv").out, newline=""))
    assert header == ["prefix", "left", "right", "rel_l2"]
    assert cells == rows


def test_what_is_chosen_is_compared(seeds: list[Path], ckpt: Callable) -> None:
    found = ckpt("diff", "--matrix", *seeds[:2], "--match", "base/*", "--json").json
    assert found["rel_l2"] == [[0.0, 0.0], [0.0, 0.0]]
    done = ckpt("diff", "--matrix", *seeds[:2], "--match", "step")
    assert done.code == 1
    assert "share a floating-point tensor" in done.err


def test_checkpoints_of_other_shapes_have_no_distance(
    seeds: list[Path], tmp_path: Path, ckpt: Callable
) -> None:
    np.savez(tmp_path / "e.npz", **{"base/kernel": np.ones((2, 2), np.float32)})
    found = ckpt("diff", "--matrix", *seeds[:2], tmp_path / "e.npz", "--json").json
    assert found["rel_l2"][2] == [None, None, 0.0]
    assert [row[2] for row in found["rel_l2"]] == [None, None, 0.0]


def test_a_run_of_objects(ckpt: Callable) -> None:
    paths = [os.path.join(GUIDE, f"ckpt-{step}") for step in (8, 9, 10)]
    found = ckpt("diff", "--matrix", *paths, "--kind", "variable", "--json").json
    assert [group["prefix"] for group in found["groups"]] == ["net/l1"]
    assert 0 < found["rel_l2"][1][2] < found["rel_l2"][0][2]
    far = ckpt("diff", paths[1], paths[2], "net/l1/kernel", "--json").json["entries"][0]["rel_l2"]
    only = ckpt("diff", "--matrix", *paths, "--match", "net/l1/kernel", "--json").json
    assert only["rel_l2"][1][2] == pytest.approx(far, rel=1e-12)


def test_options_that_do_nothing_with_it(ckpt: Callable, seeds: list[Path]) -> None:
    for words in (["--stat"], ["--where", "size>1"], ["--sub", "a=>b"], ["--each"], ["--fail-on", "added"]):
        assert ckpt("diff", "--matrix", *seeds, *words).code == 2
    assert ckpt("diff", "--matrix", seeds[0]).code == 2
    assert ckpt("diff", "--matrix", *seeds, "nothing").code == 3


def test_an_infinity_that_did_not_change_leaves_a_distance(tmp_path: Path, ckpt: Callable) -> None:
    frozen = np.float32([1, 2, np.inf, -np.inf, np.nan])
    for name, head in (("a", 1), ("b", 2)):
        np.savez(tmp_path / f"{name}.npz", **{"base/w": frozen, "head/w": np.float32([head])})
    found = ckpt("diff", "--matrix", tmp_path / "a.npz", tmp_path / "b.npz", "--json").json
    assert found["rel_l2"][0][1] == pytest.approx(1 / 3)  # of 1, 2 and 2
    assert found["rel_l2"][1][0] == pytest.approx(1 / 6**0.5)
    assert [group["rel_l2"][0][1] for group in found["groups"]] == [0.0, 0.5]


def test_the_top_level_has_a_name_of_its_own_in_rows(tmp_path: Path, ckpt: Callable) -> None:
    for name, value in (("a", 1), ("b", 2)):
        np.savez(tmp_path / f"{name}.npz", w=np.float32([value]))
    rows = ckpt("diff", "--matrix", tmp_path / "a.npz", tmp_path / "b.npz").rows
    assert [row[0] for row in rows] == [""] * 4 + ["(top level)"] * 4


def test_pairs_of_directories_in_which_nothing_is_chosen_are_left_out(tmp_path: Path, ckpt: Callable) -> None:
    for side, values in (("p", (1, 2)), ("q", (1, 1))):
        (tmp_path / side).mkdir()
        for number, value in enumerate(values, 1):
            save(tmp_path / side / f"ckpt-{number}", {"x": np.full(3, value, np.float32)}, "tf-name")
    sides = tmp_path / "p", tmp_path / "q"
    done = ckpt("diff", "--each", *sides, "--where", "rel_l2>0.1")
    assert (done.code, done.err) == (1, "")
    assert [row[0] for row in done.rows] == ["ckpt-2"]
    assert len(ckpt_cli.diff(*sides, each=True, where="rel_l2>0.1")) == 1
    done = ckpt("diff", "--each", *sides, "--where", "rel_l2>5")
    assert done.code == 1
    assert "--where 'rel_l2>5' leaves no tensors" in done.err


def test_the_mark_of_a_mistake_is_below_its_expression(tmp_path: Path, ckpt: Callable) -> None:
    save(tmp_path / "a-1", {"x": np.ones(3, np.float32)}, "tf-name")
    done = ckpt("ls", tmp_path / "a-1", "--where", "size>>3")
    assert done.code == 2
    assert done.err.splitlines()[1:] == ["hint: size>>3", "           ^"]
