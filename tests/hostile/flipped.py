"""Every pair of command and format, with one bit flipped in every byte of a small file.

A command that exits 0 has to have printed and written what it does of the sound file.
Of a format without checksums it may print and write other values; how often it does is
counted.  Commands run within a child process for each pair: the HDF5 library may crash.
`ls` may list what is left, where a warning says that something is wrong; of npz and
`.keras` it compares no checksum, as its help says, and may list what is there.  A command that
rejects the sound file has nothing to get wrong, and is not tried on damaged ones.

    [TMPDIR=/dev/shm] python -m tests.hostile.flipped [--every N] [SPECIMEN...]

If TMPDIR is on a disk, syncing each file takes most of the time. `--every N` flips a bit in each N-th byte.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import traceback
import zipfile
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import h5py
import numpy as np

import formats
from formats.find.registry import format_named
from tests import export_files, msgpack_files, orbax_files, torch_files
from tests.hostile.budget_server import import_all
from tests.hostile.commands import run_command
from tests.support import digest, partitioned, strings, write_bundle
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["COMMANDS", "SPECIMENS", "Pair", "Specimen", "pairs", "places_of", "try_pair"]

UNPROVED_LISTS = ("npz", "keras")
"""Formats whose specs only the checksums of values protect, which `ls` does not read."""

W = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
TENSORS = {"w": W, "b": np.array([1, -7, 300], np.int32)}
SECONDS = 20

# {} is the damaged checkpoint, = a sound copy of it, + a path where nothing is yet; W and B are its tensors.
COMMANDS = tuple(
    line.split()
    for line in """
    ls --json -l {}
    show {} W
    show {} W[0,:3]
    show {} W[:,:]
    show --json {} W[1:,::2]
    stats --json {}
    extract {} W -o +.npy
    extract {} W[0:2,:] -o +.npy
    extract {} W[2] B[1:] -o +.npz
    extract {} W W[:,1] -o +.json
    extract {} -o +/
    extract {} --kind variable -o +.npz
    convert {} + --to tf-name
    convert {} + --to tf-object
    convert {} +.npz
    convert {} +.safetensors --cast float64
    convert {} +.h5 --to hdf5
    convert = + --like {}
    convert {} + --like =
    average {} {} -o +
    rename {} + --add-prefix x/
    diff {} =
    diff {} = --exact
    diff -q --exact = {}
    diff --json --by object-path {} =
    rescue {} +
    """.splitlines()
    if line.strip()
)


class Specimen(NamedTuple):
    """A small checkpoint: its format, how it is made at a path, its suffix; what its tensors are called."""

    name: str
    format: str
    make: Callable[[str], object]
    suffix: str = ""
    w: str = "w"
    b: str = "b"
    bare: str = ""
    """The one of its files that no checksum covers."""

    def has_checksums(self, file: str) -> bool:
        """Whether checksums cover a file of it."""
        return (
            self.format
            not in ("safetensors", "hdf5", "listing", "flax", "orbax", "gguf", "onnx", "tflite", "graphdef")
            and os.path.basename(file) != self.bare
        )


def _hdf5(path: str, **options: object) -> None:
    with h5py.File(path, "w") as file:
        for key, value in TENSORS.items():
            file.create_dataset(key, data=value, chunks=value.shape if options else None, **options)


def _partitioned(path: str) -> None:
    pieces = partitioned(W, [((0, 2), (0, -1)), ((2, 1), (0, -1))])
    write_bundle(path, {"b": TENSORS["b"], "s": strings([b"a", b""]), "w": pieces})


def _of_named(path: str, command: list[str]) -> str:
    """Return what a command prints of a name-based checkpoint; `=` is its path, `+` the path given."""
    with tempfile.TemporaryDirectory(prefix="ckpt-flip-") as directory:
        named = os.path.join(directory, "named")
        save(named, TENSORS)
        ended = run_command([{"=": named, "+": path}.get(word, word) for word in command])
        assert ended.code == 0, ended
        return ended.out


def _listing(path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(_of_named(path, ["ls", "--json", "-l", "="]))


def _keras(path: str, compression: int) -> None:
    weights = io.BytesIO()
    with h5py.File(weights, "w") as file:
        values = file.create_group("layers/dense/vars")
        values["0"], values["1"] = W, np.arange(4, dtype=np.float32)
    dense = {"class_name": "Dense", "config": {"name": "dense", "units": 4}}
    model = {"class_name": "Sequential", "config": {"name": "s", "layers": [dense]}}
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.5.0"}))
        archive.writestr("config.json", json.dumps(model))
        archive.writestr("model.weights.h5", weights.getvalue())


def _torch(path: str) -> None:
    """Two tensors, one in the middle of its storage, in PyTorch's zip form."""
    of = torch_files.storage("0", 14)
    value = {
        "w": torch_files.tensor(of, 1, W.shape, (4, 1)),
        "b": torch_files.tensor(torch_files.storage("1", 3, "torch.IntStorage"), 0, (3,), (1,)),
    }
    storages = {"0": bytes(4) + W.tobytes() + bytes(4), "1": TENSORS["b"].tobytes()}
    with open(path, "wb") as file:
        file.write(torch_files.zipped(value, storages))


