"""Steps that Keras 3 saves by Orbax: Keras resumes from what they become, and from steps that ckpt writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ckpt_cli
from tests.interop.conftest import TensorFlow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def keras() -> Iterator[TensorFlow]:
    judge = TensorFlow("orbax")
    yield judge
    judge.close()


@pytest.mark.parametrize("kind", ["sequential", "functional"])
def test_keras_resumes_in_both_directions(keras: TensorFlow, tmp_path: Path, kind: str) -> None:
    """Keras 3.15 with Orbax 0.12.8 cannot load its own steps; it loads the ones that ckpt writes.

    Its `load_model` gives a Sequential model new weights without an error, since its step names the variables
    below the model's name and the loaded model does not. `load_weights` restores it.
    """
    run, file = str(tmp_path / "run"), str(tmp_path / "saved.keras")
    wanted = keras.ask("keras_orbax", "trained", kind=kind, run=run, file=file)
    step = f"{run}/2"
    for name in ("made.keras", "made.weights.h5"):
        ckpt_cli.convert(step, tmp_path / name)
    ckpt_cli.convert(file, tmp_path / "back" / "5", to="orbax", like=step)
    back = str(tmp_path / "back")

    def resumed(path: str) -> list[float]:
        found: list[float] = keras.ask("keras_orbax", "resumed_from_weights", kind=kind, path=path)
        return found

    found = {
        "keras": keras.ask("keras_orbax", "resumed_from_file", path=str(tmp_path / "made.keras")),
        "weights": resumed(str(tmp_path / "made.weights.h5")),
        "orbax": resumed(back),
    }
    if kind == "functional":
        found["orbax, whole"] = keras.ask("keras_orbax", "resumed_from_file", path=back)
    for losses in found.values():
        assert losses == pytest.approx(wanted, rel=1e-5), found
