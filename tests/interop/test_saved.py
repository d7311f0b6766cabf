"""The files of Keras' callbacks and TensorFlow's ways of saving are opened, listed, verified and
converted.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import formats
from tests.cli.running import run_ckpt
from tests.interop.conftest import TensorFlow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EPOCHS = 2

BOTH = [
    ("model_checkpoint", {"name": "cp-{epoch}.keras", "weights_only": False}),
    ("model_checkpoint", {"name": "cp-{epoch}.weights.h5", "weights_only": True}),
    ("model_checkpoint", {"name": "cp-{epoch}.h5", "weights_only": False}),
    ("checkpoint", {"experimental_enable_async_checkpoint": True}),
    ("mirrored", {}),
    ("backup_and_restore", {}),
]
KERAS_2 = [
    ("model_checkpoint", {"name": "cp-{epoch}.ckpt", "weights_only": True}),
    ("model_checkpoint", {"name": "cp-{epoch}", "weights_only": False}),
    ("model_checkpoint", {"name": "weights-{epoch}.h5", "weights_only": True}),
]
KERAS_3 = [("sharded_by_size", {"size": 200}), ("sharded_weights", {"size": 2e-7}), ("preset", {})]

SAVED = [
    (old, function, options)
    for old, rows in ((True, BOTH + KERAS_2), (False, BOTH + KERAS_3))
    for function, options in rows
]


def _title(old: bool, function: str, options: dict[str, Any]) -> str:
    return f"keras{2 if old else 3}-{function}{'-' + options['name'] if 'name' in options else ''}"


@pytest.mark.parametrize(("old", "function", "options"), SAVED, ids=[_title(*row) for row in SAVED])
def test_what_is_saved_is_read_and_converted(
    old: bool,
    function: str,
    options: dict[str, Any],
    old_tensorflow: TensorFlow,
    new_tensorflow: TensorFlow,
    tmp_path: Path,
) -> None:
    (tmp_path / "saved").mkdir()
    tensorflow = old_tensorflow if old else new_tensorflow
    path, weights = tensorflow.ask("saved", function, folder=str(tmp_path / "saved"), **options)
    tensorflow.ask("saved", "configured", path=str(tmp_path / "model.keras"))
    check(path, weights, tmp_path)
    if function in ("model_checkpoint", "backup_and_restore"):
        listed = run_ckpt("ls", "-R", tmp_path / "saved")
        assert listed.code == 0, listed.err
        assert len(listed.out.splitlines()) == (EPOCHS if function == "model_checkpoint" else 1)


@pytest.fixture
def parameter_servers() -> Iterator[TensorFlow]:
    judge = TensorFlow("2.15")
    yield judge
    judge.close()


def test_variables_of_parameter_servers_are_whole(parameter_servers: TensorFlow, tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    path, weights = parameter_servers.ask("saved", "partitioned", folder=str(tmp_path / "saved"))
    judge = TensorFlow("2.15")
    judge.ask("saved", "configured", path=str(tmp_path / "model.keras"))
    judge.close()
    check(path, weights, tmp_path)


def check(path: str, weights: list[Any], tmp_path: Path) -> None:
    """Verify a checkpoint, and find all weights of the model in it and in each form made of it."""
    verified = (
        run_ckpt("verify", "-R", path)
        if (tmp_path / "saved" / "chief").exists()
        else run_ckpt("verify", path)
    )
    assert verified.code == 0, verified.out + verified.err
    if (tmp_path / "saved" / "chief").exists():  # where Keras 2's BackupAndRestore keeps its checkpoint
        path += "/chief"
    wanted = Counter((tuple(shape), digest) for shape, digest in weights)
    assert not wanted - digests(path)
    for suffix in (".safetensors", ".weights.h5", ".keras", ".h5"):
        made = tmp_path / f"made{suffix}"
        config = [] if suffix == ".safetensors" else ["--config", tmp_path / "model.keras"]
        done = run_ckpt("convert", path, made, *config)
        assert done.code == 0, done.err
        assert not wanted - digests(str(made)), suffix


def digests(path: str) -> Counter[tuple[tuple[int, ...], str]]:
    """Return the shapes and digests of all numeric tensors, and how often each occurs."""
    with formats.open_checkpoint(path) as reader:
        return Counter(
            (spec.shape, hashlib.sha256(reader[key].read().tobytes()).hexdigest())
            for key, spec in reader.specs.items()
            if spec.dtype.numpy is not None and spec.dtype.name != "string"
        )
