"""Every truncation and every flipped bit of small checkpoints, through open, list, read, verify.

Formats with checksums (bundles, V1, npz) give the right values or a typed error. Formats without (HDF5,
safetensors, listings) give a typed error or values. These may be wrong; the number of wrong ones is printed.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from formats import CheckpointError, open_checkpoint
from tests.counts import count
from tests.hostile.targets import TARGETS
from tests.support import data_path, digest, recorded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from formats.model.reader import FormatReader

# (checkpoint, its files): each run of the tests flips every bit of an index of names, an index with an object
# graph, a data shard and a V1 shard. `make fuzz` damages more of each.
SMALL = [
    ("pairs/name_based", ["name_based.index", "name_based.data-00000-of-00001"]),
    ("state_files/two_prefixes/alpha-1", ["alpha-1.index"]),
    ("v1_format/sharded/model.ckpt-1", ["model.ckpt-1-00000-of-00002"]),
]
LARGEST = 64 << 10

Values = dict[str, tuple[str, tuple[int, ...], str]]


def values(reader: FormatReader) -> Values:
    """Return dtype, shape and hash of every tensor; of a listing's, the checksum that it has."""
    return {
        key: (
            spec.dtype.name,
            spec.shape,
            digest(reader[key].read()) if reader[key].has_values else str(reader[key].stored),
        )
        for key, spec in reader.specs.items()
    }


def damages(data: bytes, bits: int = 8) -> Iterator[tuple[str, bytes]]:
    """Yield every truncation, and every byte with each of its lowest `bits` bits flipped."""
    for size in range(len(data)):
        yield f"cut to {size}", data[:size]
    for position in range(len(data)):
        for bit in range(bits):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            yield f"bit {bit} of byte {position}", bytes(flipped)


def counted(data: bytes, bits: int = 8) -> None:
    count("truncations", len(data))
    count("flipped bits", bits * len(data))


def copy_of(path: str, directory: Path) -> str:
    """Copy a checkpoint's files and return where it is now."""
    with open_checkpoint(data_path(path)) as reader:
        for file in reader.files():
            shutil.copy(file, directory)
    return str(directory / os.path.basename(path))


def try_all(prefix: str, file: str, truth: Values, bits: int) -> int:
    """Damage one file of a checkpoint in every way; return how often it was noticed."""
    with open(file, "rb") as opened:
        data = opened.read()
    counted(data, bits)
    noticed = 0
    for what, damaged in damages(data, bits):
        with open(file, "wb") as opened:
            opened.write(damaged)
        try:
            with open_checkpoint(prefix) as reader:
                found = values(reader)
        except CheckpointError:
            found = None
        if found is None:
            noticed += 1
        else:
            assert found == truth, what
    with open(file, "wb") as opened:
        opened.write(data)
    return noticed


@pytest.mark.parametrize(("path", "file"), [(path, file) for path, files in SMALL for file in files])
def test_every_truncation_and_flipped_bit(tmp_path: Path, path: str, file: str) -> None:
    prefix = copy_of(path, tmp_path)
    with open_checkpoint(prefix) as reader:
        truth = values(reader)
    size = os.path.getsize(tmp_path / file)
    assert 0 < size <= 4096
    # All but the zeros of a footer, and the metaindex block, which no one reads.
    assert try_all(prefix, str(tmp_path / file), truth, bits=8) >= size + 8 * (size - 40 - 13)


@pytest.mark.parametrize(("path", "file"), [(path, file) for path, files in SMALL for file in files])
def test_verifying_what_is_damaged_never_fails_otherwise(tmp_path: Path, path: str, file: str) -> None:
    """Lenient opening, listing, kinds, verification: for each truncation and the lowest bit of each byte."""
    prefix = copy_of(path, tmp_path)
    with open(tmp_path / file, "rb") as opened:
        data = opened.read()
    counted(data, 1)
    for what, damaged in damages(data, bits=1):
        (tmp_path / file).write_bytes(damaged)
        try:
            with open_checkpoint(prefix, lenient=True) as reader:
                listed = list(reader.specs.values()), dict(reader.kinds), dict(reader.object_paths)
                found = [finding for step in reader.verify() for finding in step.findings] + reader.findings
        except CheckpointError:
            continue
        assert len(listed[0]) == len(listed[1]), what
        for finding in found:
            assert finding.severity in ("error", "warning"), what


@pytest.mark.parametrize("bits", [1, pytest.param(8, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("file", ["interop/weights.npz", "pytorch/odd_keys.pt"])
def test_every_truncation_and_flipped_bit_of_a_zip(tmp_path: Path, file: str, bits: int) -> None:
    """The zip's own CRC-32 guards members; names are stored twice, and members are counted."""
    path = tmp_path / os.path.basename(file)
    shutil.copy(data_path(file), path)
    with open_checkpoint(str(path)) as reader:
        truth = values(reader)
    data = path.read_bytes()
    counted(data, bits)
    for what, damaged in damages(data, bits):
        path.write_bytes(damaged)
        try:
            with open_checkpoint(str(path)) as reader:
                found = values(reader)
        except CheckpointError:
            continue
        assert found == truth, what


UNGUARDED = [("safetensors", "weights.safetensors"), ("listing", "listing.json")]


def silent_changes(path: Path, bits: int) -> int:
    """Damage a file without checksums in every way; return how often values changed silently."""
    with open_checkpoint(str(path)) as reader:
        truth = values(reader)
    data = path.read_bytes()
    counted(data, bits)
    silent = 0
    for _, damaged in damages(data, bits):
        path.write_bytes(damaged)
        try:
            with open_checkpoint(str(path)) as reader:
                silent += values(reader) != truth
        except CheckpointError:
            continue
    return silent


@pytest.mark.parametrize(("target", "name"), UNGUARDED)
def test_formats_without_checksums_never_crash(tmp_path: Path, target: str, name: str) -> None:
    seed = min(next(found for found in TARGETS if found.name == target).seeds(), key=len)
    (tmp_path / name).write_bytes(seed)
    silent = silent_changes(tmp_path / name, bits=2)
    count(f"of these, silent changes of a {target} file, which has no checksums", silent)
    assert silent


# `make fuzz`: up to 64 KiB -----------------------------------------------------------


def larger() -> list[tuple[str, str]]:
    """Return (checkpoint, file) of everything up to 64 KiB, the smallest of each folder."""
    found: dict[tuple[str, str], tuple[int, str, str]] = {}
    for entry in recorded("tf-v2-object", "tf-v2-name", "tf-v1"):
        for file, size in entry["files"].items():
            if 0 < size <= LARGEST and os.path.isfile(data_path(file)) and not file.endswith(".meta"):
                kind = (entry["fixture"], os.path.splitext(file)[1][:6])
                found[kind] = min(found.get(kind, (size, entry["path"], file)), (size, entry["path"], file))
    return [(path, os.path.basename(file)) for _, path, file in sorted(found.values())]


@pytest.mark.fuzz
@pytest.mark.parametrize(("path", "file"), larger())
def test_every_truncation_and_flipped_bit_of_larger_files(tmp_path: Path, path: str, file: str) -> None:
    prefix = copy_of(path, tmp_path)
    with open_checkpoint(prefix) as reader:
        truth = values(reader)
    bits = 8 if os.path.getsize(tmp_path / file) < 4096 else 1
    try_all(prefix, str(tmp_path / file), truth, bits=bits)
