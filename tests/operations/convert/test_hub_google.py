"""Google's TensorFlow 1 checkpoints of BERT, ALBERT, ELECTRA and T5, against transformers' own conversion."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import ckpt_cli
import formats
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.errors import ConversionError
from tests import hub

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = dict(hub.records("google"))


def _write(folder: Path, record: dict[str, Any], *, with_config: bool = True) -> Path:
    folder.mkdir(parents=True)
    arrays = hub.stored("google", record)
    specs = [TensorSpec(name, BY_NAME[array.dtype.name], array.shape) for name, array in arrays.items()]
    with formats.create_checkpoint(folder / "model.ckpt", format="tf-name", specs=specs) as writer:
        for name, array in arrays.items():
            writer.write(name, array)
    name, config = record["config"]
    if with_config:
        (folder / name).write_text(json.dumps(config))
    return folder / "model.ckpt"


@pytest.mark.parametrize("family", RECORDS)
def test_each_family_is_converted_as_transformers_does(family: str, tmp_path: Path) -> None:
    record = RECORDS[family]
    path = _write(tmp_path / "model", record)
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "model.safetensors"
    if any("adam_m" in name or "_slot_" in name for name, *_ in record["stored"]):
        with pytest.raises(ConversionError, match="optimizer state cannot be written in the layout of"):
            ckpt_cli.convert(path, target, layout="pytorch")
    done = ckpt_cli.convert(path, target, layout="pytorch", weights_only=True)
    with formats.open_checkpoint(tmp_path / "out" / "model.safetensors") as reader:
        found = {name: hub.described(reader[name].read()) for name in reader}
        assert reader.facts.producer == "pt"
    assert hub.differences("google", family, record, found) == []
    assert ("electra" in family) is bool(done.dropped)
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert written["model_type"] == family.partition("-")[0]
    assert written.items() >= record["config"][1].items()


def test_without_a_configuration_a_note_names_the_option(tmp_path: Path) -> None:
    path = _write(tmp_path / "model", RECORDS["t5"], with_config=False)
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "model.safetensors"
    weights: dict[str, Any] = {"layout": "pytorch", "weights_only": True}
    said = ckpt_cli.convert(path, target, **weights).notes
    assert any("--config FILE" in text for text in said)
    assert not (tmp_path / "out" / "config.json").exists()
    config = tmp_path / "t5.json"
    config.write_text(json.dumps(RECORDS["t5"]["config"][1]))
    said = ckpt_cli.convert(path, target, config=config, overwrite=True, **weights).notes
    assert not any("--config" in text for text in said)
    assert (tmp_path / "out" / "config.json").read_bytes() == config.read_bytes()


def test_which_model_of_electra_is_meant_is_not_guessed(tmp_path: Path) -> None:
    path = _write(tmp_path / "model", RECORDS["electra-generator"], with_config=False)
    with pytest.raises(ConversionError, match="discriminator and the generator of ELECTRA") as raised:
        ckpt_cli.convert(path, tmp_path / "out.safetensors", layout="pytorch")
    assert any("--config FILE" in hint for hint in raised.value.hints)


def test_variables_that_the_script_does_not_load_are_rejected(tmp_path: Path) -> None:
    record = RECORDS["bert"]
    more = {**record, "stored": [*record["stored"], ["output_weights", [2, 16], "float32"]]}
    path = _write(tmp_path / "model", more)
    weights: dict[str, Any] = {"layout": "pytorch", "weights_only": True}
    with pytest.raises(ConversionError, match="BertForPreTraining has no such variable") as raised:
        ckpt_cli.convert(path, tmp_path / "out.safetensors", **weights)
    assert raised.value.key == "output_weights"
    done = ckpt_cli.convert(path, tmp_path / "out.safetensors", exclude="output_weights", **weights)
    assert len(done.tensors) == len(record["tensors"])


def test_a_configuration_of_another_architecture_is_rejected(tmp_path: Path) -> None:
    path = _write(tmp_path / "model", RECORDS["bert"])
    (path.parent / "config.json").write_text(json.dumps({"model_type": "roberta", "vocab_size": 99}))
    with pytest.raises(ConversionError, match=r"model_type is 'roberta', but .* has the names of bert"):
        ckpt_cli.convert(path, tmp_path / "out.safetensors", layout="pytorch")
