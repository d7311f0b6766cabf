"""Writing Orbax and Flax checkpoints: values return, and keys that make no tree are rejected."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats.core.chunks import PIECE
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.orbax import flax_writer, orbax_writer
from formats.orbax.files import TreeFiles
from formats.orbax.orbax_writer import cut_into
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ODD = data_path("orbax", "new/odd_names")
PYTREE = data_path("orbax", "new/pytree")
TREES = [ODD, PYTREE, data_path("orbax", "old/odd_names")]


def said(path: Path | str) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return digests, texts and empty containers of a checkpoint."""
    with formats.open_checkpoint(path) as reader:
        digests = {key: repr(reader[key].read().tolist()) for key in reader}
        return digests, dict(reader.facts.values), dict(reader.facts.empty)


def tree_of(path: Path) -> dict[str, Any]:
    return json.loads((path / "_METADATA").read_text())["tree_metadata"]


@pytest.mark.parametrize("to", ["orbax", "flax"])
@pytest.mark.parametrize("source", TREES)
def test_a_tree_comes_back_with_its_texts_and_containers(
    tmp_path: Path, ckpt: Callable, source: str, to: str
) -> None:
    target = tmp_path / "out"
    done = ckpt("convert", source, target, "--to", to)
    assert done.code == 0, done.err
    assert "left out" not in done.err
    assert said(target) == said(source)
    assert ckpt("verify", target).code == 0
    assert ckpt("match", source, target).code == 0
    assert sorted(os.listdir(tmp_path)) == ["out"]


def test_the_types_of_keys_and_values_are_kept(tmp_path: Path, ckpt: Callable) -> None:
    for number, arguments in enumerate((["convert"], ["rename", "--sub", "^lst=>seq"])):
        target = tmp_path / str(number) / "out"
        command, *options = arguments
        to = ["--to", "orbax"] if command == "convert" else []
        assert ckpt(command, ODD, target, *to, *options).code == 0
        with open(os.path.join(ODD, "_METADATA"), encoding="utf-8") as file:
            before = json.load(file)["tree_metadata"]
        text = json.dumps(before).replace("'lst'", "'seq'").replace('"lst"', '"seq"')
        assert tree_of(target) == (json.loads(text) if command == "rename" else before)


def test_a_step_is_written_where_its_name_says_one(tmp_path: Path, ckpt: Callable) -> None:
    assert ckpt("convert", ODD, tmp_path / "run" / "7", "--to", "orbax").code == 0
    assert ckpt("convert", ODD, tmp_path / "run" / "12", "--to", "orbax").code == 0
    assert (tmp_path / "run" / "7" / "default" / "_METADATA").is_file()
    assert said(tmp_path / "run" / "7") == said(ODD)
    found = ckpt("ls", "--json", tmp_path / "run").json
    assert ([row["step"] for row in found["checkpoints"]], found["latest"]) == ([7, 12], "12")


def test_items_of_a_step_are_kept(tmp_path: Path, ckpt: Callable) -> None:
    source = data_path("orbax", "new/unfinished/2")
    assert ckpt("rename", source, tmp_path / "5", "--sub", "state/params=>state/weights").code == 0
    assert json.loads((tmp_path / "5" / "config" / "metadata").read_text()) == {"width": 8}
    keys = [row[0] for row in ckpt("ls", tmp_path / "5").rows]
    assert "state/weights/dense_0/kernel" in keys
    assert ckpt("convert", data_path("orbax", "new/keras_orbax/0"), tmp_path / "6", "--to", "orbax").code == 0
    assert said(tmp_path / "6") == said(data_path("orbax", "new/keras_orbax/0"))


