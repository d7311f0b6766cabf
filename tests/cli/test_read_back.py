"""A conversion reads back what it writes at once, and compares all that it has not proved in this way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ckpt_cli.operations.convert import tasks
from formats.safetensors import writer
from formats.store.local.staged_file import StagedFile
from formats.store.work import counters
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LARGE = {name: np.arange(number, number + 300_000, dtype=np.float32) for number, name in enumerate("abc")}
TARGETS = ["out-1", "out.safetensors", "out.pt", "out.msgpack"]


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """Return a source without checksums."""
    path = tmp_path / "source.safetensors"
    save(path, LARGE, "safetensors")
    return path


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("name", TARGETS)
def test_the_source_is_read_once_and_every_byte_read_back(
    name: str, jobs: int, listed: Path, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both used to be read again at the end, if one of them stores no checksums."""
    counted, back = counters.count_reads(), []
    monkeypatch.setattr(counters, "_tallies", counted)  # which is taken back
    real = StagedFile.read_back

    def read_back(file: StagedFile, offset: int, out: memoryview) -> bool:
        back.append(len(out))
        return real(file, offset, out)

    monkeypatch.setattr(StagedFile, "read_back", read_back)
    size = sum(array.nbytes for array in LARGE.values())
    assert ckpt("convert", listed, tmp_path / name, "-j", jobs).code == 0
    values = sum(tally.nbytes for tally in counted.values())
    assert size <= values < 1.1 * size
    counter = 8 if name == "out-1" else 0  # save_counter, which the object graph gets
    assert sum(back) == size + counter


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("name", TARGETS)
def test_a_disk_that_keeps_another_byte_is_found_out(
    name: str, jobs: int, listed: Path, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = StagedFile.write_at

    def write_at(file: StagedFile, offset: int, data: Any) -> None:
        kept = bytearray(data)
        if bytes(LARGE["b"][-1:]) in kept[-8:]:  # the end of one tensor
            kept[-1] ^= 1
        real(file, offset, bytes(kept))

    monkeypatch.setattr(StagedFile, "write_at", write_at)
    done = ckpt("convert", listed, tmp_path / name, "-j", jobs)
    assert done.code == 3
    assert "tensor 'b" in done.err
    assert "verification failed: the values differ from those of the source" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["source.safetensors"]


def test_what_was_read_back_from_elsewhere_is_compared(
    listed: Path, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two tensors that swap their places in the header, both were written well."""
    real = writer._encode_header

    def swapped(specs: list[Any], strings: Any) -> bytes:
        return real(specs, strings).replace(b'"a"', b'"?"').replace(b'"b"', b'"a"').replace(b'"?"', b'"b"')

    monkeypatch.setattr(writer, "_encode_header", swapped)
    done = ckpt("convert", listed, tmp_path / "out.safetensors")
    assert done.code == 3
    assert "verification failed: the values differ from those of the source" in done.err


def test_what_was_written_over_is_compared(
    listed: Path, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tensor was in its place when it was read back, and the next one a byte too early."""
    real = StagedFile.reserve

    def reserve(file: StagedFile, size: int) -> int:
        offset = real(file, size)
        return offset - 4 if size < offset < 2 * size else offset

    monkeypatch.setattr(StagedFile, "reserve", reserve)
    monkeypatch.setattr(tasks.Copied, "is_at", lambda self, _: self.place is not None)
    done = ckpt("convert", listed, tmp_path / "out.safetensors", "-j", 1)
    assert done.code == 3
    assert "verification failed: the values differ from those of the source" in done.err
