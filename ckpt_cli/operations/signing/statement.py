"""Statements of in-toto, https://in-toto.io/Statement/v1, about tensors: what `ckpt sign` signs.

    {"_type": ..., "predicateType": PREDICATE_TYPE, "predicate": {"format", "source", "time", "version"},
     "subject": [{"name": NAME, "digest": {"sha256": HEX},
                  "annotations": {"dtype": DTYPE, "shape": [...]}}, ...]}

Names, dtypes, shapes and digests are those of the identity (`formats.model.identity`), in its order.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.dtypes import BY_NAME, unmapped
from formats.core.spec import TensorSpec
from formats.core.version import VERSION
from formats.model.identity import ALGORITHM, CanonicalTensor

from .envelope import parsed_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.model.reader import FormatReader

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://github.com/ckpt-tools/ckpt/tensors/v1"
_HEX = re.compile(r"[0-9a-f]{64}")
_MOST_DIMENSIONS = 254
_UNMAPPED = unmapped("")
"""The dtype of a tensor whose type is not mapped."""


class Statement(NamedTuple):
    """The signed content: specs and digests by name, the checkpoint's name and the time."""

    specs: dict[str, TensorSpec]
    digests: dict[str, str]
    source: str
    time: str


def payload_of(reader: FormatReader, tensors: Iterable[CanonicalTensor], time: str) -> bytes:
    """Return the statement about tensors as JSON, the same bytes for the same tensors and time."""
    location = reader.location
    name = location.name.partition("?")[0] if location.store.scheme else location.name
    subject = [
        {
            "name": tensor.name,
            "digest": {ALGORITHM: tensor.digest.partition(":")[2]},
            "annotations": {"dtype": tensor.dtype, "shape": list(tensor.shape)},
        }
        for tensor in tensors
    ]
    document = {
        "_type": STATEMENT_TYPE,
        "predicate": {"format": reader.format.name, "source": name, "time": time, "version": VERSION},
        "predicateType": PREDICATE_TYPE,
        "subject": subject,
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def read_statement(payload: bytes) -> Statement:
    """Return the statement in a payload.

    Raises ValueError, with the reason, if it is not one about tensors.
    """
    document = parsed_json(payload)
    fields = document if isinstance(document, dict) else {}
    for name, expected in (("_type", STATEMENT_TYPE), ("predicateType", PREDICATE_TYPE)):
        if fields.get(name) != expected:
            raise ValueError(f"{name} is {_short(fields.get(name))}; expected {expected!r}")
    subjects, predicate = fields.get("subject"), fields.get("predicate")
    if not isinstance(subjects, list) or not subjects:
        raise ValueError("it names no tensors")
    annotation = predicate if isinstance(predicate, dict) else {}
    found = Statement({}, {}, str(annotation.get("source")), str(annotation.get("time")))
    for number, subject in enumerate(subjects):
        try:
            spec, digest = _tensor(subject)
        except ValueError as error:
            raise ValueError(f"subject {number}: {error}") from error
        if spec.key in found.specs:
            raise ValueError(f"subject {number}: {_short(spec.key)} occurs twice")
        found.specs[spec.key], found.digests[spec.key] = spec, digest
    return found


def _tensor(subject: Any) -> tuple[TensorSpec, str]:
    fields = subject if isinstance(subject, dict) else {}
    name, digest, annotations = (fields.get(field) for field in ("name", "digest", "annotations"))
    if not isinstance(name, str):
        raise ValueError("a tensor has no name")  # noqa: TRY004  the file's fault
    digest_value = digest.get(ALGORITHM) if isinstance(digest, dict) else None
    if not isinstance(digest_value, str) or not _HEX.fullmatch(digest_value):
        raise ValueError(f"{_short(name)} has no {ALGORITHM} digest")
    annotation = annotations if isinstance(annotations, dict) else {}
    dtype, shape = annotation.get("dtype", ""), annotation.get("shape")
    if dtype is not None and not (isinstance(dtype, str) and dtype in BY_NAME):
        raise ValueError(f"{_short(name)} has the unknown dtype {_short(dtype)}")
    if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS or not all(map(_is_count, shape)):
        raise ValueError(f"{_short(name)} has no valid shape")
    spec = TensorSpec(name, _UNMAPPED if dtype is None else BY_NAME[dtype], tuple(shape))
    return spec, f"{ALGORITHM}:{digest_value}"


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _short(value: Any) -> str:
    """Return how a value is spelled, its beginning where it is long, and in ASCII."""
    text = ascii(value)
    return text if len(text) <= 80 else text[:80] + "..."
