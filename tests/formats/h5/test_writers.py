"""HDF5 files as Keras writes them: the same groups, attributes and datasets from any writer."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

import formats
from formats import CheckpointError, ConversionError, UnsupportedDtypeError
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.h5.writer import H5_DTYPES
from formats.keras.facts import KerasFacts
from tests.support import data_path, recorded, same
from tests.writing import files, h5_objects, read_all, save, spec_of

if TYPE_CHECKING:
    from pathlib import Path

    from formats.model.writer import FormatWriter

ROOT = os.path.dirname(os.path.dirname(formats.__file__))
GOLDENS = [entry["path"] for entry in recorded("h5-keras2-weights", "h5-keras2-model", "h5-keras3-weights")]
ARCHIVES = [entry["path"] for entry in recorded("keras3-zip")]


def copied(source: str, target: Path) -> FormatWriter:
    """Rewrite a checkpoint from its reader's facts, and return the writer."""
    with formats.open_checkpoint(source) as reader:
        name = reader.format.name
        with formats.create_checkpoint(target, format=name, specs=reader.specs, facts=reader.facts) as writer:
            for key in reversed(list(reader)):
                writer.write(key, reader[key].chunks(max_bytes=7))
    return writer


def test_there_are_goldens_of_both_layouts() -> None:
    assert len(GOLDENS) > 10
    assert ARCHIVES


@pytest.mark.parametrize("path", GOLDENS)
def test_every_attribute_and_dataset_is_as_keras_wrote_it(path: str, tmp_path: Path) -> None:
    """Trap 25: order by attributes, cut where Keras cuts them, `keras_version`, the root group `vars`."""
    source = data_path(path)
    target = tmp_path / os.path.basename(path)
    assert copied(source, target).notes == []
    assert h5_objects(target) == h5_objects(source)


@pytest.mark.parametrize("path", ARCHIVES)
def test_an_archive_has_the_members_that_keras_wrote(path: str, tmp_path: Path) -> None:
    target = tmp_path / "model.keras"
    assert copied(data_path(path), target).notes == []
    assert os.listdir(tmp_path) == ["model.keras"]
    with zipfile.ZipFile(data_path(path)) as old, zipfile.ZipFile(target) as new:
        assert new.testzip() is None
        assert new.namelist() == old.namelist()
        assert all(member.compress_type == zipfile.ZIP_STORED for member in new.infolist())
        for name in ("config.json", "metadata.json"):
            assert new.read(name) == old.read(name)
        for archive, name in ((old, "old.h5"), (new, "new.h5")):
            (tmp_path / name).write_bytes(archive.read("model.weights.h5"))
    assert h5_objects(tmp_path / "new.h5") == h5_objects(tmp_path / "old.h5")


def test_names_longer_than_an_object_header_are_cut_as_keras_cuts_them(tmp_path: Path) -> None:
    """`weight_names` of 700 names of 125 bytes are two attributes of 350."""
    target = tmp_path / "many.h5"
    copied(data_path("keras_long_attrs", "many_weights.h5"), target)
    with h5py.File(target) as file:
        group = file["many_weights_in_one_layer"]
        assert "weight_names" not in group.attrs
        assert {name: (str(value.dtype), value.shape) for name, value in group.attrs.items()} == {
            "weight_names0": ("|S125", (350,)),
            "weight_names1": ("|S125", (350,)),
        }


