"""`--layout` and maps with operations: a model's weights in PyTorch's layout, and back; rejections."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import formats
from ckpt_cli.operations.select.name_map import packs
from tests.support import data_path, same
from tests.torch_files import storage, tensor, zipped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONV = data_path("keras_conv", "conv.full.h5")
CONV_3 = data_path("keras3_conv", "conv.keras")
NESTED = data_path("keras3_nested", "tower.weights.h5")


def read(path: object) -> dict[str, np.ndarray[Any, Any]]:
    with formats.open_checkpoint(str(path)) as reader:
        return {key: reader[key].read() for key in reader}


def saved(path: Path, **tensors: np.ndarray[Any, Any]) -> Path:
    np.savez(path, **{key.replace("__", "/"): value for key, value in tensors.items()})
    return path


BERT = data_path("bert_tiny", "bert_model.ckpt-2")


def test_a_map_of_ckpts_own_is_found_next_to_a_folder_of_its_name(
    ckpt: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint of BERT is often in a folder called `bert`."""
    shutil.copytree(data_path("bert_tiny"), tmp_path / "bert")
    monkeypatch.chdir(tmp_path)
    options = ("--map", "bert", "--exclude", "cls/*", "--weights-only")
    done = ckpt("convert", "bert", "m.safetensors", *options)
    assert done.code == 0, done.err
    assert "pooler.dense.weight" in read("m.safetensors")
    (tmp_path / "own").mkdir()
    refused = ckpt("convert", "bert", "n.safetensors", "--map", "own")
    assert (refused.code, "own: this is a directory" in refused.err) == (3, True)


@pytest.mark.parametrize("options", [("--layout", "pytorch"), ("--map", "brt")])
def test_maps_of_ckpts_own_are_listed_where_one_is_missing(
    options: tuple[str, ...], ckpt: Callable, tmp_path: Path
) -> None:
    source = saved(tmp_path / "m.npz", weight=np.ones(3))
    refused = ckpt("convert", source, tmp_path / "m.safetensors", *options)
    assert refused.code == 3
    hint = next(line for line in refused.err.splitlines() if line.startswith("hint: pass --map NAME to use"))
    assert hint.partition("ckpt: ")[2].split(", ") == [*packs()]
    assert refused.err.endswith("ckpt explain maps\n")


def test_a_convolution_net_there_and_back(ckpt: Callable, tmp_path: Path) -> None:
    there, back = tmp_path / "m.safetensors", tmp_path / "back.h5"
    done = ckpt("convert", CONV, there, "--layout", "pytorch", "--weights-only", "--json")
    assert done.code == 0, done.err
    rows = {row["to"]: row for row in done.json["tensors"]}
    assert rows["conv_a.weight"]["from"] == "conv_a/kernel"
    assert rows["bn_a.num_batches_tracked"]["from"] is None
    weights, torch = read(CONV), read(there)
    assert same(torch["conv_a.weight"], weights["conv_a/kernel"].transpose(3, 2, 0, 1))
    assert same(torch["dw.weight"][:, 0], weights["dw/depthwise_kernel"][..., 0].transpose(2, 0, 1))
    assert same(torch["logits.weight"], weights["logits/kernel"].T)
    assert same(torch["bn_a.running_var"], weights["bn_a/moving_variance"])
    for said in (
        "epsilon is 0.001",
        "num_batches_tracked is set to 0",
        "this layer expects the channels last",
    ):
        assert said in done.err
    torch["bn_a.num_batches_tracked"] = np.int64(7)
    trained = saved(tmp_path / "trained.npz", **torch)
    result = ckpt("convert", trained, back, "--layout", "tensorflow", "--config", CONV, "--json")
    assert result.code == 0
    # PyTorch's additional tensors are dropped, with any value.
    assert result.json["dropped"] == [
        {"key": "bn_a.num_batches_tracked", "reason": "TensorFlow does not use these values"}
    ]
    assert ckpt("diff", back, CONV, "--kind", "variable").code == 0
    assert ckpt("diff", there, CONV, "--layout", "tensorflow", "--kind", "variable").code == 0
    assert ckpt("diff", CONV, there, "--layout", "pytorch", "--kind", "variable").code == 0


def test_every_format_of_keras_gives_the_same(ckpt: Callable, tmp_path: Path) -> None:
    folder = data_path("keras3_conv")
    found = []
    for number, name in enumerate(("conv.keras", "conv.weights.h5", "conv_ckpt")):
        out = tmp_path / f"{number}.safetensors"
        done = ckpt(
            "convert",
            f"{folder}/{name}",
            out,
            "--layout",
            "pytorch",
            "--config",
            CONV_3,
            "--kind",
            "variable",
        )
        assert done.code == 0, done.err
        found.append(out.read_bytes())
    assert len(set(found)) == 1


def test_a_saved_map_goes_both_ways(ckpt: Callable, tmp_path: Path) -> None:
    names, there, again = tmp_path / "names.tsv", tmp_path / "m.safetensors", tmp_path / "n.safetensors"
    assert ckpt("convert", CONV, there, "--layout", "pytorch", "--save-map", names).code == 0
    assert "conv_a/kernel\tconv_a.weight\tperm(3,2,0,1)\n" in names.read_text()
    assert ckpt("convert", CONV, again, "--layout", "pytorch", "--map", names).code == 0
    assert again.read_bytes() == there.read_bytes()
    back = ckpt("convert", there, tmp_path / "b.npz", "--layout", "tensorflow", "--map", names)
    assert back.code == 0, back.err
    assert "left out bn_a.num_batches_tracked" in back.err
    assert ckpt("diff", tmp_path / "b.npz", CONV, "--kind", "variable").code == 0
    out = tmp_path / "x.npz"
    assert ckpt("extract", CONV, "logits/kernel", "-o", out, "--map", names).code == 0
    assert read(out)["logits.weight"].shape == (2, 64)


