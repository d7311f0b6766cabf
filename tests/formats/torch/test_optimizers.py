"""The state of an optimizer in a PyTorch file, as Keras has it, and what is wrong with one."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats.keras.training_state import ITERATIONS, LEARNING_RATE
from formats.torch import optimizer as optimizers
from formats.torch.facts import TorchFacts
from formats.torch.optimizer import optimizers_in
from formats.torch.state import read as read_torch
from tests.torch_files import storage, tensor, written, zipped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from formats.keras.training_state import TrainingState

ADAM = {"lr": 0.25, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "amsgrad": False}
SGD = {"lr": 0.01, "momentum": 0.9, "dampening": 0, "weight_decay": 0, "nesterov": False}
MORE = {"maximize": False, "foreach": None, "capturable": False, "differentiable": False, "fused": None}


def training(settings: dict[str, Any], *slots: str) -> dict[str, Any]:
    """Return what a program saves: two parameters, and tensors for each of them."""
    numbers = iter(range(2, 100))
    state: dict[int, dict[str, Any]] = {}
    for number in (0, 1):
        state[number] = {slot: tensor(storage(str(next(numbers)))) for slot in slots}
        if slots and settings is not SGD:
            state[number]["step"] = tensor(storage("step", 1), 0, (), ())
    group = {**settings, **MORE, "params": [0, 1], "param_names": ["a.w", "b"]}
    return {
        "model": {"a.w": tensor(storage("0")), "b": tensor(storage("1"))},
        "optimizer": {"state": state, "param_groups": [group]},
    }


def read(value: dict[str, Any], folder: Path, step: float = 7.0) -> TrainingState:
    storages = {str(number): bytes(24) for number in range(9)}
    data = zipped(value, {**storages, "step": np.float32(step).tobytes()})
    with formats.open_checkpoint(written(folder / "x.pt", data)) as reader:
        found = read_torch(reader)
    assert found is not None
    return found


def test_adam_has_two_slots_a_parameter_and_one_step_count(tmp_path: Path) -> None:
    found = read(training(ADAM, "exp_avg", "exp_avg_sq"), tmp_path)
    assert (found.flaw, found.called, found.path) == ("", "Adam", "optimizer/")
    assert found.values == {LEARNING_RATE: 0.25, ITERATIONS: 7}
    assert found.settings == {
        LEARNING_RATE: 0.25,
        "beta_1": 0.9,
        "beta_2": 0.999,
        "epsilon": 1e-8,
        "amsgrad": False,
    }
    assert found.slots == {
        (f"model/{name}", slot): f"optimizer/state/{number}/{slot}"
        for number, name in enumerate(("a.w", "b"))
        for slot in ("exp_avg", "exp_avg_sq")
    }


def test_sgd_counts_no_steps(tmp_path: Path) -> None:
    found = read(training(SGD, "momentum_buffer"), tmp_path)
    assert (found.flaw, found.called, found.values) == ("", "SGD", {LEARNING_RATE: 0.01})
    assert set(found.slots.values()) == {f"optimizer/state/{number}/momentum_buffer" for number in (0, 1)}


def group(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = value["optimizer"]["param_groups"][0]
    return found


def twice(value: dict[str, Any]) -> None:
    value["other"] = training(ADAM, "exp_avg")["optimizer"]


def another_group(value: dict[str, Any]) -> None:
    value["optimizer"]["param_groups"].append({**group(value), "lr": 0.5})


def setting(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda saved: group(saved).update({name: value})


def state(number: int, name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda saved: saved["optimizer"]["state"][number].update({name: value})


HERE = "the optimizer at 'optimizer/'"
FLAWS: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (twice, "it has 2 optimizers; expected one"),
    (lambda saved: saved["optimizer"]["param_groups"].clear(), f"{HERE} has no parameter groups"),
    (another_group, f"{HERE} has parameter groups with different settings, which Keras does not support"),
    (setting("maximize", True), f"{HERE} has maximize True, which Keras' Adam does not support"),
    *(
        (setting("lr", rate), f"the learning rate of {HERE} is {rate!r}; expected a positive number")
        for rate in (0, 0.0, -1.0, float("inf"), float("nan"))
    ),
    (setting("betas", (0.9, "much")), f"the setting 'beta_2' of {HERE} is 'much'; expected a number"),
    (setting("eps", {}), f"the setting 'epsilon' of {HERE} is <Pairs>; expected a number"),
    (
        setting("param_names", None),
        f"{HERE} has no param_names, so the parameters of its slots are unknown; in",
    ),
    (setting("param_names", ["a.w"]), f"{HERE} has a different number of param_names than of parameters"),
    (
        setting("param_names", ["b", "b"]),
        f"{HERE} has parameter 'b' twice, or has no number for this parameter",
    ),
    (setting("params", [1, 1]), f"{HERE} has parameter 'b' twice, or has no number for this parameter"),
    (state(1, "step", 8), f"{HERE} has different step counts: 8 for 'b', 7 for 'a.w'"),
    (state(0, "step", 0.5), "the step count of 'a.w' is 0.5; expected an integer up to 16777216"),
    (state(0, "step", -1), "the step count of 'a.w' is -1; expected an integer up to 16777216"),
    (
        state(0, "step", (1 << 24) + 1),
        "the step count of 'a.w' is 16777217; expected an integer up to 16777216",
    ),
    (state(1, "step", 7), f"{HERE} has a step count that is not a tensor"),
    (state(1, "square_avg", tensor()), f"{HERE} has 'square_avg', which is not a slot of Adam"),
    (
        lambda saved: saved.update(model={}),
        f"0 dictionaries have the parameters that {HERE} names; expected one",
    ),
    (
        lambda saved: saved.update(ema=copy.deepcopy(saved["model"])),
        f"2 dictionaries have the parameters that {HERE} names; expected one",
    ),
]


@pytest.mark.parametrize(("change", "flaw"), FLAWS)
def test_what_is_wrong_with_an_optimizer_is_reported(
    change: Callable[[dict[str, Any]], object], flaw: str, tmp_path: Path
) -> None:
    value = copy.deepcopy(training(ADAM, "exp_avg", "exp_avg_sq"))
    change(value)
    found = read(value, tmp_path)
    assert found.flaw is not None
    assert found.flaw == flaw or (flaw.endswith("; in") and found.flaw.startswith(flaw))


@pytest.mark.parametrize("step", [0.0, 1.0, float(1 << 24)])
def test_every_count_that_float32_holds_is_a_step_count(step: float, tmp_path: Path) -> None:
    found = read(training(ADAM, "exp_avg", "exp_avg_sq"), tmp_path, step)
    assert (found.flaw, found.values[ITERATIONS]) == ("", step)


def root_of(value: dict[str, Any], folder: Path) -> Any:
    path = written(folder / "x.pt", zipped(value, {str(number): bytes(24) for number in range(9)}))
    with formats.open_checkpoint(path) as reader:
        assert isinstance(reader.facts, TorchFacts)
        assert reader.facts.structure is not None
        return reader.facts.structure.root


PLAIN: list[Any] = [None, True, 0.5, 7, -(1 << 63), "text" * 50, (0.9, 0.999), [1, "a"], (1,) * 8]
OTHERS: list[tuple[Any, str]] = [
    ({}, "Pairs"),
    (1 << 64, "int"),
    ("t" * 201, "str"),
    ((1,) * 9, "tuple"),
    ([[1]], "list"),
    ([1 << 64], "list"),
]


def test_settings_are_numbers_and_short_text(tmp_path: Path) -> None:
    values = {f"plain {at}": value for at, value in enumerate(PLAIN)}
    values |= {f"other {at}": value for at, (value, _) in enumerate(OTHERS)}
    (found,) = optimizers_in(root_of({"state": {}, "param_groups": [values]}, tmp_path))
    (read_back,) = found.groups
    assert [read_back[f"plain {at}"] for at in range(len(PLAIN))] == PLAIN
    assert [repr(read_back[f"other {at}"]) for at in range(len(OTHERS))] == [
        f"<{kind}>" for _, kind in OTHERS
    ]


def test_the_walk_takes_as_many_entries_as_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = root_of({"a": {"b": {}}, "state": {}, "param_groups": [{"lr": 1.0, "eps": 1.0}]}, tmp_path)
    monkeypatch.setattr(optimizers, "_MOST_STEPS", 5)
    (found,) = optimizers_in(root)
    assert found.groups == ({"lr": 1.0, "eps": 1.0},)
    monkeypatch.setattr(optimizers, "_MOST_STEPS", 4)
    with pytest.raises(ValueError, match="share too many dictionaries"):
        optimizers_in(root)
