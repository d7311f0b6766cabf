"""An example of every option of every command: a command line, and what the option adds to it.

`tests/cli/test_options.py` runs each line without and with the option; both must not come to
the same.  An option that has no line here fails the tests, and so does one whose line shows
no difference: it is not tested, or it does nothing.

Lines run in a directory that `lay_out` fills.  All options of all commands are here but
`--help`, and those that `GENERAL` and `CHOOSING` give to several commands at once.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import ckpt_cli.runtime as tf
from ckpt_cli import sign
from tests.support import data_path, partitioned, shard_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GENERAL = {
    "average": "average run/ckpt-9 run/ckpt-10 -o new/mean-1",
    "completion": "completion bash --install",
    "convert": "convert run new/weights.npz --weights-only",
    "demo": "demo new",
    "diff": "diff moved other",
    "explain": "explain error.txt",
    "extract": "extract run --kind variable -o new.npz",
    "graph": "graph moved",
    "log": "log run --tag nothing",
    "ls": "ls moved '*kernel*'",
    "match": "match moved other",
    "rename": "rename run new/renamed-1 --sub net=>n",
    "report": "report moved other -o new.html",
    "rescue": "rescue moved new/saved-1",
    "show": "show moved",
    "sign": "sign moved --key private.pem -o new.sig",
    "state": "state moved",
    "stats": "stats moved",
    "verify": "verify full.h5",
}
"""Of each command a line that reads a checkpoint, or an error message, and has a note on stderr."""

_OF_ALL = {"--json": "--json", "--color": "--color always", "--quiet": "-q", "--verbose": "-v"}

_CHOOSING_LINES = {
    "ls": "ls run/ckpt-10",
    "stats": "stats run/ckpt-10",
    "log": "log run --json",
    "diff": "diff run/ckpt-9 run/ckpt-10 --all",
    "extract": "extract bert-2 -o new.npz",
    "convert": "convert bert-2 new.npz",
}

_CHOOSING = {
    "--match": "--match '*kernel*'",
    "--exclude": "--exclude '*kernel*'",
    "--dtype": "--dtype float32",
    "--kind": "--kind variable",
}

_CHANGING_LINES = {"diff": "diff bert-2 bert-2", "convert": "convert bert-2 new/c-2"}

_CHANGING = {
    "--sub": "--sub 'bert=>b'",
    "--strip-prefix": "--strip-prefix bert/",
    "--add-prefix": "--add-prefix model/",
    "--map": "--map names.tsv",
}

_CONVERT = "convert run/ckpt-10 new/c-1"
_SIGN = "sign run/ckpt-10 --key private.pem"
_SIGNED = "--signature full.sig --public-key public.pem"
_LIKE = "convert run/ckpt-9 new/c-1 --like run/ckpt-10"
_RENAME = "rename run/ckpt-10 new/r-1 --sub net=>n"

OWN = {
    "average": {
        "--output": ("average run/ckpt-9 run/ckpt-10", "-o new/mean-1"),
        "--last": ("average run -o new/mean-1", "--last 2"),
        "--verify": ("average run/ckpt-9 run/ckpt-10 -o new/mean-1 --json", "--verify none"),
        "--no-verify": ("average run/ckpt-9 run/ckpt-10 -o new/mean-1 --json", "--no-verify"),
        "--update-state": ("average run/ckpt-9 run/ckpt-10 -o new/mean-1", "--update-state"),
        "--overwrite": ("average run/ckpt-9 run/ckpt-10 -o there-1", "--overwrite"),
        "--dry-run": ("average run/ckpt-9 run/ckpt-10 -o new/mean-1", "-n"),
        "--jobs": ("average run/ckpt-9 run/ckpt-10 -o new/mean-1", "-j 7"),
        "--executor": ("average run/ckpt-9 run/ckpt-10 -o new/mean-1", "--executor threads:7"),
    },
    "completion": {
        "--install": ("completion bash", "--install"),
        "--dry-run": ("completion bash --install", "-n"),
    },
    "convert": {
        "--to": (_CONVERT, "--to name"),
        "--like": ("convert pairs/name_based new/c-1", "--like pairs/object_based"),
        "--config": ("convert weights.h5 new/model.weights.h5", "--config full.h5"),
        "--pair-by-shape": ("convert left-1 new/c-1 --like right-1", "--pair-by-shape"),
        "--partial": (f"{_LIKE} --exclude '*/bias*'", "--partial"),
        "--keep-optimizer": (_LIKE, "--keep-optimizer"),
        "--save-map": (_LIKE, "--save-map map.tsv"),
        "--layout": ("convert full.h5 new.npz --weights-only", "--layout pytorch"),
        "--keys": ("convert run/ckpt-10 new.npz", "--keys stored"),
        "--iterations": (f"{_LIKE} -n --json", "--iterations 7"),
        "--learning-rate": (f"{_LIKE} -n --json", "--learning-rate 0.5"),
        "--optimizer": ("convert blocks-1 new/b.weights.h5 --like nameless.weights.h5", "--optimizer Adam"),
        "--generation": ("convert full.h5 new/c-1", "--generation keras3"),
        "--weights-only": (_CONVERT, "--weights-only"),
        "--cast": (_CONVERT, "--cast float16"),
        "--shard-size": (_CONVERT, "--shard-size 100"),
        "--compress": ("convert run/ckpt-10 new/tree --to orbax --weights-only", "--compress zstd"),
        "--merge-slices": ("convert parts-1 new/c-1", "--merge-slices"),
        "--link": (_CONVERT, "--link"),
        "--resume": ("convert bert-2 new/bert.npz", "--resume"),
        "--verify": (f"{_CONVERT} --json", "--verify none"),
        "--no-verify": (f"{_CONVERT} --json", "--no-verify"),
        "--update-state": (_CONVERT, "--update-state"),
        "--overwrite": ("convert run/ckpt-10 there-1", "--overwrite"),
        "--dry-run": (_CONVERT, "-n"),
        "--each": ("convert run new", "--each"),
        "--jobs": (_CONVERT, "-j 7"),
        "--executor": (_CONVERT, "--executor threads:7"),
    },
    "demo": {
        "--overwrite": ("demo playground", "--overwrite"),
        "--dry-run": ("demo new", "-n"),
    },
    "diff": {
        "--config": ("diff weights.h5 full.h5 --layout pytorch", "--config full.h5"),
        "--layout": ("diff full.h5 full.h5", "--layout pytorch"),
        "--no-values": ("diff run/ckpt-9 run/ckpt-10", "--no-values"),
        "--exact": ("diff run/ckpt-10 flipped-10", "--exact"),
        "--rtol": ("diff run/ckpt-9 run/ckpt-10 --kind variable --json", "--rtol 1000"),
        "--atol": ("diff run/ckpt-9 run/ckpt-10 --kind variable --json", "--atol 1000"),
        "--stat": ("diff run/ckpt-9 run/ckpt-10", "--stat"),
        "--where": ("diff run/ckpt-9 run/ckpt-10", "--where 'kind=variable'"),
        "--sort": ("diff run/ckpt-9 run/ckpt-10", "--sort cosine"),
        "--top": ("diff run/ckpt-9 run/ckpt-10", "--top 1"),
        "--csv": ("diff run/ckpt-9 run/ckpt-10", "--csv"),
        "--all": ("diff run/ckpt-9 run/ckpt-10", "--all"),
        "--quiet": ("diff run other", "-q"),
        "--find-renames": ("diff pairs/name_based pairs/name_based_renamed", "-M"),
        "--by": ("diff pairs/object_based pairs/name_based", "--by object-path"),
        "--fail-on": ("diff run/ckpt-9 run/ckpt-10", "--fail-on added"),
        "--baseline": ("diff right-1 right-2", "--baseline result.json"),
        "--format": ("diff run/ckpt-9 run/ckpt-10", "--format gitlab"),
        "--matrix": ("diff run/ckpt-9 run/ckpt-10", "--matrix"),
        "--each": ("diff run other", "--each"),
        "--recursive": ("diff . . --each", "-R"),
        "--jobs": ("diff run/ckpt-9 run/ckpt-10", "-j 7"),
        "--executor": ("diff run/ckpt-9 run/ckpt-10", "--executor threads:7"),
    },
    "extract": {
        "--map": ("extract bert-2 bert/embeddings/LayerNorm/beta -o new.npz", "--map names.tsv"),
        "--config": ("extract weights.h5 -o new.npz --layout pytorch", "--config full.h5"),
        "--layout": ("extract full.h5 -o new.npz --kind variable", "--layout pytorch"),
        "--keys": ("extract run/ckpt-10 -o new.npz --kind variable", "--keys stored"),
        "--output": ("extract run/ckpt-10 net/l1/kernel", "-o new.npy"),
        "--cast": ("extract run/ckpt-10 net/l1/kernel -o new.npy", "--cast float16"),
        "--overwrite": ("extract run/ckpt-10 net/l1/kernel -o there.npy", "--overwrite"),
        "--dry-run": ("extract run/ckpt-10 net/l1/kernel -o new.npy", "-n"),
        "--jobs": ("extract run/ckpt-10 --kind variable -o new.safetensors", "-j 7"),
    },
    "graph": {
        "--depth": ("graph run/ckpt-10", "--depth 1"),
        "--output": ("graph run/ckpt-10", "-o new.dot"),
        "--overwrite": ("graph run/ckpt-10 -o there.dot", "--overwrite"),
        "--dry-run": ("graph run/ckpt-10 -o new.dot", "-n"),
        "--slots": ("graph run/ckpt-10 -o new.dot", "--slots"),
        "--engine": ("graph run/ckpt-10 -o new.svg", "--engine dot"),
    },
    "help": {
        "--json": ("help ls", "--json"),
        "--color": ("help nothing", "--color always"),
    },
    "log": {
        "--no-values": ("log run", "--no-values"),
        "--tag": ("log iris --json", "--tag global_step/sec"),
        "--fail-on": ("log nans", "--fail-on nan"),
        "--follow": ("log nans --fail-on nan", "--follow"),
        "--events": ("log run --json", "--events iris"),
        "--recursive": ("log run", "-R"),
        "--jobs": ("log run", "-j 7"),
    },
    "ls": {
        "--long": ("ls run/ckpt-10", "-l"),
        "--tree": ("ls run/ckpt-10", "--tree"),
        "--depth": ("ls run/ckpt-10", "--depth 1"),
        "--where": ("ls run/ckpt-10", "--where 'size>20'"),
        "--sort": ("ls run/ckpt-10", "--sort size"),
        "--top": ("ls run/ckpt-10", "--top 1"),
        "--csv": ("ls run/ckpt-10", "--csv"),
        "--reverse": ("ls run/ckpt-10", "-r"),
        "--keys": ("ls run/ckpt-10", "-1"),
        "--null": ("ls run/ckpt-10 -1", "-0"),
        "--digest": ("ls run/ckpt-10", "--digest crc32c"),
        "--exact": ("ls run/ckpt-10 net/l1/kernel --digest crc32c -v", "--exact"),
        "--jobs": ("ls run/ckpt-10 --digest sha256", "-j 7"),
        "--recursive": ("ls run", "-R"),
    },
    "match": {
        "--allow-unused": ("match run/ckpt-10 fewer", "--allow-unused"),
        "--read": ("match run/ckpt-10 run/ckpt-10", "--read"),
        "--save-map": ("match run/ckpt-10 fewer", "--save-map map.tsv"),
    },
    "rename": {
        "--sub": ("rename bert-2 new/r-2 --add-prefix x/", "--sub 'bert=>b'"),
        "--strip-prefix": ("rename bert-2 new/r-2 --add-prefix x/", "--strip-prefix bert/"),
        "--add-prefix": ("rename bert-2 new/r-2 --sub 'bert=>b'", "--add-prefix x/"),
        "--map": ("rename bert-2 new/r-2 --add-prefix x/", "--map names.tsv"),
        "--full-names": (_RENAME, "--full-names"),
        "--in-place": ("rename run/ckpt-10 --sub net=>n", "--in-place"),
        "--link": (_RENAME, "--link"),
        "--verify": (f"{_RENAME} --json", "--verify none"),
        "--no-verify": (f"{_RENAME} --json", "--no-verify"),
        "--update-state": (_RENAME, "--update-state"),
        "--overwrite": ("rename run/ckpt-10 there-1 --sub net=>n", "--overwrite"),
        "--dry-run": (_RENAME, "-n"),
        "--jobs": (_RENAME, "-j 7"),
    },
    "report": {
        "--output": ("report run/ckpt-10", "-o new.html"),
        "--match": ("report run/ckpt-10 -o new.html", "--match '*kernel*'"),
        "--open": ("report run/ckpt-10 -o new.html", "--open"),
        "--overwrite": ("report run/ckpt-10 -o there.html", "--overwrite"),
        "--dry-run": ("report run/ckpt-10 -o new.html", "-n"),
        "--jobs": ("report run/ckpt-10 -o new.html", "-j 7"),
    },
    "rescue": {
        "--sibling": ("rescue lost-10 new/s-10", "--sibling run/ckpt-9"),
        "--overwrite": ("rescue flipped-10 there-1", "--overwrite"),
        "--dry-run": ("rescue flipped-10 new/s-10", "-n"),
        "--jobs": ("rescue flipped-10 new/s-10", "-j 7"),
    },
    "show": {
        "--max-values": ("show run/ckpt-10 net/l1/kernel --json", "--max-values 1"),
        "--ignore-case": ("show run/ckpt-10 NET/L1/KERNEL", "-i"),
        "--digest": ("show run/ckpt-10", "--digest"),
        "--jobs": ("show run/ckpt-10 --digest -v", "-j 7"),
    },
    "sign": {
        "--key": ("sign run/ckpt-10 -o new.sig", "--key private.pem"),
        "--output": (_SIGN, "-o new.sig"),
        "--overwrite": (f"{_SIGN} -o there.html", "--overwrite"),
        "--dry-run": (f"{_SIGN} -o new.sig", "-n"),
        "--jobs": (f"{_SIGN} -o new.sig", "-j 7"),
    },
    "state": {
        "--set": ("state run", "--set ckpt-8"),
        "--fix": ("state moved", "--fix"),
        "--keep": ("state run", "--keep 1"),
        "--dry-run": ("state run --keep 1", "-n"),
    },
    "stats": {
        "--fail-on": ("stats pairs/name_based_nan", "--fail-on nan"),
        "--where": ("stats run/ckpt-10", "--where 'std>0.01'"),
        "--sort": ("stats run/ckpt-10", "--sort l2"),
        "--top": ("stats run/ckpt-10", "--top 1"),
        "--csv": ("stats run/ckpt-10", "--csv"),
        "--files": ("stats right-1 left-1", "--files"),
        "--format": ("stats pairs/name_based_nan --fail-on nan", "--format junit"),
        "--recursive": ("stats run", "-R"),
        "--jobs": ("stats run/ckpt-10", "-j 7"),
        "--executor": ("stats run/ckpt-10", "--executor threads:7"),
    },
    "verify": {
        "--recursive": ("verify .", "-R"),
        "--roundtrip": ("verify run/ckpt-10", "--roundtrip npz"),
        "--outputs-like": ("verify full.h5", "--outputs-like full.h5"),
        "--input": ("verify full.h5 --json --outputs-like full.h5", "--input input.npy"),
        "--trains-like": ("verify run/ckpt-10", "--trains-like run/ckpt-10"),
        "--format": ("verify flipped-10", "--format sarif"),
        "--locked": ("verify left-1 right-1", "--locked"),
        "--against": ("verify bert-2", "--against right.lock"),
        "--signature": ("verify full.h5", _SIGNED),
        "--public-key": ("verify full.h5 --signature full.sig", "--public-key public.pem"),
        "--made-from": ("verify full.h5 --json", "--made-from full.h5"),
        "--layout": (f"verify full.h5 {_SIGNED}", "--layout pytorch"),
        "--map": (f"verify full.h5 {_SIGNED}", "--map names.tsv"),
        "--config": (f"verify weights.h5 {_SIGNED} --layout pytorch", "--config full.h5"),
        "--jobs": ("verify run/ckpt-10", "-j 7"),
        "--executor": ("verify run/ckpt-10", "--executor threads:7"),
    },
}

VACUOUS = {
    ("completion", "--verbose"): "it reads no checkpoint",
    ("help", "--quiet"): "it has no notes and shows no progress",
    ("help", "--verbose"): "it reads no checkpoint",
    ("demo", "--verbose"): "it reads no checkpoint",
    ("explain", "--verbose"): "it reads no checkpoint",
    ("log", "--interval"): "it says how long --follow waits",
}
"""Wishes that are always fulfilled, and why."""


def examples() -> dict[tuple[str, str], tuple[str, str]]:
    """Return of each command and option a line without it, and what the option adds."""
    return dict(_examples())


def _examples() -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    for command, line in GENERAL.items():
        of_all = {name: text for name, text in _OF_ALL.items() if (command, name) not in VACUOUS}
        yield from (((command, name), (line, text)) for name, text in of_all.items())
    for command, line in _CHOOSING_LINES.items():
        yield from (((command, name), (line, text)) for name, text in _CHOOSING.items())
        yield (command, "--regex"), (f"{line} --match '[a-k]ern.l$'", "--regex")
        yield (command, "--ignore-case"), (f"{line} --match '*KERNEL*'", "-i")
    for command, line in _CHANGING_LINES.items():
        yield from (((command, name), (line, text)) for name, text in _CHANGING.items())
    for command, own in OWN.items():
        yield from (((command, name), lines) for name, lines in own.items())


# What the lines speak of --------------------------------------------------------------


def lay_out(directory: Path) -> None:
    """Put what the lines speak of into an empty directory."""
    run = data_path("guide_adam_legacy", "tf_ckpts")
    for name in ("run", "other", "moved"):
        shutil.copytree(run, directory / name)
    for suffix in _files_of(run, "ckpt-9"):
        shutil.copy(os.path.join(run, f"ckpt-9{suffix}"), directory / "other" / f"ckpt-10{suffix}")
    for suffix in _files_of(run, "ckpt-10"):
        for name in ("flipped-10", "lost-10", "there-1"):
            shutil.copy(os.path.join(run, f"ckpt-10{suffix}"), directory / f"{name}{suffix}")
    _flip(shard_path(str(directory / "flipped-10")))
    (directory / "lost-10.index").unlink()
    state = directory / "moved" / "checkpoint"
    state.write_text(state.read_text().replace('"ckpt-', '"/another/place/ckpt-'))
    (directory / "pairs").mkdir()
    for prefix in ("name_based", "name_based_nan", "name_based_renamed", "object_based"):
        for suffix in _files_of(data_path("pairs"), prefix):
            shutil.copy(data_path("pairs", prefix + suffix), directory / "pairs")
    shutil.copytree(data_path("estimator_iris", "models", "iris"), directory / "iris")
    for suffix in _files_of(data_path("bert_tiny"), "bert_model.ckpt-2"):
        shutil.copy(data_path("bert_tiny", f"bert_model.ckpt-2{suffix}"), directory / f"bert-2{suffix}")
    for name, there in (("full", "full.h5"), ("weights_only", "weights.h5")):
        shutil.copy(data_path("keras_mlp", f"mlp.{name}.h5"), directory / there)
    shutil.copy(data_path("keras_mlp", "mlp.input.npy"), directory / "input.npy")
    for suffix in (".index", ".data-00000-of-00001"):
        blocks = data_path("structure", "keras2_blocks", "trained", f"ckpt{suffix}")
        shutil.copy(blocks, directory / f"blocks-1{suffix}")
    nameless = data_path("structure", "keras2_blocks", "fresh", "model.weights.h5")
    shutil.copy(nameless, directory / "nameless.weights.h5")
    (directory / "playground" / "tf_ckpts").mkdir(parents=True)
    (directory / "there.dot").write_text("graph {}")
    (directory / "there.html").write_text("<title>another</title>")
    (directory / "error.txt").write_text("Key net/kernel not found in checkpoint\n")
    np.save(directory / "there.npy", np.zeros(3))
    _write_small(directory)
    _write_signature(directory)


def _write_signature(directory: Path) -> None:
    """Write a key that only its owner can read, its public key, and what it signed."""
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    (directory / "private.pem").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    (directory / "private.pem").chmod(0o600)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (directory / "public.pem").write_bytes(public)
    sign(directory / "full.h5", output=directory / "full.sig", key=directory / "private.pem")


def _files_of(directory: str, prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in os.listdir(directory) if name.startswith(f"{prefix}.")]


def _flip(path: str) -> None:
    """Change the last byte of a file, which belongs to a tensor's value."""
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes((last ^ 1,)))


