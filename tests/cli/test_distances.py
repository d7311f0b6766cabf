"""`ckpt diff --matrix`: how far several checkpoints are apart."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

import ckpt_cli
from tests.pages import PageSource
from tests.support import data_path, shard_path
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
    assert text.splitlines()[-3:] == [
        "checkpoints 2 and 3: every tensor is equal",
        "checkpoints 1 to 3: 1 layer is equal of 2: base",
        "Frozen weights, a common ancestor, or values that the program computes explain equal layers.",
    ]


def test_a_dozen_checkpoints_take_a_few_lines(tmp_path: Path, ckpt: Callable, terminal: Callable) -> None:
    """Each pair that shared a layer was a sentence of 143 characters."""
    random = np.random.default_rng(2)
    frozen = random.normal(size=(5, 4)).astype(np.float32)
    for at in range(12):
        own = random.normal(size=(4, 3)).astype(np.float32)
        half = frozen[:3] + np.float32(at // 6)
        vars_ = {"vars/0": np.float32(0.01), "vars/1": np.float32(0)}
        zeros = {"norm/beta": np.zeros(3, np.float32)}
        tensors = {"base/w": frozen, "half/w": half, "head/w": own, **vars_, **zeros}
        np.savez(tmp_path / f"seed_with_a_long_name_{at:02}.npz", **tensors)
    paths = sorted(tmp_path.iterdir())
    for columns in (60, 200):
        lines = terminal("diff", "--matrix", *paths, columns=columns, NO_COLOR="1").out.splitlines()
        assert max(map(len, lines)) <= columns
        told = " ".join(lines[lines.index("") :])
        for text in (
            "checkpoints 1 to 12: 1 layer is equal of 5: base",
            "checkpoints 1 to 6: 1 layer is equal of 5: half",
            "checkpoints 7 to 12: 1 layer is equal of 5: half",
            "norm, vars: only tensors of one value, such as zeros, ones or a learning rate; any two",
        ):
            assert text in told
        assert told.count("checkpoints") == 4
    target = tmp_path / "page.html"
    assert ckpt("report", *paths, "-o", target).code == 0
    assert "checkpoints 7 to 12: 1 layer is equal of 5: half" in target.read_text()


def test_sets_that_are_not_equal_in_each_pair_are_named_by_pair(tmp_path: Path, terminal: Callable) -> None:
    eye = np.eye(2, dtype=np.float32)
    contents = ({"l/a": eye}, {"l/a": eye, "l/b": eye}, {"l/b": eye, "l/c": eye}, {"l/c": eye * 2})
    for at, tensors in enumerate(contents):
        np.savez(tmp_path / f"{at}.npz", **tensors)
    out = terminal("diff", "--matrix", *sorted(tmp_path.iterdir()), NO_COLOR="1").out
    assert "checkpoints 1 and 2: 1 layer is equal: l\n" in out
    assert "checkpoints 2 and 3: 1 layer is equal: l\n" in out
    assert "1 to 3" not in out


def test_a_pattern_need_not_match_in_every_pair(tmp_path: Path, ckpt: Callable) -> None:
    """One pair in which nothing matched ended the comparison of all."""
    ones = np.ones((2, 2), np.float32)
    contents = ({"a/w": ones}, {"a/w": ones * 2, "b/w": ones}, {"b/w": ones * 4})
    for at, tensors in enumerate(contents):
        np.savez(tmp_path / f"{at}.npz", **tensors)
    paths = sorted(tmp_path.iterdir())
    done = ckpt("diff", "--matrix", *paths, "--match", "b/*", "--json")
    assert (done.code, done.err.splitlines()) == (
        0,
        [
            "note: checkpoint 1 and each of 2 and 3: no weight is compared, 1 is in only one checkpoint",
        ],
    )
    quiet = ckpt("diff", "--matrix", *paths, "--match", "b/*", "-q")
    assert (quiet.code, quiet.err, len(quiet.rows)) == (0, "", 18)
    assert done.json["rel_l2"] == [[0.0, None, None], [None, 0.0, 0.75], [None, 3.0, 0.0]]
    done = ckpt("diff", "--matrix", *paths, "--match", "b/*", "--match", "a/*", "--json")
    assert done.json["rel_l2"] == [[0.0, 0.5, None], [1.0, 0.0, 0.75], [None, 3.0, 0.0]]
    done = ckpt("diff", "--matrix", *paths, "--match", "b/*", "--match", "c/*")
    assert (done.code, done.out) == (1, "")
    assert "no tensor matches 'c/*'" in done.err


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
    assert "have a floating-point tensor with the same key" in done.err


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
    done = ckpt("diff", "--matrix", seeds[0])
    assert (done.code, done.out) == (2, "")
    assert "--matrix compares several checkpoints, and only one PATH is given" in done.err
    assert "missing argument RIGHT" in ckpt("diff", seeds[0]).err
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
    assert "no tensor satisfies --where 'rel_l2>5'" in done.err


def test_rows_of_pairs_have_their_header_next_to_damage(tmp_path: Path, ckpt: Callable) -> None:
    """A pair that cannot be read took the header along."""
    for side, value in (("p", 1), ("q", 2)):
        (tmp_path / side).mkdir()
        save(tmp_path / side / "ckpt-1", {"x": np.full(3, value, np.float32)}, "tf-name")
    save(tmp_path / "q" / "ckpt-2", {"x": np.ones(3, np.float32)}, "tf-name")
    with open(shard_path(str(tmp_path / "q" / "ckpt-1")), "r+b") as file:
        file.write(b"\x07")
    done = ckpt("diff", "--each", tmp_path / "p", tmp_path / "q", "--csv")
    assert done.code == 3
    assert "checksum" in done.err
    rows = [*csv.DictReader(io.StringIO(done.out, newline=""))]
    assert [(row["name"], row["change"]) for row in rows] == [("ckpt-2", "added")]


def test_the_mark_of_a_mistake_is_below_its_expression(tmp_path: Path, ckpt: Callable) -> None:
    save(tmp_path / "a-1", {"x": np.ones(3, np.float32)}, "tf-name")
    done = ckpt("ls", tmp_path / "a-1", "--where", "size>>3")
    assert done.code == 2
    assert done.err.splitlines()[1:] == [
        "hint: correct the expression at the mark:",
        "      size>>3",
        "           ^",
    ]


def test_names_with_dots_have_layers_too(terminal: Callable, tmp_path: Path) -> None:
    """As in PyTorch: without a slash in any key, dots part layer and leaf."""
    left = {f"encoder.layer.{at}.dense.{leaf}": np.ones(4) for at in range(3) for leaf in ("weight", "bias")}
    right = left | {"encoder.layer.1.dense.weight": np.full(4, 3.0)}
    np.savez(tmp_path / "left.npz", **left)
    np.savez(tmp_path / "right.npz", **right)
    shown = terminal("diff", tmp_path / "left.npz", tmp_path / "right.npz", NO_COLOR="1").out
    assert "encoder.layer.1.dense" in shown.splitlines()
    assert "(top level)" not in shown


def test_equal_constants_do_not_show_an_ancestor(tmp_path: Path, terminal: Callable) -> None:
    """Untrained scales of 1 in two unrelated models were called a common ancestor."""
    random = np.random.default_rng(3)
    frozen = random.normal(size=(4, 4)).astype(np.float32)

    def model(scale: float, weight: np.ndarray) -> dict[str, np.ndarray]:
        norm = {"norm.weight": np.full(4, scale, np.float32), "norm.bias": np.zeros(4, np.float32)}
        return {**norm, "dense.weight": weight, "dense.bias": np.full(4, 0.5, np.float32)}

    others = [random.normal(size=(4, 4)).astype(np.float32) for _ in range(2)]
    contents = [model(1, others[0]), model(1, others[1]), model(1.5, frozen), model(1.5, frozen)]
    contents[3]["norm.weight"] = random.normal(size=4).astype(np.float32)
    for at, tensors in enumerate(contents):
        np.savez(tmp_path / f"{at}.npz", **tensors)
    out = terminal("diff", "--matrix", *sorted(tmp_path.iterdir()), columns=200, NO_COLOR="1").out
    assert out.splitlines()[-3:-1] == [
        "checkpoints 3 and 4: 1 layer is equal of 2: dense",
        "Frozen weights, a common ancestor, or values that the program computes explain equal layers.",
    ]
    by_chance = "norm: only tensors of one value, such as zeros, ones or a learning rate; any two checkpoints"
    assert out.splitlines()[-1] == f"{by_chance} can be equal there"


def test_what_has_no_distance_says_why(tmp_path: Path, ckpt: Callable, terminal: Callable) -> None:
    """Cells were empty or `inf`, and nothing said why or that weights of other shapes were left out."""
    random = np.random.default_rng(4)
    one = {"a/w": random.normal(size=(3, 2)), "a/b": np.ones(2)}
    contents = {
        "1": one,
        "2_zero": {key: np.zeros_like(value) for key, value in one.items()},
        "3_shapes": {"a/w": np.ones((4, 2)), "a/b": np.ones(2)},
        "4_dtypes": {key: value.astype(np.float32) for key, value in one.items()},
        "5_nan": {**one, "a/b": np.array([1, np.nan])},
        "6_others": {"c/w": np.ones(2)},
    }
    for name, tensors in contents.items():
        np.savez(tmp_path / f"{name}.npz", **tensors)
    paths = sorted(tmp_path.iterdir())
    out = terminal("diff", "--matrix", *paths, columns=100, NO_COLOR="1").out
    rows = [line.split()[2:] for line in out.splitlines()[1:7]]
    assert rows[0] == ["-", "inf", "0%", "none", "nan", "none"]
    assert rows[5] == ["none"] * 5 + ["-"]
    sentences = [
        "checkpoint 3 and each of 1, 2 and 5: 1 of 2 weights is compared, 1 has another shape",
        "checkpoint 4 and each of 1, 2 and 5: no weight is compared, 2 have another dtype",
        "checkpoint 6 and each of 1 to 5: no weight is compared, 3 are in only one checkpoint",
        "checkpoints 3 and 4: no weight is compared, 1 has another shape, 1 has another dtype",
        "inf: all values are zero in the checkpoint whose norm is the divisor",
        "nan: a value is NaN or infinite in only one of both, or a norm is beyond float64",
    ]
    assert all(sentence in out.splitlines() for sentence in sentences)
    done = ckpt("diff", "--matrix", *paths, "--csv")
    assert done.err.splitlines() == [f"note: {sentence}" for sentence in sentences]
    target = tmp_path / "page.html"
    assert ckpt("report", *paths, "-o", target).code == 0
    assert PageSource(target).document["remarks"][: len(sentences)] == sentences


def test_many_layers_are_shown_by_their_blocks(tmp_path: Path, terminal: Callable) -> None:
    """Twenty of 37 modules were shown, and nothing about most of the blocks."""
    random = np.random.default_rng(5)
    names = [f"encoder.layer.{at}.{part}.weight" for at in range(12) for part in ("query", "key", "dense")]
    start = {name: random.normal(size=(4, 4)) for name in [*names, "head.weight"]}
    end = {
        name: values * (1 + 0.01 * int(name.split(".")[2]) if name in names else 1.5)
        for name, values in start.items()
    }
    np.savez(tmp_path / "a.npz", **{f"model/{name}": values for name, values in start.items()})
    np.savez(tmp_path / "b.npz", **{f"model/{name}": values for name, values in end.items()})
    sides = tmp_path / "a.npz", tmp_path / "b.npz"
    expected = ["model/head", *(f"model/encoder.layer.{at}" for at in range(11, 0, -1))]
    lines = terminal("diff", *sides, NO_COLOR="1").out.splitlines()
    table = lines[2 : lines.index("")]
    assert [line.split()[:2] for line in table[:2]] == [["model/head", "33.3%"], [expected[1], "9.91%"]]
    assert [line.split()[0] for line in table[:-1]] == expected
    assert table[1].split()[3] == "3"
    lines = terminal("diff", "--matrix", *sides, NO_COLOR="1").out.splitlines()
    rows = [line.split()[0] for line in lines[lines.index("") + 2 :]]
    assert rows[:13] == [*expected, "model/encoder.layer.0"]
    assert "checkpoints 1 and 2: 3 layers are equal of 37: model/encoder.layer.0" in lines
