"""Envelopes of `ckpt sign`, verified by OpenSSL and by securesystemslib, which is the reference for DSSE."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from tests.support import data_path
from tests.test_architecture import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.recipes

CKPT = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
KEYS = {"ed25519": ("ed25519",), "p256": ("EC", "-pkeyopt", "ec_paramgen_curve:P-256")}


def _openssl(place: Path, *words: str) -> int:
    return subprocess.run(("openssl", *words), cwd=place, capture_output=True, check=False).returncode


def _signed(place: Path, algorithm: str) -> dict[str, Any]:
    """Return the envelope of a checkpoint, signed with a new key that OpenSSL made."""
    words = ("genpkey", "-algorithm", *KEYS[algorithm], "-out", "private.pem")
    assert _openssl(place, *words) == 0
    (place / "private.pem").chmod(0o600)
    assert _openssl(place, "pkey", "-in", "private.pem", "-pubout", "-out", "public.pem") == 0
    words = (sys.executable, "-m", "ckpt_cli", "sign", CKPT, "--key", "private.pem", "-o", "model.sig")
    subprocess.run(words, cwd=place, env={**os.environ, "PYTHONPATH": ROOT}, check=True, capture_output=True)
    found: dict[str, Any] = json.loads((place / "model.sig").read_bytes())
    return found


@pytest.mark.parametrize("algorithm", KEYS)
def test_openssl_verifies_the_signature(tmp_path: Path, algorithm: str) -> None:
    document = _signed(tmp_path, algorithm)
    payload = base64.b64decode(document["payload"])
    kind = document["payloadType"].encode()
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    (signature,) = document["signatures"]
    (tmp_path / "signature").write_bytes(base64.b64decode(signature["sig"]))
    hashed = () if algorithm == "ed25519" else ("-digest", "sha256")
    verify = ("pkeyutl", "-verify", "-pubin", "-inkey", "public.pem", "-rawin", *hashed)
    for content, verifies in ((signed, True), (signed[:-1] + b" ", False)):
        (tmp_path / "content").write_bytes(content)
        assert (_openssl(tmp_path, *verify, "-sigfile", "signature", "-in", "content") == 0) is verifies


@pytest.mark.parametrize("algorithm", KEYS)
def test_the_reference_implementation_of_dsse_verifies_the_envelope(tmp_path: Path, algorithm: str) -> None:
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey

    document = _signed(tmp_path, algorithm)
    public: Any = load_pem_public_key((tmp_path / "public.pem").read_bytes())
    key = SSlibKey.from_crypto(public)
    # The envelope names the key by the id that securesystemslib gives it.
    assert document["signatures"][0]["keyid"] == key.keyid
    assert set(Envelope.from_dict(deepcopy(document)).verify([key], 1)) == {key.keyid}
    other = json.loads(base64.b64decode(document["payload"]))
    other["subject"][0]["digest"]["sha256"] = "0" * 64
    document["payload"] = base64.b64encode(json.dumps(other).encode()).decode()
    with pytest.raises(VerificationError):
        Envelope.from_dict(document).verify([key], 1)
