"""Hugging Face's TensorFlow models in shards, as transformers writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

import formats
from formats.errors import CheckpointError, CorruptCheckpointError

if TYPE_CHECKING:
    from pathlib import Path

BERT = {
    "tf_bert/bert/embeddings/word_embeddings/weight:0": (7, 4),
    "tf_bert/bert/encoder/layer_._0/attention/self/query/kernel:0": (4, 4),
    "tf_bert/bert/encoder/layer_._0/attention/self/query/bias:0": (4,),
    "tf_bert/mlm___cls/predictions/bias:0": (7,),
}
"""Variables of a model of transformers, and their shapes."""


def write_hub_shards(folder: Path) -> dict[str, np.ndarray]:
    """Write what transformers' `save_pretrained` writes of a TensorFlow model in two shards."""
    names, arrays = list(BERT), {}
    weight_map = {}
    for number, held in enumerate((names[:2], names[2:]), 1):
        file = f"tf_model-{number:05d}-of-00002.h5"
        with h5py.File(folder / file, "w") as shard:
            paths = []
            for name in sorted(held):
                paths.append(name.partition("/")[2])
                arrays[name.removesuffix(":0")] = np.full(BERT[name], len(name), np.float32)
                shard[paths[-1]] = arrays[name.removesuffix(":0")]
                weight_map[name] = file
            shard.attrs["layer_names"] = [path.encode() for path in paths]
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "tf_model.h5.index.json").write_text(json.dumps(index))
    return arrays


def test_shards_of_transformers_are_one_checkpoint(tmp_path: Path) -> None:
    """Their `layer_names` are paths of datasets, and keys are those of a model in one file."""
    arrays = write_hub_shards(tmp_path)
    for name in ("", "tf_model.h5.index.json", "tf_model.h5"):
        with formats.open_checkpoint(str(tmp_path / name)) as reader:
            assert reader.format.name == "keras-h5"
            assert set(reader.specs) == set(arrays)
            assert set(reader.kinds.values()) == {"variable"}
            for key, array in arrays.items():
                np.testing.assert_array_equal(reader[key].read(), array)
            assert not [finding for found in reader.verify() for finding in found.findings]
            layers = {layer.name: [name for _, name in layer.weights] for layer in reader.facts.layers}
            assert layers == {"bert": list(BERT)[:3], "mlm___cls": list(BERT)[3:]}


def test_a_shard_of_transformers_alone_has_its_datasets(tmp_path: Path) -> None:
    write_hub_shards(tmp_path)
    with formats.open_checkpoint(str(tmp_path / "tf_model-00001-of-00002.h5")) as reader:
        assert sorted(reader.specs) == sorted(
            name.partition("/")[2].removesuffix(":0") for name in list(BERT)[:2]
        )
        assert not reader.findings


def test_shards_of_transformers_that_contradict_their_index(tmp_path: Path) -> None:
    write_hub_shards(tmp_path)
    index = tmp_path / "tf_model.h5.index.json"
    told = json.loads(index.read_text())
    first = next(iter(BERT))
    index.write_text(json.dumps({"weight_map": {**told["weight_map"], first: "tf_model-00002-of-00002.h5"}}))
    with pytest.raises(CorruptCheckpointError, match=r"but the tensor is in tf_model-00001-of-00002\.h5"):
        formats.open_checkpoint(str(tmp_path))
    index.write_text("{")
    with pytest.raises(CheckpointError, match="not a shard index"):
        formats.open_checkpoint(str(tmp_path))
    index.unlink()
    with pytest.raises(CheckpointError, match=r"tf_model\.h5\.index\.json"):
        formats.open_checkpoint(str(tmp_path))


def test_a_missing_shard_is_one_finding(tmp_path: Path) -> None:
    write_hub_shards(tmp_path)
    (tmp_path / "tf_model-00002-of-00002.h5").unlink()
    with pytest.raises(CheckpointError, match=r"tf_model-00002-of-00002\.h5"):
        formats.open_checkpoint(str(tmp_path))
    with formats.open_checkpoint(str(tmp_path), lenient=True) as reader:
        found = [finding for one in reader.verify() for finding in one.findings]
        assert [finding.code for finding in found] == ["shard-missing"]


def test_names_that_differ_in_their_first_part_are_identified_by_their_shards(tmp_path: Path) -> None:
    """transformers drops the first part, so both are one path, each in a file of its own."""
    weight_map = {}
    for number, name in enumerate(("a/x/w:0", "b/x/w:0"), 1):
        weight_map[name] = f"tf_model-{number:05d}-of-00002.h5"
        with h5py.File(tmp_path / weight_map[name], "w") as shard:
            shard["x/w:0"] = np.full(3, number, np.float32)
            shard.attrs["layer_names"] = [b"x/w:0"]
    (tmp_path / "tf_model.h5.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with formats.open_checkpoint(str(tmp_path)) as reader:
        assert {key: reader[key].read().tolist() for key in reader} == {
            "a/x/w": [1.0] * 3,
            "b/x/w": [2.0] * 3,
        }
