"""Bundles whose data shards are the files of another checkpoint, as TensorFlow reads them: every way in."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formats import open_checkpoint
from formats.core.dtypes import from_numpy
from formats.location import parse_location
from formats.model.checkpoint_files import data_shards
from formats.wire.messages import BundleHeaderProto, VersionDef
from tests.cli.running import run_ckpt
from tests.support import data_path, digest, numbers, partitioned, write_bundle
from tests.writing import files, read_all, save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import TensorFlow

RNG = np.random.default_rng(0)
ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "a/odd": np.arange(5, dtype=np.uint8),  # the next tensor begins at an odd byte
    "net/kernel": np.arange(20, dtype=np.float32).reshape(5, 4),
    "net/bias": RNG.normal(size=3),
    "net/large": RNG.normal(size=(700, 2000)).astype(np.float32),
    "z/count": np.array(7, np.int64),
    "z/empty": np.zeros((0, 3), np.float32),
    "z/half": RNG.normal(size=7).astype(np.float16),
}
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def told(array: Any) -> list[Any]:
    """Return an array in the oracle's form."""
    array = np.asarray(array)
    return [from_numpy(array.dtype).name, list(array.shape), digest(array)]


def all_told(arrays: dict[str, Any]) -> dict[str, list[Any]]:
    return {key: told(array) for key, array in arrays.items()}


def _npz(path: str) -> None:
    np.savez(path, **ARRAYS)  # type: ignore[arg-type]  # their stub takes the arrays for options


def _hdf5(path: str) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for key, array in ARRAYS.items():
            file[key] = array


def _objects(path: str) -> None:
    save(path + ".names-1", ARRAYS, shard_size=3 << 20)
    assert run_ckpt("convert", path + ".names-1", path, "--to", "object").code == 0


SOURCES: dict[str, Callable[[str], object]] = {
    "m.safetensors": lambda path: save(path, ARRAYS, "safetensors"),
    "m.npz": _npz,
    "m.hdf5": _hdf5,
    "names-1": lambda path: save(path, ARRAYS),
    "shards-1": lambda path: save(path, ARRAYS, shard_size=100),
    "objects-1": _objects,
}


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = str(tmp_path / request.param)
    SOURCES[request.param](path)
    return path


def linked(source: str, target: Path, *options: str) -> str:
    """Convert with links, and return the path of what shares its values with the source."""
    assert run_ckpt("convert", source, target, *options, "--link", "-q").code == 0
    given = [source, *data_shards(parse_location(source))]
    shared = [
        shard
        for shard in data_shards(parse_location(str(target)))
        if any(_same(shard, path) for path in given)
    ]
    with open_checkpoint(str(target)) as reader:
        lie_in = {reader[key].stored.shard for key in reader if "net/" in key and "_CHECK" not in key}
    assert lie_in == {int(shard[-14:-9]) for shard in shared} & lie_in
    return str(target)


def _same(one: str, other: str) -> bool:
    return os.path.exists(other) and os.path.samefile(one, other)


def test_names_are_restored_whole_in_slices_and_in_parts(
    tensorflow: TensorFlow, source: str, tmp_path: Path
) -> None:
    path = linked(source, tmp_path / "linked" / "c-1", "--to", "name")
    assert tensorflow.ask("tensors", "by_reader", path=path) == all_told(ARRAYS)
    wanted = [
        ["net/kernel", "5 4 1,3:1,2", "float32"],
        ["net/large", "700 2000 350,3:-", "float32"],
        ["net/large", "700 2000 -:1999,1", "float32"],
        ["net/bias", "3 2,1", "float64"],
    ]
    large = ARRAYS["net/large"]
    parts = [ARRAYS["net/kernel"][1:4, 1:3], large[350:353], large[:, 1999:], ARRAYS["net/bias"][2:]]
    assert tensorflow.ask("tensors", "by_restore", path=path, wanted=wanted) == list(map(told, parts))
    variables = {name: [array.dtype.name, list(array.shape)] for name, array in ARRAYS.items()}
    expected = all_told(ARRAYS)
    assert tensorflow.ask("tensors", "by_saver", path=path, variables=variables) == expected
    cut = {"net/kernel": 2, "net/large": 7}
    assert tensorflow.ask("tensors", "by_saver", path=path, variables=variables, parts=cut) == expected


@pytest.mark.parametrize("later", [False, True])
def test_objects_are_restored_by_every_reader(
    tensorflow: TensorFlow, source: str, later: bool, tmp_path: Path
) -> None:
    path = linked(source, tmp_path / "linked" / "c-1", "--to", "object")
    tree: dict[str, Any] = {}
    for name, array in ARRAYS.items():
        parent, _, leaf = name.partition("/")
        tree.setdefault(parent, {})[leaf] = [array.dtype.name, list(array.shape)]
    found = tensorflow.ask("tensors", "by_objects", path=path, tree=tree, later=later)
    del found["save_counter"]
    assert found == all_told(ARRAYS)
    listed = tensorflow.ask("tensors", "by_reader", path=path)
    assert all(listed[name + VALUE] == told(array) for name, array in ARRAYS.items())


