"""Writes TensorFlow's results to tests/data/known_answers, for tests without TensorFlow.

`python -m tests.interop.known_answers` runs the releases of `make interop`, which compares the files with
them.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.interop import expressions
from tests.interop.layers_run import LAYERS_RUN, Row, is_only_in_keras_2, is_only_in_keras_3
from tests.support import data_path

if TYPE_CHECKING:
    from tests.interop.conftest import TensorFlow

__all__ = ["arrays_of_layers", "read_expressions", "read_layers", "read_losses"]

_FOLDER = data_path("known_answers")
_KERAS = {"2.15": "keras2", "2.21": "keras3"}


def _lines(name: str) -> list[Any]:
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def read_losses() -> dict[str, Any]:
    """Return losses and gradients by row of `tests/interop/losses.py`."""
    return dict(_lines("losses.jsonl"))


def read_expressions() -> dict[str, Any]:
    """Return values and gradients by the text of an expression."""
    return dict(_lines("expressions.jsonl"))


def read_layers(keras: str) -> list[tuple[Row, str, list[np.ndarray[Any, Any]]]]:
    """Return rows of LAYERS_RUN, configurations of their models, and outputs and gradients.

    `keras` is keras2 or keras3.
    """
    configs = _lines(f"layers.{keras}.jsonl")
    with np.load(os.path.join(_FOLDER, f"layers.{keras}.npz")) as file:
        arrays = {name: file[name] for name in file.files}
    found = []
    for number, (row, config) in enumerate(zip(_rows(keras), configs, strict=True)):
        names = [name for name in arrays if name.startswith(f"{number:03}/")]
        found.append((row, json.dumps(config), [arrays[name] for name in names]))
    return found


def _rows(keras: str) -> list[Row]:
    others = is_only_in_keras_3 if keras == "keras2" else is_only_in_keras_2
    return [row for row in LAYERS_RUN if not others(row)]


def arrays_of_layers(answers: Any) -> list[list[np.ndarray[Any, Any]]]:
    """Return the output and the gradients of each layer that TensorFlow computed."""
    return [[np.array(one, "f4") for one in (output, *gradients)] for _, _, output, gradients in answers]


# Writing --------------------------------------------------------------------------------


def _write(name: str, rows: list[Any]) -> None:
    with open(os.path.join(_FOLDER, name), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def _write_all(judges: dict[str, TensorFlow]) -> None:
    old = judges["2.15"]
    _write("losses.jsonl", list(old.ask("runtime", "losses").items()))
    _write(
        "expressions.jsonl", [[text, old.ask("runtime", "evaluate", text=text)] for text in expressions.TEXTS]
    )
    for release, keras in _KERAS.items():
        answers = judges[release].ask("keras", "layer_values", layers=_rows(keras))
        _write(f"layers.{keras}.jsonl", [json.loads(config) for config, _, _, _ in answers])
        arrays = {
            f"{number:03}/{at}": one
            for number, row in enumerate(arrays_of_layers(answers))
            for at, one in enumerate(row)
        }
        np.savez_compressed(os.path.join(_FOLDER, f"layers.{keras}.npz"), **arrays)


def main() -> int:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from tests.interop.conftest import TensorFlow

    os.makedirs(_FOLDER, exist_ok=True)
    judges = {release: TensorFlow(release) for release in _KERAS}
    try:
        _write_all(judges)
    finally:
        for judge in judges.values():
            judge.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