def test_square_matrices_are_turned(ckpt: Callable, tmp_path: Path) -> None:
    """Shapes do not show that a transpose is missing."""
    square = np.arange(9, dtype="f").reshape(3, 3)
    source = saved(tmp_path / "m.npz", a__q=square, a__k=square + 9)
    names = tmp_path / "names.tsv"
    names.write_text("a/q\ta.in\tT concat(0)\na/k\ta.in\tT concat(0)\n")
    done = ckpt("convert", source, tmp_path / "t.safetensors", "--map", names, "--json")
    assert done.json["tensors"] == [
        {
            "from": "a/q",
            "to": "a.in",
            "dtype": "float32",
            "shape": [6, 3],
            "also": ["a/k"],
            "operations": "T concat(0,2)",
        }
    ]
    assert same(read(tmp_path / "t.safetensors")["a.in"], np.concatenate([square.T, (square + 9).T]))
    assert (
        ckpt(
            "convert",
            tmp_path / "t.safetensors",
            tmp_path / "b.npz",
            "--layout",
            "tensorflow",
            "--map",
            names,
        ).code
        == 0
    )
    assert all(same(value, read(source)[key]) for key, value in read(tmp_path / "b.npz").items())
    assert ckpt("diff", source, tmp_path / "t.safetensors", "--map", names).code == 0
    assert (
        ckpt("diff", tmp_path / "t.safetensors", source, "--layout", "tensorflow", "--map", names).code == 0
    )
    names.write_text("a/q\ta.in\tconcat(0)\na/k\ta.in\tconcat(0)\n")
    assert ckpt("diff", source, tmp_path / "t.safetensors", "--map", names).code == 1


def test_two_biases_are_one(ckpt: Callable, tmp_path: Path) -> None:
    source = saved(tmp_path / "m.npz", l__b=np.array([-0.0, 2], "f"))
    names = tmp_path / "names.tsv"
    names.write_text("l/b\tl.ih\taddends(2)\nl/b\tl.hh\taddends(2)\n")
    assert ckpt("convert", source, tmp_path / "t.safetensors", "--map", names).code == 0
    assert read(tmp_path / "t.safetensors")["l.hh"].tolist() == [0, 0]
    back = ("--layout", "tensorflow", "--map", names)
    assert ckpt("convert", tmp_path / "t.safetensors", tmp_path / "b.npz", *back).code == 0
    assert same(read(tmp_path / "b.npz")["l/b"], read(source)["l/b"])


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("a\tb\tT\n", "tensor 'c': no line of the map matches this tensor"),
        ("a\tb\tT\nc\tb\n", "both become this key"),
        ("a\tb\tperm(1,0,2)\nc\td\n", "needs 3 dimensions, found 2"),
        ("a\tb\tTT\nc\td\n", "line 1: 'TT' is not an operation"),
        (
            "a\tb\treshape(*,2)\nc\td\n",
            "a line of the map cannot be inverted: reshape(*,2) does not give the original shape",
        ),
        ("a\tb\tT\na\tc\tT\n", "has two new names, 'b' and 'c'"),
        ("a\tb\tT concat(0)\nx\tb\tT concat(0)\nc\td\n", "1 of them are missing"),
    ],
)
def test_a_map_that_misses_doubles_or_contradicts_writes_nothing(
    ckpt: Callable, tmp_path: Path, lines: str, words: str
) -> None:
    source = saved(tmp_path / "m.npz", a=np.ones((2, 3), "f"), c=np.ones(2, "f"))
    (tmp_path / "names.tsv").write_text(lines)
    done = ckpt("convert", source, tmp_path / "t.safetensors", "--map", tmp_path / "names.tsv")
    assert (done.code, done.out) == (3, "")
    assert words in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.npz", "names.tsv"]


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (["convert", CONV, "{}/x.h5", "--layout", "pytorch"], 3, "reads keras-h5"),
        (["convert", CONV, "{}/x.npz", "--layout", "torch"], 2, "--layout"),
        (
            ["convert", "{}/m.npz", "{}/x.safetensors", "--layout", "pytorch"],
            3,
            "tensor 'a': without the model's configuration, the name and axes of this tensor are unknown",
        ),
        (
            ["convert", "{}/m.npz", "{}/x.h5", "--layout", "tensorflow"],
            3,
            "to use the names and axes of a checkpoint that the same program saved, pass --like TEMPLATE",
        ),
        (
            ["convert", "{}/m.npz", "{}/x.h5", "--layout", "tensorflow", "--config", CONV],
            3,
            "'conv_a.weight'",
        ),
        (
            ["rename", "{}/m.npz", "{}/x.npz", "--map", "{}/t.tsv"],
            3,
            "has operations, but only convert, diff and extract support them",
        ),
        (
            ["extract", CONV, "logits/kernel[0]", "-o", "{}/x.npz", "--layout", "pytorch"],
            3,
            "--layout does not support slices",
        ),
        (["convert", CONV, "{}/x.npz", "--layout", "pytorch", "--exclude", "conv_a/*"], 0, ""),
        (["diff", CONV, CONV, "--config", CONV], 2, "--config does nothing without --layout"),
    ],
)
def test_layouts_that_cannot_be_determined(
    ckpt: Callable, tmp_path: Path, line: list[str], code: int, words: str
) -> None:
    saved(tmp_path / "m.npz", a=np.ones((2, 2), "f"))
    (tmp_path / "t.tsv").write_text("a\tb\tT\n")
    done = ckpt(*(word.replace("{}", str(tmp_path)) for word in line))
    assert done.code == code, done.err
    assert words in done.err


