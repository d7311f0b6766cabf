"""An optimizer's state of Keras in PyTorch, and back: three more steps are the same on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ckpt_cli.cli.main import main
from formats.keras.optimizers_in_pytorch import GROUPS
from tests.sampling import seeds

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

CLOSE = 1e-4
"""How far weights may be apart, relative to what three steps change them by, which float32 rounds."""

CASES = {
    "Adam": ("Adam", {"learning_rate": 0.01, "beta_1": 0.85, "beta_2": 0.99}),
    "Adam amsgrad": ("Adam", {"learning_rate": 0.01, "amsgrad": True}),
    "AdamW": ("AdamW", {"learning_rate": 0.01, "weight_decay": 0.3}),
    "SGD": ("SGD", {"learning_rate": 0.05}),
    "SGD momentum": ("SGD", {"learning_rate": 0.05, "momentum": 0.9}),
    "SGD nesterov": ("SGD", {"learning_rate": 0.05, "momentum": 0.8, "nesterov": True}),
    "RMSprop": ("RMSprop", {"learning_rate": 0.01, "rho": 0.8}),
    "RMSprop momentum": ("RMSprop", {"learning_rate": 0.01, "momentum": 0.7, "centered": True}),
    "Adagrad": ("Adagrad", {"learning_rate": 0.05}),
}
DEFAULTS = {"SGD momentum": {"momentum": 0.9}, "SGD nesterov": {"momentum": 0.8, "nesterov": True}}
RUNS = [
    ("2.15", "new", ".h5"),
    ("2.15", "new", ".keras"),
    ("2.15", "legacy", ".h5"),
    ("2.15", "new", ""),
    ("2.15", "legacy", ""),
    ("2.21", "new", ".keras"),
    ("2.21", "new", ".weights.h5"),
    ("2.21", "new", ".h5"),
]


def run(*line: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*line, "-q"])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def convert(folder: Path, source: str, target: str, *options: str, layout: str = "pytorch") -> int:
    return run("convert", str(folder / source), str(folder / target), "--layout", layout, *options)


def test_each_optimizer_of_the_table_is_run() -> None:
    assert {name for name, _ in CASES.values()} == set(GROUPS)


@pytest.mark.parametrize("number", seeds(3, len(RUNS)))
def test_three_more_steps_are_the_same(
    old_tensorflow: TensorFlow,
    new_tensorflow: TensorFlow,
    pytorch: TensorFlow,
    number: int,
    tmp_path: Path,
) -> None:
    release, family, suffix = RUNS[number]
    names = [name for name in CASES if not (family == "legacy" and name == "AdamW")]
    keras = {"2.15": old_tensorflow, "2.21": new_tensorflow}[release]
    cases = [(family, *CASES[name]) for name in names]
    keras.ask("layout_optimizers", "trained", folder=str(tmp_path), cases=cases, suffix=suffix)
    whole = suffix in (".h5", ".keras")
    configs = [str(tmp_path / (f"{n}{suffix}" if whole else f"{n}_whole.h5")) for n in range(len(names))]
    for at, config in enumerate(configs):
        told = [] if whole else ["--config", config]
        assert convert(tmp_path, f"{at}{suffix}", f"{at}.pt", *told) == 0, names[at]
    classes = [(CASES[name][0], {"lr": 1.0, **DEFAULTS.get(name, {})}) for name in names]
    far = pytorch.ask("layout_optimizers_torch", "gone_on", folder=str(tmp_path), classes=classes)
    found = {name: far[str(at)] for at, name in enumerate(names)}
    assert {name: distance for name, distance in found.items() if not distance < CLOSE} == {}
    for at, config in enumerate(configs):
        back = ["--config", config, *(["--iterations", "6"] if CASES[names[at]][0] == "SGD" else [])]
        target = ["--to", "tf-object"] if not suffix else []
        done = convert(tmp_path, f"{at}_on.pt", f"{at}_back{suffix}", *back, *target, layout="tensorflow")
        assert done == 0, names[at]
    keras.ask("layout_optimizers", "gone_on", folder=str(tmp_path), cases=cases, suffix=suffix)
    far = pytorch.ask("layout_optimizers_torch", "compared", folder=str(tmp_path), count=len(names))
    found = {name: far[str(at)] for at, name in enumerate(names)}
    assert {name: distance for name, distance in found.items() if not distance < CLOSE} == {}


REFUSED = {
    "lstm": "PyTorch trains two biases instead of this one",
    "clipped": "has clipnorm=1.0, which PyTorch's Adam does not support",
    "decayed": "has weight_decay=0.1, which PyTorch's SGD does not support",
    "scheduled": "is a schedule",
    "other": "expected one of Adam, AdamW, SGD, RMSprop, Adagrad",
    "averaged": "has use_ema=True",
    "scaled": "Adam (Keras 3) is inside a LossScaleOptimizer",
}


def test_what_pytorch_has_no_equal_of_is_rejected(
    new_tensorflow: TensorFlow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new_tensorflow.ask("layout_optimizers", "refused", folder=str(tmp_path))
    for name, words in REFUSED.items():
        assert convert(tmp_path, f"{name}.keras", f"{name}.pt") == 3
        assert words in capsys.readouterr().err
        assert not (tmp_path / f"{name}.pt").exists()
    assert convert(tmp_path, "scheduled.keras", "s.pt", "--learning-rate", "0.05") == 0
