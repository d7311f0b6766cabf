"""Everything `ckpt` and its live side write, as a table, and what has to hold of a directory at any instant.

An operation works on the directory `run`, a fresh copy for each try:

    run/checkpoint       names ckpt-8, ckpt-9, ckpt-10, of which TensorFlow wrote all three
    run/old.*            a file of each other format, to be replaced
    run/odd-1            a name-based bundle of three shards, to be replaced by one of another number

A `View` is what a reader sees of it: for each checkpoint the digest of its content, for each other file its
bytes, and which checkpoint is the latest. After an interrupted operation, each of these is as before or as
after the whole operation; all other files have names that readers ignore.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

from ckpt_cli.cli.main import main
from formats.find.directory import Directory
from formats.find.opening import open_location
from formats.location import parse_location
from formats.model.checkpoint_files import is_leftover, is_part
from tests.support import data_path
from tests.writing import save, specimen

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.model.checkpoint_files import CheckpointLocation

GUIDE = data_path("guide_adam_legacy", "tf_ckpts")
SOURCE = os.path.join(GUIDE, "ckpt-8")
MLP = data_path("keras_mlp")
FULL = os.path.join(MLP, "mlp.full.h5")
TRAINED = os.path.join(MLP, "mlp.with_optimizer.h5")
V1 = data_path("v1_format", "plain", "model.ckpt-1")


class View(NamedTuple):
    """What readers see of a directory."""

    checkpoints: dict[str, str]
    files: dict[str, str]
    latest: str | None


def cli(*arguments: str) -> Callable[[], None]:
    """Return a run of `ckpt` in this process, in which exit codes other than 0 are exceptions."""

    def run() -> None:
        try:
            main(list(arguments))
        except SystemExit as exit_:
            if exit_.code:
                raise RuntimeError(f"ckpt exits {exit_.code}") from exit_

    return run


def save_with_manager() -> None:
    """Save with a CheckpointManager, which deletes the two oldest."""
    import ckpt_cli.runtime as tf

    checkpoint = tf.train.Checkpoint(step=tf.Variable(11), weights=tf.Variable([1.0, 2.0]))
    manager = tf.train.CheckpointManager(checkpoint, "run", max_to_keep=2)
    manager.save(checkpoint_number=11)


def save_object() -> None:
    """Save with a Checkpoint, which makes what it saved the latest."""
    import ckpt_cli.runtime as tf

    tf.train.Checkpoint(step=tf.Variable(11), weights=tf.Variable([1.0, 2.0])).save("run/saved")


def save_weights(target: str) -> Callable[[], None]:
    """Return a save of a Keras model's weights, in the format that the target's name says."""

    def run() -> None:
        import numpy as np

        import ckpt_cli.runtime as tf

        layers = [tf.keras.layers.Dense(3, input_shape=(2,), name="a"), tf.keras.layers.Dense(1, name="b")]
        model = tf.keras.Sequential(layers)
        model.set_weights([np.full(weight.shape, 0.5) for weight in model.get_weights()])
        model.save_weights(f"run/{target}")

    return run


def convert(target: str, *options: str, source: str = SOURCE) -> Callable[[], None]:
    return cli("convert", source, f"run/{target}", "--overwrite", *options)


def write_new_names() -> None:
    save("run/odd-1", {"a": specimen()["double"], "s": specimen()["strings"]}, overwrite=True, shard_size=100)


OPERATIONS: dict[str, Callable[[], None]] = {
    "fresh bundle": convert("ckpt-11"),
    "bundle over a bundle": convert("ckpt-10"),
    "bundle over one of more shards": convert("odd-1"),
    "shards over shards": write_new_names,
    "shards over one shard": convert("ckpt-10", "--shard-size", "64"),
    "another format under the name": convert("ckpt-10", "--to", "name"),
    "bundle and state file": convert("ckpt-11", "--update-state"),
    "V1": convert("old.v1", "--to", "v1"),
    "npz": convert("old.npz", "--weights-only"),
    "safetensors": convert("old.safetensors", "--weights-only"),
    "HDF5": convert("old.hdf5", "--weights-only", "--to", "hdf5"),
    "listing": convert("old.json", "--to", "listing"),
    "Keras 2 weights": convert("old.h5", source=FULL),
    "Keras 3 weights": convert("old.weights.h5", source=FULL),
    "fresh Orbax step": convert("12", "--weights-only", "--to", "orbax", "--shard-size", "40"),
    "Orbax over a tree": convert("old.orbax", "--weights-only", "--to", "orbax", "--compress", "zstd"),
    "Flax": convert("old.msgpack", "--weights-only"),
    "Keras archive": convert("old.keras", source=data_path("keras3_mlp", "mlp.keras")),
    "each checkpoint": cli("convert", GUIDE, "run", "--each", "--to", "name", "--overwrite"),
    "average": cli("average", "--last", "3", "run", "-o", "run/mean-1"),
    "rename in place": cli("rename", "--in-place", "run/ckpt-10", "--sub", "^net/=>model/"),
    "rename with links": cli("rename", "run/ckpt-8", "run/ckpt-12", "--sub", "^net/=>model/", "--link"),
    "convert with links": convert("ckpt-12", "--to", "name", "--link", source="run/ckpt-8"),
    "convert with links over a bundle": convert("ckpt-10", "--weights-only", "--link", source="run/ckpt-8"),
    "convert with links over more shards": convert("odd-1", "--link", source="run/ckpt-8"),
    "convert an archive with links": convert("ckpt-12", "--to", "name", "--link", source="run/old.npz"),
    "convert weights with links": convert("ckpt-12", "--to", "name", "--link", source="run/old.h5"),
    "convert with links over itself": convert("ckpt-10", "--to", "name", "--link", source="run/ckpt-10"),
    "extract to npz": cli("extract", SOURCE, "*kernel*", "-o", "run/old.npz", "--overwrite"),
    "extract to npy": cli("extract", SOURCE, "net/l1/kernel", "-o", "run/one.npy"),
    "extract to safetensors": cli("extract", SOURCE, "*kernel*", "-o", "run/old.safetensors", "--overwrite"),
    "extract to HDF5": cli("extract", SOURCE, "*kernel*", "-o", "run/new.h5"),
    "extract to JSON": cli("extract", SOURCE, "*kernel*", "-o", "run/old.json", "--overwrite"),
    "extract to a directory": cli("extract", SOURCE, "*kernel*", "-o", "run/parts/"),
    "state: another latest": cli("state", "run", "--set", "ckpt-9"),
    "state: mended": cli("state", "run", "--fix", "--set", "ckpt-9"),
    "state: fewer": cli("state", "run", "--keep", "1"),
    "draw the graph": cli("graph", SOURCE, "-o", "run/graph.svg"),
    "CheckpointManager": save_with_manager,
    "Checkpoint.save": save_object,
    "save_weights to a checkpoint": save_weights("ckpt-10"),
    "save_weights to HDF5": save_weights("old.h5"),
    "save_weights by objects' paths": save_weights("old.weights.h5"),
}


def prepare(directory: str) -> None:
    """Make the directory `run` that operations work on below `directory`."""
    run = os.path.join(directory, "run")
    shutil.copytree(GUIDE, run)
    save(os.path.join(run, "odd-1"), {"a": specimen()["double"], "b": specimen()["uint8"]}, shard_size=100)
    shutil.copy(V1, os.path.join(run, "old.v1"))
    for suffix, path in (
        ("h5", TRAINED),
        ("weights.h5", data_path("keras3_mlp", "mlp.weights.h5")),
        ("keras", data_path("keras3_rnn", "rnn.keras")),
        ("npz", data_path("interop", "weights.npz")),
        ("safetensors", data_path("interop", "weights.safetensors")),
        ("hdf5", data_path("interop", "weights.npz")),
        ("msgpack", data_path("orbax", "new/flax_msgpack/flax_model.msgpack")),
    ):
        shutil.copy(path, os.path.join(run, f"old.{suffix}"))
    save(os.path.join(run, "old.orbax"), {"w": specimen()["double"]}, "orbax")
    with open(os.path.join(run, "old.json"), "w", encoding="ascii") as file:
        file.write("{}")


def digest(location: CheckpointLocation) -> str:
    """Return a digest of a checkpoint's content: its keys, specs and values.

    The same bytes are looked into once.
    """
    stored = hashlib.sha256()
    for path in location.files():
        with open(path, "rb") as file:
            stored.update(f"{os.path.basename(path)} ".encode() + file.read())
    known = _DIGESTS.get(stored.digest())
    if known is None:
        known = _DIGESTS[stored.digest()] = _digest(location)
    return known


_DIGESTS: dict[bytes, str] = {}


def _digest(location: CheckpointLocation) -> str:
    found = hashlib.sha256()
    with open_location(location) as reader:
        for key, spec in reader.specs.items():
            found.update(repr((key, spec.dtype.name, spec.shape)).encode())
            tensor = reader[key]
            for chunk in tensor.chunks() if tensor.has_values else ():
                found.update(chunk)
        return f"{reader.format.name} {found.hexdigest()}"


def look(directory: str) -> View:
    """Return what readers see of a directory; a checkpoint that cannot be read is a failure."""
    found = Directory(parse_location(directory))
    checkpoints = {member.name: digest(member.location) for member in found.members}
    covered = {
        os.path.relpath(path, directory) for member in found.members for path in member.location.files()
    }
    others = {}
    for at, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if not is_leftover(name, directory=True)]
        for name in names:
            path = os.path.join(at, name)
            place = os.path.relpath(path, directory)
            if place not in covered and place != "checkpoint" and not is_leftover(name, directory=False):
                others[place] = _content(path)
    latest = found.latest
    return View(checkpoints, others, latest.name if latest else None)


def _content(path: str) -> str:
    if is_part(os.path.basename(path)):
        return "a part of a bundle"
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def check(now: View, before: View, after: View) -> None:
    """Compare what readers see with what they saw before, and with the complete result."""
    for name in now.checkpoints.keys() | before.checkpoints.keys() | after.checkpoints.keys():
        expected = {before.checkpoints.get(name), after.checkpoints.get(name)}
        assert now.checkpoints.get(name) in expected, f"{name} is neither the old nor the new"
    for name in now.files.keys() | before.files.keys() | after.files.keys():
        found = now.files.get(name)
        # A data shard without its index, or in addition to the counted ones, is not a checkpoint.
        if found != "a part of a bundle":
            assert found in {before.files.get(name), after.files.get(name)}, f"{name} is half written"
    assert now.latest in (before.latest, after.latest)
    assert now.latest is None or now.latest in now.checkpoints


def debris(directory: str) -> list[str]:
    """Return the remaining files with names of interrupted saves."""
    return [
        name
        for name in os.listdir(directory)
        if is_leftover(name, directory=os.path.isdir(os.path.join(directory, name)))
    ]