def described(path: Path, class_name: str, built: list[int | None] | None = None, **config: Any) -> Path:
    """Write the configuration of a model of one layer, `p`, for an input of a shape if that is `built`."""
    beside = {} if built is None else {"build_config": {"input_shape": built}}
    layer = {"class_name": class_name, "config": {"name": "p", **config}, **beside}
    model = {"class_name": "Sequential", "config": {"name": "m", "layers": [layer]}}
    path.write_text(json.dumps(model))
    return path


ALPHAS = {
    "one axis": ((3,), None, None, (3,)),
    "one axis, built": ((3,), None, [None, 3], (3,)),
    "one axis of one": ((1,), None, None, (1,)),
    "one axis, shared": ((1,), [1], [None, 3], (1,)),
    "channels": ((1, 1, 3), [1, 2], None, (3,)),
    "channels, built": ((1, 1, 3), [1, 2], [None, 5, 5, 3], (3,)),
    "one channel, built": ((1, 1, 1), [1, 2], [None, 5, 5, 1], (1,)),
    "all axes": ((1, 1, 1), [1, 2, 3], [None, 5, 5, 3], (1,)),
    "steps": ((1, 3), [1], None, (3,)),
    "scalar": ((), None, [None], (1,)),
    "no channels": ((0,), None, None, (0,)),
}
"""Keras' alpha, its shared_axes, the shape it is built for, PyTorch's weight."""


@pytest.mark.parametrize("name", ALPHAS)
def test_alphas_of_a_prelu_there_and_back(name: str, ckpt: Callable, tmp_path: Path) -> None:
    shape, shared, built, there = ALPHAS[name]
    config = described(tmp_path / "c.json", "PReLU", built, shared_axes=shared)
    alpha = np.random.RandomState(0).rand(*shape)
    alpha = np.asarray(alpha, "f")
    source = saved(tmp_path / "m.npz", p__alpha=alpha)
    done = ckpt("convert", source, tmp_path / "x.safetensors", "--layout", "pytorch", "--config", config)
    assert done.code == 0, done.err
    assert ("channels in axis 1" in done.err) is bool(shared)
    assert same(read(tmp_path / "x.safetensors")["p.weight"], alpha.reshape(there))
    line = ("convert", tmp_path / "x.safetensors", tmp_path / "b.h5", "--layout", "tensorflow")
    done = ckpt(*line, "--config", config)
    assert done.code == 0, done.err
    assert same(read(tmp_path / "b.h5")["p/alpha"], alpha)


@pytest.mark.parametrize(
    ("shape", "shared", "words"),
    [
        (
            (5, 4, 3),
            None,
            "'p/alpha' of layer 'p' (PReLU) has shape [5, 4, 3], PyTorch takes [C] for 'p.weight'",
        ),
        ((1, 1, 3), None, "has shape [1, 1, 3], PyTorch takes [C]"),
        ((), [1], "has shape [], PyTorch takes [C]"),
        ((1, 4, 3), [1], "has shape [1, 4, 3], PyTorch takes [C] for 'p.weight' (reshape(1,* -> *)"),
        ((2, 3), [1], "has shape [2, 3], PyTorch takes [C]"),
        ((2,), [1], "has shape [2], PyTorch takes [1]"),
        ((5, 1, 1), [2, 3], "PReLU with shared_axes=[2, 3]: PyTorch supports only one alpha"),
        ((1, 1, 3), [2, 1], "PReLU with shared_axes=[2, 1]"),
        ((1, 1, 3), 7, "PReLU with shared_axes=7"),
        ((1, 3), [-1], "PReLU with shared_axes=[-1]"),
    ],
)
def test_alphas_that_pytorch_cannot_have_are_named(
    shape: tuple[int, ...], shared: Any, words: str, ckpt: Callable, tmp_path: Path
) -> None:
    """An (H, W, C) alpha went into a weight of three dimensions, which no module of PyTorch's loads."""
    config = described(tmp_path / "c.json", "PReLU", shared_axes=shared)
    source = saved(tmp_path / "m.npz", p__alpha=np.ones(shape, "f"))
    done = ckpt("convert", source, tmp_path / "x.safetensors", "--layout", "pytorch", "--config", config)
    assert (done.code, done.out) == (3, "")
    assert words in done.err
    assert not (tmp_path / "x.safetensors").exists()


@pytest.mark.parametrize(
    ("shape", "shared", "built", "words"),
    [
        ((5, 4, 3), None, None, "'p.weight' has shape [5, 4, 3], PyTorch takes [C]"),
        ((), None, None, "has shape [], PyTorch takes [C]"),
        ((1, 1, 3), [1, 2], None, "has shape [1, 1, 3], PyTorch takes [C>1]"),
        (
            (1,),
            [1, 2],
            None,
            "has shape [1], PyTorch takes [C>1] for 'p.weight' (the input rank is unknown",
        ),
        ((3,), [1, 2, 3], [None, 5, 5, 3], "has shape [3], PyTorch takes [1]"),
        ((4,), [1, 2], [None, 5, 5, 3], "has shape [4], PyTorch takes [3]"),
    ],
)
def test_weights_of_a_prelu_that_keras_has_no_alpha_of_are_named(
    shape: tuple[int, ...], shared: Any, built: Any, words: str, ckpt: Callable, tmp_path: Path
) -> None:
    config = described(tmp_path / "c.json", "PReLU", built, shared_axes=shared)
    source = saved(tmp_path / "m.npz", **{"p.weight": np.ones(shape, "f")})
    done = ckpt("convert", source, tmp_path / "x.h5", "--layout", "tensorflow", "--config", config)
    assert (done.code, done.out) == (3, "")
    assert words in done.err
    assert not (tmp_path / "x.h5").exists()


