"""TensorFlow passes every case that the runtime is held to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.interop import cases

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow


@pytest.mark.parametrize("name", cases.names("tests.interop."))
def test_tensorflow_passes(old_tensorflow: TensorFlow, name: str, tmp_path: Path) -> None:
    old_tensorflow.ask("cases", "run", name=name, directory=str(tmp_path))
