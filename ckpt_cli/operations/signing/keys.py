"""Keys in PEM files, and what they sign and verify: Ed25519, and ECDSA with P-256 and SHA-256.

A key's id is the one of securesystemslib and in-toto: the SHA-256 of the public key in canonical JSON.
"""

from __future__ import annotations

import hashlib
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from formats.errors import CheckpointError, InaccessibleError, UnsupportedFeatureError
from formats.store.local.ownership import ownership_of

if TYPE_CHECKING:
    from formats.location import Location

ENVIRONMENT = "CKPT_SIGN_KEY"
_LARGEST = 1 << 16
"""Bytes of a key file; a key has a few hundred."""

_EXPECTED = "expected an Ed25519 or ECDSA P-256 key in PEM format"
_TO_MAKE = {
    "private": "to make a key: openssl genpkey -algorithm ed25519 -out private.pem",
    "public": "to extract it from the private key: openssl pkey -in private.pem -pubout -out public.pem",
}
"""The hint for each half of a key."""


class _Key:
    """A parsed public key, and its private key if known."""

    def __init__(self, key: Any, path: str) -> None:
        ed25519, ec = _library(path)[:2]
        self.path = path
        self._key = key
        kinds = (ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey)
        self._is_ed25519 = isinstance(key, kinds)
        curve = getattr(key, "curve", None)
        if not self._is_ed25519 and not isinstance(curve, ec.SECP256R1):
            name = f"ECDSA {curve.name}" if curve is not None else type(key).__name__.lstrip("_")
            raise UnsupportedFeatureError(
                f"this is a key of another algorithm ({name}); {_EXPECTED}", path=path
            )

    @cached_property
    def id(self) -> str:
        """The id that envelopes name the key by."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        public = self._key if not hasattr(self._key, "public_key") else self._key.public_key()
        if self._is_ed25519:
            kind = scheme = "ed25519"
            text = public.public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
        else:
            kind, scheme = "ecdsa", "ecdsa-sha2-nistp256"
            text = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        # Canonical JSON has line feeds as they are, which json.dumps would escape.
        canonical = f'{{"keytype":"{kind}","keyval":{{"public":"{text}"}},"scheme":"{scheme}"}}'
        return hashlib.sha256(canonical.encode()).hexdigest()

    def _scheme(self) -> tuple[Any, ...]:
        """Return what signing and verifying take besides the data."""
        if self._is_ed25519:
            return ()
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        return (ECDSA(SHA256()),)


class PrivateKey(_Key):
    """A key that signs."""

    def sign(self, data: bytes) -> bytes:
        signature: bytes = self._key.sign(data, *self._scheme())
        return signature


class PublicKey(_Key):
    """A key that proves signatures."""

    def is_signed(self, data: bytes, signature: bytes) -> bool:
        """Whether this key's private half signed the data."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, data, *self._scheme())
        except InvalidSignature:
            return False
        return True


def private_key(path: Location | None) -> PrivateKey:
    """Return the key in a file that only its owner can read, or in CKPT_SIGN_KEY.

    Raises CheckpointError, which never quotes the file.
    """
    if path is None:
        return PrivateKey(_loaded(os.environ.get("CKPT_SIGN_KEY", "").encode(), ENVIRONMENT), ENVIRONMENT)
    system_path = path.store.system_path(path)
    if system_path is None:
        raise UnsupportedFeatureError(f"a private key must be a local file, or in {ENVIRONMENT}", path=path)
    loaded = _loaded(_read(path), path)  # a file that is not a key needs no other mode
    found = ownership_of(system_path)
    if found is not None and found.mode & 0o077:
        error = InaccessibleError(
            f"other users can read this private key: its mode is {found.mode:o}; expected 600", path=path
        )
        error.hints = (f"to make the key private: chmod 600 {_quoted(path)}",)
        raise error
    return PrivateKey(loaded, path)


def public_key(path: Location) -> PublicKey:
    """Return the public key in a file.  Raises CheckpointError, also for a private key."""
    data = _read(path)
    load = _library(path)[2].load_pem_public_key
    if b"PRIVATE KEY-----" in data:
        hints = (f"to extract the public key: openssl pkey -in {_quoted(path)} -pubout -out public.pem",)
        raise UnsupportedFeatureError(
            "this is a private key; expected the public key", path=path, hints=hints
        )
    try:
        key = load(data)
    except Exception as error:
        raise _no_key(error, path, "public") from None
    return PublicKey(key, path)


def _loaded(data: bytes, path: str) -> Any:
    load = _library(path)[2].load_pem_private_key
    if b"BEGIN ENCRYPTED" in data or b"ENCRYPTED\n" in data:
        way = "openssl pkey -in private.pem -out decrypted.pem"
        hints = (f"to sign with this key, decrypt it first: {way}",)
        raise UnsupportedFeatureError(
            "this private key has a password, which is not supported", path=path, hints=hints
        )
    try:
        return load(data, None)
    except Exception as error:
        raise _no_key(error, path, "private") from None


def _no_key(error: Exception, path: str, half: str) -> CheckpointError:
    """Return why a file is not a key, without any of its content.

    For a file that is not a key the library raises ValueError, TypeError and errors of its own.
    """
    if isinstance(error, MemoryError):
        raise error
    return UnsupportedFeatureError(
        f"this is not a {half} key that can be read; {_EXPECTED}", path=path, hints=(_TO_MAKE[half],)
    )


def _read(path: Location) -> bytes:
    with path.open() as file:
        if file.size > _LARGEST:
            message = f"this is not a key, because it has {file.size:,} bytes; {_EXPECTED}"
            raise UnsupportedFeatureError(message, path=path, hints=tuple(_TO_MAKE.values()))
        return file.read(0, _LARGEST)


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)


def _library(path: str) -> tuple[Any, Any, Any]:
    """Return the modules of `cryptography`.  Raises UnsupportedFeatureError if it is not installed."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    except ImportError as error:
        hints = ("to install the package: pip install 'ckpt-tools[sign]'",)
        message = "signatures need the package cryptography, which is not installed"
        raise UnsupportedFeatureError(message, path=path, hints=hints) from error
    return ed25519, ec, serialization
