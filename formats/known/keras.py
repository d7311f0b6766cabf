"""keras: a `.keras` archive, a zip of a model's weights and configuration.

    metadata.json        {"keras_version", "date_saved"}
    config.json          the model's configuration; text here, nothing in it is run
    model.weights.h5     see formats.h5.weights
    assets/...           vocabularies and the like: no tensors; carried into other archives

Keras stores members without compression, so the weights are read in place. The member's checksum covers all
of them; it is compared once, before the first value is read. If an archive was repacked with compression,
HDF5 cannot read it in parts, so the weights are first copied to an unnamed temporary file.
keras/src/saving/saving_lib.py
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from functools import cached_property, partial
from typing import IO, TYPE_CHECKING

from ..errors import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError
from ..h5.library.guard import GuardedFile
from ..h5.native.superblock import Superblock
from ..h5.safe import open_h5
from ..h5.weights import WeightsReader
from ..h5.weights_writer import ArchiveWriter
from ..h5.writer import H5_DTYPES, MOST_DIMENSIONS
from ..keras.config import Layer, LayerWeights, check_in_order, layers_of
from ..keras.facts import IN_ARCHIVE, KerasFacts, WeightGroup
from ..model.reader import Family, Format
from ..model.verification import Finding, Verification
from ..store.work.workers import SERIAL, Workers
from ..wire.jsontext import parse_object
from ..wire.magic import ZIP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..h5.safe import H5File
    from ..model.probe import Probe
    from ..model.reader import FormatReader
    from ..model.writer import FormatWriter, WriteTarget
    from ..store.archive.reader import Archive, ArchiveMember


CONFIG = "config.json"
METADATA = "metadata.json"
WEIGHTS = "model.weights.h5"
ASSETS = "assets/"
_OTHER_WEIGHTS = ("model.weights.npz", "model.weights.json")
_MOST_TEXT = 64 << 20
_MOST_ASSETS = 256 << 20
"""Bytes of all assets together, which are held while an archive is written."""

_MOST_INFLATED = 16 << 20
"""Bytes of a configuration beyond what is stored of it: a deflated one can be a thousand times as long."""


def _open_weights(archive: Archive) -> tuple[H5File, IO[bytes] | None]:
    """Open the weights, in place if they are stored; otherwise also return their temporary copy."""
    member = archive.member(WEIGHTS)
    if not member.deflated:
        return _open_h5(archive, member, partial(_read_member, archive, member)), None
    with contextlib.ExitStack() as opened:
        copy = opened.enter_context(tempfile.TemporaryFile())
        archive.copy(member, copy)
        copy.flush()
        file = _open_h5(archive, member, partial(_read_at, copy.fileno()))
        opened.pop_all()  # the reader closes it
    return file, copy


def _open_h5(archive: Archive, member: ArchiveMember, read: Callable[[int, int], bytes]) -> H5File:
    path = archive.path + f":{WEIGHTS}"
    superblock = Superblock.find(read(0, 4096))
    if superblock is None:
        raise CorruptCheckpointError("this is not an HDF5 file", path=path, offset=0, code="hdf5-read")
    return open_h5(path, member.size, superblock, GuardedFile(read, member.size, superblock.length_size))


def _read_member(archive: Archive, member: ArchiveMember, offset: int, size: int) -> bytes:
    return archive.file.read(member.offset + offset, max(0, min(size, member.size - offset)))


def _read_at(descriptor: int, offset: int, size: int) -> bytes:
    return os.pread(descriptor, size, offset)


class KerasReader(WeightsReader):
    """A `.keras` archive."""

    has_checksums = True
    reads_unproved = False
    """Whether values are read although the checksum over all of them differs."""

    def __init__(self, probe: Probe, *, lenient: bool) -> None:
        assert probe.zip is not None
        self._archive = probe.zip
        self._archive.check()
        if WEIGHTS not in self._archive.names:
            held = [name for name in _OTHER_WEIGHTS if name in self._archive.names]
            message = f"no {WEIGHTS}" + (f"; reading weights from {held[0]} is not supported" if held else "")
            raise UnsupportedFeatureError(message, path=self._archive.path, code="header")
        file, self._copy = _open_weights(self._archive)
        if self._copy is None:  # a copy was checked as it was made
            file.check_values = self._check_weights
        try:
            super().__init__(probe.location, FORMAT, [file], lenient=lenient)
        except CheckpointError:
            self.close()
            raise

    def _check_weights(self) -> None:
        """Raise the error of damaged weights before values are read."""
        if not self.reads_unproved and self._weights_error is not None:
            error = self._weights_error
            raise type(error)(error.message, path=error.path, offset=error.offset, code=error.code)

    def prove_specs(self, keys: Iterable[str] | None = None) -> None:  # noqa: ARG002  one checksum is over all
        if self._copy is None:
            self._check_weights()

    @cached_property
    def _weights_error(self) -> CorruptCheckpointError | None:
        try:
            for _ in self._archive.pieces(self._archive.member(WEIGHTS)):
                pass
        except CorruptCheckpointError as error:
            return error
        return None

    def read_unproved(self) -> str | None:
        self.reads_unproved = True
        return self._weights_error.message if self._weights_error is not None else None

    def _text(self, name: str) -> str | None:
        """Return a member as text; None, and a finding, where it cannot be read."""
        if name not in self._archive.names:
            return None
        try:
            most = min(_MOST_TEXT, self._archive.member(name).stored + _MOST_INFLATED)
            return self._archive.read(name, most).decode("utf-8")
        except UnicodeDecodeError as error:
            self.unread(
                Finding(
                    "error", "header", f"{name} is not UTF-8", file=self.location.head, offset=error.start
                )
            )
        except CheckpointError as error:
            self.unread(Finding("error", error.code, error.message, file=error.path, offset=error.offset))
        return None

    @cached_property
    def _config(self) -> str | None:
        return self._text(CONFIG)

    @cached_property
    def _layers(self) -> tuple[tuple[Layer, ...], str | None]:
        return layers_of(self._config)

    @cached_property
    def facts(self) -> KerasFacts:
        from ..keras.variable_layout import groups_of  # not needed for a listing

        try:
            stored_metadata = parse_object(self._text(METADATA) or "{}")
        except ValueError as error:
            self.unread(Finding("error", "header", f"{METADATA}: {error}", file=self.location.head))
            stored_metadata = {}
        layers = [
            WeightGroup(layer.name, tuple((key, "") for key in self._keys_below(group)), layer.class_name)
            for layer, group in groups_of(self._layers[0], "layers", self.object_names)
        ]
        return super().facts._replace(
            listed=IN_ARCHIVE,
            version=stored_metadata.get("keras_version"),
            date_saved=stored_metadata.get("date_saved"),
            config=self._config,
            layers=tuple(layers),
            assets=tuple(name for name in self._archive.names if name.startswith(ASSETS)),
        )

    def proved_facts(self) -> KerasFacts:
        facts = super().proved_facts()
        assert isinstance(facts, KerasFacts)
        left, contents = _MOST_ASSETS, {}
        for name in facts.assets:
            most = min(left, self._archive.member(name).stored + _MOST_INFLATED)
            contents[name] = self._archive.read(name, most)
            left -= len(contents[name])
        return facts._replace(contents=contents)

    def _keys_below(self, group: str) -> list[str]:
        groups = sorted(
            name for name in self.by_group if name == f"{group}/vars" or name.startswith(f"{group}/")
        )
        return [key for name in groups for key in self.variables(name)]

    def shape_findings(self) -> list[Finding]:
        from ..keras.match import stored_objects
        from ..keras.model import ModelError, from_config

        problem = self._layers[1]
        if problem is not None:
            return [Finding("error", "config-shape", f"{CONFIG}: {problem}", file=self.location.head)]
        if self._config is None:
            return []
        try:
            model = from_config(self._config)
        except ModelError:
            return []  # It does not tell what weights there are.
        found: list[Finding] = []
        for _, unit, keys in stored_objects(model, self):
            if unit.layer is not None and keys:
                stored = [LayerWeights(key, key, self._specs[key].shape) for key in keys]
                found += check_in_order(unit.layer, stored, self.location.head)
        return found

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:
        """Check the archive's own checksums, then what the weights' file holds."""
        for name in self._archive.names:
            try:
                for _ in self._archive.pieces(self._archive.member(name)):
                    yield Verification()
            except CheckpointError as error:
                yield Verification(
                    findings=(Finding("error", error.code, error.message, None, error.path, error.offset),)
                )
        yield from super().verify(workers)

    def close(self) -> None:
        super().close()
        if self._copy is not None:
            self._copy.close()
        self._archive.close()


def _sniff(probe: Probe) -> bool:
    return probe.zip is not None and CONFIG in probe.zip.names and METADATA in probe.zip.names


def _open(probe: Probe, lenient: bool) -> KerasReader:
    return KerasReader(probe, lenient=lenient)


def _salvage(probe: Probe, finding: Finding) -> FormatReader | None:
    from ..model.zip_salvage import read_zip_remains

    return read_zip_remains(probe, finding, FORMAT)


def _create(target: WriteTarget) -> FormatWriter:
    return ArchiveWriter(FORMAT, target)


FORMAT = Format(
    "keras",
    "Keras archive",
    Family.KERAS,
    (".keras",),
    _sniff,
    _open,
    _create,
    H5_DTYPES,
    _salvage,
    magic=("a zip archive", ZIP),
    most_dimensions=MOST_DIMENSIONS,
    has_assets=True,
    unshared="a .keras archive contains its weights as an HDF5 file",
)
