"""Optimizers within a LossScaleOptimizer: object graphs that are made of files of each Keras."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.cli.running import run_ckpt
from tests.sampling import seeds

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

STEPS, SCALE, GROWTH = 6, 2.0**12, 4
CLOSE = 2e-3
"""How far losses of half precision may be apart: Keras 2 rounds them to float16, Keras 3 does not."""

RUNS = [
    (old, optimizer, legacy)
    for old in (True, False)
    for optimizer in ("adam", "momentum")
    for legacy in ((False, True) if old else (False,))
]
KEPT = {".keras", ".weights.h5", ".h5"}


@pytest.mark.parametrize(("old", "optimizer", "legacy"), [RUNS[number] for number in seeds(2, len(RUNS))])
def test_training_continues_from_a_graph_that_is_made_of_a_file(
    old: bool,
    optimizer: str,
    legacy: bool,
    old_tensorflow: TensorFlow,
    new_tensorflow: TensorFlow,
    tmp_path: Path,
) -> None:
    """Keras 3 stores the loss scale in its files; with Keras 2's it starts as the configuration says."""
    mine = old_tensorflow if old else new_tensorflow
    wanted = mine.ask("loss_scaling", "trained", folder=str(tmp_path), optimizer=optimizer, legacy=legacy)
    stored = [STEPS, SCALE, 0] if old else [STEPS, 2 * SCALE, STEPS - GROWTH]
    # Keras 2 saves no legacy optimizer in the newer files.
    suffixes = {".h5"} if legacy else KEPT
    for suffix in sorted(suffixes):
        config = ["--config", tmp_path / "model.keras"] if suffix == ".weights.h5" else []
        for generation, other in (("keras2", old_tensorflow), ("keras3", new_tensorflow)):
            made = tmp_path / f"{generation}-{suffix.replace('.', '-')}"
            line = ("--to", "object", "--generation", generation, *config)
            done = run_ckpt("convert", tmp_path / f"model{suffix}", made, *line)
            assert done.code == 0, done.err
            assert ("the loss scale starts at 4096" in done.err) == old
            of_legacy = legacy and generation == "keras2"
            told = {"path": str(made), "optimizer": optimizer, "legacy": of_legacy}
            numbers, losses = other.ask("loss_scaling", "gone_on", **told)
            assert numbers == stored
            assert losses == pytest.approx(wanted, abs=CLOSE)


@pytest.mark.parametrize("old", [True, False])
def test_training_continues_in_weights_of_another_keras(
    old: bool, old_tensorflow: TensorFlow, new_tensorflow: TensorFlow, tmp_path: Path
) -> None:
    """Keras 2 stores no loss scale in files, so that its program keeps its own."""
    there = {True: old_tensorflow, False: new_tensorflow}
    folders = {True: tmp_path / "old", False: tmp_path / "new"}
    wanted = []
    for generation, folder in folders.items():
        folder.mkdir()
        told = {"folder": str(folder), "optimizer": "adam"}
        wanted.append(there[generation].ask("loss_scaling", "trained", **told))
    config, made = folders[not old] / "model.keras", tmp_path / "made.weights.h5"
    done = run_ckpt("convert", folders[old] / "graph", made, "--config", config)
    assert done.code == 0, done.err
    numbers, losses = there[not old].ask("loss_scaling", "gone_on", path=str(made), optimizer="adam")
    assert numbers == ([STEPS, 2 * SCALE, STEPS - GROWTH] if old else [STEPS, SCALE, 1])
    assert losses == pytest.approx(wanted[0 if old else 1], abs=CLOSE)


def test_a_loss_scale_that_nothing_stores_is_requested(old_tensorflow: TensorFlow, tmp_path: Path) -> None:
    """The list of Keras 3 has the loss scale; without a training configuration it is unknown."""
    old_tensorflow.ask("loss_scaling", "trained", folder=str(tmp_path), optimizer="adam")
    (tmp_path / "config.json").write_bytes(_config(tmp_path / "model.keras"))
    line = ("--config", tmp_path / "config.json", "--optimizer", "Adam", "--learning-rate", "0.02")
    there = run_ckpt("convert", tmp_path / "model.weights.h5", tmp_path / "a", "--to", "object", *line)
    assert there.code == 0, there.err
    line = (*line, "--generation", "keras3")
    done = run_ckpt("convert", tmp_path / "model.weights.h5", tmp_path / "b", "--to", "object", *line)
    assert done.code == 3
    assert "inside a LossScaleOptimizer, and SRC does not store the loss scale" in done.err


def _config(path: Path) -> bytes:
    """Return the model's configuration alone, without how it is compiled."""

    with zipfile.ZipFile(path) as archive:
        found = json.loads(archive.read("config.json"))
    del found["compile_config"]
    return json.dumps(found).encode()
