"""The state of an optimizer of optax in a tree becomes that of Keras, and the reverse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats.find.opening import open_reader
from formats.location import local_location
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KERAS = data_path("keras3_mlp", "mlp.keras")
UNTRAINED = [f"layers/batch_normalization/vars/{at}" for at in (2, 3)]
ONE, KERNEL = np.array(1, np.int32), np.zeros((6, 8), np.float32)
SLOTS = {
    "layers/dense/vars/0": 2,
    "layers/dense/vars/1": 4,
    "layers/dense_1/vars/0": 14,
    "layers/dense_1/vars/1": 16,
}
"""The numbers of m in the list of Keras 3, of some variables; v follows."""


class Trees:
    """An untrained tree of the model in KERAS, and the maps to it and from it."""

    def __init__(self, folder: Path, ckpt: Callable, **more: np.ndarray) -> None:
        with open_reader(local_location(KERAS)) as reader:
            self.values = {key: reader[key].read() for key in reader.specs}
        weights = [key for key in self.values if key.startswith("layers/")]
        self.names = {key: f"params/{key.replace('/', '_')}/kernel" for key in weights}
        arrays = {name: np.zeros_like(self.values[key]) for key, name in self.names.items()}
        for key, name in self.names.items():
            if key not in UNTRAINED:
                more |= {name.replace("params", f"opt_state/0/{slot}"): arrays[name] for slot in ("mu", "nu")}
        more |= {f"opt_state/{at}/count": np.array(0, np.int32) for at in range(2)}
        np.savez(folder / "tree.npz", **arrays, **more)
        self.path = folder / "tree"
        assert ckpt("convert", folder / "tree.npz", self.path, "--to", "orbax").code == 0
        self.there, self.back = folder / "there.tsv", folder / "back.tsv"
        self.there.write_text("".join(f"{key}\t{name}\n" for key, name in self.names.items()))
        self.back.write_text("".join(f"{name}\t{key}\n" for key, name in self.names.items()))


def test_adam_becomes_a_tree_and_comes_back(tmp_path: Path, ckpt: Callable) -> None:
    trees = Trees(tmp_path, ckpt)
    made, back = tmp_path / "made", tmp_path / "back.keras"
    options = ("--like", trees.path, "--map", trees.there, "--optimizer", "Adam")
    done = ckpt("convert", KERAS, made, *options)
    assert done.code == 0, done.err
    with open_reader(local_location(str(made))) as reader:
        tree = {key: reader[key].read() for key in reader.specs}
    steps = trees.values["optimizer/vars/0"]
    assert tree["opt_state/0/count"] == tree["opt_state/1/count"] == steps > 0
    assert all(np.array_equal(tree[name], trees.values[key]) for key, name in trees.names.items())
    for key, number in SLOTS.items():
        for slot, at in (("mu", number), ("nu", number + 1)):
            found = tree[trees.names[key].replace("params", f"opt_state/0/{slot}")]
            assert np.array_equal(found, trees.values[f"optimizer/vars/{at}"])
    done = ckpt("convert", made, back, "--like", KERAS, "--map", trees.back, "--optimizer", "Adam")
    assert done.code == 0, done.err
    with open_reader(local_location(str(back))) as reader:
        assert all(np.array_equal(reader[key].read(), each) for key, each in trees.values.items())


@pytest.mark.parametrize(
    ("options", "more", "said"),
    [
        ((), {}, "--optimizer Adam"),
        (("--optimizer", "Lion"), {}, "it keeps mu and nu, which is not what Lion of optax keeps"),
        (("--optimizer", "Nadam"), {}, "Nadam"),
        (("--optimizer", "Adafactor"), {}, "over the two largest dimensions of a weight"),
        (("--optimizer", "RMSprop"), {}, "a count, so it corrects bias"),
        (("--optimizer", "Adam"), {"opt_state/2/mini_step": ONE}, "counts 1 gradient that no step has used"),
        (("--optimizer", "Adam"), {"opt_state/2/count": ONE}, "its counts differ"),
        (("--optimizer", "Adam"), {"opt_state/2/fast": ONE}, "'opt_state/2/fast' does not belong to Adam"),
        (("--optimizer", "Adam"), {"opt_state/1/mu/layers_dense_vars_0/kernel": KERNEL}, "of one parameter"),
    ],
)
def test_what_no_tree_shows_is_rejected(
    tmp_path: Path, ckpt: Callable, options: tuple[str, ...], more: dict[str, np.ndarray], said: str
) -> None:
    trees = Trees(tmp_path, ckpt, **more)
    made = tmp_path / "back.keras"
    done = ckpt("convert", trees.path, made, "--like", KERAS, "--map", trees.back, *options)
    assert done.code == 3
    assert said in done.err
    assert not made.exists()


def test_a_weights_file_does_not_name_the_weights_of_its_slots(tmp_path: Path, ckpt: Callable) -> None:
    trees, bare = Trees(tmp_path, ckpt), tmp_path / "m.weights.h5"
    assert ckpt("convert", KERAS, bare).code == 0
    for source, target, template, names in (
        (bare, "made", trees.path, trees.there),
        (trees.path, "made.weights.h5", bare, trees.back),
    ):
        options = ("--like", template, "--map", names)
        done = ckpt("convert", source, tmp_path / target, *options, "--optimizer", "Adam")
        assert done.code == 3
        assert "use a .keras or .h5 file of the whole model" in done.err
        assert ckpt("convert", source, tmp_path / target, *options, "--keep-optimizer").code == 0


@pytest.mark.parametrize(
    ("key", "before", "follows"),
    [("step", 0, True), ("step", 3, False), ("loader/step", 0, False), ("rngs/dropout/count", 0, False)],
)
def test_a_step_next_to_the_optimizer_follows_if_it_counts_the_same(
    tmp_path: Path, ckpt: Callable, key: str, before: int, *, follows: bool
) -> None:
    trees = Trees(tmp_path, ckpt, **{key: np.array(before, np.int32)})
    options = ("--like", trees.path, "--map", trees.there, "--optimizer", "Adam")
    done = ckpt("convert", KERAS, tmp_path / "made", *options)
    assert done.code == 0, done.err
    with open_reader(local_location(str(tmp_path / "made"))) as reader:
        assert reader[key].read() == (trees.values["optimizer/vars/0"] if follows else before)
