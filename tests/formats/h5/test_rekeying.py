"""Keras files under other keys: layers, stored names and object names follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

import formats
from formats import ConversionError
from formats.keras.facts import KerasFacts, WeightGroup
from formats.model.facts import rekeyed
from tests.support import data_path, same
from tests.writing import files, read_all, save

if TYPE_CHECKING:
    from pathlib import Path


def renamed(source: str, target: Path, keys: dict[str, str], without: tuple[str, ...] = ()) -> None:
    """Write a file under other keys, all that are not named under their own."""
    with formats.open_checkpoint(source) as reader:
        new = {key: keys.get(key, key) for key in reader if key not in without}
        specs = [reader.specs[old]._replace(key=key) for old, key in new.items()]
        facts = rekeyed(reader.facts, new)
        name = reader.format.name
        with formats.create_checkpoint(target, format=name, specs=specs, facts=facts) as writer:
            for old, key in new.items():
                writer.write(key, reader[old].chunks())
        written = read_all(target)
        assert set(written) == set(new.values())
        assert all(same(written[key], reader[old].read()) for old, key in new.items())


def test_a_layer_is_called_as_all_its_weights_are(tmp_path: Path) -> None:
    keys = {f"hidden/{name}": f"first/{name}" for name in ("kernel", "bias")}
    renamed(data_path("keras_mlp", "mlp.weights_only.h5"), tmp_path / "w.h5", keys)
    with h5py.File(tmp_path / "w.h5") as file:
        assert list(file.attrs["layer_names"]) == ["first", "bn", "ln", "dropout", "head"]
        assert list(file["first"].attrs["weight_names"]) == ["first/kernel:0", "first/bias:0"]


@pytest.mark.parametrize(
    "keys", [{"hidden/kernel": "hidden/w"}, {"hidden/kernel": "other/w"}, {"hidden/kernel": "bn/w"}]
)
def test_a_weight_stays_in_its_layer_and_place(keys: dict[str, str], tmp_path: Path) -> None:
    renamed(data_path("keras_mlp", "mlp.weights_only.h5"), tmp_path / "w.h5", keys)
    with h5py.File(tmp_path / "w.h5") as file:
        assert list(file.attrs["layer_names"]) == ["hidden", "bn", "ln", "dropout", "head"]
        assert list(file["hidden"].attrs["weight_names"]) == [f"{keys['hidden/kernel']}:0", "hidden/bias:0"]


def test_two_layers_do_not_become_one(tmp_path: Path) -> None:
    keys = {f"hidden/{name}": f"x/{name}" for name in ("kernel", "bias")}
    keys |= {f"head/{name}": f"x/{name}_2" for name in ("kernel", "bias")}
    renamed(data_path("keras_mlp", "mlp.weights_only.h5"), tmp_path / "w.h5", keys)
    with h5py.File(tmp_path / "w.h5") as file:
        assert list(file.attrs["layer_names"]) == ["x", "bn", "ln", "dropout", "head"]
        assert list(file["head"].attrs["weight_names"]) == ["x/kernel_2:0", "x/bias_2:0"]


@pytest.mark.parametrize("change", [{"block_1/scale": "block_1/gain"}, {"block/scale": "gain"}])
def test_a_name_that_is_no_longer_double_keeps_its_key(change: dict[str, str], tmp_path: Path) -> None:
    source = data_path("keras_nested", "tower.weights_only.h5")
    renamed(source, tmp_path / "w.h5", change)
    renamed(source, tmp_path / "less.h5", {}, without=tuple(change))


def test_the_state_of_an_optimizer_has_other_names(tmp_path: Path) -> None:
    keys = {"optimizer_weights/Adam/m/bn/beta": "optimizer_weights/Adam/m/norm/beta"}
    renamed(data_path("keras_mlp", "mlp.with_optimizer.h5"), tmp_path / "w.h5", keys)


def test_objects_keep_their_names(tmp_path: Path) -> None:
    keys = {f"layers/dense_1/vars/{n}": f"layers/dense_7/vars/{n}" for n in (0, 1)}
    renamed(data_path("keras3_mlp", "mlp.weights.h5"), tmp_path / "w.weights.h5", keys)
    with h5py.File(tmp_path / "w.weights.h5") as file:
        assert file["layers/dense_7/vars"].attrs["name"] == "head"
        assert "dense_1" not in file["layers"]


@pytest.mark.parametrize("name", ["", ".", "a//b", "a\0b"])
def test_layers_that_hdf5_cannot_have(name: str, tmp_path: Path) -> None:
    facts = KerasFacts(layers=(WeightGroup(name),))
    with pytest.raises(ConversionError):
        save(tmp_path / "w.h5", {"d/w": np.float32(1)}, "keras-h5", facts=facts)
    assert not files(tmp_path)


@pytest.mark.parametrize("field", ["version", "config", "training_config", "backend"])
def test_texts_that_hdf5_cannot_have(field: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="NUL"):
        save(
            tmp_path / "w.h5",
            {"d/w": np.float32(1)},
            "keras-h5",
            facts=KerasFacts(config="{}")._replace(**{field: "a\0b"}),
        )
    assert not files(tmp_path)


def test_names_of_objects_may_be_any_text(tmp_path: Path) -> None:
    for number, name in enumerate(("é日本", "bytes \udcff", "")):
        path = tmp_path / f"{number}.weights.h5"
        facts = KerasFacts(object_names={"layers/dense/vars": name})
        save(path, {"layers/dense/vars/0": np.float32(1)}, "keras-weights", facts=facts)
        with formats.open_checkpoint(path) as reader:
            assert reader.facts.document()["object_names"] == {"layers/dense/vars": name}
