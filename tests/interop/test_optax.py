"""An optimizer's state of optax in Keras and PyTorch, and the reverse: the next losses are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ckpt_cli.cli.main import main
from tests.interop.conftest import TensorFlow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

CLOSE = 1e-5
"""How far losses may be apart: epsilon is added before bias correction or after, and float32 rounds."""

STEPS, OTHERS = 4, 2
KERAS = {
    "sgd": "SGD",
    "momentum": "SGD",
    "nesterov": "SGD",
    "clip": "SGD",
    "adam": "Adam",
    "adamw": "AdamW",
    "adamax": "Adamax",
    "inject": "Adam",
    "finite": "Adam",
    "steps": "Adam",
    "rmsprop": "RMSprop",
    "schedule": "RMSprop",
    "rmsprop momentum": "RMSprop",
    "rmsprop centered": "RMSprop",
    "adagrad": "Adagrad",
    "adadelta": "Adadelta",
    "lion": "Lion",
}
"""The class in Keras by the name of the transformation."""

PYTORCH = {
    "sgd": "SGD",
    "momentum": "SGD",
    "nesterov": "SGD",
    "adam": "Adam",
    "adamw": "AdamW",
    "inject": "Adam",
    "steps": "Adam",
    "rmsprop": "RMSprop",
    "rmsprop as torch": "RMSprop",
    "rmsprop centered": "RMSprop",
    "adagrad": "Adagrad",
}

REJECTED = {
    "masked": ("Adam", "TEMPLATE"),
    "two": ("Adam", "it has 2 optimizers (opt_state/inner_states/a/inner_state/0, "),
    "average": ("SGD", "it keeps ema, which is not what SGD of optax keeps"),
    "corrected": ("RMSprop", "has a count, so it corrects bias, unlike RMSprop of optax"),
    "amsgrad": ("Adam", "it keeps mu and nu and nu_max, which is not what Adam of optax keeps"),
    "nadam": ("Nadam", "Nadam"),
    "adafactor": ("Adafactor", "Adafactor"),
}
LAYERS = {"params/d0": "layers/dense", "params/d1": "layers/dense_1"}


@pytest.fixture(scope="module")
def optax() -> Iterator[TensorFlow]:
    judge = TensorFlow("orbax")
    yield judge
    judge.close()


def run(*line: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*line, "-q"])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def maps(folder: Path) -> tuple[str, str]:
    """Write the map from the tree to Keras and its inverse."""
    pairs = [
        (f"{tree}/{name}", f"{keras}/vars/{at}")
        for tree, keras in LAYERS.items()
        for at, name in enumerate(("kernel", "bias"))
    ]
    (folder / "there.tsv").write_text("".join(f"{tree}\t{keras}\n" for tree, keras in pairs))
    (folder / "back.tsv").write_text("".join(f"{keras}\t{tree}\n" for tree, keras in pairs))
    return str(folder / "there.tsv"), str(folder / "back.tsv")


def places(folder: Path, what: str, suffix: str, names: Mapping[str, object]) -> dict[str, str]:
    return {name: str(folder / f"{what}_{name.replace(' ', '_')}{suffix}") for name in names}


def apart(found: Mapping[str, list], wanted: Mapping[str, list], steps: int) -> dict[str, object]:
    """Return by name the losses that are not those wanted."""
    return {
        name: (step, losses, wanted[name])
        for name, (step, losses) in found.items()
        if (step not in (steps, None) and name != "steps")
        or not max(abs(a - b) for a, b in zip(losses, wanted[name], strict=True)) < CLOSE
    }


def test_optax_and_keras_continue_from_each_other(
    optax: TensorFlow, new_tensorflow: TensorFlow, tmp_path: Path
) -> None:
    there, back = maps(tmp_path)
    trees, files = places(tmp_path, "tree", "", KERAS), places(tmp_path, "keras", ".keras", KERAS)
    to_keras, to_optax = places(tmp_path, "made", ".keras", KERAS), places(tmp_path, "made", "", KERAS)
    of_optax = optax.ask("optax", "trained", paths=trees, steps=STEPS)
    of_keras = new_tensorflow.ask("optax_keras", "trained", paths=files, steps=OTHERS)
    for name, kind in KERAS.items():
        more = ["--optimizer", kind]
        assert run("convert", trees[name], to_keras[name], "--like", files[name], "--map", there, *more) == 0
        assert run("convert", files[name], to_optax[name], "--like", trees[name], "--map", back, *more) == 0
    assert apart(new_tensorflow.ask("optax_keras", "gone_on", paths=to_keras), of_optax, STEPS) == {}
    assert apart(optax.ask("optax", "gone_on", paths=to_optax), of_keras, OTHERS) == {}


def pytorch_maps(folder: Path) -> tuple[str, str]:
    """Write the map from the tree to PyTorch and its inverse."""
    there, back = str(folder / "there.tsv"), str(folder / "back.tsv")
    names = [("kernel", "weight", "\tT"), ("bias", "bias", "")]
    pairs = [
        (f"params/d{at}/{mine}", f"model/{2 * at}.{its}", turn)
        for at in range(2)
        for mine, its, turn in names
    ]
    (folder / "there.tsv").write_text("".join(f"{tree}\t{its}{turn}\n" for tree, its, turn in pairs))
    (folder / "back.tsv").write_text("".join(f"{its}\t{tree}{turn}\n" for tree, its, turn in pairs))
    return there, back


def test_optax_and_pytorch_continue_from_each_other(
    optax: TensorFlow, pytorch: TensorFlow, tmp_path: Path
) -> None:
    there, back = pytorch_maps(tmp_path)
    trees, files = places(tmp_path, "tree", "", PYTORCH), places(tmp_path, "torch", ".pt", PYTORCH)
    to_torch, to_optax = places(tmp_path, "made", ".pt", PYTORCH), places(tmp_path, "made", "", PYTORCH)
    of_optax = optax.ask("optax", "trained", paths=trees, steps=STEPS)
    of_torch = pytorch.ask("optax_torch", "trained", paths=files, steps=OTHERS)
    for name, kind in PYTORCH.items():
        more = ["--optimizer", kind]
        taken = ["--iterations", str(OTHERS)] if kind == "SGD" else []
        options = ("--like", files[name], "--map", there, *more)
        assert run("convert", trees[name], to_torch[name], *options) == 0
        options = ("--like", trees[name], "--map", back, *more, *taken)
        assert run("convert", files[name], to_optax[name], *options) == 0
    assert apart(pytorch.ask("optax_torch", "gone_on", paths=to_torch), of_optax, STEPS) == {}
    assert apart(optax.ask("optax", "gone_on", paths=to_optax), of_torch, OTHERS) == {}


ODD = {
    "unnamed": "has no param_names",
    "groups": "has parameter groups with different settings",
    "nadam": "has a group that is none of Adam",
    "amsgrad": "keeps 'max_exp_avg_sq'",
    "integers": "has a step count that is not a tensor",
    "counts": "has different step counts",
}


def test_states_of_pytorch_without_an_equal_are_rejected_and_can_be_left_out(
    optax: TensorFlow, pytorch: TensorFlow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, back = pytorch_maps(tmp_path)
    (tree, *_), files = places(tmp_path, "tree", "", {"adam": 0}).values(), places(tmp_path, "o", ".pt", ODD)
    optax.ask("optax", "trained", paths={"adam": tree}, steps=STEPS)
    pytorch.ask("optax_torch", "odd", paths=files)
    for name, words in ODD.items():
        lines = [(tree, f"{name}.pt", files[name], there), (files[name], name, tree, back)]
        for source, target, template, names in lines:
            line = ("convert", source, str(tmp_path / target), "--like", template, "--map", names)
            assert run(*line, "--optimizer", "Adam") == 3, name
            assert words in capsys.readouterr().err
            assert not (tmp_path / target).exists()
            assert run(*line, "--keep-optimizer") == 0, name


def test_what_keras_has_no_equal_of_is_rejected(
    optax: TensorFlow, new_tensorflow: TensorFlow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, back = maps(tmp_path)
    trees = places(tmp_path, "tree", "", REJECTED)
    optax.ask("optax", "trained", paths=trees, steps=STEPS)
    files = {"momentum": str(tmp_path / "sgd.keras"), "adam": str(tmp_path / "adam.keras")}
    files["rmsprop"] = str(tmp_path / "rmsprop.keras")
    new_tensorflow.ask("optax_keras", "trained", paths=files, steps=OTHERS)
    of_kind = {"SGD": files["momentum"], "RMSprop": files["rmsprop"]}
    for name, (kind, words) in REJECTED.items():
        keras = of_kind.get(kind, files["adam"])
        for line in ((trees[name], "x.keras", keras, there), (keras, "x", trees[name], back)):
            source, target, template, names = line
            options = ("--like", template, "--map", names, "--optimizer", kind)
            assert run("convert", source, str(tmp_path / target), *options) == 3, name
            assert words in capsys.readouterr().err
            assert not (tmp_path / target).exists()
