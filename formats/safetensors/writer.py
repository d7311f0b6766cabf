"""Writing safetensors: the header first, since all specs are known, then data in its order.

Within a file tensors are sorted by falling item size, then by key, as the library writes them. So each is
aligned to its elements, and the header is padded to eight bytes for that. `formats.model.sharding` names the
files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..core.spec import key_bytes
from ..errors import ConversionError
from ..model.sharding import PlannedFile, ShardWriter
from ..model.weight_map import SAFETENSORS
from ..model.writer import ANOTHER_KEY, Placement, check_text
from ..store.local.staged_file import StagedFile
from .reader import LENGTH_SIZE, LONGEST_HEADER, METADATA, SafetensorsFacts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..core.chunks import Chunk
    from ..core.region import Extents
    from ..core.spec import TensorSpec
    from ..model.reader import Format
    from ..model.writer import WriteTarget
    from ..store.ranges import Sum
    from ..store.remote.upload import Upload


_ALIGNMENT = 8


class SafetensorsWriter(ShardWriter):
    """Writes files of a header and the tensors that it names."""

    suffix = SAFETENSORS
    folder_name = "model" + SAFETENSORS
    is_resumable = True

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  as its base
        for spec in target.specs:
            _check_key(target, spec.key)
        super().__init__(format, target)

    def _plan_file(self, target: WriteTarget, name: str, specs: Sequence[TensorSpec]) -> PlannedFile:
        ordered = sorted(specs, key=lambda spec: (-(spec.dtype.itemsize or 0), key_bytes(spec.key)))
        strings = target.facts.strings if isinstance(target.facts, SafetensorsFacts) else {}
        header = _encode_header(ordered, strings)
        if len(header) > LONGEST_HEADER:
            message = f"the header has {len(header)} bytes, over the limit of {LONGEST_HEADER}"
            raise ConversionError(message, path=target.path)
        return PlannedFile(name, tuple(ordered), header)

    def _write_head(self, file: PlannedFile, staged: StagedFile | Upload) -> None:
        staged.write(len(file.head).to_bytes(LENGTH_SIZE, "little") + file.head)

    def _write(self, spec: TensorSpec, extents: Extents | None, chunks: Iterator[Chunk]) -> None:  # noqa: ARG002
        file = self._begin_file(self._file_of[spec.key])
        for chunk in chunks:
            file.write(chunk)

    def _place(self, spec: TensorSpec) -> Placement:
        name = self._file_of[spec.key].name
        file = self._begin_file(self._file_of[spec.key])
        assert isinstance(file, StagedFile)
        self._unfilled_in[name] += 1
        return Placement(file, file.reserve(spec.nbytes or 0))

    def _filled(self, spec: TensorSpec, place: Placement, extents: Extents | None, found: Sum) -> None:  # noqa: ARG002
        self._unfilled_in[self._file_of[spec.key].name] -= 1


def _encode_header(specs: list[TensorSpec], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    offset = 0
    for spec in specs:
        size = spec.nbytes or 0
        header[spec.key] = {
            "dtype": spec.dtype.safetensors or spec.dtype.name,  # one that is carried goes by its code
            "shape": list(spec.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return text.ljust(-(-len(text) // _ALIGNMENT) * _ALIGNMENT)


def _check_key(target: WriteTarget, key: str) -> None:
    """Refuse the header's own key, and what is not UTF-8."""
    if key == METADATA:
        message = "safetensors reserves this key for metadata"
        raise ConversionError(message, path=target.path, key=key, hints=ANOTHER_KEY)
    check_text(target.path, key, "as JSON requires")
