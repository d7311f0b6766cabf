"""Conversions that are interrupted: those into a directory, and those into a bucket."""

from __future__ import annotations

import os
import shlex
import shutil
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from formats.model.writer import Placement
from formats.store.journal import JOURNAL
from formats.store.memory import MemoryStore
from tests.support import data_path
from tests.writing import files

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from conftest import Result

    Ckpt = Callable[..., Result]
    Words = tuple[str, ...]

KERAS = data_path("keras3_mlp", "mlp.keras")
OBJECTS = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
NEWER = data_path("guide_adam_new", "tf_ckpts", "ckpt-10")
ORBAX = data_path("orbax", "new/pytree")
BUNDLE, PACKED, SLICED, LOOSE = (
    "source/c-1",
    "source/packed.npz",
    "source/sliced-1",
    "source/loose.safetensors",
)


def arrays() -> dict[str, Any]:
    numbers = {f"v{at}": np.arange(40 + at, dtype=np.float32) * 1.37 for at in range(8)}
    return {**numbers, "n": np.array(7), "wide": np.arange(5, dtype=np.float64)}


def staged(folder: str = "out") -> list[str]:
    """Return the existing staging directories."""
    if not os.path.isdir(folder):
        return []
    return [os.path.join(folder, name) for name in os.listdir(folder) if "_temp_" in name]


def lines(directory: str) -> list[bytes]:
    with open(os.path.join(directory, JOURNAL), "rb") as file:
        return file.read().splitlines(keepends=True)


class Interrupted:
    """Counts what is written to places, and interrupts at one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written: list[tuple[str, int]] = []
        self.at = 0
        real = Placement.write

        def write(place: Placement, at: int, data: Any) -> None:
            if len(self.written) + 1 == self.at:
                raise KeyboardInterrupt
            self.written.append((place.name, place.offset + at))
            real(place, at, data)

        monkeypatch.setattr(Placement, "write", write)

    def start(self, at: int = 0) -> None:
        self.at = at
        self.written.clear()


def whole(ckpt: Ckpt, words: tuple[str, ...]) -> dict[str, bytes]:
    """Return what one run makes, and take it away."""
    done = ckpt("convert", *words, "-j", "1")
    assert done.code == 0, done.err
    made = files("out")
    shutil.rmtree("out")
    return made


def interrupted(ckpt: Ckpt, places: Interrupted, words: tuple[str, ...], at: int) -> str:
    """Interrupt a conversion at a write; return the directory that is kept."""
    places.start(at)
    done = ckpt("convert", *words, "-j", "1", "--resume")
    assert done.code == 130
    assert done.err.splitlines()[-1] == f"ckpt convert {shlex.join(words)} -j 1 --resume"
    places.start()
    (found,) = staged(os.path.dirname(words[1].rstrip("/")) if "model/" not in words[1] else "out/model")
    return found


class Cut(MemoryStore):
    """A store in which the command is cut off at one of the changes that are made to it."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[tuple[str, str]] = []
        self.at = 0
        self.dies = False
        self.before = self._change

    def _change(self, what: str, path: str) -> None:
        self.changes.append((what, path))
        if len(self.changes) == self.at or (self.dies and 0 < self.at < len(self.changes)):
            raise KeyboardInterrupt

    def start(self, at: int = 0, *, dies: bool = False) -> None:
        self.at, self.dies = at, dies
        self.changes.clear()

    def content(self) -> dict[str, bytes]:
        found = {}
        for name in self.names:
            with self.open(name) as file:
                found[name] = file.read(0, file.size)
        return found

    def clear(self) -> None:
        for name in list(self.names):
            self.remove(name)


