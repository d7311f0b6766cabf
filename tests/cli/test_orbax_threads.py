"""Conversions of compressed chunks by several threads: the bytes, and the errors, are those of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cramjam
import numpy as np
import pytest

import formats
from formats.orbax import arrays
from formats.store.work import workers
from tests.formats.orbax.test_arrays import write_chunks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut arrays of a megabyte into several tasks."""
    monkeypatch.setattr(arrays, "TASK_BYTES", 1 << 18)
    monkeypatch.setattr(workers, "TASK_BYTES", 1 << 18)


@pytest.mark.parametrize("damage", ["cut", "longer", "missing"])
@pytest.mark.parametrize("jobs", ["1", "4"])
def test_a_damaged_chunk_is_named(damage: str, jobs: str, tmp_path: Path, ckpt: Callable) -> None:
    values = np.random.default_rng(0).standard_normal((4 << 15, 2))
    write_chunks(tmp_path / "t", values, (1 << 15, 2), compressor={"id": "zstd", "level": 1})
    chunk = tmp_path / "t" / "a" / "2.0"
    data = chunk.read_bytes()
    longer = bytes(cramjam.zstd.compress(bytes((1 << 19) + 1)))
    chunk.write_bytes({"cut": data[:-5], "longer": longer, "missing": b""}[damage])
    if damage == "missing":
        chunk.unlink()
    done = ckpt("convert", tmp_path / "t", tmp_path / "o.safetensors", "-j", jobs, "--verify", "none")
    assert done.code == 3
    assert "chunk [2, 0]" in done.err
    assert "'a'" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_a_conversion_stays_the_same_for_any_number_of_threads(tmp_path: Path, ckpt: Callable) -> None:
    values = np.random.default_rng(0).standard_normal((5 << 15, 2))
    write_chunks(tmp_path / "t", values, (1 << 15, 2), compressor={"id": "zstd", "level": 1})
    for options in (("-j", "1"), ("-j", "5"), ("-j", "5", "--verify", "none"), ("-j", "2", "--resume")):
        done = ckpt("convert", tmp_path / "t", tmp_path / "o.safetensors", *options, "--overwrite")
        assert done.code == 0
        with formats.open_checkpoint(tmp_path / "o.safetensors") as found:
            assert np.array_equal(found["a"].read(), values)
    cast = ("--cast", "float32", "-j", "5")
    assert ckpt("convert", tmp_path / "t", tmp_path / "half.safetensors", *cast).code == 0
    with formats.open_checkpoint(tmp_path / "half.safetensors") as found:
        assert np.array_equal(found["a"].read(), values.astype(np.float32))


@pytest.mark.parametrize("damage", [False, True])
def test_compressed_chunks_that_are_finished_are_not_compressed_again(
    damage: bool, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).standard_normal((8 << 12, 2))
    np.savez(tmp_path / "a.npz", a=values)
    words = ("convert", tmp_path / "a.npz", tmp_path / "t", "--to", "orbax", "--compress", "zstd", "--resume")
    words += ("--shard-size", str(1 << 16))
    compressed: list[int] = []

    def compress(data: bytearray, level: int) -> bytes:
        if len(compressed) == 5:
            raise KeyboardInterrupt
        compressed.append(len(data))
        return bytes(pack(data, level=level))

    pack = cramjam.zstd.compress
    monkeypatch.setattr(cramjam.zstd, "compress", compress)
    assert ckpt(*words).code == 130
    (staged,) = tmp_path.glob("t_temp_*")
    if damage:
        chunk = staged / "chunk-0-2"
        chunk.write_bytes(chunk.read_bytes()[:-1] + b"?")
    compressed[:] = [0] * 6  # compress the rest
    done = ckpt(*words)
    assert done.code == 0
    assert len(compressed) - 6 == 3 + damage
    assert f"resumed the conversion: {(5 - damage) << 16:,} of {values.nbytes:,} bytes" in done.err
    with formats.open_checkpoint(tmp_path / "t") as found:
        assert np.array_equal(found["a"].read(), values)
    assert ckpt("convert", tmp_path / "a.npz", tmp_path / "u", *words[3:]).code == 0
    for path in (tmp_path / "u").rglob("*.0"):
        assert path.read_bytes() == (tmp_path / "t" / path.relative_to(tmp_path / "u")).read_bytes()
