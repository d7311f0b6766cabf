"""Kinds of the tensors of a tree, by the paths that optax, Flax, MaxText and Keras make."""

from __future__ import annotations

import pytest

from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.orbax.kinds import OwnedSlot, kinds_of, slots_of

# key: shape, kind; a number without dimensions is an integer.
CASES = {
    "adam in a chain": {
        "params/dense/kernel": ((2, 3), "variable"),
        "opt_state/1/0/mu/dense/kernel": ((2, 3), "slot"),
        "opt_state/1/0/nu/dense/kernel": ((2, 3), "slot"),
        "opt_state/1/0/count": ((), "optimizer"),
        "step": ((), "state"),
    },
    "MultiSteps of adam": {
        "params/w": ((2, 3), "variable"),
        "opt_state/mini_step": ((), "optimizer"),
        "opt_state/gradient_step": ((), "optimizer"),
        "opt_state/inner_opt_state/0/mu/w": ((2, 3), "slot"),
        "opt_state/acc_grads/w": ((2, 3), "slot"),
    },
    "masked, with injected hyperparameters": {
        "params/w": ((2, 3), "variable"),
        "opt_state/hyperparams/learning_rate": ((), "optimizer"),
        "opt_state/inner_state/0/inner_state/trace/w": ((2, 3), "slot"),
    },
    "adafactor": {
        "params/w": ((2, 3), "variable"),
        "opt_state/0/v_row/w": ((2,), "optimizer"),
        "opt_state/0/v_col/w": ((3,), "optimizer"),
    },
    "NNX": {
        "model/dense/kernel/value": ((2, 3), "variable"),
        "optimizer/opt_state/0/mu/dense/kernel/value": ((2, 3), "slot"),
        "optimizer/step/value": ((), "optimizer"),
        "step/value": ((), "state"),
    },
    "averages of the parameters beside them": {
        "params/dense/kernel": ((2, 3), "variable"),
        "ema_params/dense/kernel": ((2, 3), "variable"),
        "opt_state/0/mu/dense/kernel": ((2, 3), "slot"),
    },
    "a parameter called count": {
        "params/count": ((1, 1), "variable"),
        "opt_state/0/count": ((1, 1), "optimizer"),
        "opt_state/0/mu/count": ((1, 1), "slot"),
    },
    "optimizers of two models": {
        "params_g/w": ((2, 3), "variable"),
        "opt_state_g/0/mu/w": ((2, 3), "slot"),
        "opt_state_g/0/count": ((), "optimizer"),
        "disc_opt_state/0/count": ((), "optimizer"),
    },
    "streams of random numbers": {
        "model/dropout/rngs/count/value": ((), "state"),
        "model/dense/kernel/value": ((2, 3), "variable"),
        "opt_state/0/count/value": ((), "optimizer"),
    },
    "MaxText": {
        "params/params/decoder/layers/mlp/wi/kernel": ((4, 2, 3), "variable"),
        "opt_state/mu/params/decoder/layers/mlp/wi/kernel": ((4, 2, 3), "slot"),
        "opt_state/count": ((), "optimizer"),
    },
    "Keras": {
        "trainable_variables/dense/kernel": ((2, 3), "variable"),
        "non_trainable_variables/bn/moving_mean": ((3,), "variable"),
        "optimizer_variables/sgd/dense_kernel_momentum": ((2, 3), "slot"),
        "optimizer_variables/sgd/iteration": ((), "optimizer"),
        "metrics_variables/loss/total": ((), "state"),
    },
    "Keras, with its configuration beside the tree": {
        "pytree/trainable_variables/dense/kernel": ((2, 3), "variable"),
        "pytree/optimizer_variables/sgd/dense_kernel_momentum": ((2, 3), "slot"),
        "pytree/metrics_variables/loss/total": ((), "state"),
        "pytree/metrics_variables/accuracy/values": ((3,), "state"),
    },
    "several items": {
        "model/params/w": ((2, 3), "variable"),
        "model/opt_state/0/trace/w": ((2, 3), "slot"),
        "model/step": ((), "state"),
    },
    "an optimizer's state alone": {
        "0/count": ((), "optimizer"),
        "0/mu/w": ((2, 3), "slot"),
    },
    "parameters that are called as slots are": {
        "v": ((2, 3), "variable"),
        "encoder/m/kernel": ((2, 3), "variable"),
        "0/kernel": ((2, 3), "variable"),
    },
}


@pytest.mark.parametrize("name", CASES)
def test_kinds_follow_the_paths(name: str) -> None:
    case = CASES[name]
    float32, int32 = BY_NAME["float32"], BY_NAME["int32"]
    specs = {key: TensorSpec(key, float32 if shape else int32, shape) for key, (shape, _) in case.items()}
    found = kinds_of({key: tuple(key.split("/")) for key in specs}, specs)
    assert found == {key: kind for key, (_, kind) in case.items()}


@pytest.mark.parametrize(
    ("keys", "slot", "owned"),
    [
        (
            ["params/a/w", "params/b/w"],
            "opt_state/1/0/mu/a/w",
            OwnedSlot(("opt_state",), "params/a/w", "mu", ("opt_state", "1", "0")),
        ),
        (
            ["params/params/w"],
            "opt_state/mu/params/w",
            OwnedSlot(("opt_state",), "params/params/w", "mu", ("opt_state",)),
        ),
        (
            ["model/w/value"],
            "optimizer/trace/w/value",
            OwnedSlot(("optimizer",), "model/w/value", "trace", ("optimizer",)),
        ),
        (
            ["trainable_variables/m/d/kernel"],
            "optimizer_variables/adam/m_d_kernel_momentum",
            OwnedSlot(
                ("optimizer_variables",),
                "trainable_variables/m/d/kernel",
                "momentum",
                ("optimizer_variables",),
            ),
        ),
        (["params/a/w", "params/b/w"], "opt_state/mu/w", None),
        (["ema/a/w", "average/a/w"], "opt_state/mu/a/w", None),
        (["params/x/a/w", "params/y/a/w", "ema/z/a/w", "params/z/a/w"], "opt_state/mu/a/w", None),
        (
            ["params/a/w", "ema_params/a/w"],
            "opt_state/0/mu/a/w",
            OwnedSlot(("opt_state",), "params/a/w", "mu", ("opt_state", "0")),
        ),
        (
            ["params/w", "params/a/w"],
            "opt_state/mu/w",
            OwnedSlot(("opt_state",), "params/w", "mu", ("opt_state",)),
        ),
    ],
)
def test_a_slot_belongs_to_one_parameter(keys: list[str], slot: str, owned: OwnedSlot | None) -> None:
    specs = {key: TensorSpec(key, BY_NAME["float32"], (2, 3)) for key in (*keys, slot)}
    found = slots_of({key: tuple(key.split("/")) for key in specs}, specs)
    assert found == ({} if owned is None else {slot: owned})