@pytest.mark.parametrize("limit", [1, 7, 60, 100, 1000])
def test_a_chunk_is_at_most_so_large(tmp_path: Path, ckpt: Callable, limit: int) -> None:
    arrays = {
        "a": np.arange(2 * 3 * 5, dtype=np.float32).reshape(2, 3, 5),
        "b": np.arange(7, dtype=np.int8),
        "c": np.array(5, np.int64),
        "empty": np.zeros((0, 3), np.float32),
        "flag": np.array([True, False, True]),
    }
    np.savez(tmp_path / "in.npz", **arrays)
    done = ckpt("convert", tmp_path / "in.npz", tmp_path / "out", "--to", "orbax", "--shard-size", limit)
    assert done.code == 0, done.err
    for path in (tmp_path / "out").glob("*/[0-9]*"):
        assert path.stat().st_size <= max(limit, 8 if path.parent.name == "c" else 4), path
    with formats.open_checkpoint(tmp_path / "out") as reader:
        assert {key: reader[key].read().tolist() for key in reader} == {
            key: value.tolist() for key, value in arrays.items()
        }


def test_chunks_are_compressed(tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orbax_writer, "_LARGEST_COMPRESSED", 1000)
    arrays = {"zeros": np.zeros((50, 17), np.float32), "n": np.array(3), "none": np.zeros((0, 2), np.int8)}
    np.savez(tmp_path / "in.npz", **arrays)
    done = ckpt("convert", tmp_path / "in.npz", tmp_path / "out", "--to", "orbax", "--compress", "zstd")
    assert done.code == 0, done.err
    document = json.loads((tmp_path / "out" / "zeros" / ".zarray").read_text())
    assert document["compressor"] == {"id": "zstd", "level": 1}
    chunks = sorted((tmp_path / "out" / "zeros").glob("[0-9]*"))
    assert len(chunks) == 4
    assert all(path.read_bytes()[:4] == b"\x28\xb5\x2f\xfd" and path.stat().st_size < 100 for path in chunks)
    with formats.open_checkpoint(tmp_path / "out") as reader:
        assert {key: reader[key].read().tolist() for key in reader} == {
            key: value.tolist() for key, value in arrays.items()
        }
    assert ckpt("verify", tmp_path / "out").code == 0


def test_formats_without_chunks_are_not_compressed(tmp_path: Path, ckpt: Callable) -> None:
    done = ckpt("convert", PYTREE, tmp_path / "w.safetensors", "--compress", "zstd")
    assert done.code == 3
    assert "safetensors cannot be written with compressed chunks" in done.err
    assert not (tmp_path / "w.safetensors").exists()


@pytest.mark.parametrize(
    ("shape", "limit", "chunk"),
    [
        ((10, 4), 32, (2, 4)),
        ((10, 4), 8, (1, 2)),
        ((10, 4), None, (10, 4)),
        ((3, 5, 4), 16, (1, 1, 4)),
        ((3, 5, 4), 48, (1, 3, 4)),
        ((), 1, ()),
        ((1, 8), 16, (1, 4)),
    ],
)
def test_chunks_are_ranges_of_elements(
    shape: tuple[int, ...], limit: int | None, chunk: tuple[int, ...]
) -> None:
    assert cut_into(TensorSpec("x", BY_NAME["float32"], shape), limit).chunk == chunk


def test_arrays_in_pieces_are_written(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flax_writer, "_PIECE", 100)
    values = np.arange(3 * 17, dtype=np.float32).reshape(3, 17)
    np.savez(tmp_path / "in.npz", w=values, x=values[:1])
    assert ckpt("convert", tmp_path / "in.npz", tmp_path / "out.msgpack").code == 0
    assert b"__msgpack_chunked_array__" in (tmp_path / "out.msgpack").read_bytes()
    with formats.open_checkpoint(tmp_path / "out.msgpack") as reader:
        assert reader["w"].read().tolist() == values.tolist()


def test_shards_of_flax_have_an_index(tmp_path: Path, ckpt: Callable) -> None:
    source = data_path("orbax", "new/pytree")
    (tmp_path / "model").mkdir()
    done = ckpt("convert", source, tmp_path / "model", "--to", "flax", "--shard-size", 1500)
    assert done.code == 0, done.err
    assert (tmp_path / "model" / "flax_model.msgpack.index.json").is_file()
    assert said(tmp_path / "model")[0] == said(source)[0]