@pytest.mark.parametrize("count", [1, 64_512 // 100, 64_512 // 100 + 1, 64_512 // 50 + 1, 3000])
def test_long_attributes_are_read_as_they_were_written(count: int, tmp_path: Path) -> None:
    arrays = {f"layer/{number:093d}": np.float32(number) for number in range(count)}
    save(tmp_path / "w.h5", arrays, "keras-h5")
    assert read_all(tmp_path / "w.h5") == arrays
    with h5py.File(tmp_path / "w.h5") as file:
        parts = [value for name, value in file["layer"].attrs.items()]
        assert sum(map(len, parts)) == count
        fixed = [part for part in parts if len(parts) > 1]
        assert all(part.nbytes <= 64_512 for part in fixed)
        expected = np.array_split(np.asarray(parts[0]), 1) if len(parts) == 1 else fixed
        assert [len(part) for part in expected] == [
            len(part) for part in np.array_split(range(count), len(parts))
        ]


def test_a_name_that_no_attribute_holds_is_rejected(tmp_path: Path) -> None:
    key = "layer/" + "n" * 64_512
    with pytest.raises(ConversionError, match="64512") as caught:
        save(tmp_path / "w.h5", {key: np.float32(1)}, "keras-h5")
    assert caught.value.key == key
    assert not files(tmp_path)


def test_plain_keys_become_layers_in_their_order(tmp_path: Path) -> None:
    arrays = {
        "z/kernel": np.ones((2, 3), np.float32),
        "a/kernel": np.zeros(2, np.int64),
        "z/bias": np.zeros(3, np.float32),
        "scale": np.float32(2),
    }
    save(tmp_path / "w.h5", arrays, "keras-h5")
    assert {key: array.tolist() for key, array in read_all(tmp_path / "w.h5").items()} == {
        key: np.asarray(array).tolist() for key, array in arrays.items()
    }
    with h5py.File(tmp_path / "w.h5") as file:
        assert list(file.attrs["layer_names"]) == ["z", "a"]
        assert list(file["z"].attrs["weight_names"]) == ["z/kernel:0", "z/bias:0"]
        assert list(file["top_level_model_weights"].attrs["weight_names"]) == ["scale:0"]
        assert file["z/z/kernel:0"].chunks is None
        assert (file.attrs["keras_version"], file.attrs["backend"]) == ("2.15.0", "tensorflow")


def test_optimizer_weights_make_it_the_file_of_a_model(tmp_path: Path) -> None:
    arrays = {
        "optimizer_weights/Adam/m/d/kernel": np.ones(2, np.float32),
        "d/kernel": np.zeros(2, np.float32),
    }
    save(tmp_path / "w.h5", arrays, "keras-h5")
    with h5py.File(tmp_path / "w.h5") as file:
        assert list(file) == ["model_weights", "optimizer_weights"]
        assert list(file["optimizer_weights"].attrs["weight_names"]) == ["Adam/m/d/kernel:0"]
    assert set(read_all(tmp_path / "w.h5")) == set(arrays)


@pytest.mark.parametrize("name", sorted(H5_DTYPES))
@pytest.mark.parametrize(
    ("kind", "key", "file"), [("keras-h5", "d/w", "w.h5"), ("keras-weights", "d/vars/0", "w.weights.h5")]
)
def test_every_dtype_is_read_as_it_was_written(
    kind: str, key: str, file: str, name: str, tmp_path: Path
) -> None:
    """Trap 26: what HDF5 has no type for is opaque, with an attribute that says what it is."""
    dtype = BY_NAME[name]
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype.numpy)
    path = tmp_path / file
    with formats.create_checkpoint(path, format=kind, specs=[TensorSpec(key, dtype, array.shape)]) as writer:
        writer.write(key, array)
    assert same(read_all(path)[key], array)
    if name == "bfloat16":
        with h5py.File(path) as opened:
            dataset = opened["d/d/w:0" if kind == "keras-h5" else key]
            assert dataset.dtype == np.dtype("V2")
            assert dataset.attrs["dtype"] == "bfloat16"
            assert dataset[()].tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1, 1, 1), (2, 3)])
def test_shapes(shape: tuple[int, ...], tmp_path: Path) -> None:
    arrays = {"d/w": np.full(shape, 3, np.int16), "e/w": np.full(5, 7, np.int16)}
    save(tmp_path / "w.h5", arrays, "keras-h5")
    found = read_all(tmp_path / "w.h5")
    assert all(same(found[key], array) for key, array in arrays.items())


def test_strings_and_foreign_dtypes_are_rejected(tmp_path: Path) -> None:
    for name in ("string", "qint8", "int4", "variant"):
        with pytest.raises(UnsupportedDtypeError, match=name):
            formats.create_checkpoint(
                tmp_path / "w.h5", format="keras-h5", specs=[TensorSpec("d/w", BY_NAME[name], (2,))]
            )
    assert not files(tmp_path)


@pytest.mark.parametrize("keys", [("d/v", "d/v:0/Adam"), ("d/v:0/Adam", "d/v"), ("d//v",), ("d/./v",)])
def test_paths_that_hdf5_cannot_have_are_rejected_before_anything_is_written(
    keys: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(ConversionError) as caught:
        save(tmp_path / "w.h5", {key: np.float32(1) for key in keys}, "keras-h5")
    assert caught.value.key in keys
    assert not files(tmp_path)


@pytest.mark.parametrize("key", ["kernel", "layers/dense/kernel", "vars", "layers/myvars/0", "vars/x"])
def test_weights_are_variables_of_h5_objects(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="vars/<number>") as caught:
        save(tmp_path / "w.weights.h5", {key: np.float32(1)}, "keras-weights")
    assert caught.value.key == key
    assert "--config FILE or --like" in caught.value.hints[0]


def test_keras_2_finds_its_root_group(tmp_path: Path) -> None:
    """Keras 2 opens /vars for every model."""
    save(tmp_path / "w.weights.h5", {"layers/dense/vars/0": np.float32(1)}, "keras-weights")
    with h5py.File(tmp_path / "w.weights.h5") as file:
        assert list(file["vars"]) == []


def test_an_archive_needs_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="configuration") as caught:
        save(tmp_path / "m.keras", {"layers/dense/vars/0": np.float32(1)}, "keras")
    assert "--config" in caught.value.hints[0]
    assert not files(tmp_path)


