"""`ckpt sign`, and `ckpt verify --signature`: these are those tensors, or one line says why not."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

import ckpt_cli as api
from formats import TensorSpec, create_checkpoint
from formats.core.dtypes import dtype_named
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CKPT = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
OTHER = data_path("keras_mlp", "mlp.full.h5")
SECRET = bytes(range(32))
ARRAYS = {
    "net/bias": np.array([1.0, -2.0], np.float32),
    "net/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "step": np.array(10, np.int64),
}
PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8


def save_key(folder: Path, key: Any, name: str = "private", password: bytes | None = None) -> None:
    """Write a private key that only its owner can read, and its public key next to it."""
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    path = folder / f"{name}.pem"
    path.write_bytes(key.private_bytes(PEM, PKCS8, how))
    path.chmod(0o600)
    public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name.replace('private', 'public')}.pem").write_bytes(public)


def write(path: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    specs = [TensorSpec(key, dtype_named(str(array.dtype)), array.shape) for key, array in arrays.items()]
    with create_checkpoint(str(path), format="safetensors", specs=specs) as writer:
        for key, array in arrays.items():
            writer.write(key, array)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a directory with a key that is always the same, and a checkpoint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CKPT_SIGN_KEY", raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    save_key(tmp_path, ed25519.Ed25519PrivateKey.from_private_bytes(SECRET))
    write(tmp_path / "m.safetensors", ARRAYS)
    return tmp_path


def pae(kind: str, payload: bytes) -> bytes:
    """Return what DSSE has a key sign."""
    return b" ".join([b"DSSEv1", str(len(kind)).encode(), kind.encode(), str(len(payload)).encode(), payload])


def envelope(statement: Any, kind: str = "application/vnd.in-toto+json") -> dict[str, Any]:
    """Return an envelope that the key of `place` signed."""
    payload = statement if isinstance(statement, bytes) else json.dumps(statement).encode()
    key = ed25519.Ed25519PrivateKey.from_private_bytes(SECRET)
    signature = {"keyid": "", "sig": base64.b64encode(key.sign(pae(kind, payload))).decode()}
    return {"payload": base64.b64encode(payload).decode(), "payloadType": kind, "signatures": [signature]}


def statement_in(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.b64decode(json.loads(path.read_text())["payload"]))
    return found


VERIFY = ("--signature", "m.sig", "--public-key", "public.pem")
SIGN = ("--key", "private.pem", "-o", "m.sig")


def test_the_envelope_is_an_in_toto_statement_in_dsse(ckpt: Callable, place: Path) -> None:
    done = ckpt("sign", CKPT, *SIGN, "--json")
    identity = ckpt("show", CKPT, "--digest").out.strip()
    data = (place / "m.sig").read_bytes()
    assert (done.code, done.json) == (
        0,
        {
            "schema": 1,
            "path": CKPT,
            "output": "m.sig",
            "tensors": 12,
            "sha256": hashlib.sha256(data).hexdigest(),
            "identity": identity,
        },
    )
    document = json.loads(data)
    # The id that securesystemslib gives this public key.
    (signature,) = document["signatures"]
    public = ed25519.Ed25519PrivateKey.from_private_bytes(SECRET).public_key()
    kind, payload = document["payloadType"], base64.b64decode(document["payload"])
    public.verify(base64.b64decode(signature["sig"]), pae(kind, payload))
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
    text = f'{{"keytype":"ed25519","keyval":{{"public":"{raw}"}},"scheme":"ed25519"}}'
    assert signature["keyid"] == hashlib.sha256(text.encode()).hexdigest()
    statement = statement_in(place / "m.sig")
    assert (kind, statement["_type"]) == ("application/vnd.in-toto+json", "https://in-toto.io/Statement/v1")
    assert statement["predicateType"] == "https://github.com/ckpt-tools/ckpt/tensors/v1"
    said = statement["predicate"]
    assert (said["format"], said["source"], said["time"]) == ("tf-object", "ckpt-10", "2023-11-14T22:13:20Z")
    names = [subject["name"] for subject in statement["subject"]]
    assert names == sorted(names)
    assert "net/l1/kernel" in names
    assert "save_counter" not in names
    listed = {
        row["key"].partition("/.ATTR")[0]: row
        for row in ckpt("ls", CKPT, "--json", "--digest", "sha256").json["tensors"]
    }
    for subject in statement["subject"]:
        row = listed[subject["name"]]
        assert subject["digest"] == {"sha256": row["digest"].removeprefix("sha256:")}
        assert subject["annotations"] == {"dtype": row["dtype"], "shape": row["shape"]}
    assert ckpt("sign", CKPT, "--key", "private.pem", "-o", "again.sig").code == 0
    assert (place / "again.sig").read_bytes() == data


@pytest.mark.parametrize("name", ["m.npz", "m.safetensors", "m.pt", "m.h5", "m-1"])
def test_it_holds_for_every_format(name: str, ckpt: Callable, place: Path) -> None:
    assert ckpt("sign", CKPT, *SIGN).code == 0
    target = {"m.h5": ["--to", "hdf5"], "m-1": ["--to", "object"]}.get(name, [])
    assert ckpt("convert", CKPT, name, "--overwrite", "-q", *target).code == 0
    done = ckpt("verify", name, *VERIFY)
    assert (done.code, done.rows[0][1], len(done.rows)) == (0, "ok", 1)
    assert f"note: {name}: 12 tensors match m.sig" in done.err


def test_ecdsa(ckpt: Callable, place: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    save_key(place, key)
    assert ckpt("sign", "m.safetensors", *SIGN).code == 0
    document = json.loads((place / "m.sig").read_text())
    signed = pae(document["payloadType"], base64.b64decode(document["payload"]))
    signature = base64.b64decode(document["signatures"][0]["sig"])
    key.public_key().verify(signature, signed, ec.ECDSA(hashes.SHA256()))
    assert ckpt("verify", "m.safetensors", *VERIFY).code == 0


@pytest.mark.parametrize(
    ("change", "key", "message"),
    [
        ({"net/bias": np.array([1.0, -3.0], np.float32)}, "net/bias", "the values have digest sha256:"),
        ({"net/bias": np.array([1.0, -2.0], np.float64)}, "net/bias", "float64"),
        ({"net/bias": np.array([[1.0, -2.0]], np.float32)}, "net/bias", "[1, 2]"),
        ({"net/bias": None}, "net/bias", "missing: m.sig lists it"),
        ({"more": np.array(1, np.int64)}, "more", "m.sig"),
    ],
)
def test_each_change_is_named(
    change: dict[str, Any], key: str, message: str, ckpt: Callable, place: Path
) -> None:
    assert ckpt("sign", "m.safetensors", *SIGN).code == 0
    arrays = {name: array for name, array in {**ARRAYS, **change}.items() if array is not None}
    write(place / "other.safetensors", arrays)
    done = ckpt("verify", "other.safetensors", *VERIFY, "--json")
    (finding,) = done.json["results"][0]["findings"]
    assert (done.code, finding["code"], finding["key"]) == (1, "contract", key)
    assert message in finding["message"]
    assert "as signed" not in done.err


def test_a_name_that_looks_like_another_is_spelled_out(ckpt: Callable, place: Path) -> None:
    assert ckpt("sign", "m.safetensors", *SIGN).code == 0
    fake = {key.replace("e", "\u0435"): array for key, array in ARRAYS.items() if key != "step"}
    write(place / "other.safetensors", {**fake, "step": ARRAYS["step"]})
    done = ckpt("verify", "other.safetensors", *VERIFY)
    assert (done.code, len(done.rows)) == (1, 5)
    assert done.out.count("(spelled 'n\\\\u0435t/") == 2


def test_a_replay_for_another_model_is_one_line(ckpt: Callable, place: Path) -> None:
    assert ckpt("sign", "m.safetensors", *SIGN).code == 0
    done = ckpt("verify", OTHER, *VERIFY, "--json")
    (finding,) = done.json["results"][0]["findings"]
    assert (done.code, finding["code"], finding["file"]) == (1, "signature", "m.sig")
    assert "the signature of another checkpoint, 'm.safetensors'" in finding["message"]


def test_layout_and_map_give_the_signed_layout(ckpt: Callable, place: Path) -> None:
    assert ckpt("convert", OTHER, "w.npz", "--weights-only", "-q").code == 0
    assert ckpt("convert", OTHER, "p.safetensors", "--weights-only", "--layout", "pytorch", "-q").code == 0
    assert ckpt("sign", "w.npz", *SIGN).code == 0
    back = ("--layout", "tensorflow", "--config", OTHER)
    assert ckpt("verify", "p.safetensors", *VERIFY).code == 1
    laid = ckpt("verify", "p.safetensors", *VERIFY, *back)
    assert laid.code == 0
    assert "10 were renamed: bn.bias -> bn/beta, " in laid.err
    assert "head.weight -> head/kernel: T" in laid.err
    assert ckpt("rename", "w.npz", "r.npz", "--sub", "head=>top", "-q").code == 0
    (place / "map.tsv").write_text("top/bias\thead/bias\ntop/kernel\thead/kernel\n")
    assert ckpt("verify", "r.npz", *VERIFY).code == 1
    mapped = ckpt("verify", "r.npz", *VERIFY, "--map", "map.tsv")
    assert mapped.code == 0
    assert "2 were renamed: top/bias -> head/bias, top/kernel -> head/kernel" in mapped.err
    wrong = ckpt("verify", "r.npz", "--map", "map.tsv")
    assert (wrong.code, "--map does nothing without --signature" in wrong.err) == (2, True)


def test_a_listing_can_be_signed(ckpt: Callable, place: Path) -> None:
    (place / "m.lock").write_text(ckpt("ls", CKPT, "--json", "-l", "--digest", "sha256").out)
    assert ckpt("sign", "m.lock", *SIGN).code == 0
    assert ckpt("verify", CKPT, *VERIFY).code == 0
    (place / "m.lock").write_text(ckpt("ls", CKPT, "--json", "-l", "--digest", "crc32c").out)
    refused = ckpt("sign", "m.lock", "--key", "private.pem", "-o", "new.sig")
    assert (refused.code, "--digest sha256" in refused.err) == (3, True)
    assert not (place / "new.sig").exists()


def test_it_refuses_what_is_there_and_rehearses(ckpt: Callable, place: Path) -> None:
    tried = ckpt("sign", "m.safetensors", *SIGN, "-n", "--json")
    assert (tried.code, tried.json["sha256"], (place / "m.sig").exists()) == (0, None, False)
    assert ckpt("sign", "m.safetensors", *SIGN).code == 0
    again = ckpt("sign", "m.safetensors", *SIGN)
    assert (again.code, "--overwrite" in again.err) == (3, True)
    assert ckpt("sign", "m.safetensors", *SIGN, "--overwrite").code == 0


def test_nothing_to_sign(ckpt: Callable, place: Path) -> None:
    write(place / "none.safetensors", {"save_counter": np.array(1, np.int64)})
    done = ckpt("sign", "none.safetensors", *SIGN)
    assert (done.code, "has no tensors to sign" in done.err) == (3, True)


def test_a_damaged_checkpoint_is_not_signed(ckpt: Callable, place: Path) -> None:
    for name in ("data_flip", "entry_garbage"):
        assert ckpt("sign", data_path("corrupt", name, "ckpt"), *SIGN).code == 3
    assert not (place / "m.sig").exists()


# Keys -------------------------------------------------------------------------------


def test_the_key_may_come_from_the_environment(
    ckpt: Callable, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = ckpt("sign", "m.safetensors", "-o", "m.sig")
    assert (missing.code, "CKPT_SIGN_KEY" in missing.err) == (2, True)
    monkeypatch.setenv("CKPT_SIGN_KEY", (place / "private.pem").read_text())
    assert ckpt("sign", "m.safetensors", "-o", "m.sig").code == 0
    assert ckpt("verify", "m.safetensors", *VERIFY).code == 0
    monkeypatch.setenv("CKPT_SIGN_KEY", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
    wrong = ckpt("sign", "m.safetensors", "-o", "new.sig")
    assert (wrong.code, wrong.err.startswith("ckpt: error: CKPT_SIGN_KEY: this is not a private key")) == (
        3,
        True,
    )
    assert "c2VjcmV0" not in wrong.err


def test_others_cannot_read_the_key(ckpt: Callable, place: Path) -> None:
    for mode in (0o640, 0o604, 0o622):
        (place / "private.pem").chmod(mode)
        done = ckpt("sign", "m.safetensors", *SIGN)
        assert (done.code, f"its mode is {mode:o}; expected 600" in done.err) == (3, True)
        assert "hint: to make the key private: chmod 600 private.pem" in done.err
    (place / "private.pem").chmod(0o400)
    assert ckpt("sign", "m.safetensors", *SIGN).code == 0


def test_files_that_are_not_keys(ckpt: Callable, place: Path) -> None:
    assert ckpt("sign", "m.safetensors", *SIGN).code == 0
    save_key(place, rsa.generate_private_key(65537, 1024), "rsa-private")
    save_key(place, ec.generate_private_key(ec.SECP384R1()), "p384-private")
    save_key(place, ed25519.Ed25519PrivateKey.generate(), "locked-private", b"a word")
    (place / "random.pem").write_bytes(b"-----BEGIN PRIVATE KEY-----\nhello\n-----END PRIVATE KEY-----\n")
    (place / "empty.pem").write_bytes(b"")
    (place / "large.pem").write_bytes(b"-" * 100_000)
    for name in ("random", "empty", "large"):
        (place / f"{name}.pem").chmod(0o600)
    secrets = [(place / name).read_text().splitlines()[1] for name in os.listdir(place) if "private" in name]
    said = {}
    for name in (
        "rsa-private",
        "p384-private",
        "locked-private",
        "random",
        "empty",
        "large",
        "public",
        "nowhere",
    ):
        done = ckpt("sign", "m.safetensors", "--key", f"{name}.pem", "-o", "new.sig")
        said[name] = done.err
        assert (done.code, done.out, done.err.count("ckpt: error: ")) == (3, "", 1)
        other = ckpt("verify", "m.safetensors", "--signature", "m.sig", "--public-key", f"{name}.pem")
        assert other.code == (0 if name == "public" else 3)
        said[name] += other.err
        assert not any(secret in text for secret in secrets for text in (done.err, other.err, other.out))
    assert "another algorithm (RSAPrivateKey)" in said["rsa-private"]
    assert "hint: to make a key: openssl genpkey -algorithm ed25519 -out private.pem" in said["random"]
    assert "hint: to extract it from the private key: openssl pkey -in private.pem -pubout" in said["empty"]
    assert "another algorithm (ECDSA secp384r1)" in said["p384-private"]
    assert "has a password" in said["locked-private"]
    private = ckpt("verify", "m.safetensors", "--signature", "m.sig", "--public-key", "private.pem")
    assert (private.code, "this is a private key; expected the public key" in private.err) == (3, True)


def test_without_the_library_the_extra_is_named(
    ckpt: Callable, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ckpt("sign", "m.safetensors", *SIGN).code == 0
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    for words in (("sign", "m.safetensors", *SIGN, "--overwrite"), ("verify", "m.safetensors", *VERIFY)):
        done = ckpt(*words)
        assert (done.code, "hint: to install the package: pip install 'ckpt-tools[sign]'" in done.err) == (
            3,
            True,
        )


# Signatures that prove nothing ------------------------------------------------------


def tampered(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """Return what makes an envelope, signed with the right key, of a statement that was changed."""

    def make(good: dict[str, Any]) -> Any:
        statement = json.loads(base64.b64decode(good["payload"]))
        return envelope(change(statement) or statement)

    return make


def first(statement: dict[str, Any], **fields: Any) -> None:
    statement["subject"][0].update(fields)


HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], Any], int, str]] = {
    "empty": (lambda good: b"", 3, "not JSON"),
    "list": (lambda good: [], 3, "it needs the fields"),
    "deep": (lambda good: b"[" * 100_000, 3, "its JSON is nested too deeply"),
    "twice": (lambda good: b'{"payload": "", "payload": ""}', 3, "same name twice"),
    "base64": (lambda good: {**good, "payload": "????"}, 3, "this is not a signature file of ckpt sign"),
    "no sig": (lambda good: {**good, "signatures": [{}]}, 3, "no text in sig"),
    "many": (lambda good: {**good, "signatures": good["signatures"] * 101}, 3, "at most 100"),
    "none": (lambda good: {**good, "signatures": []}, 1, "has no signature"),
    "flipped": (
        lambda good: {**good, "payload": good["payload"][:-8] + "AAAA" + good["payload"][-4:]},
        1,
        "not signed",
    ),
    "short": (
        lambda good: {**good, "signatures": [{"sig": "AAAA"}]},
        1,
        "not signed with the key public.pem",
    ),
    "type": (lambda good: {**good, "payloadType": "text/plain"}, 1, "payload of type 'text/plain'"),
    "signed type": (lambda good: envelope(b"{}", "text/plain"), 1, "payload of type 'text/plain'"),
    "no statement": (lambda good: envelope(b"hello"), 1, "not JSON"),
    "predicate": (
        tampered(lambda s: s.update(predicateType="https://slsa.dev/provenance/v1")),
        1,
        "predicateType is",
    ),
    "older": (tampered(lambda s: s.update(_type="https://in-toto.io/Statement/v0.1")), 1, "_type is"),
    "no subject": (tampered(lambda s: s.update(subject=[])), 1, "it names no tensors"),
    "duplicate": (tampered(lambda s: s["subject"].append(s["subject"][0])), 1, "'net/bias' occurs twice"),
    "sha512": (tampered(lambda s: first(s, digest={"sha512": "0" * 128})), 1, "no sha256 digest"),
    "upper case": (tampered(lambda s: first(s, digest={"sha256": "A" * 64})), 1, "no sha256 digest"),
    "no annotations": (tampered(lambda s: first(s, annotations={})), 1, "unknown dtype"),
    "no dtype": (
        tampered(lambda s: first(s, annotations={"dtype": ["float32"], "shape": [2]})),
        1,
        "unknown dtype",
    ),
    "no shape": (
        tampered(lambda s: first(s, annotations={"dtype": "float32", "shape": [-1]})),
        1,
        "no valid shape",
    ),
    "no name": (tampered(lambda s: first(s, name=7)), 1, "a tensor has no name"),
    "escape": (tampered(lambda s: first(s, name="\x1b[31mred", annotations={})), 1, "'\\x1b[31mred'"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_signature_is_one_clear_line(case: str, ckpt: Callable, place: Path) -> None:
    make, code, message = HOSTILE[case]
    assert ckpt("sign", "m.safetensors", *SIGN).code == 0
    made = make(json.loads((place / "m.sig").read_text()))
    (place / "m.sig").write_bytes(made if isinstance(made, bytes) else json.dumps(made).encode())
    done = ckpt("verify", "m.safetensors", *VERIFY)
    assert done.code == code
    assert "as signed" not in done.err
    if code == 3:
        assert done.err.startswith("ckpt: error: m.sig: this is not a signature file of ckpt sign")
        assert message in done.err.splitlines()[0]
    else:
        head, finding = done.rows
        assert (head[1], finding[1:3], finding[4]) == ("unsigned", ["error", "signature"], "m.sig")
        assert message in finding[-1].replace("\\\\", "\\")


def test_a_huge_list_is_read_at_once(ckpt: Callable, place: Path) -> None:
    assert ckpt("sign", "m.safetensors", *SIGN).code == 0
    statement = statement_in(place / "m.sig")
    one = statement["subject"][0]
    statement["subject"] = [{**one, "name": f"net/{number}"} for number in range(50_000)]
    (place / "m.sig").write_text(json.dumps(envelope(statement)))
    done = ckpt("verify", "m.safetensors", *VERIFY)
    assert (done.code, len(done.rows)) == (1, 2)


# Python -------------------------------------------------------------------------------


def test_the_function(place: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    done = api.sign("m.safetensors", output="m.sig", key="private.pem")
    assert (done.tensors, done.output, done.path) == (3, "m.sig", "m.safetensors")
    with api.open("m.safetensors") as checkpoint:
        assert checkpoint.identity() == done.identity
    found = api.verify("m.safetensors", signature="m.sig", public_key="public.pem")
    assert (found.ok, found.notes) == (True, ("m.safetensors: 3 tensors match m.sig",))
    assert not api.verify(OTHER, signature="m.sig", public_key="public.pem").ok
    with pytest.raises(ValueError, match="--public-key"):
        api.verify("m.safetensors", signature="m.sig")
    with pytest.raises(FileExistsError):
        api.sign("m.safetensors", output="m.sig", key="private.pem")
    assert capfdbinary.readouterr() == (b"", b"")
