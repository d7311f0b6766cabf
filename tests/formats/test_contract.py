"""Every format passes the same contract, and every fixture is one format's alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from formats.find.opening import locate
from formats.find.registry import all_formats
from formats.location import parse_location, reachable
from formats.model.checkpoint_files import FILE_SUFFIXES, SHARED_SUFFIXES
from formats.model.probe import Probe
from formats.store.memory import MemoryStore
from formats.store.remote.server import ServerFile
from tests.formats.contract import ReaderContract
from tests.servers.web import Web, serving
from tests.support import FORMAT_IDS, data_path, manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.model.reader import FormatReader

# One line a format, at least: a checkpoint that its own producer wrote.
GOLDENS = [
    ("tf-object", "guide_adam_legacy/tf_ckpts/ckpt-10"),
    ("tf-object", "max_shard_size/split"),
    ("tf-name", "name_based/partitioned/model.ckpt-4"),
    ("tf-name", "dtypes/all"),
    ("tf-name", "shards/merged"),
    ("tf-v1", "v1_format/plain/model.ckpt-1"),
    ("tf-v1", "v1_format/sharded/model.ckpt-1"),
    ("tf-v1", "v1_format/partitioned/model.ckpt-1"),
    ("keras-h5", "keras_mlp/mlp.with_optimizer.h5"),
    ("keras-h5", "keras_nested/tower.weights_only.h5"),
    ("keras-weights", "keras3_mlp/mlp.weights.h5"),
    ("keras", "keras3_rnn/rnn.keras"),
    ("npz", "interop/weights.npz"),
    ("safetensors", "interop/weights.safetensors"),
    ("pytorch", "pytorch/training.bin"),
    ("pytorch", "pytorch/legacy.pth"),
    ("pytorch", "pytorch/views.pt"),
    ("pytorch", "pytorch/dtypes.pt"),
    ("pytorch", "pytorch/hf_bin/pytorch_model.bin.index.json"),
    ("pytorch-dcp", "pytorch/dcp/.metadata"),
    ("orbax", "orbax/new/pytree/_METADATA"),
    ("orbax", "orbax/new/sharded_zarr3/_METADATA"),
    ("flax", "orbax/new/flax_msgpack/flax_model.msgpack"),
    ("flax", "orbax/new/flax_legacy/checkpoint_10"),
    ("gguf", "exports/gguf/plain.gguf"),
    ("gguf", "exports/gguf/split/m-00001-of-00003.gguf"),
    ("graphdef", "exports/graphdef/frozen_v1.pb"),
    ("tfjs", "exports/tfjs/model.json"),
    ("onnx", "exports/onnx/all.onnx"),
    ("tflite", "exports/tflite/int8.tflite"),
    ("tflite", "exports/tflite/float16.tflite"),
    ("onnx", "exports/onnx/external.onnx"),
]

# Other programs' HDF5 files are made in test_hdf5; a listing is ours, and has no values to read.
WITHOUT_GOLDEN = {"hdf5", "listing"}


class TestReaders(ReaderContract):
    @pytest.fixture(params=GOLDENS, ids=" ".join)
    def golden(self, request: pytest.FixtureRequest) -> tuple[str, str]:
        return request.param


class TestReadersInMemory(ReaderContract):
    """The same over a store that the system does not know."""

    @pytest.fixture(params=GOLDENS, ids=" ".join)
    def golden(self, request: pytest.FixtureRequest) -> tuple[str, str]:
        return request.param

    @pytest.fixture(autouse=True)
    def store(self) -> Iterator[MemoryStore]:
        self._store = MemoryStore()
        with reachable(self._store):
            yield self._store

    @pytest.fixture
    def path(self, golden: tuple[str, str], store: MemoryStore) -> str:
        folder, name = os.path.split(data_path(golden[1]))
        return store.join(store.put_tree("mem://tests", folder), name)

    def open_files(self, reader: FormatReader) -> set[str]:
        assert set(reader.files())
        return {file.path for file in self._store.opened if not file.closed}


class TestReadersOverHttp(ReaderContract):
    """The same from a web server on this machine, which lists nothing."""

    @pytest.fixture(params=GOLDENS, ids=" ".join)
    def golden(self, request: pytest.FixtureRequest) -> tuple[str, str]:
        return request.param

    @pytest.fixture(autouse=True)
    def made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Note the files that are opened."""
        self._made: list[ServerFile] = []
        begin = ServerFile.__init__

        def noted(file: ServerFile, *arguments: Any) -> None:
            begin(file, *arguments)
            self._made.append(file)

        monkeypatch.setattr(ServerFile, "__init__", noted)

    @pytest.fixture
    def path(self, golden: tuple[str, str]) -> Iterator[str]:
        web = Web()
        with serving(web):
            folder, name = os.path.split(data_path(golden[1]))
            yield f"{web.put_tree(folder)}/{name}"

    def open_files(self, reader: FormatReader) -> set[str]:
        return set(reader.files()) & {each.path for each in self._made if not each.closed}


def test_every_format_has_a_golden() -> None:
    assert {found.name for found in all_formats()} - WITHOUT_GOLDEN == {name for name, _ in GOLDENS}


def test_suffixes_are_reported_without_importing_a_format() -> None:
    suffixes = {suffix for found in all_formats() for suffix in found.suffixes}
    assert suffixes == {*FILE_SUFFIXES, *SHARED_SUFFIXES}


RECORDED = [entry for entry in manifest()["checkpoints"] if entry["format"] in FORMAT_IDS]


@pytest.mark.parametrize("entry", RECORDED, ids=[entry["path"] for entry in RECORDED])
def test_exactly_one_sniffer_says_yes(entry: dict[str, Any]) -> None:
    known = {found.name for found in all_formats()}
    probe = Probe(locate(parse_location(data_path(entry["path"]))))
    claimed = [found.name for found in all_formats() if found.sniff(probe)]
    assert claimed == [name for name in [FORMAT_IDS[entry["format"]]] if name in known]
