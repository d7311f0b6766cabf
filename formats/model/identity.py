r"""The identity of a checkpoint: one SHA-256 of its tensors, independent of format, location and order.

    NAME \t DTYPE \t SHAPE \t sha256:HEX \n     a line of each tensor, sorted by the bytes of the names

A name is the one that exports have: without the suffix of objects.  The dtype is TensorFlow's, empty where a
type is not mapped.  The shape is `1,5`, empty for a scalar.  The last field is the digest of the values
(`formats.model.digest`).  Names are escaped as in TSV, so no name looks like two fields.  Strings, variants
and the save counter do not count: not every format has them, and each save changes the counter.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import closing
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ..core.escape import escape
from ..core.spec import key_bytes
from ..errors import CorruptCheckpointError
from ..store.work.workers import SERIAL, Workers
from .digest import digests
from .object_names import is_save_counter, plain_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from .reader import FormatReader

ALGORITHM = "sha256"


class CanonicalTensor(NamedTuple):
    """A tensor as the identity counts it; `dtype` is None if the type is not mapped."""

    name: str
    dtype: str | None
    shape: tuple[int, ...]
    digest: str

    @property
    def line(self) -> str:
        shape = ",".join(map(str, self.shape))
        return f"{escape(self.name)}\t{self.dtype or ''}\t{shape}\t{self.digest}\n"


def check_complete(reader: FormatReader) -> None:
    """Raise CorruptCheckpointError if damage hides a tensor that counts."""
    for key, spec in reader.specs.items():
        if spec.dtype.family != "bytes" and reader.is_unread(key):
            raise reader.undecoded(key)
    for finding in reader.findings:
        if finding.severity == "error":
            raise CorruptCheckpointError(
                finding.message, path=finding.file, offset=finding.offset, code=finding.code
            )


def canonical_names(
    reader: FormatReader, renamed: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Return the names of the tensors that count, by key, sorted by the names' bytes.

    `renamed` has other keys for some of them. If two tensors would share a name, both keep their stored
    suffix.
    """
    names = {}
    for key, spec in reader.specs.items():
        name = renamed.get(key) or reader.own_keys.get(key, key)
        if spec.dtype.family != "bytes" and not is_save_counter(name, spec):
            names[key] = name
    owners = Counter(map(plain_key, names.values()))
    plain = {key: name if owners[plain_key(name)] > 1 else plain_key(name) for key, name in names.items()}
    return dict(sorted(plain.items(), key=lambda item: key_bytes(item[1])))


def canonical_tensors(
    reader: FormatReader,
    workers: Workers = SERIAL,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[CanonicalTensor]:
    """Yield the tensors that count, in the order of their names; `advance` is called with the size of each in
    bytes.

    Raises what `digests` does, and CheckpointError if the checkpoint changed meanwhile.
    """
    check_complete(reader)
    names = canonical_names(reader)
    with closing(digests(reader, names, ALGORITHM, workers)) as found:
        for key, digest in found:
            if digest is None:
                raise reader.undecoded(key)
            spec = reader.specs[key]
            advance(spec.nbytes or 0)
            yield CanonicalTensor(names[key], spec.dtype_name, spec.shape, digest)
    reader.check_unchanged()


def identity_of(tensors: Iterable[CanonicalTensor]) -> str:
    """Return the identity of tensors that come in the order of their names."""
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(tensor.line.encode())
    return f"{ALGORITHM}:{total.hexdigest()}"
