"""Every pair of command and format, with one bit flipped in every byte of a small file.

A command that exits 0 has to have printed and written what it does of the sound file.
Of a format without checksums it may print and write other values; how often it does is
counted.  Commands run within a child process for each pair: the HDF5 library may crash.

    python -m tests.hostile.flipped [FORMAT...]
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import h5py
import numpy as np

import formats
from formats.find.registry import format_named
from tests.hostile.commands import run_command
from tests.support import digest, partitioned, strings, write_bundle
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["COMMANDS", "SPECIMENS", "Pair", "Specimen", "pairs", "size_of", "try_pair"]

W = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
TENSORS = {"w": W, "b": np.array([1, -7, 300], np.int32)}
SECONDS = 20

# {} is the damaged checkpoint, = a sound copy of it, + a path where nothing is yet.
COMMANDS = tuple(
    line.split()
    for line in """
    show {} w
    show {} w[0,:3]
    show {} w[:,:]
    show --json {} w[1:,::2]
    stats --json {}
    extract {} w -o +.npy
    extract {} w[0:2,:] -o +.npy
    extract {} w[2] b[1:] -o +.npz
    extract {} w w[:,1] -o +.json
    extract {} -o +/
    convert {} + --to tf-name
    convert {} +.npz
    convert {} +.safetensors --cast float64
    convert {} +.h5 --to hdf5
    convert = + --like {}
    convert {} + --like =
    average {} {} -o +
    rename {} + --add-prefix x/
    diff {} = --exact
    diff -q --exact = {}
    rescue {} +
    """.splitlines()
    if line.strip()
)


class Specimen(NamedTuple):
    """A small checkpoint: its format, how it is made at a path without a suffix, and its suffix."""

    name: str
    format: str
    make: Callable[[str], object]
    suffix: str = ""

    @property
    def has_checksums(self) -> bool:
        return self.format not in ("safetensors", "hdf5")


def _hdf5(path: str, **options: object) -> None:
    with h5py.File(path, "w") as file:
        for key, value in TENSORS.items():
            file.create_dataset(key, data=value, chunks=value.shape if options else None, **options)


def _partitioned(path: str) -> None:
    pieces = partitioned(W, [((0, 2), (0, -1)), ((2, 1), (0, -1))])
    write_bundle(path, {"b": TENSORS["b"], "s": strings([b"a", b""]), "w": pieces})


def _object_based(path: str) -> None:
    with tempfile.TemporaryDirectory(prefix="ckpt-flip-") as directory:
        named = os.path.join(directory, "named")
        save(named, TENSORS)
        assert run_command(["convert", named, path, "--to", "tf-object"]).code == 0


SPECIMENS = (
    Specimen("name-based", "tf-name", lambda path: save(path, TENSORS)),
    Specimen("partitioned", "tf-name", _partitioned),
    Specimen("object-based", "tf-object", _object_based),
    Specimen("v1", "tf-v1", lambda path: save(path, TENSORS, "tf-v1")),
    Specimen("npz", "npz", lambda path: np.savez(path, **TENSORS), ".npz"),
    Specimen("deflated npz", "npz", lambda path: np.savez_compressed(path, **TENSORS), ".npz"),
    Specimen("safetensors", "safetensors", lambda path: save(path, TENSORS, "safetensors"), ".safetensors"),
    Specimen("hdf5", "hdf5", _hdf5, ".h5"),
    Specimen("deflated hdf5", "hdf5", lambda path: _hdf5(path, compression="gzip", shuffle=True), ".h5"),
)


class Pair(NamedTuple):
    """One command on one specimen."""

    specimen: Specimen
    command: list[str]

    @property
    def name(self) -> str:
        return f"{self.specimen.name}: {' '.join(self.command)}"


def size_of(specimen: Specimen) -> int:
    """Return how many bytes the files of a specimen have."""
    with tempfile.TemporaryDirectory(prefix="ckpt-flip-") as directory:
        specimen.make(os.path.join(directory, "ck" + specimen.suffix))
        return sum(entry.stat().st_size for entry in os.scandir(directory))


def pairs(names: Iterable[str] = ()) -> list[Pair]:
    wanted = set(names)
    chosen = [specimen for specimen in SPECIMENS if not wanted or specimen.name in wanted]
    return [Pair(specimen, command) for specimen in chosen for command in COMMANDS]


# One try ------------------------------------------------------------------------------


def _written(path: str) -> object:
    """Return the values of what lies at a path, whatever a command made of it; None where nothing does."""
    if os.path.isdir(path):
        return {name: _written(os.path.join(path, name)) for name in sorted(os.listdir(path))}
    if path.endswith(".npy"):
        return digest(np.load(path))
    if path.endswith(".json"):
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    with formats.open_checkpoint(path) as reader:
        return {key: digest(reader[key].read()) for key, kind in reader.kinds.items() if kind != "graph"}


def _outcome(command: list[str], path: str, sound: str, new: str) -> tuple[int, str, object]:
    """Run a command; return its exit code, what it printed, and the values that it wrote."""
    places = {"{}": path, "=": sound}
    line = [places.get(word, new + word[1:] if word.startswith("+") else word) for word in command]
    code, out, _ = run_command(line)
    targets = [word.rstrip("/") for word in line if word.startswith(new)]
    return code, out, _written(targets[0]) if code == 0 and targets else None


def _clear(directory: str) -> None:
    shutil.rmtree(directory)
    os.mkdir(directory)


def _tries(pair: Pair, stride: int, first: int, workspace: str) -> Iterator[str]:
    """Yield what came of each flipped bit: right, refused, changed, or a finding."""
    specimen, command = pair
    for name in ("in", "sound", "new"):
        os.mkdir(os.path.join(workspace, name))
    path, sound = (os.path.join(workspace, name, "ck" + specimen.suffix) for name in ("in", "sound"))
    specimen.make(path)
    specimen.make(sound)
    target = os.path.join(workspace, "new", "out")
    truth = _outcome(command, path, sound, target)
    if truth[0] == 0 and command[0] == "rescue":  # it says what it could not prove
        truth = (0, "", truth[2])
    at = first
    for name in sorted(os.listdir(os.path.dirname(path))):
        file = os.path.join(os.path.dirname(path), name)
        with open(file, "rb") as opened:
            data = opened.read()
        while at < len(data):
            flipped = bytearray(data)
            flipped[at] ^= 1 << at % 8
            with open(file, "wb") as opened:
                opened.write(flipped)
            _clear(os.path.dirname(target))
            signal.alarm(SECONDS)
            yield _verdict(pair, truth, path, sound, target, f"bit {at % 8} of byte {at} of {name}")
            signal.alarm(0)
            at += stride
        at -= len(data)
        with open(file, "wb") as opened:
            opened.write(data)


def _verdict(
    pair: Pair, truth: tuple[int, str, object], path: str, sound: str, target: str, what: str
) -> str:
    try:
        code, out, values = _outcome(pair.command, path, sound, target)
    except formats.CorruptCheckpointError as error:
        if pair.command[0] == "rename":  # it copies shards with their checksums, which go on telling
            return "refused"
        return f"{pair.name}: {what}: wrote what cannot be read: {error}"
    except Exception as error:
        return f"{pair.name}: {what}: {error!r}"
    if code in (2, 3) or (code == 1 and pair.command[0] != "diff"):
        return "refused"
    if (code, values) == (truth[0], truth[2]) and (pair.command[0] == "rescue" or out == truth[1]):
        return "right"
    if not pair.specimen.has_checksums:
        return "changed"
    return f"{pair.name}: {what}: exit {code}, {out[:300]!r}, {values!r:.200}"


def try_pair(pair: Pair, stride: int = 1, first: int = 0) -> tuple[Counter[str], list[str]]:
    """Flip a bit in each `stride`-th byte from `first` on; return how often what came of it, and findings."""
    assert format_named(pair.specimen.format)
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="ckpt-flip-") as workspace:
        child = os.fork()
        if not child:
            os.close(reading)
            with os.fdopen(writing, "w", encoding="utf-8", errors="backslashreplace") as out:
                for verdict in _tries(pair, stride, first, workspace):
                    print(json.dumps(verdict), file=out, flush=True)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as lines:
            verdicts = [json.loads(line) for line in lines]
        _, status = os.waitpid(child, 0)
    if status:
        verdicts.append(f"{pair.name}: ended by {status} after {len(verdicts)} tries")
    known = ("right", "refused", "changed")
    findings = [verdict for verdict in verdicts if verdict not in known]
    return Counter(verdict for verdict in verdicts if verdict in known), findings


def main() -> int:
    total: Counter[str] = Counter()
    found: list[str] = []
    for pair in pairs(sys.argv[1:]):
        counted, findings = try_pair(pair)
        total += counted
        found += findings
        print(f"{counted.total():>7,}  {dict(counted)}  {pair.name}", flush=True)
        for finding in findings[:3]:
            print(f"    {finding}", flush=True)
    print(f"{total.total():,} executions: {dict(total)}, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