@pytest.mark.parametrize("to", ["orbax", "flax"])
def test_what_is_there_is_replaced_only_if_requested(tmp_path: Path, ckpt: Callable, to: str) -> None:
    target = tmp_path / "out"
    assert ckpt("convert", ODD, target, "--to", to).code == 0
    done = ckpt("convert", data_path("orbax", "new/pytree"), target, "--to", to)
    assert done.code == 3
    assert "already exists" in done.err
    assert said(target) == said(ODD)
    assert ckpt("convert", data_path("orbax", "new/pytree"), target, "--to", to, "--overwrite").code == 0
    assert said(target) == said(data_path("orbax", "new/pytree"))
    assert os.listdir(tmp_path) == ["out"]


def test_another_directory_is_not_replaced(tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "text").write_text("mine")
    done = ckpt("convert", ODD, tmp_path / "notes", "--to", "orbax", "--overwrite")
    assert done.code == 3
    assert "this is a directory, not an Orbax checkpoint" in done.err
    assert os.listdir(tmp_path / "notes") == ["text"]
    (tmp_path / "free").mkdir()
    assert ckpt("convert", ODD, tmp_path / "free", "--to", "orbax").code == 0


@pytest.mark.parametrize(
    ("keys", "to", "why"),
    [
        (["a.b/c", "a/b.c"], "orbax", "Orbax would store it under the same name as"),
        (["a", "a/b"], "orbax", "'a' has a value itself"),
        (["a", "a/b"], "flax", "'a' has a value itself"),
        (["a//b"], "flax", "a part of its path is empty"),
        (["x%y"], "orbax", "it would become 'x%25y' in a tree"),
        (["a%2Fb"], "orbax", "not a valid name for that"),
        (["_METADATA"], "orbax", "not a valid name for that"),
        (["n" * 300], "orbax", "not a valid name for that"),
    ],
)
def test_keys_that_make_no_tree_are_rejected(
    tmp_path: Path, ckpt: Callable, keys: list[str], to: str, why: str
) -> None:
    source = tmp_path / "in.safetensors"
    specs = [TensorSpec(key, BY_NAME["float32"], (2,)) for key in keys]
    with formats.create_checkpoint(source, format="safetensors", specs=specs) as writer:
        for key in keys:
            writer.write(key, np.ones(2, np.float32))
    done = ckpt("convert", source, tmp_path / "out", "--to", to)
    assert done.code == 3
    assert why in done.err
    assert "--sub" in done.err
    assert not (tmp_path / "out").exists()


def test_parts_of_a_tree_that_are_left_out_take_their_texts_along(tmp_path: Path, ckpt: Callable) -> None:
    done = ckpt(
        "convert", data_path("orbax", "new/pytree"), tmp_path / "w", "--to", "orbax", "--weights-only"
    )
    assert done.code == 0
    assert said(tmp_path / "w")[2] == {}


def test_the_default_item_of_a_manager_is_read(tmp_path: Path, ckpt: Callable) -> None:
    shutil.copytree(data_path("orbax", "new/pytree"), tmp_path / "4" / "default")
    assert said(tmp_path / "4") == said(data_path("orbax", "new/pytree"))
    shutil.copytree(data_path("orbax", "new/pytree"), tmp_path / "4" / "decoder")
    assert {row[0].partition("/")[0] for row in ckpt("ls", tmp_path / "4").rows} == {"decoder", "default"}


def test_a_raw_chunk_is_read_in_pieces(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.arange(5 << 20, dtype=np.uint8).reshape(5, -1)
    np.savez(tmp_path / "in.npz", w=values)
    assert ckpt("convert", tmp_path / "in.npz", tmp_path / "out", "--to", "orbax").code == 0
    sizes = []
    whole = TreeFiles.read

    def read(files: TreeFiles, name: str, offset: int, size: int) -> bytes:
        sizes.append(size)
        return whole(files, name, offset, size)

    with formats.open_checkpoint(tmp_path / "out") as reader:
        monkeypatch.setattr(TreeFiles, "read", read)
        assert b"".join(bytes(memoryview(piece)) for piece in reader["w"].chunks()) == values.tobytes()
        assert max(sizes) <= PIECE
        found = reader["w"].file_range()
        assert found is not None
        assert found.size == values.nbytes
    with formats.open_checkpoint(data_path("orbax", "old/zarr2_files")) as reader:
        assert reader["dense_0/kernel"].file_range() is None  # it is compressed
