"""`config.json` next to weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from formats.find.resolve import find
from formats.location import parse_location
from formats.model import hub_config as module
from formats.model.hub_config import hub_config
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path


def told(folder: Path, text: str, name: str = "model.safetensors") -> dict[str, Any] | None:
    (folder / "config.json").write_text(text)
    with open(data_path("interop", "weights.safetensors"), "rb") as file:
        (folder / name).write_bytes(file.read())
    return hub_config(find(parse_location(folder / name)))


def test_it_is_one_of_a_model(tmp_path: Path) -> None:
    for mark in ("model_type", "architectures", "_class_name"):
        assert told(tmp_path, json.dumps({mark: "bert", "n": 2})) == {mark: "bert", "n": 2}
    assert told(tmp_path, '{"n": 2}') is None
    assert told(tmp_path, '["model_type"]') is None
    assert told(tmp_path, '{"model_type": ') is None


def test_it_is_of_the_weights_that_are_called_so(tmp_path: Path) -> None:
    assert told(tmp_path, '{"model_type": "bert"}', "other.safetensors") is None
    assert told(tmp_path, '{"model_type": "bert"}', "pytorch_model.bin") == {"model_type": "bert"}
    (tmp_path / "config.json").unlink()
    assert hub_config(find(parse_location(tmp_path / "other.safetensors"))) is None


@pytest.mark.parametrize(("more", "is_read"), [(0, True), (1, False)])
def test_one_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int, is_read: bool
) -> None:
    text = '{"model_type": "bert"}'
    monkeypatch.setattr(module, "_LARGEST", len(text))
    assert (told(tmp_path, text + " " * more) is not None) == is_read