def test_what_it_is_compared_with_shows_the_rank_of_an_alpha(ckpt: Callable, tmp_path: Path) -> None:
    config = described(tmp_path / "c.json", "PReLU", shared_axes=[1, 2])
    source = saved(tmp_path / "m.npz", **{"p.weight": np.full(1, 5, "f")})
    for shape in ((1, 1), (1, 1, 1)):
        there = tmp_path / f"t{len(shape)}.h5"
        made = saved(tmp_path / "t.npz", p__alpha=np.full(shape, 5, "f"))
        assert ckpt("convert", made, there, "--config", config).code == 0
        done = ckpt("diff", source, there, "--layout", "tensorflow", "--config", config)
        assert (done.code, done.out) == (0, ""), done.err


def test_a_layer_that_pytorch_has_not_is_named(ckpt: Callable, tmp_path: Path) -> None:
    rnn = data_path("keras_rnn", "rnn.full.h5")
    done = ckpt("convert", rnn, tmp_path / "x.safetensors", "--layout", "pytorch")
    assert done.code == 3
    assert "'gru_old/gru_cell/kernel': PyTorch has no GRU with reset_after=False" in done.err
    done = ckpt(
        "convert", data_path("normalization", "norm.keras"), tmp_path / "x.safetensors", "--layout", "pytorch"
    )
    assert done.code == 3
    assert "'norm/mean'" in done.err
    assert not (tmp_path / "x.safetensors").exists()


def test_the_state_of_an_optimizer_is_not_left_out_unasked(ckpt: Callable, tmp_path: Path) -> None:
    trained = data_path("keras_mlp", "mlp.with_optimizer.h5")
    done = ckpt("convert", trained, tmp_path / "x.safetensors", "--layout", "pytorch")
    assert done.code == 3
    assert "optimizer state cannot be written in this layout and format" in done.err
    assert (
        ckpt("convert", trained, tmp_path / "x.safetensors", "--layout", "pytorch", "--weights-only").code
        == 0
    )


def test_the_state_of_an_optimizer_follows_into_a_file_that_has_a_place_for_it(
    ckpt: Callable, tmp_path: Path
) -> None:
    trained, there = data_path("keras_mlp", "mlp.with_optimizer.h5"), tmp_path / "x.pt"
    line = ("convert", trained, there, "--layout", "pytorch")
    done = ckpt(*line, "--json", "--learning-rate", "0.25", "--iterations", "7")
    assert done.code == 0, done.err
    assert "adds epsilon after bias correction" in done.err
    weights, torch = read(trained), read(there)
    of = {row["to"]: row["from"] for row in done.json["tensors"]}
    assert of["optimizer/state/0/exp_avg"] == "optimizer_weights/Adam/m/hidden/kernel"
    for slot, name in (("exp_avg", "m"), ("exp_avg_sq", "v")):
        kept = weights[f"optimizer_weights/Adam/{name}/hidden/kernel"]
        assert same(torch[f"optimizer/state/0/{slot}"], kept.T)
    assert same(torch["model/hidden.weight"], weights["hidden/kernel"].T)
    assert torch["optimizer/state/7/step"] == 7
    with formats.open_checkpoint(str(there)) as reader:
        _, optimizer = reader.facts.structure.root.items
        group = dict(dict(optimizer[1].items)["param_groups"][0].items)
    assert group["lr"] == 0.25
    assert group["params"] == [*range(8)]
    assert group["param_names"][:2] == ["hidden.weight", "hidden.bias"]
    assert group["betas"] == (0.9, 0.999)


