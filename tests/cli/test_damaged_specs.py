"""Keys, dtypes and shapes that share a checksum with the values, in npz and `.keras`.

A command that answers by them, and reads no values, compares that checksum all the same.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Result
    from tests.support import Entries


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    path = tmp_path / "w.npz"
    np.savez(path, w=np.zeros((4, 3), np.float32), b=np.zeros(2, np.int32))
    return path


def damaged(path: Path, old: bytes, new: bytes) -> Path:
    """Return a copy of a file in which some bytes are others."""
    data = path.read_bytes()
    assert data.count(old) >= 1
    copy = path.with_stem("damaged")
    copy.write_bytes(data.replace(old, new))
    return copy


@pytest.mark.parametrize(("old", "new"), [(b"(4, 3)", b"(4, 2)"), (b"(4, 3)", b"(2, 6)"), (b"<f4", b"<g4")])
@pytest.mark.parametrize("options", ["", "--no-values", "-q", "--find-renames", "--json"])
@pytest.mark.parametrize("order", [1, -1])
def test_diff_calls_no_damage_a_change(
    ckpt: Callable[..., Result], arrays: Path, old: bytes, new: bytes, options: str, order: int
) -> None:
    sides = [str(arrays), str(damaged(arrays, old, new))][::order]
    done = ckpt("diff", *options.split(), *sides)
    assert done.code == 3
    assert "CRC-32" in done.err


def test_a_shape_that_is_another_is_still_a_change(ckpt: Callable[..., Result], arrays: Path) -> None:
    other = arrays.with_stem("other")
    np.savez(other, w=np.zeros((3, 4), np.float32), b=np.zeros(2, np.int32))
    for options in ((), ("--no-values",)):
        done = ckpt("diff", *options, str(arrays), str(other))
        assert (done.code, done.err) == (1, "")


@pytest.mark.parametrize(
    "line", ["extract {} --dtype float32 -o {}.out/", "convert {} {}.h5 --to hdf5 --dtype float32"]
)
def test_what_a_dtype_leaves_out_has_it(ckpt: Callable[..., Result], arrays: Path, line: str) -> None:
    np.savez(arrays, w=np.zeros((4, 3), np.float32), v=np.zeros((2, 3), np.float32))
    header = b"'<f4', 'fortran_order': False, 'shape': (2,"
    path = str(damaged(arrays, header, header.replace(b"f4", b"i4")))
    done = ckpt(*line.format(path, path).split())
    assert done.code == 3
    assert "CRC-32" in done.err


def test_a_damaged_template_gives_no_structure(ckpt: Callable[..., Result], arrays: Path) -> None:
    template = damaged(arrays, b"'<i4'", b"'<u4'")
    done = ckpt("convert", str(arrays), str(arrays.with_stem("new")), "--like", str(template), "--partial")
    assert done.code == 3
    assert "CRC-32" in done.err


HIDDEN = b"dense\0", b"densf\0"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return shutil.copy(data_path("keras3_conv", "conv.keras"), tmp_path / "conv.keras")


@pytest.mark.parametrize(
    "line",
    [
        "diff {} {damaged}",
        "diff {damaged} {} --no-values",
        "diff {damaged} {damaged}",
        "convert {0} {0}.new.keras --like {damaged}",
        "convert {damaged} {damaged}.npz",
        "show {damaged} layers/dense/vars/0",
        "graph {damaged}",
        "match {damaged} {}",
    ],
)
def test_no_name_in_a_damaged_archive_is_believed(
    ckpt: Callable[..., Result], archive: Path, line: str
) -> None:
    path = damaged(archive, *HIDDEN)
    done = ckpt(*line.format(archive, damaged=path).split())
    assert done.code == 3, done
    assert "CRC-32" in done.err


def test_ls_lists_unproved_specs(ckpt: Callable[..., Result], archive: Path) -> None:
    """As its help says; `verify` finds it."""
    path = str(damaged(archive, *HIDDEN))
    assert ckpt("ls", path).code == 0
    assert ckpt("verify", path).code == 1


@pytest.mark.parametrize("is_first", [True, False])
def test_an_entry_that_cannot_be_decoded_is_not_a_change_of_dtype(
    ckpt: Callable[..., Result], tmp_path: Path, is_first: bool
) -> None:
    def spoil(entries: Entries) -> None:
        entries[b"w"].offset = -1

    sound, bad = str(tmp_path / "sound"), str(tmp_path / "bad")
    write_bundle(sound, {"w": np.zeros(6, np.float32)})
    write_bundle(bad, {"w": np.zeros(6, np.float32)}, edit=spoil)
    done = ckpt("diff", *((bad, sound) if is_first else (sound, bad)))
    assert (done.code, done.out) == (3, "")
    assert "bad: tensor 'w': the entry of this tensor cannot be decoded" in done.err
    assert ckpt("diff", "--no-values", bad, sound).code == 1