@pytest.mark.parametrize("to", ["name", "object"])
@pytest.mark.parametrize(
    "parts",
    [
        ("keras_mlp", "mlp.with_optimizer.h5"),
        ("keras3_mlp", "mlp.weights.h5"),
        ("interop", "weights.safetensors"),
        ("interop", "weights.npz"),
        ("hf", "model.safetensors.index.json"),
    ],
    ids=lambda parts: parts[1],
)
def test_files_of_their_producers_are_read(
    tensorflow: TensorFlow, parts: tuple[str, ...], to: str, tmp_path: Path
) -> None:
    shutil.copytree(data_path(parts[0]), tmp_path / "run")
    source, path = str(tmp_path / "run" / parts[1]), str(tmp_path / "run" / "linked-1")
    config = ["--config", source.replace(".weights.h5", ".keras")] if source.endswith(".weights.h5") else []
    done = run_ckpt("convert", source, path, "--to", to, *config, "--link", "--json")
    assert (done.code, json.loads(done.out)["verification"]) == (0, "linked")
    plain = str(tmp_path / "plain-1")
    assert run_ckpt("convert", source, plain, "--to", to, *config).code == 0
    found = tensorflow.ask("tensors", "by_reader", path=path)
    assert found == tensorflow.ask("tensors", "by_reader", path=plain)


def _in_slices(path: str) -> None:
    pieces = [((0, 1), (0, -1)), ((1, 3), (0, -1))]
    write_bundle(path, {"w": partitioned(np.arange(12.0).reshape(4, 3), pieces), "v": np.arange(4.0)})


def _big_endian(path: str) -> None:
    header = BundleHeaderProto(num_shards=1, endianness=1, version=VersionDef(producer=1))
    arrays = {key: numbers(array, big_endian=True) for key, array in ARRAYS.items() if array.size}
    write_bundle(path, arrays, header=header)


def _behind_a_user_block(path: str) -> None:
    import h5py

    with h5py.File(path, "w", userblock_size=1024) as file:
        for key, array in ARRAYS.items():
            file[key] = array
    with open(path, "r+b") as head:
        head.write(b"#!/bin/sh")


def _one_chunk(path: str) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for key, array in ARRAYS.items():
            file.create_dataset(key, data=array, chunks=array.shape if array.size and array.ndim else None)


def _padded_header(path: str) -> None:
    save(path, ARRAYS, "safetensors")
    with open(path, "rb") as file:
        data = file.read()
    end = 8 + int.from_bytes(data[:8], "little")
    header = data[8:end] + b" " * 37
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header + data[end:])


def _golden(*parts: str) -> Callable[[str], None]:
    def copy(path: str) -> None:
        source = data_path(*parts)
        for file in (
            [f"{source}.index", *data_shards(parse_location(source))]
            if not os.path.isfile(source)
            else [source]
        ):
            shutil.copy(file, path + file.removeprefix(source))

    return copy


ODD: dict[str, Callable[[str], None]] = {
    "slices-1": _in_slices,
    "big-1": _big_endian,
    "block.hdf5": _behind_a_user_block,
    "chunk.hdf5": _one_chunk,
    "padded.safetensors": _padded_header,
    "fortran.npz": lambda path: np.savez(
        path, plain=np.arange(6.0), fortran=np.asfortranarray(np.ones((2, 3)))
    ),
    "empty-1": lambda path: save(path, {"e": np.zeros((0, 4), np.float32)}),
    "strings-1": _golden("dtypes", "all"),
    "tables-1": _golden("hash_tables", "forty"),
    "split-1": _golden("max_shard_size", "split"),
    "views.pt": _golden("pytorch", "views.pt"),
    "dtypes.pt": _golden("pytorch", "dtypes.pt"),
    "legacy.pth": _golden("pytorch", "legacy.pth"),
}
"""Sources with an unusual placement of values."""


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("to", ["name", "object"])
def test_an_unusual_placement_gives_the_same_as_a_copy(
    tensorflow: TensorFlow, name: str, to: str, tmp_path: Path
) -> None:
    source = str(tmp_path / name)
    ODD[name](source)
    before = files(tmp_path)
    for target, link in (("plain-1", []), ("linked-1", ["--link"])):
        assert run_ckpt("convert", source, tmp_path / target, "--to", to, *link).code == 0
    assert {name: data for name, data in files(tmp_path).items() if name in before} == before
    found = tensorflow.ask("tensors", "by_reader", path=str(tmp_path / "linked-1"))
    assert found == tensorflow.ask("tensors", "by_reader", path=str(tmp_path / "plain-1"))
    assert found


def test_what_is_made_of_a_linked_checkpoint_is_read(
    tensorflow: TensorFlow, source: str, tmp_path: Path
) -> None:
    """Every command on it uses the index, and leaves the shared files unchanged."""
    path = linked(source, tmp_path / "linked" / "c-1", "--to", "name")
    before = files(tmp_path / "linked")
    expected = all_told(ARRAYS)
    assert run_ckpt("verify", path).code == 0
    for name, command in (
        ("renamed", ["rename", path, tmp_path / "renamed-1", "--add-prefix", "x/"]),
        ("rename-linked", ["rename", path, tmp_path / "rename-linked-1", "--add-prefix", "x/", "--link"]),
        ("mean", ["average", path, path, "-o", tmp_path / "mean-1"]),
        ("again", ["convert", path, tmp_path / "again-1", "--to", "name", "--link"]),
        ("copy", ["convert", path, tmp_path / "copy-1", "--to", "name"]),
        ("rescued", ["rescue", path, tmp_path / "rescued-1"]),
    ):
        assert run_ckpt(*command).code == 0
        found = tensorflow.ask("tensors", "by_reader", path=str(tmp_path / f"{name}-1"))
        assert {key.removeprefix("x/"): value for key, value in found.items()} == expected
    back = tmp_path / "back.safetensors"
    assert run_ckpt("convert", path, back).code == 0
    assert all_told(read_all(back)) == expected
    assert files(tmp_path / "linked") == before
    assert run_ckpt("rename", "--in-place", path, "--add-prefix", "x/").code == 0
    found = tensorflow.ask("tensors", "by_reader", path=path)
    assert {key.removeprefix("x/"): value for key, value in found.items()} == expected
    del before["c-1.index"]
    assert {name: data for name, data in files(tmp_path / "linked").items() if name in before} == before
