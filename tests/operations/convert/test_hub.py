"""transformers' TensorFlow and Flax weights in PyTorch's names and axes, compared with its own conversion."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import ckpt_cli
import formats
from ckpt_cli.operations.convert.hub.architectures import architectures
from ckpt_cli.operations.convert.hub.layout import model_of
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.errors import ConversionError
from formats.store.remote import hub as store
from tests import hub, hub_page
from tests.servers.hub import Hub, serving_hub

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = {
    (library, model_type): classes
    for library in hub.LIBRARIES
    for model_type, classes in hub.records(library)
}


@pytest.mark.parametrize(("library", "model_type"), RECORDS, ids=map("-".join, RECORDS))
def test_each_architecture_is_converted_as_transformers_does(
    library: str, model_type: str, tmp_path: Path
) -> None:
    """All classes by their names of tensors, and one of them from a file."""
    for called, record in RECORDS[library, model_type].items():
        model = model_of(_config(model_type, called), library, "config.json")
        if "rejected" in record:
            with pytest.raises(ConversionError, match=r"transformers 4\.41 does not load this"):
                hub.made(library, model, record)
            continue
        found = hub.made(library, model, record)
        assert hub.differences(library, model_type, record, found) == [], called
        last = called, record
    called, record = last
    path = hub.write(tmp_path / "model", library, record, _config(model_type, called))
    assert hub.laid_out(path) == found


def _config(model_type: str, called: str) -> dict[str, Any]:
    return {"model_type": model_type, "architectures": [called.partition("+")[0]]}


def _bert(folder: Path, library: str = "tensorflow", **config: Any) -> Path:
    record = RECORDS[library, "bert"]["BertForMaskedLM"]
    return hub.write(folder, library, record, {**_config("bert", "BertForMaskedLM"), **config})


def test_each_class_of_the_table_has_a_record() -> None:
    for (model_type, library), found in architectures().items():
        told = {called.partition("+")[0] for called in RECORDS[library, model_type]}
        assert told == {name for one in found for name in one.classes}, (model_type, library)


@pytest.mark.parametrize("library", hub.LIBRARIES)
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_file_of_pytorch_says_so(tmp_path: Path, library: str, name: str) -> None:
    path = _bert(tmp_path / "model", library)
    ckpt_cli.convert(path, tmp_path / name, layout="pytorch")
    with formats.open_checkpoint(tmp_path / name) as reader:
        assert "bert.embeddings.word_embeddings.weight" in reader
        assert reader.facts.producer == ("pt" if name.endswith(".safetensors") else "PyTorch")
    assert ckpt_cli.diff(path, tmp_path / name, layout="pytorch").same


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "sam"}, "ckpt does not know how the TensorFlow weights of model_type 'sam' map"),
        ({"architectures": ["BertForNone"]}, "does not know how the TensorFlow weights of BertForNone map"),
        ({"architectures": None}, "must be a list of one class"),
    ],
)
def test_what_is_not_in_the_table_is_rejected_by_name(
    tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConversionError, match=message) as raised:
        ckpt_cli.convert(_bert(tmp_path / "model", **config), tmp_path / "out.safetensors", layout="pytorch")
    assert raised.value.hints
    assert raised.value.path == str(tmp_path / "model" / "config.json")


def test_a_variable_that_layers_share_is_stored_once(tmp_path: Path) -> None:
    path = _bert(tmp_path / "model")
    name = "tf_bert_for_masked_lm/bert/embeddings/word_embeddings/weight:0"
    with h5py.File(path, "r+") as file:
        group = next(group for layer, group in file.items() if layer != "bert")
        group.attrs["weight_names"] = [*map(str.encode, group.attrs["weight_names"]), name.encode()]
        group.create_dataset(name, data=file["bert"][name][...])
    done = ckpt_cli.convert(path, tmp_path / "out.safetensors", layout="pytorch")
    assert [one.reason for one in done.dropped] == ["another layer stores the same variable"]
    with h5py.File(path, "r+") as file:
        next(group for layer, group in file.items() if layer != "bert")[name][0] = 7
    with pytest.raises(ConversionError, match=r"has the full name of .*, but different values"):
        ckpt_cli.convert(path, tmp_path / "other.safetensors", layout="pytorch")


def test_tied_weights_are_kept_where_the_configuration_unties_them(tmp_path: Path) -> None:
    record = RECORDS["tensorflow", "xglm"]["XGLMForCausalLM"]
    config = _config("xglm", "XGLMForCausalLM")
    for ties in (True, False):
        folder = tmp_path / str(ties)
        made = hub.laid_out(hub.write(folder, "tensorflow", record, {**config, "tie_word_embeddings": ties}))
        assert ("lm_head.weight" in made) is not ties


def test_flax_weights_of_a_base_model_get_the_prefix_that_the_class_needs(tmp_path: Path) -> None:
    record = RECORDS["flax", "bert"]["BertModel"]
    path = hub.write(tmp_path / "model", "flax", record, _config("bert", "BertForMaskedLM"))
    assert all(name.startswith("bert.") for name in hub.laid_out(path))


def test_without_a_configuration_of_transformers_the_layout_is_not_known(tmp_path: Path) -> None:
    path = _bert(tmp_path / "model")
    (path.parent / "config.json").write_text(json.dumps({"hidden_size": 16}))
    with pytest.raises(ConversionError, match="without the model's configuration"):
        ckpt_cli.convert(path, tmp_path / "out.safetensors", layout="pytorch")


def test_the_page_has_the_table() -> None:
    assert hub_page.PAGE.read_text(encoding="utf-8") == hub_page.page(), "python -m tests.hub_page writes it"


def test_folders_of_two_libraries_are_compared(tmp_path: Path) -> None:
    path = _bert(tmp_path / "tf")
    (tmp_path / "torch").mkdir()
    target = tmp_path / "torch" / "model.safetensors"
    ckpt_cli.convert(path, target, layout="pytorch")
    assert ckpt_cli.diff(path.parent, target.parent, layout="pytorch").same
    with h5py.File(path, "r+") as file:
        file["bert/tf_bert_for_masked_lm/bert/embeddings/LayerNorm/gamma:0"][0] = 7
    found = ckpt_cli.diff(path.parent, target.parent, layout="pytorch")
    assert [one.key for one in found] == ["bert.embeddings.LayerNorm.weight"]


def test_of_a_folder_with_several_formats_the_preferred_one_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    h5 = _bert(folder)
    (folder / "flax_model.msgpack").write_bytes(_bert(tmp_path / "flax", "flax").read_bytes())
    found = []
    for name in ("pytorch_model.bin", "model.safetensors"):
        found.append(_chosen(folder))
        ckpt_cli.convert(h5, folder / name, layout="pytorch")
    assert [*found, _chosen(folder)] == ["tf_model.h5", "pytorch_model.bin", "model.safetensors"]
    said = ckpt_cli.convert(folder, tmp_path / "out.safetensors").notes[0]
    assert "to read another file, name it: pytorch_model.bin, tf_model.h5, flax_model.msgpack" in said


def _chosen(folder: Path) -> str:
    with formats.open_checkpoint(folder) as reader:
        return reader.location.path.name


@pytest.mark.parametrize(("library", "model_type"), [("tensorflow", "t5"), ("flax", "bert")])
def test_shards_are_one_source_and_targets_have_an_index(
    library: str, model_type: str, tmp_path: Path
) -> None:
    called, record = next(iter(RECORDS[library, model_type].items()))
    config = _config(model_type, called)
    one = hub.write(tmp_path / "one", library, record, config)
    index = hub.write_shards(tmp_path / "shards", library, record, config)
    for to, suffix in (("safetensors", "model.safetensors"), ("pytorch", "pytorch_model.bin")):
        out = tmp_path / to
        out.mkdir()
        ckpt_cli.convert(index.parent, out, to=to, layout="pytorch", shard_size=10_000)
        assert ckpt_cli.diff(one, out / f"{suffix}.index.json", layout="pytorch").same
        assert (out / "config.json").is_file()
        for shard in out.glob("*-of-*"):
            with formats.open_checkpoint(shard) as reader:
                assert reader.facts.producer == ("pt" if to == "safetensors" else "PyTorch")


def test_whole_weights_go_before_shards_that_are_less_preferred(tmp_path: Path) -> None:
    path = _bert(tmp_path / "model")
    ckpt_cli.convert(path, path.parent, to="pytorch", layout="pytorch", shard_size=10_000, overwrite=True)
    assert _chosen(path.parent) == "pytorch_model.bin.index.json"
    ckpt_cli.convert(path, path.parent / "model.safetensors", layout="pytorch")
    assert _chosen(path.parent) == "model.safetensors"


def test_the_configuration_is_copied_where_transformers_looks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _bert(tmp_path / "model")
    config = (path.parent / "config.json").read_bytes()
    for folder, name in (("one", "model.safetensors"), ("bin", "pytorch_model.bin")):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        assert "copied" in ckpt_cli.convert(path, name, layout="pytorch").notes[-1]
        assert (tmp_path / folder / "config.json").read_bytes() == config
    (tmp_path / "shards").mkdir()
    ckpt_cli.convert(path, tmp_path / "shards", to="safetensors", layout="pytorch", shard_size=10_000)
    assert (tmp_path / "shards" / "config.json").read_bytes() == config
    monkeypatch.chdir(tmp_path)
    ckpt_cli.convert(path, "out.safetensors", layout="pytorch")
    ckpt_cli.convert(path, "model.safetensors", layout="pytorch", dry_run=True)
    assert not (tmp_path / "config.json").exists()
    (tmp_path / "config.json").write_text("{}")
    ckpt_cli.convert(path, "model.safetensors", layout="pytorch")
    assert (tmp_path / "config.json").read_text() == "{}"


def test_a_note_shows_the_layout_where_names_are_kept(tmp_path: Path) -> None:
    path = _bert(tmp_path / "model")
    said = ckpt_cli.convert(path, tmp_path / "kept.safetensors").notes
    assert any("--layout pytorch" in text for text in said)
    assert not any("--layout" in text for text in ckpt_cli.convert(path, tmp_path / "new.h5").notes)


@pytest.mark.parametrize("library", hub.LIBRARIES)
def test_verify_compares_the_weights_of_a_folder(tmp_path: Path, library: str) -> None:
    path = _bert(tmp_path / "model", library)
    target = path.parent / "model.safetensors"
    ckpt_cli.convert(path, target, layout="pytorch")
    sound = ckpt_cli.verify(path.parent)
    assert (sound.ok, len(sound), sound.findings) == (True, 2, ())
    assert any("the same weights as model.safetensors" in text for text in sound.notes)
    with formats.open_checkpoint(target) as reader:
        held = {name: reader[name].read() for name in reader}
    del held["bert.pooler.dense.bias" if "bert.pooler.dense.bias" in held else "cls.predictions.bias"]
    held["bert.embeddings.LayerNorm.weight"][0] += 1
    held["tied.weight"] = held["bert.embeddings.word_embeddings.weight"]
    held["more.weight"] = held["bert.embeddings.LayerNorm.weight"] * 2
    held["bert.embeddings.LayerNorm.gamma"] = held.pop("bert.embeddings.LayerNorm.weight")
    _write_safetensors(target, held)
    found = ckpt_cli.verify(path.parent)
    assert found.ok
    assert {(one.severity, one.code) for one in found.findings} == {("warning", "origin")}
    assert [(one.key, one.message) for one in found.findings] == [
        ("bert.embeddings.LayerNorm.weight", "the values differ from those in model.safetensors"),
        ("cls.predictions.bias", "the tensor is missing in model.safetensors"),
        ("more.weight", "the tensor exists only in model.safetensors"),
    ]


def _write_safetensors(path: Path, held: dict[str, Any]) -> None:
    specs = [TensorSpec(name, BY_NAME[value.dtype.name], value.shape) for name, value in held.items()]
    path.unlink()
    with formats.create_checkpoint(path, format="safetensors", specs=specs) as writer:
        for name, value in held.items():
            writer.write(name, value)


def test_verify_says_where_it_cannot_compare_and_reads_shards_too(tmp_path: Path) -> None:
    path = _bert(tmp_path / "model")
    ckpt_cli.convert(path, path.parent, to="safetensors", layout="pytorch", shard_size=10_000)
    assert len(ckpt_cli.verify(path.parent)) == 2
    (path.parent / "config.json").write_text(json.dumps({"model_type": "sam"}))
    found = ckpt_cli.verify(path.parent)
    assert found.findings == ()
    assert any("not compared with model.safetensors.index.json" in text for text in found.notes)


@pytest.mark.parametrize("name", ["", "/tf_model.h5"])
def test_a_repository_of_the_hub_is_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = _bert(tmp_path / "model")
    store.STORES[0].forget()
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    found = Hub()
    found.files = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "model.safetensors"
    with serving_hub(found):
        monkeypatch.setenv("HF_ENDPOINT", found.web.url)
        ckpt_cli.convert(f"hf://org/repo{name}", target, layout="pytorch")
    store.STORES[0].forget()
    assert ckpt_cli.diff(path, target, layout="pytorch").same
    assert (target.parent / "config.json").read_bytes() == found.files["config.json"]


# The way back -----------------------------------------------------------------------------

_FILES = {"tensorflow": "tf_model.h5", "flax": "flax_model.msgpack"}


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("model_type", hub.BACK)
@pytest.mark.parametrize("library", hub.LIBRARIES)
def test_weights_come_back_as_they_were(library: str, model_type: str, name: str, tmp_path: Path) -> None:
    for called, record in RECORDS[library, model_type].items():
        config = {**_config(model_type, called), "tie_word_embeddings": "gated" not in called}
        path = hub.write(tmp_path / called, library, record, config)
        ckpt_cli.convert(path, tmp_path / called / name, layout="pytorch")
        back = tmp_path / f"{called}-back"
        back.mkdir()
        ckpt_cli.convert(tmp_path / called / name, back / _FILES[library], layout=library)
        assert ckpt_cli.diff(back, tmp_path / called / name, layout="pytorch").same, called
        with formats.open_checkpoint(path) as one, formats.open_checkpoint(back) as other:
            names = [{*reader.full_names.values()} or {*reader.specs} for reader in (one, other)]
            assert names[0] == names[1], called
        assert (back / "config.json").read_bytes() == (path.parent / "config.json").read_bytes()
        assert ckpt_cli.diff(tmp_path / called / name, path, layout=library).same, called


def test_the_table_of_the_way_back_is_what_the_records_have() -> None:
    made = "".join(hub.back_lines())
    assert hub.BACK_TABLE.read_text() == made, "python -m tests.hub FOLDER writes it"


def _pytorch_bert(tmp_path: Path, **more: Any) -> Path:
    """Return the file of a BertForMaskedLM in PyTorch, with other tensors next to."""
    path = _bert(tmp_path / "model")
    target = path.parent / "model.safetensors"
    ckpt_cli.convert(path, target, layout="pytorch")
    with formats.open_checkpoint(target) as reader:
        held = {name: reader[name].read() for name in reader}
    held |= more
    _write_safetensors(target, {name: value for name, value in held.items() if value is not None})
    return target


_WORDS = "bert.embeddings.word_embeddings.weight"


def test_what_pytorch_repeats_and_computes_is_left_out_on_the_way_back(tmp_path: Path) -> None:
    source = _pytorch_bert(tmp_path)
    with formats.open_checkpoint(source) as reader:
        words = reader[_WORDS].read()
    positions = np.arange(40, dtype="int64").reshape(1, 40)
    tied = {"cls.predictions.decoder.weight": words, "bert.embeddings.position_ids": positions}
    source = _pytorch_bert(tmp_path / "more", **tied)
    done = ckpt_cli.convert(source, tmp_path / "tf_model.h5", layout="tensorflow")
    assert {one.key for one in done.dropped} == tied.keys()
    assert done.warnings == ()
    tied["cls.predictions.decoder.weight"] = words + 1
    source = _pytorch_bert(tmp_path / "other", **tied)
    done = ckpt_cli.convert(source, tmp_path / "other.h5", layout="tensorflow")
    (said,) = done.warnings
    assert "left out 'cls.predictions.decoder.weight', although its values differ" in said
    assert _WORDS in said


@pytest.mark.parametrize("library", hub.LIBRARIES)
def test_what_has_no_place_or_is_missing_on_the_way_back_is_rejected(tmp_path: Path, library: str) -> None:
    source = _pytorch_bert(tmp_path, more=np.ones(3, "float32"))
    with pytest.raises(ConversionError, match="bert has no such variable in") as raised:
        ckpt_cli.convert(source, tmp_path / _FILES[library], layout=library)
    assert raised.value.key == "more"
    name = "bert.encoder.layer.1.output.dense.weight"
    source = _pytorch_bert(tmp_path / "less", **{name: None})
    with pytest.raises(
        ConversionError, match=r"1 tensor of BertForMaskedLM is missing: .*output/dense/kernel"
    ):
        ckpt_cli.convert(source, tmp_path / _FILES[library], layout=library)


@pytest.mark.parametrize("library", hub.LIBRARIES)
def test_the_configuration_says_whether_the_output_of_t5_is_tied(tmp_path: Path, library: str) -> None:
    """The rest of the model does not matter: gated layers, which the recorded tied models do not have."""
    record = RECORDS[library, "t5"]["T5ForConditionalGeneration+gated"]
    tied = {**record, "stored": [row for row in record["stored"] if "lm_head" not in row[0]]}
    assert len(tied["stored"]) == len(record["stored"]) - 1
    for ties in (True, False):
        config = {**_config("t5", "T5ForConditionalGeneration"), "tie_word_embeddings": ties}
        path = hub.write(tmp_path / str(ties), library, tied, config)
        source = path.with_name("model.safetensors")
        ckpt_cli.convert(path, source, layout="pytorch")
        target = tmp_path / f"{ties}-{_FILES[library]}"
        if ties:
            ckpt_cli.convert(source, target, layout=library)
            continue
        with pytest.raises(ConversionError, match=r"1 tensor of .* is missing: .*lm_head/kernel"):
            ckpt_cli.convert(source, target, layout=library)


def test_the_way_back_is_known_of_some_architectures(tmp_path: Path) -> None:
    record = RECORDS["flax", "bloom"]["BloomModel"]
    path = hub.write(tmp_path / "model", "flax", record, _config("bloom", "BloomModel"))
    ckpt_cli.convert(path, path.parent / "model.safetensors", layout="pytorch")
    with pytest.raises(ConversionError, match="does not know the names of bloom in flax") as raised:
        ckpt_cli.convert(path.parent / "model.safetensors", tmp_path / "flax_model.msgpack", layout="flax")
    assert raised.value.hints == ("use a model_type that ckpt knows in flax: bert, gpt2, t5",)
    (path.parent / "config.json").unlink()
    with pytest.raises(ConversionError, match=r"needs the model's config\.json for transformers") as raised:
        ckpt_cli.convert(path.parent / "model.safetensors", tmp_path / "flax_model.msgpack", layout="flax")
    assert any("--config FILE" in hint for hint in raised.value.hints)


def test_targets_of_the_way_back(tmp_path: Path) -> None:
    source = _pytorch_bert(tmp_path)
    with pytest.raises(ConversionError, match="keras-h5 does not store Flax's names and axes"):
        ckpt_cli.convert(source, tmp_path / "out.h5", layout="flax")
    with pytest.raises(ConversionError, match=r"does not load bfloat16"):
        ckpt_cli.convert(source, tmp_path / "out.h5", layout="tensorflow", cast="bfloat16")
    done = ckpt_cli.convert(source, tmp_path / "out.msgpack", layout="flax", cast="bfloat16")
    assert {one.dtype for one in done.tensors} == {"bfloat16"}


def test_a_configuration_elsewhere_is_given(tmp_path: Path) -> None:
    source = _pytorch_bert(tmp_path)
    config = source.parent / "config.json"
    config.rename(tmp_path / "other.json")
    source = source.rename(source.with_name("bert.safetensors"))
    ckpt_cli.convert(source, tmp_path / "tf_model.h5", layout="tensorflow", config=tmp_path / "other.json")
    assert (tmp_path / "config.json").read_bytes() == (tmp_path / "other.json").read_bytes()
    (tmp_path / "pt").mkdir()
    target = tmp_path / "pt" / "model.safetensors"
    h5 = (tmp_path / "tf_model.h5").rename(tmp_path / "bert.h5")
    (tmp_path / "config.json").unlink()
    ckpt_cli.convert(h5, target, layout="pytorch", config=tmp_path / "other.json")
    assert ckpt_cli.diff(source, target).same
    assert (tmp_path / "pt" / "config.json").is_file()


# Tied weights -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model_type", "called", "name"),
    [
        ("albert", "AlbertForMaskedLM", "predictions/decoder/bias"),
        ("mobilebert", "MobileBertForMaskedLM", "cls/predictions/decoder/weight"),
        ("xglm", "XGLMForCausalLM", "lm_head/kernel"),
        ("speech_to_text", "Speech2TextForConditionalGeneration", "lm_head/kernel"),
    ],
)
def test_a_tied_weight_with_other_values_is_named(
    tmp_path: Path, model_type: str, called: str, name: str
) -> None:
    """transformers ties it to another one, and does not use its values."""
    record = RECORDS["tensorflow", model_type][called]
    path = hub.write(tmp_path / "model", "tensorflow", record, _config(model_type, called))
    said = ckpt_cli.convert(path, tmp_path / "out.safetensors", layout="pytorch").warnings
    assert [text for text in said if f"{name}', although its values differ from those of" in text]
