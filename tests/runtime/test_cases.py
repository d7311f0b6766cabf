"""The runtime does what TensorFlow does: `make interop` shows that TensorFlow passes the same cases."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import ckpt_cli.runtime as tf
from formats.errors import ConversionError
from tests.interop import cases
from tests.interop.tensorflow_tests import table

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = "tests.interop."


@pytest.mark.parametrize("name", cases.names(PREFIX))
def test_the_runtime_passes(name: str, tmp_path: Path) -> None:
    cases.run(name, tf, str(tmp_path), PREFIX)


@pytest.mark.parametrize("file", table.FILES, ids=lambda file: file.path)
def test_the_table_shows_functions_that_are_run(file: table.File) -> None:
    run = set(cases.names(PREFIX))
    assert [name for name in file.passes if f"tensorflow_tests.{file.module}.{name}" not in run] == []


def test_every_case_is_in_the_table() -> None:
    told = {f"tensorflow_tests.{file.module}.{name}" for file in table.FILES for name in file.passes}
    ours = {name for name in cases.names(PREFIX) if not name.startswith("tensorflow_tests.behaviours.")}
    assert ours - told == set()


def save_twice(directory: str) -> None:
    for _ in range(2):
        tf.keras.Model().save_weights(os.path.join(directory, "w"), overwrite=False)


REFUSED: dict[str, tuple[type[Exception], Any]] = {
    "a path that is a tensor": (TypeError, lambda _: tf.train.Checkpoint().write(tf.constant("ckpt"))),
    "tf.saved_model.save": (AttributeError, lambda directory: tf.saved_model.save(tf.Module(), directory)),
    "overwrite=False raises FileExistsError, without a prompt": (FileExistsError, save_twice),
    "saving a model whole": (NotImplementedError, lambda directory: tf.keras.Model().save(directory)),
    "a prefix that ends in a slash": (
        ConversionError,
        lambda directory: tf.train.Checkpoint().write(os.path.join(directory, "")),
    ),
    "tf.compat.v1.make_template": (AttributeError, lambda _: tf.compat.v1.make_template("a", tf.zeros)),
    "not in TensorFlow's public API": (AttributeError, lambda _: tf.__internal__),
}


@pytest.mark.parametrize("what", sorted(REFUSED))
def test_what_the_table_calls_rejected_is_rejected(what: str, tmp_path: Path) -> None:
    kind, attempt = REFUSED[what]
    with pytest.raises(kind):
        attempt(str(tmp_path))


def test_every_refusal_in_the_table_is_tried() -> None:
    told = {why.removeprefix("rejected: ") for file in table.FILES for why in file.others.values()}
    other = {table.GRAPH, *(why for why in told if why.startswith(("of a later", "the same")))}
    assert told - other == set(REFUSED)
