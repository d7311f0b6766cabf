"""Arrays of chunks: what threads decode block by block is what one reads in pieces."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import cramjam
import ml_dtypes
import numpy as np
import pytest

import formats
from formats.orbax import arrays
from formats.store.ranges import buffers
from formats.store.work.task_context import StaysHereError
from tests import orbax_files

if TYPE_CHECKING:
    from pathlib import Path

CELLS = {
    (14, 12): [(14, 12), (2, 12), (8, 12), (8, 8), (14, 10), (20, 14), (3, 12)],
    (3, 8, 5): [(1, 8, 5), (2, 8, 5), (1, 3, 5), (2, 3, 2)],
    (60,): [(1,), (25,), (59,), (80,)],
}
DTYPES = {"<f4": "<f4", ">f4": ">f4", "bfloat16": ml_dtypes.bfloat16, "|b1": "u1", "<c8": "<c8"}


def write_chunks(folder: Path, values: np.ndarray[Any, Any], cell: tuple[int, ...], **fields: Any) -> None:
    """Write a tree of one array `a`, cut into chunks that are whole at the edges."""
    (folder / "a").mkdir(parents=True)
    (folder / "_METADATA").write_bytes(orbax_files.metadata([["a"]], use_ocdbt=False))
    (folder / "a" / ".zarray").write_bytes(orbax_files.zarray(values, chunks=[*cell], **fields))
    pack = cramjam.zstd.compress if fields.get("compressor") else bytes
    counts = [-(-size // step) for size, step in zip(values.shape, cell, strict=True)]
    for at in itertools.product(*map(range, counts)):
        part = values[tuple(slice(n * step, (n + 1) * step) for n, step in zip(at, cell, strict=True))]
        chunk = np.zeros(cell, values.dtype)
        chunk[tuple(slice(0, size) for size in part.shape)] = part
        name = ".".join(map(str, at))
        (folder / "a" / name).write_bytes(bytes(pack(chunk.tobytes(order=fields.get("order", "C")))))


@pytest.mark.parametrize("compressor", [None, {"id": "zstd", "level": 1}], ids=["raw", "zstd"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "cell"), [(shape, cell) for shape in CELLS for cell in CELLS[shape]])
def test_blocks_are_what_pieces_are(
    shape: tuple[int, ...],
    cell: tuple[int, ...],
    dtype: str,
    order: str,
    compressor: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrays, "TASK_BYTES", 200)
    values = np.random.default_rng(0).integers(0, 2, shape).astype(DTYPES[dtype])
    write_chunks(tmp_path / "t", values, cell, dtype=dtype, order=order, compressor=compressor)
    expected = values.astype(values.dtype.newbyteorder("<")).tobytes()
    with formats.open_checkpoint(tmp_path / "t") as reader:
        tensor = reader["a"]
        assert b"".join(map(bytes, tensor.chunks(64))) == expected
        found = tensor.decoded_range()
        assert found is not None
        buffer, _ = buffers()
        for size in (found.step, 104, 24):  # whole blocks, and pieces that begin in one and end in another
            pieces = (found.read(at, min(at + size, found.size), buffer) for at in range(0, found.size, size))
            assert b"".join(map(bytes, pieces)) == expected
        with pytest.raises(StaysHereError):
            found.__reduce__()


def test_a_row_of_chunks_that_takes_too_much_memory_is_not_decoded_by_several(tmp_path: Path) -> None:
    values = np.zeros((2, 3 << 20), np.uint64)
    write_chunks(tmp_path / "t", values, values.shape, compressor={"id": "zstd", "level": 1})
    with formats.open_checkpoint(tmp_path / "t") as reader:
        assert reader["a"].decoded_range() is None
        assert sum(map(len, reader["a"].chunks())) == values.nbytes
