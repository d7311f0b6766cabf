"""transformers' own conversions of some architectures: the records of the tests are true, and ckpt agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ckpt_cli
import formats
from tests import hub

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

SAMPLE = [("tensorflow", "bert"), ("tensorflow", "gpt2"), ("tensorflow", "resnet"), ("flax", "t5")]


@pytest.mark.parametrize(("library", "model_type"), SAMPLE, ids=map("-".join, SAMPLE))
def test_the_records_are_what_transformers_does(
    old_transformers: TensorFlow, library: str, model_type: str, tmp_path: Path
) -> None:
    found = old_transformers.ask(
        "hub", "converted", library=library, model_type=model_type, folder=str(tmp_path)
    )
    for called, record in dict(hub.records(library))[model_type].items():
        assert "rejected" in record or found[called]["tensors"] == record["tensors"], called
        assert found[called]["stored"] == record["stored"], called
        if "rejected" not in record:
            _converts_the_file(tmp_path / called, library)


def _converts_the_file(folder: Path, library: str) -> None:
    """Convert the very file that the library wrote; transformers reinitialises statistics."""
    ckpt_cli.convert(folder / _FILES[library], folder / "out.safetensors", layout="pytorch")
    with formats.open_checkpoint(folder / "pt" / "model.safetensors") as truth:
        anew = [key for key in truth if library == "tensorflow" and hub.NOT_LOADED.search(key)]
    found = ckpt_cli.diff(folder / "out.safetensors", folder / "pt" / "model.safetensors", exclude=anew)
    assert found.same, found.to_dict()


_FILES = {"tensorflow": "tf_model.h5", "flax": "flax_model.msgpack"}


# The way back, and the new transformers ----------------------------------------------------

BACK = [
    ("BertForMaskedLM", "TF"),
    ("BertModel", "TF"),
    ("BertForPreTraining", "TF"),
    ("GPT2LMHeadModel", "TF"),
    ("T5ForConditionalGeneration", "TF"),
    ("BertForMaskedLM", "Flax"),
    ("GPT2LMHeadModel", "Flax"),
    ("T5ForConditionalGeneration", "Flax"),
]
_LAYOUTS = {"TF": "tensorflow", "Flax": "flax"}


@pytest.mark.parametrize("is_safe", [True, False], ids=["safetensors", "bin"])
@pytest.mark.parametrize(("class_name", "library"), BACK, ids=map("-".join, BACK))
def test_the_old_libraries_load_what_comes_back(
    old_transformers: TensorFlow, class_name: str, library: str, is_safe: bool, tmp_path: Path
) -> None:
    """transformers 4.41 loads the file that ckpt makes of PyTorch's, and computes the same."""
    old_transformers.ask(
        "hub_outputs",
        "saved",
        class_name=class_name,
        folder=str(tmp_path / "torch"),
        safe_serialization=is_safe,
    )
    (tmp_path / "back").mkdir()
    layout = _LAYOUTS[library]
    ckpt_cli.convert(tmp_path / "torch", tmp_path / "back" / _FILES[layout], layout=layout)
    expected = _outputs(old_transformers, class_name, tmp_path / "torch")
    found = _outputs(old_transformers, library + class_name, tmp_path / "back")
    assert found == pytest.approx(expected, rel=0, abs=1e-5)


OLD = [
    *(f"TF{name}" for name in ("BertModel", "DistilBertModel", "RobertaForMaskedLM", "AlbertModel")),
    *(f"TF{name}" for name in ("GPT2LMHeadModel", "T5ForConditionalGeneration", "BartModel")),
    *(f"Flax{name}" for name in ("BertForMaskedLM", "RobertaModel", "GPT2Model", "T5Model")),
]


@pytest.mark.parametrize("target", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("class_name", OLD)
def test_the_new_transformers_loads_the_result(
    old_transformers: TensorFlow,
    both_libraries: TensorFlow,
    class_name: str,
    target: str,
    tmp_path: Path,
) -> None:
    """transformers 5 computes with ckpt's file what the old release computes with the library's own."""
    old_transformers.ask("hub_outputs", "saved", class_name=class_name, folder=str(tmp_path / "old"))
    (tmp_path / "new").mkdir()
    ckpt_cli.convert(tmp_path / "old", tmp_path / "new" / target, layout="pytorch")
    expected = _outputs(old_transformers, class_name, tmp_path / "old")
    found = _outputs(both_libraries, class_name.removeprefix("TF").removeprefix("Flax"), tmp_path / "new")
    assert found == pytest.approx(expected, rel=0, abs=1e-5)


@pytest.mark.parametrize("class_name", ["TFBertForMaskedLM", "TFT5Model", "FlaxBertForMaskedLM"])
def test_shards_are_one_source(old_transformers: TensorFlow, class_name: str, tmp_path: Path) -> None:
    """The shards that transformers writes have the weights of its single file."""
    for name, how in (("one", {}), ("shards", {"max_shard_size": "20kB"})):
        names = old_transformers.ask(
            "hub_outputs", "saved", class_name=class_name, folder=str(tmp_path / name), **how
        )
        assert any(file.endswith(".index.json") for file in names) is (name == "shards")
        target = tmp_path / f"{name}.safetensors"
        ckpt_cli.convert(tmp_path / name, target, layout="pytorch")
    assert ckpt_cli.diff(tmp_path / "one.safetensors", tmp_path / "shards.safetensors").same


GOOGLE = ["bert", "albert", "electra-discriminator", "electra-generator", "t5", "t5-gated"]


@pytest.mark.parametrize("family", GOOGLE)
def test_google_s_checkpoints_become_what_the_scripts_make(
    old_transformers: TensorFlow, both_libraries: TensorFlow, family: str, tmp_path: Path
) -> None:
    """TensorFlow writes them; the records of the tests are true, and transformers 5 loads the result."""
    found = old_transformers.ask("hub_google", "converted", family=family, folder=str(tmp_path))
    assert found == dict(hub.records("google"))[family]
    (tmp_path / "new").mkdir()
    target = tmp_path / "new" / "model.safetensors"
    ckpt_cli.convert(tmp_path / "model.ckpt", target, layout="pytorch", weights_only=True)
    made = ckpt_cli.diff(target, tmp_path / "pt" / "model.safetensors")
    assert made.same, made.to_dict()
    class_name = "T5ForConditionalGeneration" if family.startswith("t5") else "AutoModel"
    assert _outputs(both_libraries, class_name, tmp_path / "new") == pytest.approx(
        _outputs(old_transformers, class_name, tmp_path / "new"), rel=0, abs=1e-5
    )


def _outputs(library: TensorFlow, class_name: str, folder: Path) -> list[float]:
    found: list[float] = library.ask("hub_outputs", "outputs", class_name=class_name, folder=str(folder))
    return found
