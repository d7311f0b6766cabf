"""ckpt's own maps, each run: one library's weights in the other give the same answers, and come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import formats
from ckpt_cli.cli.main import main
from ckpt_cli.operations.look.complaints import complaints
from ckpt_cli.operations.look.explain import explain
from ckpt_cli.operations.select.name_map import packs
from tests.support import digest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

CLOSE = 1e-5
"""How far answers may be apart, relative to the largest."""


@pytest.mark.parametrize("name", [name for name in packs() if name not in ("linen-nnx", "maxtext-scan")])
def test_answers_agree_and_weights_come_back(both_libraries: TensorFlow, name: str, tmp_path: Path) -> None:
    both_libraries.ask("packs", "saved", folder=str(tmp_path), name=name)
    path = tmp_path / (f"{name}.h5" if (tmp_path / f"{name}.h5").exists() else name)
    there, back = tmp_path / f"{name}.safetensors", tmp_path / "back.npz"
    _ckpt("convert", path, there, "--layout", "pytorch", "--map", name, "--kind", "variable")
    far = both_libraries.ask("packs", "answers", folder=str(tmp_path), name=name)
    assert max(far) < CLOSE
    _ckpt("convert", there, back, "--layout", "tensorflow", "--map", name)
    assert _digests(back) == _digests(path)


def test_what_transformers_says_is_explained(both_libraries: TensorFlow, tmp_path: Path) -> None:
    for function in both_libraries.ask("explain_transformers", "names"):
        directory = tmp_path / function
        directory.mkdir()
        said = both_libraries.ask("explain_transformers", "text", name=function, directory=str(directory))
        found = {match.title for match in explain(said)}
        expected = {row.title for row in complaints() if f"{function}@packs" in row.provoked}
        assert expected, function
        assert expected <= found, said


def _ckpt(*arguments: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in (*arguments, "-q")])
    assert ended.value.code == 0, arguments


def _digests(path: Path) -> dict[str, str]:
    """Return what each weight holds, by its full name."""
    with formats.open_checkpoint(path) as reader:
        weights = [key for key, kind in reader.kinds.items() if kind == "variable"]
        return {reader.full_names.get(key, key): digest(reader[key].read()) for key in weights}
