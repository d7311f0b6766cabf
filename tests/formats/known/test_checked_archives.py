"""Archives whose checksums cover values and their descriptions.

A `.keras` has one for all of its weights, and no value is read before it was compared; an
npz has one for each array, header and all.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats import ChecksumError, open_checkpoint
from tests.support import data_path, same

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return shutil.copy(data_path("keras3_conv", "conv.keras"), tmp_path / "conv.keras")


def test_a_flipped_bit_in_one_weight_is_an_error_of_all(archive: Path) -> None:
    with open_checkpoint(archive) as reader:
        key = max(reader, key=lambda key: reader.specs[key].size)
        value = reader[key].read()
    data = archive.read_bytes()
    at = data.index(value.tobytes())
    archive.write_bytes(data[: at + 4] + bytes([data[at + 4] ^ 1]) + data[at + 5 :])
    with open_checkpoint(archive) as reader:
        for name in reader:
            tensor = reader[name]
            for call in (tensor.read, lambda: tensor.read_slice(...), lambda: list(tensor.chunks())):  # noqa: B023
                with pytest.raises(ChecksumError, match="CRC-32"):
                    call()


def test_rescue_reads_them_all_the_same(archive: Path) -> None:
    with open_checkpoint(archive) as reader:
        expected = {key: reader[key].read() for key in reader}
        assert reader.read_unproved() is None
    data = archive.read_bytes()
    at = data.index(max(expected.values(), key=lambda value: value.size).tobytes())
    archive.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with open_checkpoint(archive) as reader:
        assert "CRC-32" in reader.read_unproved()
        assert sum(same(reader[key].read(), expected[key]) for key in reader) == len(expected) - 1


def test_specs_of_an_archive_are_proved_together(archive: Path) -> None:
    with open_checkpoint(archive) as reader:
        reader.prove_specs()
    data = archive.read_bytes()
    archive.write_bytes(data.replace(b"dense\0", b"densf\0"))
    with open_checkpoint(archive) as reader:
        assert any(key.startswith("layers/densf/") for key in reader)
        with pytest.raises(ChecksumError, match="CRC-32"):
            reader.prove_specs(())  # a key may be hidden


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_specs_of_an_npz_are_proved_one_by_one(tmp_path: Path, save: Callable[..., None]) -> None:
    path = tmp_path / "w.npz"
    save(path, a=np.zeros(3), b=np.zeros(4))
    with open_checkpoint(path) as reader:
        reader.prove_specs()
    # The checksum in the directory, which has an entry for each member, rather than the bytes it covers.
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\1\2") + 16] ^= 1
    path.write_bytes(data)
    with open_checkpoint(path) as reader:
        reader.prove_specs(())
        reader.prove_specs(["b"])
        for keys in (["a"], None):
            with pytest.raises(ChecksumError, match="CRC-32") as caught:
                reader.prove_specs(keys)
            assert caught.value.key == "a"
