"""PyTorch's state of optimizers by the table's names and meanings: Keras continues as PyTorch did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from formats.keras.optimizers import BY_NAME, OPTIMIZERS, SlotKind, named
from tests.support import data_path

K = tf.keras.optimizers
RATE = 0.01
KERAS = {
    "Adam": lambda **small: K.Adam(RATE, **small),
    "Adam amsgrad": lambda **small: K.Adam(RATE, amsgrad=True, **small),
    "AdamW": lambda **small: K.AdamW(RATE, weight_decay=0.01, **small),
    "Adamax": lambda **small: K.Adamax(RATE, **small),
    "NAdam": lambda **small: K.legacy.Nadam(RATE, **small),
    "SGD": lambda **_: K.SGD(RATE, momentum=0.9),
    "SGD nesterov": lambda **_: K.SGD(RATE, momentum=0.9, nesterov=True),
    "Adagrad": lambda **small: K.Adagrad(RATE, **small),
    "RMSprop": lambda **small: K.RMSprop(RATE, **small),
    "RMSprop momentum": lambda **small: K.RMSprop(RATE, momentum=0.5, **small),
    "RMSprop centered": lambda **small: K.RMSprop(RATE, momentum=0.5, centered=True, **small),
    "Adadelta": lambda **small: K.Adadelta(RATE, **small),
}
NUMBERS = {"step", "mu_product"}
"""PyTorch's values that are not slots."""


def recorded() -> dict[str, Any]:
    """Return what tests/interop/oracle_torch.py wrote."""
    with np.load(data_path("optimizers", "torch.npz")) as held:
        return dict(held)


def state_of(arrays: dict[str, Any], name: str) -> dict[str, Any]:
    start = f"{name}/state/"
    return {key.removeprefix(start): array for key, array in arrays.items() if key.startswith(start)}


def turned(slot: SlotKind, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return PyTorch's value of a slot as Keras has it."""
    return value * np.float32(-RATE if slot.turns else RATE if slot.is_step else 1)


def test_the_column_has_all_that_pytorch_keeps() -> None:
    arrays = recorded()
    names = {key.partition("/")[0] for key in arrays} - {"gradients"}
    assert names == set(KERAS)
    for name in names:
        row = next(row for row in OPTIMIZERS if row.pytorch == name.partition(" ")[0])
        told = {slot.pytorch for slot in row.slots if slot.pytorch}
        needed = {slot.pytorch for slot in row.slots if slot.pytorch and not slot.made_by}
        assert needed <= set(state_of(arrays, name)) - NUMBERS <= told
    assert {row.pytorch for row in OPTIMIZERS} - {""} == {name.partition(" ")[0] for name in names}


@pytest.mark.parametrize("name", KERAS)
def test_keras_continues_from_pytorchs_state(name: str) -> None:
    tf.keras.backend.clear_session()
    arrays = recorded()
    state = state_of(arrays, name)
    variable, optimizer = tf.Variable(arrays[f"{name}/before"]), KERAS[name](epsilon=1e-12)
    row = BY_NAME["Nadam"] if name == "NAdam" else named(name.partition(" ")[0])
    assert row is not None
    held = [slot for slot in row.slots if slot.pytorch in state]
    if name == "NAdam":
        optimizer.restore_cache(float(state["mu_product"]))
        lists = {slot.meaning: optimizer.add_slot(variable, slot.legacy) for slot in held}
    else:
        optimizer.build([variable])
        lists = {slot.meaning: getattr(optimizer, slot.list2)[0] for slot in held}
    for slot in held:
        lists[slot.meaning].assign(turned(slot, state[slot.pytorch]))
    optimizer.iterations.assign(3)
    for gradient in arrays["gradients"][3:]:
        optimizer.apply_gradients([(tf.constant(gradient), variable)])
    np.testing.assert_allclose(variable.numpy(), arrays[f"{name}/after"], atol=1e-6)