def _distributed(path: str) -> None:
    """A distributed checkpoint: a tensor in two chunks, and one in one."""
    data, pieces = b"", []
    chunks = [(W[:2], (0, 0)), (W[2:], (2, 0)), (TENSORS["b"], (0,))]
    for chunk, offsets in chunks:
        kind = "torch.FloatStorage" if chunk.dtype == np.float32 else "torch.IntStorage"
        strides = tuple(stride // 4 for stride in np.zeros(chunk.shape, chunk.dtype).strides)
        value = torch_files.tensor(torch_files.storage("0", chunk.size, kind), 0, chunk.shape, strides)
        part = torch_files.zipped(value, {"0": chunk.tobytes()})
        pieces.append(torch_files.Piece(offsets, chunk.shape, "__0_0.distcp", len(data), len(part)))
        data += part
    tensors = {"w": (W.shape, pieces[:2]), "b": ((3,), pieces[2:])}
    dtypes = {"w": "torch.float32", "b": "torch.int32"}
    os.mkdir(path)
    with open(os.path.join(path, "__0_0.distcp"), "wb") as file:
        file.write(data)
    with open(os.path.join(path, ".metadata"), "wb") as file:
        file.write(torch_files.distributed_metadata(tensors, dtypes, {key: (key,) for key in tensors}))


def _flax(path: str) -> None:
    with open(path, "wb") as file:
        file.write(msgpack_files.packed(TENSORS))


def _export(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


KERAS = ("layers/dense/vars/0", "layers/dense/vars/1")
SPECIMENS = (
    Specimen("name-based", "tf-name", lambda path: save(path, TENSORS)),
    Specimen("partitioned", "tf-name", _partitioned),
    Specimen(
        "object-based", "tf-object", lambda path: _of_named(path, ["convert", "=", "+", "--to", "tf-object"])
    ),
    Specimen("v1", "tf-v1", lambda path: save(path, TENSORS, "tf-v1")),
    Specimen("npz", "npz", lambda path: np.savez(path, **TENSORS), ".npz"),
    Specimen("deflated npz", "npz", lambda path: np.savez_compressed(path, **TENSORS), ".npz"),
    Specimen("safetensors", "safetensors", lambda path: save(path, TENSORS, "safetensors"), ".safetensors"),
    Specimen("pytorch", "pytorch", _torch, ".pt"),
    Specimen("pytorch-dcp", "pytorch-dcp", _distributed, bare=".metadata"),
    Specimen("flax", "flax", _flax, ".msgpack"),
    Specimen("orbax", "orbax", lambda path: orbax_files.save(path, TENSORS)),
    Specimen("gguf", "gguf", lambda path: _export(path, export_files.gguf(TENSORS)), ".gguf"),
    Specimen("tflite", "tflite", lambda path: _export(path, export_files.tflite(TENSORS)), ".tflite"),
    Specimen("graphdef", "graphdef", lambda path: _export(path, export_files.graph_def(TENSORS)), ".pb"),
    Specimen("onnx", "onnx", lambda path: _export(path, export_files.onnx(TENSORS)), ".onnx"),
    Specimen("hdf5", "hdf5", _hdf5, ".h5"),
    Specimen("deflated hdf5", "hdf5", lambda path: _hdf5(path, compression="gzip", shuffle=True), ".h5"),
    Specimen("keras", "keras", lambda path: _keras(path, zipfile.ZIP_STORED), ".keras", *KERAS),
    Specimen("deflated keras", "keras", lambda path: _keras(path, zipfile.ZIP_DEFLATED), ".keras", *KERAS),
    Specimen("listing", "listing", _listing, ".json"),
)


class Pair(NamedTuple):
    """One command on one specimen."""

    specimen: Specimen
    command: list[str]

    @property
    def name(self) -> str:
        return f"{self.specimen.name}: {' '.join(self.command)}"


_UNUSED = 16
"""Zeros in a row after which a row is taken for room that nothing uses, as HDF5 leaves it, and tried less."""


def _places(directory: str) -> list[tuple[str, int]]:
    """Return the bytes to flip a bit of, as file name and offset.

    They are all bytes, except that long rows of zeros have the first sixteen and then each sixteenth.
    """
    places = []
    names = (os.path.join(folder, name) for folder, _, files in os.walk(directory) for name in files)
    for name in sorted(os.path.relpath(name, directory) for name in names):
        with open(os.path.join(directory, name), "rb") as file:
            data = file.read()
        left_out = {
            at
            for row in re.finditer(rb"\0{%d,}" % _UNUSED, data)
            for at in range(row.start() + _UNUSED, row.end())
            if (at - row.start()) % _UNUSED
        }
        places += [(name, at) for at in range(len(data)) if at not in left_out]
    return places


def places_of(specimen: Specimen) -> int:
    """Return in how many bytes of a specimen a bit is flipped."""
    with tempfile.TemporaryDirectory(prefix="ckpt-flip-") as directory:
        specimen.make(os.path.join(directory, "ck" + specimen.suffix))
        return len(_places(directory))


def pairs(names: Iterable[str] = ()) -> list[Pair]:
    wanted = set(names)
    chosen = [specimen for specimen in SPECIMENS if not wanted or specimen.name in wanted]
    return [Pair(specimen, _about(specimen, command)) for specimen in chosen for command in COMMANDS]


def _about(specimen: Specimen, command: list[str]) -> list[str]:
    """Return a command with the names of a specimen's tensors in it."""
    called = {"W": specimen.w, "B": specimen.b}
    return [called.get(word[0], word[0]) + word[1:] for word in command]


# One try ------------------------------------------------------------------------------


def _written(path: str) -> object:
    """Return the values that a command wrote to a path; None if it wrote nothing."""
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "_METADATA")):  # no step of Orbax
        return {name: _written(os.path.join(path, name)) for name in sorted(os.listdir(path))}
    if path.endswith(".npy"):
        return digest(np.load(path))
    if path.endswith(".json"):
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    with formats.open_checkpoint(path) as reader:
        return {key: digest(reader[key].read()) for key, kind in reader.kinds.items() if kind != "graph"}


