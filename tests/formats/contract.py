"""The common behaviour of every format's reader.

A format takes part by a line in `test_contract.GOLDENS`: a checkpoint its own producer wrote.
"""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from formats import (
    CheckpointError,
    CorruptCheckpointError,
    LazyTensor,
    TensorNotFoundError,
    TensorSpec,
    open_checkpoint,
)
from formats.core.dtypes import BY_NAME
from formats.core.spec import KINDS, Stored, key_bytes
from formats.find.registry import all_formats, format_named
from formats.location import parse_location
from tests.support import data_path, reads_alike, same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.model.reader import FormatReader


class ReaderContract:
    """Subclasses give a fixture `golden`: the id of a format, and a path below tests/data."""

    @pytest.fixture
    def format_name(self, golden: tuple[str, str]) -> str:
        return golden[0]

    @pytest.fixture
    def path(self, golden: tuple[str, str]) -> str:
        return data_path(golden[1])

    @pytest.fixture
    def reader(self, path: str) -> Iterator[FormatReader]:
        with open_checkpoint(path) as opened:
            yield opened

    def test_format_is_found_by_content_and_by_name(self, reader: FormatReader, format_name: str) -> None:
        assert reader.format.name == format_name
        assert format_named(format_name) is reader.format
        assert reader.format in all_formats()
        assert formats.detect_format(reader.location) == format_name
        assert reader.format.title

    def test_it_is_a_mapping_of_keys_to_tensors(self, reader: FormatReader) -> None:
        keys = list(reader)
        assert keys
        assert len(reader) == len(keys) == len(set(keys))
        assert keys == list(reader.specs) == list(reader.keys())
        assert keys == sorted(keys, key=key_bytes)
        for key in keys:
            assert key in reader
            assert isinstance(reader[key], LazyTensor)

    def test_specs_say_what_tensors_are(self, reader: FormatReader) -> None:
        for key, spec in reader.specs.items():
            assert isinstance(spec, TensorSpec)
            assert spec.key == key
            assert spec.dtype is BY_NAME[spec.dtype.name]
            assert all(isinstance(dim, int) and dim >= 0 for dim in spec.shape)
            assert spec.rank == len(spec.shape)
            assert spec.size == np.prod(spec.shape, dtype=int)
            assert isinstance(spec.nbytes, int)
            assert reader[key].spec == spec
            assert key in repr(reader[key])

    def test_tensors_read_as_their_specs_say(self, reader: FormatReader) -> None:
        for spec in reader.specs.values():
            array = reads_alike(reader[spec.key])
            assert array.dtype == spec.dtype.numpy
            assert array.shape == spec.shape
            if spec.dtype.itemsize is None:
                assert all(isinstance(element, bytes) for element in array.reshape(-1))
            else:
                assert array.nbytes == spec.nbytes

    def test_an_array_is_its_callers_own(self, reader: FormatReader) -> None:
        for key in reader:
            array = reader[key].read()
            if array.size and array.dtype != object:
                again = array.copy()
                array.reshape(-1).view(np.uint8)[:] ^= 0x55
                assert same(reader[key].read(), again)
                return
        pytest.fail("the golden has no tensor with elements")

    def test_missing_key(self, reader: FormatReader) -> None:
        with pytest.raises(TensorNotFoundError) as caught:
            reader["no/such key"]
        assert caught.value.key == "no/such key"
        assert isinstance(caught.value, KeyError)
        assert "no/such key" not in reader
        assert 5 not in reader  # type: ignore[comparison-overlap]
        assert reader.get("no/such key") is None

    def test_facts_are_plain_data(self, reader: FormatReader) -> None:
        import json

        assert isinstance(reader.facts.document(), dict)
        json.dumps(reader.facts.document())

    def test_kinds_names_and_paths_are_of_its_keys(self, reader: FormatReader) -> None:
        assert list(reader.kinds) == list(reader.specs)
        assert set(reader.kinds.values()) <= set(KINDS)
        assert "variable" in reader.kinds.values()
        for names in (reader.object_paths, reader.full_names):
            assert set(names) <= set(reader.specs)
            assert all(isinstance(name, str) for name in names.values())

    def test_stored_place_is_all_or_nothing(self, reader: FormatReader) -> None:
        for key in reader:
            stored = reader[key].stored
            assert isinstance(stored, Stored)
            assert stored.offset is None or (stored.offset >= 0 and stored.shard is not None)
            assert stored.crc32c is None or 0 <= stored.crc32c < 1 << 32

    def test_files_are_there(self, reader: FormatReader) -> None:
        files = reader.files()
        assert reader.location.head in files
        assert len(files) == len(set(files))
        assert all(parse_location(path).is_file() for path in files)

    def test_sound_checkpoint_has_no_findings(self, reader: FormatReader) -> None:
        assert reader.findings == []
        steps = list(reader.verify())
        assert [finding for step in steps for finding in step.findings] == []
        assert sum(step.tensors for step in steps) == len(reader)
        assert sum(step.nbytes for step in steps) > 0

    def test_it_is_a_context_manager_and_closes_its_files(self, path: str) -> None:
        with open_checkpoint(path) as reader:
            pass
        if self.open_files(reader):  # files that an earlier test left in a reference cycle
            gc.collect()
        with open_checkpoint(path) as reader:
            for key in reader:
                reader[key].read()
            opened = self.open_files(reader)
            assert opened
        assert not self.open_files(reader)

    def test_a_closed_reader_says_so_instead_of_reading(self, path: str) -> None:
        with open_checkpoint(path) as reader:
            key = max(reader, key=lambda key: reader.specs[key].size)
            tensor = reader[key]
            tensor.read()
        reader.close()  # a second time does no harm
        for read in (tensor.read, lambda: tensor.read_slice(()), lambda: list(tensor.chunks())):
            with pytest.raises(CheckpointError, match="closed") as caught:
                read()
            assert not isinstance(caught.value, CorruptCheckpointError)
        assert not self.open_files(reader)

    def test_threads_can_share_a_reader(self, path: str) -> None:
        with open_checkpoint(path) as reader:
            expected = {key: reader[key].read() for key in reader}
        with open_checkpoint(path) as reader, ThreadPoolExecutor(4) as pool:
            found = pool.map(lambda key: (key, reader[key].read()), list(reader) * 4)
            assert all(same(array, expected[key]) for key, array in found)

    def test_parts_are_taken_as_numpy_takes_them(self, reader: FormatReader) -> None:
        """No index reaches beyond its tensor, where the bytes belong to another."""
        for tensor in reader.values():
            whole, shape = tensor.read(), tensor.spec.shape
            beyond = tuple(slice(0, dim + 1000) for dim in shape)
            assert same(tensor.read_slice(beyond), whole)
            assert same(tensor.read_slice(...), whole)
            assert same(tensor.read_slice(()), whole)
            if shape and whole.size:
                assert same(tensor.read_slice(-1), np.asarray(whole[(-1, ...)]))
                assert same(tensor.read_slice((..., slice(-2, None))), whole[..., -2:])
            for index in ((*beyond, slice(0, 1)), (*shape[:1], 0), None, "x", (1.5,), slice(None, None, -1)):
                with pytest.raises(IndexError):
                    tensor.read_slice(index)

    def test_lenient_opening_of_a_sound_checkpoint_is_the_same(self, path: str, reader: FormatReader) -> None:
        with open_checkpoint(path, lenient=True) as lenient:
            assert dict(lenient.specs) == dict(reader.specs)
            assert lenient.findings == []

    def open_files(self, reader: FormatReader) -> set[str]:
        """Return which of the checkpoint's files this process holds open."""
        files = {os.path.realpath(path) for path in reader.files()}
        links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
        return files & {os.path.realpath(link) for link in links if os.path.islink(link)}
