"""listing: what `ckpt ls --json -l` printed, saved to a file: specs and checksums without data.

    {"schema": 1, "path", "format", "tensors": [{"key", "dtype", "shape", "nbytes", "kind",
     "object_path", "full_name", "shard", "offset", "crc32c", "digest"}, ...], "total": {...}}

A checkpoint that is on another machine, or no longer anywhere, takes part in comparisons
by its listing: values are the same where digests are, or else checksums.  Fields that `-l`
and `--digest` add may be missing; fields that are not known here are passed over.
"""

from __future__ import annotations

import json
import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.dtypes import BY_NAME, INVALID, unmapped
from ..core.spec import KINDS, Stored, TensorSpec, key_bytes
from ..errors import CorruptCheckpointError, UnsupportedFeatureError
from ..model.reader import Family, Format, FormatReader
from ..model.tensor import LazyTensor
from ..model.verification import Finding, Verification
from ..model.writer import FormatWriter
from ..store.work.workers import SERIAL, Workers
from ..tf.bundle.payload import chunks_checksum
from ..wire.crc32c import mask
from ..wire.limits import KeySizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from ..core.chunks import Chunk
    from ..core.region import Extents, Index
    from ..model.probe import Probe
    from ..model.writer import WriteTarget


SCHEMA = 1
_OPTIONAL_FIELDS = (
    ("kind", str),
    ("object_path", str),
    ("full_name", str),
    ("shard", int),
    ("offset", int),
    ("crc32c", int),
    ("digest", str),
)
_DIGEST = re.compile(r"(?:crc32c|stored|slices):[0-9a-f]{8}|sha256:[0-9a-f]{64}")
"""How `formats.model.digest` spells digests."""
MOST_DIMENSIONS = 254  # TensorFlow's own limit; the product of dimensions stays cheap to take.


class ListedTensor(LazyTensor):
    """A tensor that is known by its spec and checksum alone."""

    has_values = False

    def __init__(self, path: str, spec: TensorSpec, stored: Stored, digest: str | None) -> None:
        super().__init__(spec)
        self._path = path
        self._stored = stored
        self.listed_digest = digest

    @property
    def stored(self) -> Stored:
        return self._stored

    def known_digest(self, algorithm: str) -> str:
        digest = self.listed_digest
        if digest is None or digest.partition(":")[0] != algorithm:
            hints = (f"list the checkpoint again with --json -l --digest {algorithm}",)
            message = f"the listing has no {algorithm} digest for this tensor"
            raise UnsupportedFeatureError(message, path=self._path, key=self.spec.key, hints=hints)
        return digest

    def read(self) -> np.ndarray[Any, Any]:
        hints = ("name the checkpoint itself; a listing has only specs and checksums",)
        raise UnsupportedFeatureError(
            "a listing has no values", path=self._path, key=self.spec.key, hints=hints
        )

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:  # noqa: ARG002  no part of nothing
        return self.read()


def _beginning(value: Any) -> str:
    """Return how a JSON value begins; it can be a list of millions."""
    return str(value[:20] if isinstance(value, list) else value)[:40]


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _optional(item: dict[str, Any], name: str, kind: type) -> Any:
    """Return a field that may be missing or null; ValueError if it is of another type."""
    value = item.get(name)
    if value is not None and (type(value) is not kind or (kind is int and not _is_count(value))):
        raise ValueError(f"{name} is {_beginning(value)!r}; expected {kind.__name__}")
    return value


def _spec(item: dict[str, Any]) -> TensorSpec:
    key, name, shape = item.get("key"), _optional(item, "dtype", str), item.get("shape")
    if not isinstance(key, str):
        raise ValueError(f"the key is {_beginning(key)!r}; expected text")  # noqa: TRY004  the text is at fault
    if name is not None and name not in BY_NAME:
        raise ValueError(f"the dtype {_beginning(name)!r} is unknown")
    if (
        not isinstance(shape, list)
        or len(shape) > MOST_DIMENSIONS
        or not all(_is_count(dim) for dim in shape)
    ):
        raise ValueError(f"the shape {_beginning(shape)} is invalid")
    stored = _optional(item, "stored", dict) or {}
    type_name = _optional(stored, "dtype", str)
    dtype = BY_NAME[name] if name else unmapped(type_name) if type_name else INVALID
    return TensorSpec(key, dtype, tuple(shape), _optional(item, "nbytes", int))


class ListingFacts(NamedTuple):
    """What was listed."""

    path: Any
    format: Any

    @property
    def producer(self) -> str:
        return "ckpt"

    def document(self) -> dict[str, Any]:
        return {"producer": self.producer, "version": None, **self._asdict()}