class Outcome(NamedTuple):
    """How a command ended: its exit code, what it printed, the values that it wrote, what it warned of."""

    code: int
    out: str
    values: object
    warnings: str = ""


def _outcome(command: list[str], path: str, sound: str, new: str) -> Outcome:
    places = {"{}": path, "=": sound}
    line = [places.get(word, new + word[1:] if word.startswith("+") else word) for word in command]
    code, out, err = run_command(line)
    targets = [word.rstrip("/") for word in line if word.startswith(new)]
    warnings = "".join(text for text in err.splitlines() if text.startswith("warning: "))
    return Outcome(code, out, _written(targets[0]) if code == 0 and targets else None, warnings)


def _clear(directory: str) -> None:
    shutil.rmtree(directory)
    os.mkdir(directory)


def _tries(pair: Pair, stride: int, first: int, workspace: str) -> Iterator[str]:
    """Yield what came of each flipped bit: right, rejected, warned, listed, changed, or a finding."""
    specimen, command = pair
    for name in ("in", "sound", "new"):
        os.mkdir(os.path.join(workspace, name))
    path, sound = (os.path.join(workspace, name, "ck" + specimen.suffix) for name in ("in", "sound"))
    specimen.make(path)
    specimen.make(sound)
    target = os.path.join(workspace, "new", "out")
    truth = _outcome(command, path, sound, target)
    if truth.code:
        return
    directory = os.path.dirname(path)
    for name, at in _places(directory)[first::stride]:
        file = os.path.join(directory, name)
        with open(file, "rb") as opened:
            data = opened.read()
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        with open(file, "wb") as opened:
            opened.write(flipped)
        _clear(os.path.dirname(target))
        signal.alarm(SECONDS)
        yield _verdict(pair, truth, (path, sound, target), name, f"bit {at % 8} of byte {at} of {name}")
        signal.alarm(0)
        with open(file, "wb") as opened:
            opened.write(data)