def test_an_optimizer_without_slots_has_the_trained_weights_as_its_parameters(
    ckpt: Callable, tmp_path: Path
) -> None:
    trained, there = tmp_path / "sgd.h5", tmp_path / "x.pt"
    shutil.copy(CONV, trained)
    with h5py.File(trained, "a") as file:
        settings = {"name": "SGD", "learning_rate": 0.25, "momentum": 0.0, "nesterov": False}
        config = {"class_name": "SGD", "config": settings}
        file.attrs["training_config"] = json.dumps({"loss": "mse", "optimizer_config": config})
        file["optimizer_weights/SGD/iter:0"] = np.int64(3)
        file["optimizer_weights"].attrs["weight_names"] = [b"SGD/iter:0"]
    assert ckpt("convert", trained, there, "--layout", "pytorch").code == 0
    with formats.open_checkpoint(str(there)) as reader:
        _, (_, optimizer) = reader.facts.structure.root.items
    (group,) = dict(optimizer.items)["param_groups"]
    found = dict(group.items)
    names = [
        "conv_a.weight",
        "conv_a.bias",
        "bn_a.weight",
        "bn_a.bias",
        "conv_b.weight",
        "dw.weight",
        "dw.bias",
    ]
    assert found["param_names"] == [*names, "logits.weight", "logits.bias"]
    assert (found["params"], found["lr"], found["momentum"]) == ([*range(9)], 0.25, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cast", "float16"), "names and dtypes cannot change here"),
        (("--sub", "model/=>net/"), "names and dtypes cannot change here"),
        (("--exclude", "*iteration"), "optimizer state can only be converted as a whole"),
        (("--exclude", "hidden/kernel"), "this weight is left out, but its"),
        (
            ("--iterations", "16777217"),
            "the step count is 16777217; PyTorch counts in float32, at most 16777216 steps",
        ),
    ],
)
def test_a_part_of_an_optimizer_is_rejected(
    ckpt: Callable, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    trained = data_path("keras_mlp", "mlp.with_optimizer.h5")
    done = ckpt("convert", trained, tmp_path / "x.pt", "--layout", "pytorch", *options)
    assert done.code == 3
    assert words in done.err
    assert not (tmp_path / "x.pt").exists()


# Without a configuration ----------------------------------------------------------------


def objects(ckpt: Callable, path: Path, shapes: dict[str, tuple[int, ...]], value: int | None = None) -> Path:
    """Write an object-based checkpoint of weights that are all different, or all one value."""
    filled = {
        key: np.full(shape, number if value is None else value, "f")
        + (np.arange(np.prod(shape), dtype="f").reshape(shape) if value is None else 0)
        for number, (key, shape) in enumerate(shapes.items())
    }
    np.savez(path.with_suffix(".npz"), **filled)
    assert ckpt("convert", path.with_suffix(".npz"), path, "--to", "object").code == 0
    return path


GRAPHS = {
    "mlp": data_path("keras_mlp", "mlp"),
    "attention": data_path("keras_attention", "attn"),
    "a SavedModel": data_path("saved_model", "keras_model"),
}


@pytest.mark.parametrize("name", ["mlp", "attention"])
def test_names_of_an_object_graph_tell_what_a_configuration_does(
    name: str, ckpt: Callable, tmp_path: Path
) -> None:
    by_names, by_config, back = (tmp_path / name for name in ("n.safetensors", "c.safetensors", "back"))
    line = ("--layout", "pytorch", "--weights-only")
    done = ckpt("convert", GRAPHS[name], by_names, *line)
    assert done.code == 0, done.err
    assert "without a configuration, ckpt identified the layers by the names of their weights" in done.err
    assert "Dense: " in done.err
    config = GRAPHS[name] + ".full.h5"
    assert ckpt("convert", GRAPHS[name], by_config, *line, "--config", config).code == 0
    assert by_names.read_bytes() == by_config.read_bytes()
    like = ("--layout", "tensorflow", "--like", GRAPHS[name], "--partial")  # it has optimizer state
    assert ckpt("convert", by_names, back, *like).code == 0
    assert ckpt("diff", back, GRAPHS[name], "--exact").code == 0
    assert ckpt("diff", by_names, GRAPHS[name], "--layout", "tensorflow", "--kind", "variable").code == 0
    assert ckpt("diff", GRAPHS[name], by_names, "--layout", "pytorch", "--kind", "variable").code == 0


def test_a_layer_may_be_called_as_the_state_of_random_numbers_is(ckpt: Callable, tmp_path: Path) -> None:
    shapes = {"seed_generator/kernel": (4, 5), "seed_generator/bias": (5,)}
    source = objects(ckpt, tmp_path / "o", shapes)
    assert ckpt("convert", source, tmp_path / "x.safetensors", "--layout", "pytorch").code == 0
    assert sorted(read(tmp_path / "x.safetensors")) == ["seed_generator.bias", "seed_generator.weight"]


def test_a_saved_models_lists_are_not_layers(ckpt: Callable, tmp_path: Path) -> None:
    done = ckpt("convert", GRAPHS["a SavedModel"], tmp_path / "x.safetensors", "--layout", "pytorch")
    assert done.code == 0, done.err
    assert read(tmp_path / "x.safetensors").keys() > {"a.weight", "a.bias", "b.running_var"}


TOLD = {
    "Dense": {"net/l/kernel": (3, 4), "net/l/bias": (4,)},
    "Dense by its own name": {"net/dense_2/kernel": (4, 4)},
    "Conv2D by its own name": {"conv2d/kernel": (3, 3, 4, 4), "conv2d/bias": (4,)},
    "Conv2DTranspose": {"conv2d_transpose/kernel": (3, 3, 4, 2), "conv2d_transpose/bias": (4,)},
    "DepthwiseConv2D": {"l/depthwise_kernel": (3, 3, 2, 2), "l/bias": (4,)},
    "SeparableConv1D": {"l/depthwise_kernel": (3, 2, 2), "l/pointwise_kernel": (1, 4, 4)},
    "BatchNormalization": {"l/beta": (3,), "l/moving_mean": (3,), "l/moving_variance": (3,)},
    "LayerNormalization": {"l/gamma": (3,), "l/beta": (3,)},
    "Embedding": {"l/_embeddings": (5, 3)},
    "LSTM": {"l/cell/kernel": (3, 16), "l/cell/recurrent_kernel": (4, 16), "l/cell/bias": (16,)},
    "GRU": {"l/cell/kernel": (3, 12), "l/cell/recurrent_kernel": (4, 12), "l/cell/bias": (2, 12)},
    "SimpleRNN": {"l/cell/kernel": (4, 4), "l/cell/recurrent_kernel": (4, 4)},
    "Conv2D or Conv2DTranspose": {
        "layer_with_weights-0/kernel": (3, 3, 4, 4), "layer_with_weights-0/bias": (4,),
    },
}  # fmt: skip


@pytest.mark.parametrize("title", TOLD)
def test_a_class_that_names_and_sizes_tell(title: str, ckpt: Callable, tmp_path: Path) -> None:
    source, there = objects(ckpt, tmp_path / "o", TOLD[title]), tmp_path / "x.safetensors"
    done = ckpt("convert", source, there, "--layout", "pytorch")
    assert done.code == 0, done.err
    assert f"by the names of their weights: {title.partition(' by ')[0]}: " in done.err.replace(
        "GroupNormalization or ", ""
    )
    empty = objects(ckpt, tmp_path / "e", TOLD[title], 0)
    assert ckpt("convert", there, tmp_path / "b", "--layout", "tensorflow", "--like", empty).code == 0
    assert ckpt("diff", source, tmp_path / "b").code == 0


def test_a_square_kernel_is_turned(ckpt: Callable, tmp_path: Path) -> None:
    source = objects(ckpt, tmp_path / "o", TOLD["Dense by its own name"])
    assert ckpt("convert", source, tmp_path / "x.safetensors", "--layout", "pytorch").code == 0
    (kernel,) = (value for key, value in read(source).items() if "kernel" in key)
    assert same(read(tmp_path / "x.safetensors")["net.dense_2.weight"], kernel.T)


NOT_TOLD = {
    "is Dense or EinsumDense": {"l/kernel": (4, 4), "l/bias": (4,)},
    "is Conv2D or EinsumDense": {"l/_kernel": (3, 3, 2, 4), "l/bias": (4,)},
    "is Conv2D or Conv2DTranspose or LocallyConnected1D": {"layer_with_weights-0/kernel": (3, 3, 4, 4)},
    "or LayerNormalization with rms_scaling": {"l/gamma": (4,)},
    "is GRUCell or GRUCell with reset_after=False": {
        "l/cell/kernel": (3, 12), "l/cell/recurrent_kernel": (4, 12),
    },
    "PyTorch has no GRU with reset_after=False": {
        "l/cell/kernel": (3, 12), "l/cell/recurrent_kernel": (4, 12), "l/cell/bias": (12,),
    },
    "these names and sizes: kernel [3, 16]": {"l/cell/kernel": (3, 16), "l/cell/recurrent_kernel": (5, 16)},
    "has class 'LSTMCell'": {"l/kernel": (3, 16), "l/recurrent_kernel": (4, 16)},
    "these names and sizes: w [2, 2]": {"l/w": (2, 2)},
    "belongs to an object that contains layers": {"scale": (3,), "dense/kernel": (3, 4)},
}  # fmt: skip


@pytest.mark.parametrize("words", NOT_TOLD)
def test_a_class_that_is_not_reported_is_rejected_by_name(words: str, ckpt: Callable, tmp_path: Path) -> None:
    source = objects(ckpt, tmp_path / "o", {**NOT_TOLD[words], "told/dense/kernel": (3, 4)})
    line = ("convert", source, tmp_path / "x.safetensors", "--layout", "pytorch")
    done = ckpt(*line)
    assert (done.code, done.out) == (3, "")
    assert words in done.err
    assert any(f"'{key}" in done.err for key in NOT_TOLD[words])
    assert "--config FILE" in done.err
    assert not (tmp_path / "x.safetensors").exists()
    left_out = [option for key in NOT_TOLD[words] for option in ("--exclude", f"{key}/*")]
    assert ckpt(*line, *left_out).code == 0
    assert "told.dense.weight" in read(tmp_path / "x.safetensors")


def test_without_a_configuration_an_optimizers_state_is_rejected(ckpt: Callable, tmp_path: Path) -> None:
    trained = data_path("keras_mlp", "mlp_ckpt-1")
    done = ckpt("convert", trained, tmp_path / "x.pt", "--layout", "pytorch")
    assert done.code == 3
    assert "SRC does not store the setting 'amsgrad' of Adam" in done.err
    done = ckpt("convert", trained, tmp_path / "x.safetensors", "--layout", "pytorch")
    assert done.code == 3
    assert "optimizer state cannot be written in this layout and format" in done.err
    line = ("convert", trained, tmp_path / "x.pt", "--layout", "pytorch", "--save-map", tmp_path / "n.tsv")
    assert ckpt(*line, "--weights-only").code == 0
    assert "model/layer_with_weights-0/kernel\tmodel.hidden.weight\tT\n" in (tmp_path / "n.tsv").read_text()
    line = ("convert", trained, tmp_path / "y.pt", "--layout", "pytorch", "--map", tmp_path / "n.tsv")
    assert ckpt(*line, "--weights-only").code == 0
    assert (tmp_path / "y.pt").read_bytes() == (tmp_path / "x.pt").read_bytes()


def test_a_template_may_have_what_is_not_a_layer(ckpt: Callable, tmp_path: Path) -> None:
    guide = data_path("guide_adam_new", "tf_ckpts", "ckpt-10")
    there, back = tmp_path / "x.safetensors", tmp_path / "ckpt-1"
    line = ("convert", guide, there, "--layout", "pytorch", "--weights-only")
    done = ckpt(*line)
    assert done.code == 0, done.err
    assert sorted(read(there)) == ["net.l1.bias", "net.l1.weight"]
    line = ("convert", there, back, "--layout", "tensorflow", "--like", guide)
    done = ckpt(*line)
    assert done.code == 3
    assert "4 tensors of TEMPLATE get no value: 'net/l1/kernel (m of optimizer)'" in done.err
    assert ckpt(*line, "--partial").code == 0
    assert ckpt("diff", back, guide, "--exact").code == 0


# An optimizer's state on the way back -------------------------------------------------

KERAS = {
    "2": data_path("keras_mlp", "mlp.with_optimizer.h5"),
    "2 without names": data_path("optimizers", "new", "adam", "model.h5"),
    "legacy": data_path("optimizers", "legacy", "adam", "model.h5"),
    "3": data_path("keras3_mlp", "mlp.keras"),
}


@pytest.mark.parametrize("name", KERAS)
def test_the_state_of_an_optimizer_comes_back_the_same(name: str, ckpt: Callable, tmp_path: Path) -> None:
    source, there = KERAS[name], tmp_path / "t.pt"
    back = tmp_path / f"b.{source.rpartition('.')[2]}"
    assert ckpt("convert", source, there, "--layout", "pytorch").code == 0
    done = ckpt("convert", there, back, "--layout", "tensorflow", "--config", source)
    assert done.code == 0, done.err
    before, after = (
        {key.replace("/Adam/", "/"): value for key, value in read(path).items()} for path in (source, back)
    )
    assert before.keys() == after.keys()
    assert all(same(value, after[key]) for key, value in before.items())
    assert ckpt("verify", back).code == 0
    for layout, left, right in (("pytorch", source, there), ("tensorflow", there, source)):
        line = ("diff", "--exact", left, right, "--layout", layout, "--config", source)
        done = ckpt(*line)
        assert (done.code, done.out) == (0, ""), done.err
        assert ckpt(*line, "--kind", "variable").code == 0


CONFIG = {
    "class_name": "Sequential",
    "config": {
        "name": "s",
        "layers": [{"class_name": "Dense", "config": {"name": "d", "units": 2, "use_bias": False}}],
    },
}
ADAM = {
    "lr": 0.5,
    "betas": (0.9, 0.99),
    "eps": 1e-7,
    "weight_decay": 0,
    "amsgrad": False,
    "maximize": False,
    "foreach": None,
    "params": [0],
    "param_names": ["d.weight"],
}
"""The group of torch 1.13, besides the names."""
SGD = {
    "lr": 0.5,
    "momentum": 0.9,
    "dampening": 0,
    "weight_decay": 0,
    "nesterov": False,
    **dict(list(ADAM.items())[-2:]),
}


def into_keras(source: Path) -> tuple[object, ...]:
    """Return the line that makes a file of Keras of what `training` writes."""
    folder = source.parent
    target, config = folder / "m.weights.h5", folder / "config.json"
    return "convert", source, target, "--layout", "tensorflow", "--config", config


def training(path: Path, group: dict[str, Any], state: dict[str, Any], **beside: Any) -> Path:
    """Write a training checkpoint of PyTorch, of a model of one weight, and its configuration."""
    path.with_name("config.json").write_text(json.dumps(CONFIG))
    optimizer = {"state": {0: state} if state else {}, "param_groups": [group]}
    weights = tensor(storage("0"))
    value = {"model": {"d.weight": weights}, "optimizer": optimizer, **beside}
    data = {str(number): np.full(6, number + 1, "<f4").tobytes() for number in range(3)}
    path.write_bytes(zipped(value, data))
    return path


M, V = tensor(storage("1")), tensor(storage("2"))
KEPT = {"step": 3, "exp_avg": M, "exp_avg_sq": V}


def test_state_of_pytorch_becomes_that_of_each_keras(ckpt: Callable, tmp_path: Path) -> None:
    source = training(tmp_path / "t.pt", ADAM, KEPT, epoch=7)
    line = into_keras(source)[3:]
    done = ckpt(*into_keras(source))
    assert done.code == 0, done.err
    assert "left out epoch: they are not tensors" in done.err
    found = read(tmp_path / "m.weights.h5")
    assert found["optimizer/vars/0"] == 3
    assert found["layers/dense/vars/0"].shape == (3, 2)
    assert found["optimizer/vars/1"] == 0.5
    assert same(found["optimizer/vars/2"], np.full((3, 2), 2, "f"))
    assert same(found["optimizer/vars/3"], np.full((3, 2), 3, "f"))
    assert ckpt("convert", source, tmp_path / "o", "--to", "object", *line).code == 0
    rate = "optimizer/_learning_rate/.ATTRIBUTES/VARIABLE_VALUE"
    assert read(tmp_path / "o")[rate] == 0.5
    given = ("--iterations", "9", "--learning-rate", "0.25")
    assert ckpt("convert", source, tmp_path / "p", "--to", "object", *line, *given).code == 0
    found = read(tmp_path / "p")
    assert (found[rate], found["optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"]) == (0.25, 9)


def test_momentum_becomes_the_step_that_follows_of_it(ckpt: Callable, tmp_path: Path) -> None:
    source = training(tmp_path / "t.pt", SGD, {"momentum_buffer": M})
    line = into_keras(source)
    done = ckpt(*line)
    assert done.code == 3
    assert "pass the step count with --iterations N" in done.err
    assert ckpt(*line, "--iterations", "4").code == 0
    found = read(tmp_path / "m.weights.h5")
    assert found["optimizer/vars/0"] == 4
    assert same(found["optimizer/vars/2"], np.full((3, 2), -1, "f"))


RMSPROP = {
    "lr": 0.5,
    "momentum": 0,
    "alpha": 0.9,
    "eps": 1e-7,
    "centered": False,
    "weight_decay": 0,
    **dict(list(ADAM.items())[-2:]),
}


@pytest.mark.parametrize(
    ("group", "state", "words"),
    [
        ({key: value for key, value in ADAM.items() if key != "param_names"}, KEPT, "has no param_names"),
        ({**ADAM, "weight_decay": 0.1}, KEPT, "has weight_decay 0.1, which Keras' Adam does not support"),
        ({**ADAM, "maximize": True}, KEPT, "has maximize True"),
        ({**ADAM, "delta": 0.1}, KEPT, "has delta 0.1"),
        ({**SGD, "dampening": 0.5}, {"momentum_buffer": M}, "has dampening 0.5"),
        ({"rho": 0.9, **ADAM, "amsgrad": None}, KEPT, "has rho 0.9"),
        ({"lr": 0.1, "rho": 0.9, "eps": 1e-6, "params": [0]}, {"acc_delta": M}, "none of Adam"),
        ({**ADAM, "lr": -1.0}, KEPT, "the learning rate of the optimizer at 'optimizer/' is -1.0"),
        ({**ADAM, "betas": ("0.9", 0.9)}, KEPT, "'beta_1' of the optimizer at 'optimizer/' is '0.9'"),
        ({**ADAM, "params": [1]}, KEPT, "the optimizer at 'optimizer/' has no exp_avg for this parameter"),
        ({**ADAM, "params": [0, 0], "param_names": ["d.weight", "x"]}, KEPT, "has parameter 'x' twice"),
        ({**ADAM, "params": [0, 1], "param_names": ["d.weight", "x"]}, KEPT, "has a parameter that is not"),
        ({**ADAM, "params": [], "param_names": []}, KEPT, "'d/kernel': the configuration trains this weight"),
        (ADAM, {**KEPT, "step": 1.5}, "step count of 'd.weight' is 1.5"),
        (ADAM, {**KEPT, "exp_avg_sq": None}, "has no exp_avg_sq for this parameter"),
        (ADAM, {**KEPT, "max_exp_avg_sq": M}, "has 'max_exp_avg_sq' for this parameter, but its settings"),
        ({**RMSPROP, "centered": True}, {"step": 3, "square_avg": M}, "has no grad_avg for this parameter"),
    ],
)  # fmt: skip
def test_state_that_keras_has_no_equal_of_is_rejected(
    group: dict[str, Any], state: dict[str, Any], words: str, ckpt: Callable, tmp_path: Path
) -> None:
    source = training(tmp_path / "t.pt", group, state)
    line = into_keras(source)
    done = ckpt(*line)
    assert (done.code, done.out) == (3, ""), done.err
    assert words in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "t.pt"]
    assert ckpt(*line, "--weights-only").code == 0