class Directory:
    """A conversion into a directory."""

    targets: ClassVar[dict[str, Words]] = {
        "bundle": (BUNDLE, "out/c-1"),
        "cast": (BUNDLE, "out/c-1", "--cast", "bfloat16"),
        "shards": (BUNDLE, "out/c-1", "--shard-size", "500"),
        "object-based": (BUNDLE, "out/c-1", "--to", "object"),
        "safetensors": (LOOSE, "out/w.safetensors"),
        "sharded safetensors": (LOOSE, "out/model/", "--to", "safetensors", "--shard-size", "500"),
        "from a compressed file": (PACKED, "out/c-1", "--to", "name"),
        "slices": (SLICED, "out/c-1"),
        "merged slices": (SLICED, "out/c-1", "--merge-slices"),
        "linked": (LOOSE, "out/c-1", "--to", "name", "--link", "--cast", "float16"),
        "like": (OBJECTS, "out/c-1", "--like", NEWER, "--weights-only", "--partial"),
        "Keras 2 weights": (KERAS, "out/w.h5"),
        "Keras 3 weights": (KERAS, "out/w.weights.h5"),
        "Keras archive": (KERAS, "out/w.keras"),
        "Orbax": (LOOSE, "out/tree", "--to", "orbax"),
        "Orbax in chunks": (LOOSE, "out/7", "--to", "orbax", "--shard-size", "100"),
        "Flax": (LOOSE, "out/w.msgpack"),
    }
    one_piece = ("out/w.npz", "out/w.v1", "out/w.hdf5", "out/w.json")

    def __init__(self, ckpt: Ckpt, places: Interrupted) -> None:
        self._ckpt, self._places = ckpt, places

    def interrupt(self, words: Words) -> str:
        return interrupted(self._ckpt, self._places, words, 5)

    def content(self) -> dict[str, bytes]:
        return {name: data for name, data in files("out").items() if not name.endswith("/")}

    def put(self, name: str, data: bytes) -> None:
        with open(os.path.join("out", name), "wb") as file:
            file.write(data)


class Bucket:
    """A conversion into a bucket, in which each shard is an object."""

    targets: ClassVar[dict[str, Words]] = {
        "bundle": (BUNDLE, "mem://b/out/c-1", "--shard-size", "400"),
        "cast": (BUNDLE, "mem://b/out/c-1", "--shard-size", "200", "--cast", "float16"),
        "object-based": (BUNDLE, "mem://b/out/c-1", "--shard-size", "400", "--to", "object"),
        "slices": (SLICED, "mem://b/out/c-1", "--shard-size", "60"),
        "merged slices": (SLICED, "mem://b/out/c-1", "--shard-size", "60", "--merge-slices"),
        "safetensors": (LOOSE, "mem://b/out/model/", "--to", "safetensors", "--shard-size", "400"),
    }
    one_piece = ("mem://b/out/w.npz", "mem://b/out/w.safetensors")

    def __init__(self, ckpt: Ckpt, store: Cut) -> None:
        self._ckpt, self._store = ckpt, store

    def interrupt(self, words: Words) -> str:
        """Interrupt a conversion while the third shard is sent; return the directory that is kept."""
        store = self._store
        assert self._ckpt("convert", *words, "--resume").code == 0
        at = next(at for at, (_, path) in enumerate(store.changes, 1) if ".data-00002" in path)
        store.clear()
        store.start(at)
        done = self._ckpt("convert", *words, "--resume")
        assert done.code == 130
        assert done.err.splitlines()[-1] == f"ckpt convert {shlex.join(words)} --resume"
        store.start()
        (journal,) = [name for name in store.names if name.endswith(f"/{JOURNAL}")]
        return journal.removesuffix(f"/{JOURNAL}")

    def content(self) -> dict[str, bytes]:
        return {name.removeprefix("mem://b/out/"): data for name, data in self._store.content().items()}

    def put(self, name: str, data: bytes) -> None:
        self._store.put(f"mem://b/out/{name}", data)


def refused_as_it_is(place: Directory | Bucket, ckpt: Ckpt, *words: str) -> None:
    before = place.content()
    done = ckpt("convert", *words, "--resume")
    assert (done.code, done.out) == (3, "")
    assert "already exists" in done.err, done.err
    assert place.content() == before