def _verdict(pair: Pair, truth: Outcome, paths: tuple[str, str, str], file: str, what: str) -> str:
    name = pair.command[0]
    try:
        found = _outcome(pair.command, *paths)
    except formats.CorruptCheckpointError as error:
        return f"{pair.name}: {what}: wrote what cannot be read: {error}"
    except Exception as error:
        return f"{pair.name}: {what}: {error!r}"
    if found.code in (2, 3) or (found.code == 1 and name != "diff"):
        return "refused"
    # `rescue` prints what it could not prove.
    printed_alike = found.out == truth.out or name == "rescue"
    if (found.code, found.values) == (truth.code, truth.values) and printed_alike:
        return "right"
    if name == "ls" and found.warnings:
        return "warned"
    if name == "ls" and pair.specimen.format in UNPROVED_LISTS:
        return "listed"
    if not pair.specimen.has_checksums(file):
        return "changed"
    shown = f"{found.out[:300]!r}, {found.values!r:.200}, {found.warnings}"
    return f"{pair.name}: {what}: exit {found.code}, {shown}"


def try_pair(pair: Pair, stride: int = 1, first: int = 0) -> tuple[Counter[str], list[str]]:
    """Flip a bit in each `stride`-th byte from `first` on; return how often what came of it, and findings."""
    assert format_named(pair.specimen.format)
    import_all()  # once, rather than in each child
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="ckpt-flip-") as workspace:
        child = os.fork()
        if not child:
            os.close(reading)
            _tell(_tries(pair, stride, first, workspace), writing)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as lines:
            verdicts = [json.loads(line) for line in lines]
        _, status = os.waitpid(child, 0)
    if status:
        verdicts.append(f"{pair.name}: ended by {status} after {len(verdicts)} tries")
    known = ("right", "refused", "warned", "listed", "changed")
    findings = [verdict for verdict in verdicts if verdict not in known]
    return Counter(verdict for verdict in verdicts if verdict in known), findings


def _tell(verdicts: Iterator[str], writing: int) -> NoReturn:
    """Write verdicts, or the error that they end with, and always end this process."""
    try:
        with os.fdopen(writing, "w", encoding="utf-8", errors="backslashreplace") as out:
            try:
                for verdict in verdicts:
                    print(json.dumps(verdict), file=out, flush=True)
            except Exception:
                print(json.dumps(traceback.format_exc()), file=out)
        os._exit(0)
    finally:
        os._exit(1)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("specimens", nargs="*", metavar="SPECIMEN")
    asked = parser.parse_args()
    total: Counter[str] = Counter()
    found: list[str] = []
    for pair in pairs(asked.specimens):
        counted, findings = try_pair(pair, asked.every)
        total += counted
        found += findings
        print(f"{counted.total():>7,}  {dict(counted)}  {pair.name}", flush=True)
        for finding in findings[:3]:
            print(f"    {finding}", flush=True)
    print(f"{total.total():,} executions: {dict(total)}, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