def test_the_same_content_is_the_same_bytes(tmp_path: Path) -> None:
    for name in ("keras3_mlp/mlp.keras", "keras3_mlp/mlp.weights.h5", "keras_mlp/mlp.with_optimizer.h5"):
        suffix = os.path.basename(name)
        for number in (1, 2):
            copied(data_path(name), tmp_path / f"{number}.{suffix}")
        assert (tmp_path / f"1.{suffix}").read_bytes() == (tmp_path / f"2.{suffix}").read_bytes()


def test_names_that_keras_goes_by_are_noted(tmp_path: Path) -> None:
    weights = {"layers/dense/vars/0": np.float32(1)}
    assert ".weights.h5" in save(tmp_path / "w.h5", weights, "keras-weights").notes[0]
    assert "keras-weights" in save(tmp_path / "x.weights.h5", {"d/w": np.float32(1)}, "keras-h5").notes[0]


@pytest.mark.parametrize("kind", ["keras-h5", "keras-weights", "keras"])
def test_an_abandoned_write_leaves_the_old_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"old")
    spec = spec_of("layers/dense/vars/0", np.zeros(4, np.float32))
    writer = formats.create_checkpoint(
        path, format=kind, specs=[spec], overwrite=True, facts=KerasFacts(config="{}")
    )
    writer.write(spec.key, np.ones(4, np.float32))
    writer.finish()
    writer.abandon()
    assert files(tmp_path) == {"model": b"old"}


def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    writer = formats.create_checkpoint(
        tmp_path / "w.h5", format="keras-h5", specs=[spec_of("d/w", np.zeros(4, np.float32))]
    )
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(CheckpointError, match="no space left"), writer:
        writer.write("d/w", np.ones(4, np.float32))
    assert not files(tmp_path)


def test_memory_does_not_grow_with_a_tensor(tmp_path: Path) -> None:
    import tracemalloc

    spec = TensorSpec("d/w", BY_NAME["float32"], (16 << 20,))
    piece = bytes(1 << 20)
    tracemalloc.start()
    try:
        with formats.create_checkpoint(tmp_path / "w.h5", format="keras-h5", specs=[spec]) as writer:
            writer.write("d/w", (piece for _ in range(64)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
    assert (tmp_path / "w.h5").stat().st_size > 64 << 20


@pytest.mark.parametrize("limit", [100, 2048, 20_000])
def test_a_disk_that_is_full_before_the_first_value(limit: int, tmp_path: Path) -> None:
    """The library's own writes fail: one line says so, and nothing is left."""
    program = f"""
import resource, signal, formats
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
specs = [TensorSpec(f"layer_{{n}}/w", BY_NAME["float32"], (100,)) for n in range(200)]
try:
    formats.create_checkpoint("w.h5", format="keras-h5", specs=specs)
except formats.CheckpointError as error:
    print(error)
"""
    environment = {**os.environ, "PYTHONPATH": ROOT}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("w.h5: cannot be written: file too large\n", "", 0)
    assert not files(tmp_path)


def test_assets_that_are_not_carried_are_noted(tmp_path: Path) -> None:
    """A vocabulary is stored next to the weights, and is not a tensor."""
    source = tmp_path / "with.keras"
    copied(data_path(ARCHIVES[0]), source)
    with zipfile.ZipFile(source, "a") as archive:
        archive.writestr("assets/layers/text_vectorization/vocabulary.txt", "a\nb\n")
    (note,) = copied(str(source), tmp_path / "without.keras").notes
    assert note.startswith("left out 'assets/layers/text_vectorization/vocabulary.txt'; ")
    with zipfile.ZipFile(source, "a") as archive:
        archive.writestr("assets/layers/text_vectorization_1/vocabulary.txt", "a\nb\n")
        archive.writestr("assets/z", "")
    (note,) = copied(str(source), tmp_path / "again.keras").notes
    assert note.startswith("left out 'assets/layers/text_vectorization/vocabulary.txt' and 2 more; ")
