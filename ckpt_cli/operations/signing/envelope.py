"""DSSE envelopes, https://github.com/secure-systems-lab/dsse: a payload, its type, and signatures of both.

    {"payload": BASE64, "payloadType": TYPE, "signatures": [{"keyid": ID, "sig": BASE64}, ...]}

What is signed is `DSSEv1 LENGTH TYPE LENGTH PAYLOAD`.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from formats.location import Location

    from .keys import PrivateKey, PublicKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
LARGEST = 1 << 28
"""Bytes of an envelope: the statement of a million tensors."""

_MOST_SIGNATURES = 100


class Envelope(NamedTuple):
    """A payload and the signatures that it comes with."""

    payload: bytes
    payload_type: str
    signatures: tuple[bytes, ...]

    def is_signed_by(self, key: PublicKey) -> bool:
        """Whether a key made one of the signatures; the ids that they name prove nothing."""
        data = signed_bytes(self.payload_type, self.payload)
        return any(key.is_signed(data, signature) for signature in self.signatures)


def signed_bytes(payload_type: str, payload: bytes) -> bytes:
    """Return what is signed, DSSE's pre-authentication encoding."""
    kind = payload_type.encode("utf-8", "surrogatepass")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sealed(payload: bytes, key: PrivateKey) -> bytes:
    """Return the envelope of a statement, as a file has it."""
    signature = key.sign(signed_bytes(PAYLOAD_TYPE, payload))
    document = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": key.id, "sig": base64.b64encode(signature).decode()}],
    }
    return json.dumps(document).encode() + b"\n"


def read_envelope(path: Location) -> Envelope:
    """Return the envelope in a file.  Raises UnsupportedFeatureError for anything else."""
    with path.open() as file:
        if file.size > LARGEST:
            message = (
                f"the file has {file.size:,} bytes, which is too large for a signature; expected "
                f"at most {LARGEST:,}"
            )
            raise UnsupportedFeatureError(message, path=path)
        data = file.read_exactly(0, file.size)
    try:
        return _envelope(parsed_json(data))
    except ValueError as error:
        message = f"this is not a signature file of ckpt sign: {error}"
        raise UnsupportedFeatureError(message, path=path) from error


def parsed_json(data: bytes) -> Any:
    """Return the value of JSON in which no object has a name twice; ValueError for anything else."""
    try:
        return json.loads(data, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON (the error is at character {error.pos})") from None
    except UnicodeDecodeError:
        raise ValueError("it is not JSON, because it is not UTF-8") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object of its JSON has the same name twice")
    return found


def _envelope(document: Any) -> Envelope:
    fields = document if isinstance(document, dict) else {}
    payload, kind, signatures = (fields.get(name) for name in ("payload", "payloadType", "signatures"))
    if not (isinstance(payload, str) and isinstance(kind, str) and isinstance(signatures, list)):
        raise ValueError("it needs the fields payload, payloadType and signatures")  # noqa: TRY004  the file's fault
    if len(signatures) > _MOST_SIGNATURES:
        raise ValueError(f"it has {len(signatures):,} signatures; expected at most {_MOST_SIGNATURES}")
    texts = [each.get("sig") if isinstance(each, dict) else None for each in signatures]
    return Envelope(_decoded(payload), kind, tuple(map(_decoded, texts)))


def _decoded(text: Any) -> bytes:
    """Return the bytes that base64 spells, of either alphabet."""
    if not isinstance(text, str):
        raise ValueError("a signature has no text in sig")  # noqa: TRY004  the file's fault
    return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