def _write_small(directory: Path) -> None:
    matrix, vector = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float32)
    write_bundle(str(directory / "left-1"), {"a/bias": vector, "a/kernel": matrix})
    write_bundle(str(directory / "right-1"), {"b/bias": vector, "b/kernel": matrix})
    (directory / "nans").mkdir()
    write_bundle(str(directory / "nans" / "nan-1"), {"w": np.array([np.nan, 1], np.float32)})
    write_bundle(str(directory / "nans" / "nan-2"), {"w": vector})
    pieces = [((0, 1), (0, -1)), ((1, 1), (0, -1))]
    write_bundle(str(directory / "parts-1"), {"w": partitioned(matrix, pieces)})
    tf.train.Checkpoint(step=tf.Variable(1)).save(directory / "fewer" / "ckpt")
    write_bundle(str(directory / "right-2"), {"b/bias": vector})
    gone = {"key": "b/kernel", "change": "removed", "left": {"dtype": "float32", "shape": [2, 3]}}
    result = {"schema": 1, "entries": [{**gone, "right": None, "max_abs": None, "differing": None}]}
    (directory / "result.json").write_text(json.dumps(result))
    row = {"key": "b/bias", "dtype": "float32", "shape": [3], "digest": "crc32c:00000000"}
    (directory / "right.lock").write_text(json.dumps({"schema": 1, "tensors": [row]}))
    (directory / "names.tsv").write_text("bert/embeddings/LayerNorm/beta\tbeta\n")
