"""Sources of conversions, and what interrupts those."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats.location import reachable
from formats.store.remote import object_lock, upload
from tests.cli.resume.interrupting import (
    BUNDLE,
    LOOSE,
    PACKED,
    SLICED,
    Bucket,
    Cut,
    Directory,
    Interrupted,
    arrays,
)
from tests.support import numbers, partitioned, write_bundle
from tests.writing import save, strings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.resume.interrupting import Ckpt


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    (folder / "source").mkdir()
    save(folder / BUNDLE, {**arrays(), "text": strings(b"one", b"", b"three")})
    save(folder / LOOSE, arrays(), "safetensors")
    np.savez_compressed(folder / PACKED, **arrays())
    slices = partitioned(np.arange(12.0).reshape(4, 3), [((0, 2), (0, -1)), ((2, 2), (0, -1))])
    write_bundle(
        str(folder / SLICED), {b"k": numbers(np.arange(9.0)), b"w": slices, b"z": numbers(np.arange(4.0))}
    )
    return folder


@pytest.fixture
def here(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a directory with the sources in it."""
    shutil.copytree(sources / "source", tmp_path / "source", copy_function=shutil.copy2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Interrupted:
    return Interrupted(monkeypatch)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cut]:
    monkeypatch.setattr(object_lock, "_SETTLED", 0.0)
    monkeypatch.setattr(upload, "BLOCK", 64)
    found = Cut()
    with reachable(found):
        yield found


@pytest.fixture
def directory(ckpt: Ckpt, here: Path, places: Interrupted) -> Directory:
    return Directory(ckpt, places)


@pytest.fixture
def bucket(ckpt: Ckpt, here: Path, store: Cut) -> Bucket:
    return Bucket(ckpt, store)