class ListingReader(FormatReader):
    """A checkpoint's listing."""

    has_checksums = False

    def __init__(self, probe: Probe, *, lenient: bool) -> None:
        assert probe.json is not None
        self.location = probe.location
        self.format = FORMAT
        self.findings: list[Finding] = []
        self._lenient = lenient
        self._document = probe.json
        self._specs: dict[str, TensorSpec] = {}
        self._items: dict[str, dict[str, Any]] = {}
        self._sizes = KeySizes()
        for number, item in enumerate(self._document["tensors"]):
            self._add(number, item)
        self._specs = {key: self._specs[key] for key in sorted(self._specs, key=key_bytes)}

    def _add(self, number: int, item: Any) -> None:
        try:
            if not isinstance(item, dict):
                raise ValueError("expected an object")  # noqa: TRY004  the text is at fault
            spec = _spec(item)
            self._sizes.add((spec.key,))
            for name, kind in _OPTIONAL_FIELDS:
                _optional(item, name, kind)
            if not _DIGEST.fullmatch(item.get("digest") or "stored:00000000"):
                raise ValueError(f"the digest {_beginning(item['digest'])!r} is invalid")
            if spec.key in self._specs:
                raise ValueError(f"key {spec.key!r} is listed twice")
        except ValueError as error:
            flaw = CorruptCheckpointError(
                f"tensor {number} of the listing: {error}", path=self.location.head, code="entry"
            )
            if not self._lenient:
                raise flaw from error
            self.findings.append(Finding.of(flaw))
            return
        self._specs[spec.key] = spec
        self._items[spec.key] = item

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        return self._specs

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        kinds = ((key, self._items[key].get("kind")) for key in self._specs)
        return {key: kind if kind in KINDS else "variable" for key, kind in kinds}

    @cached_property
    def object_paths(self) -> Mapping[str, str]:
        return self._texts("object_path")

    @cached_property
    def full_names(self) -> Mapping[str, str]:
        return self._texts("full_name")

    def _texts(self, name: str) -> dict[str, str]:
        return {key: item[name] for key, item in self._items.items() if item.get(name) is not None}

    @property
    def facts(self) -> ListingFacts:
        return ListingFacts(self._document.get("path"), self._document.get("format"))

    def tensor(self, key: str) -> ListedTensor:
        item = self._items[key]
        stored = Stored(item.get("shard"), item.get("offset"), item.get("crc32c"))
        return ListedTensor(self.location.path, self._specs[key], stored, item.get("digest"))

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:  # noqa: ARG002  there is nothing to read
        """Check the listing itself; there are no bytes behind it."""
        yield Verification(findings=tuple(self.findings))


class ListingWriter(FormatWriter):
    """Writes what tensors are and what their checksums would be in a bundle, and not their values."""

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  as its base
        super().__init__(format, target)
        self._rows: dict[str, dict[str, Any]] = {}

    def _write(self, spec: TensorSpec, extents: Extents | None, chunks: Iterator[Chunk]) -> None:  # noqa: ARG002
        size, crc = chunks_checksum(spec.dtype, chunks)
        self._rows[spec.key] = {
            "key": spec.key,
            "dtype": spec.dtype_name,
            "shape": list(spec.shape),
            "nbytes": size,
            **spec.stored_document,
            "crc32c": mask(crc),
        }

    def _finish(self) -> None:
        rows = [self._rows[key] for key in sorted(self._rows, key=key_bytes)]
        floats = (spec.size for spec in self.specs.values() if spec.dtype.family in ("float", "complex"))
        total = {
            "tensors": len(rows),
            "parameters": sum(floats),
            "nbytes": sum(row["nbytes"] for row in rows),
        }
        head = {"schema": SCHEMA, "path": self.target.path, "format": self.format.name}
        file = self.staging.create(os.path.basename(self.target.path))
        file.write((json.dumps({**head, "tensors": rows, "total": total}, indent=1) + "\n").encode("ascii"))
        file.close()


class _Every:
    """The names of all types: of none is more written than its name and a checksum."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)


def _create(target: WriteTarget) -> ListingWriter:
    return ListingWriter(FORMAT, target)


def _sniff(probe: Probe) -> bool:
    document = probe.json
    return (
        document is not None
        and _is_count(document.get("schema"))  # not `true` or 1.0, which are equal to 1
        and document["schema"] == SCHEMA
        and isinstance(document.get("tensors"), list)
    )


def _open(probe: Probe, lenient: bool) -> ListingReader:
    return ListingReader(probe, lenient=lenient)


FORMAT = Format(
    "listing",
    "saved output of ckpt ls --json -l",
    Family.ARRAYS,
    (".json",),
    _sniff,
    _open,
    _create,
    frozenset(BY_NAME),
    carries=_Every(),
    has_values=False,
)