def test_two_models_or_optimizers_are_distinguished_by_the_user(ckpt: Callable, tmp_path: Path) -> None:
    second = {"state": {0: KEPT}, "param_groups": [ADAM]}
    source = training(tmp_path / "t.pt", ADAM, KEPT, second=second, ema={"d.weight": V})
    line = into_keras(source)
    assert (
        "2 dictionaries contain all tensors of the model; expected one: 'ema/', 'model/'" in ckpt(*line).err
    )
    done = ckpt(*line, "--exclude", "ema/*")
    assert done.code == 3
    assert "2 optimizers" in done.err
    done = ckpt(*line, "--exclude", "ema/*", "--exclude", "second/*")
    assert done.code == 0, done.err
    assert read(tmp_path / "m.weights.h5")["optimizer/vars/0"] == 3
    left_out = ("--exclude", "ema/*", "--exclude", "second/*")
    done = ckpt("diff", source, tmp_path / "m.weights.h5", *line[3:], *left_out)
    assert (done.code, done.out) == (0, ""), done.err


def test_numbers_that_differ_from_the_configurations_are_reported(ckpt: Callable, tmp_path: Path) -> None:
    source = tmp_path / "t.pt"
    assert ckpt("convert", KERAS["2"], source, "--layout", "pytorch", "--learning-rate", "0.25").code == 0
    done = ckpt("convert", source, tmp_path / "b.h5", "--layout", "tensorflow", "--config", KERAS["2"])
    assert done.code == 0
    assert (
        "learning_rate=0.25 (configuration: 0.00999999978); Keras uses the values of the configuration"
        in done.err
    )


