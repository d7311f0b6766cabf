"""What TensorFlow does is what the runtime does: `make interop` shows that TensorFlow passes the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ckpt_cli.runtime as tf
from tests.interop import cases

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = "tests.interop."


@pytest.mark.parametrize("name", cases.names(PREFIX))
def test_the_runtime_passes(name: str, tmp_path: Path) -> None:
    cases.run(name, tf, str(tmp_path), PREFIX)
