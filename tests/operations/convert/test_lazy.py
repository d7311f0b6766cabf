"""Tensors that are computed while they are read: of one other, or of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ckpt_cli.operations.convert.lazy import cast
from formats import open_checkpoint
from formats.core.dtypes import BY_NAME
from tests.support import write_bundle

if TYPE_CHECKING:
    from pathlib import Path


def test_a_cast_tensor_is_read_whole_in_parts_and_in_pieces(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c-1")
    array = np.arange(12, dtype=np.float32).reshape(3, 4) / 2
    write_bundle(prefix, {"a": array})
    with open_checkpoint(prefix) as reader:
        tensor = cast(reader["a"], BY_NAME["float64"])
        assert tensor.spec.dtype.name == "float64"
        found = tensor.read()
        assert (found.dtype, found.tolist()) == (np.float64, array.tolist())
        found[0, 0] = 7  # it is the reader's own
        assert tensor.read().tolist() == array.tolist()
        assert tensor.read_slice((1, slice(0, 2))).tolist() == array[1, :2].tolist()
        assert b"".join(map(bytes, tensor.chunks(16))) == array.astype(np.float64).tobytes()
        assert cast(reader["a"], BY_NAME["float32"]) is not tensor
        same = reader["a"]
        assert cast(same, BY_NAME["float32"]) is same