def test_a_step_that_is_more_than_its_dtype_holds_is_rejected(ckpt: Callable, tmp_path: Path) -> None:
    source = training(tmp_path / "t.pt", {**SGD, "lr": 3e38}, {"momentum_buffer": M})
    done = ckpt(*into_keras(source), "--iterations", "1")
    assert (done.code, done.out) == (3, "")
    assert "is too large for float32 after multiplication by -3e+38" in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "t.pt"]


def test_a_rate_that_decays_is_rejected(ckpt: Callable, tmp_path: Path) -> None:
    source = tmp_path / "m.h5"
    shutil.copy(KERAS["legacy"], source)
    with h5py.File(source, "r+") as file:
        told = json.loads(file.attrs["training_config"])
        told["optimizer_config"]["config"]["decay"] = 0.1
        file.attrs["training_config"] = json.dumps(told)
    done = ckpt("convert", source, tmp_path / "t.pt", "--layout", "pytorch")
    assert done.code == 3
    assert "has decay=0.1, which PyTorch's Adam does not support" in done.err
    assert not (tmp_path / "t.pt").exists()


def test_weights_that_a_map_does_not_name_are_left_out_by_the_hint(ckpt: Callable, tmp_path: Path) -> None:
    """The hint named a slot of another tensor."""
    bert = data_path("bert_tiny", "bert_model.ckpt-2")
    line = ("convert", bert, tmp_path / "bert.safetensors", "--layout", "pytorch", "--map", "bert")
    done = ckpt(*line)
    assert done.code == 3
    assert "hint: to leave these tensors out, pass --exclude 'cls/*'\n" in done.err
    done = ckpt(*line, "--exclude", "cls/*")
    assert "pass --kind variable" in done.err
    assert ckpt(*line, "--exclude", "cls/*", "--kind", "variable").code == 0
