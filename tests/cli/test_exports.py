"""Objects in formats without objects: plain keys, and the way back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import ckpt_cli as api
import formats
from formats.find.registry import format_named
from formats.model.object_names import plain_key
from tests.support import data_path
from tests.writing import read_all, save

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.model.reader import Format, FormatReader

GUIDE = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
EXPORTS = {"npz": "x.npz", "safetensors": "x.safetensors", "pytorch": "x.pt", "hdf5": "x.h5"}
SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
COUNTER = f"save_counter{SUFFIX}"
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def slots(reader: FormatReader) -> set[tuple[str, str, str]]:
    """Return the slot variables of a graph: variable, name, optimizer."""
    graph = reader.object_graph
    assert graph is not None
    names = graph.paths
    return {(names[slot.variable], slot.name, names[slot.optimizer]) for slot in graph.slots}


def held(reader: FormatReader, form: Format) -> tuple[list[str], list[str]]:
    """Return the keys that a format holds, and the weights that it cannot hold, which are excluded."""
    out = [key for key in reader.specs if form.name == "npz" and ".." in key.split("/")]  # of a zip's names
    fits = [key for key, spec in reader.specs.items() if key != GRAPH and form.holds(spec.dtype)]
    weights = [key for key, kind in reader.kinds.items() if kind not in ("graph", "state")]
    return [key for key in fits if key not in out], [*out, *(key for key in weights if key not in fits)]


def fixtures() -> list[str]:
    """Return all intact object-based checkpoints among the fixtures."""
    root = data_path()
    found = []
    for index in sorted(Path(root).rglob("*.index")):
        path = os.path.relpath(index, root).removesuffix(".index")
        if not path.startswith("corrupt") and GRAPH.encode() in index.read_bytes():
            found.append(path)
    return found


@pytest.mark.parametrize("path", fixtures())
def test_objects_come_back_from_every_format(tmp_path: Path, path: str) -> None:
    source = data_path(path)
    for name, file in EXPORTS.items():
        with formats.open_checkpoint(source) as reader:
            keys, lost = held(reader, format_named(name))
            if not keys:
                continue
            there, back = tmp_path / file, tmp_path / f"{name}-1"
            api.convert(source, there, to=name, exclude=lost, no_verify=True)
            with formats.open_checkpoint(there) as between:
                own = between.own_keys
                assert {own.get(key, key) for key in between.specs} == {plain_key(key) for key in keys}
                kinds = {own.get(key, key): kind for key, kind in between.kinds.items()}
                assert kinds == {plain_key(key): reader.kinds[key] for key in keys}
            api.convert(there, back, to="object", no_verify=True)
            with formats.open_checkpoint(back) as returned:
                assert {*returned.specs} - {GRAPH, COUNTER} == {*keys} - {COUNTER}
                for key in keys:
                    assert returned.kinds[key] == reader.kinds[key]
                    assert returned.specs[key] == reader.specs[key]
                    mine, other = returned[key].read(), reader[key].read()
                    assert mine.tobytes() == other.tobytes() or np.array_equal(mine, other)
                if not lost:
                    assert slots(returned) == slots(reader)


@pytest.mark.parametrize("file", EXPORTS.values())
def test_keys_are_plain_unless_they_must_be_stored(
    file: str, ckpt: Callable[..., Any], tmp_path: Path
) -> None:
    to = ("--to", "hdf5") if file.endswith(".h5") else ()
    assert ckpt("convert", GUIDE, tmp_path / file, *to).code == 0
    with formats.open_checkpoint(tmp_path / file) as reader:
        kinds = {reader.own_keys.get(key, key): kind for key, kind in reader.kinds.items()}
    assert kinds == {
        "net/l1/bias": "variable",
        "net/l1/bias/.OPTIMIZER_SLOT/optimizer/m": "slot",
        "net/l1/bias/.OPTIMIZER_SLOT/optimizer/v": "slot",
        "net/l1/kernel": "variable",
        "net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m": "slot",
        "net/l1/kernel/.OPTIMIZER_SLOT/optimizer/v": "slot",
        "optimizer/beta_1": "optimizer",
        "optimizer/beta_2": "optimizer",
        "optimizer/decay": "optimizer",
        "optimizer/iter": "optimizer",
        "optimizer/learning_rate": "optimizer",
        "save_counter": "state",
        "step": "state",
    }
    stored = tmp_path / f"stored-{file}"
    assert ckpt("convert", GUIDE, stored, *to, "--keys", "stored").code == 0
    with formats.open_checkpoint(stored) as reader:
        assert dict(reader.kinds) == {key + SUFFIX: kind for key, kind in kinds.items()}
    for source in (tmp_path / file, stored):
        back, like = tmp_path / "back-7", tmp_path / "like-7"
        assert ckpt("convert", source, back, "--to", "object", "--overwrite").code == 0
        gone = ckpt("diff", GUIDE, back, "--exclude", GRAPH, "--json").json
        assert [(row["key"], row["change"]) for row in gone["entries"]] == [
            ("iterator/.ATTRIBUTES/ITERATOR_STATE", "removed")
        ]
        assert ckpt("convert", source, like, "--like", GUIDE, "--overwrite").code == 0
        assert ckpt("diff", GUIDE, like, "--exact").code == 0
        assert ckpt("diff", GUIDE, source, "--kind", "variable,slot,optimizer").code == 0


def test_extract_writes_plain_keys(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    done = ckpt("extract", GUIDE, "net/l1/kernel", "net/l1/bias[0:2]", "-o", tmp_path / "x.json")
    assert done.code == 0
    assert json.loads((tmp_path / "x.json").read_text()).keys() == {"net/l1/bias", "net/l1/kernel"}
    assert ckpt("extract", GUIDE, "*kernel*", "-o", f"{tmp_path}/x/").code == 0
    assert (tmp_path / "x" / "net" / "l1" / "kernel.npy").is_file()
    assert ckpt("extract", GUIDE, "net/*", "-o", tmp_path / "x.npz", "--keys", "stored").code == 0
    assert all(key.endswith(SUFFIX) for key in read_all(tmp_path / "x.npz"))
    assert ckpt("extract", GUIDE, "net/*", "-o", tmp_path / "x.h5").code == 0
    assert ckpt("convert", tmp_path / "x.h5", tmp_path / "y.npz").code == 0
    assert "net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m" in read_all(tmp_path / "y.npz")


def odd_graph(tmp_path: Path) -> Path:
    """Write objects in which two tensors would share a key without the suffix."""
    with formats.open_checkpoint(GUIDE) as reader:
        graph, value = reader.object_graph, reader["step" + SUFFIX].read()
    assert graph is not None
    for node in graph.nodes:
        for attribute in node.attributes:
            if attribute.checkpoint_key == COUNTER:
                attribute.checkpoint_key = "step"
    keys = ["step" + SUFFIX, "step"]
    specs = [formats.TensorSpec(key, formats.core.dtypes.BY_NAME["int32"], ()) for key in keys]
    path = tmp_path / "odd-1"
    with formats.create_checkpoint(path, format="tf-object", specs=specs, object_graph=graph) as writer:
        for key in sorted(keys):
            writer.write(key, value)
    return path


def test_two_tensors_of_one_plain_key_are_rejected_first(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    source = odd_graph(tmp_path)
    for line in (("convert", source, tmp_path / "x.npz"), ("extract", source, "-o", tmp_path / "x.npz")):
        done = ckpt(*line)
        assert done.code == 3
        assert f"'step' and 'step{SUFFIX}' would both become this key" in done.err
        assert "--keys stored" in done.err
        assert not (tmp_path / "x.npz").exists()
        assert ckpt(*line, "--keys", "stored", "-n").code == 0


def test_names_that_hdf5_cannot_hold_come_back(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    """A tensor that already had such a name is not mistaken for it."""
    arrays = {name: np.full(2, number, np.float32) for number, name in enumerate(("v", "v/Adam", "w", "w.b"))}
    save(tmp_path / "names", arrays)
    assert ckpt("convert", tmp_path / "names", tmp_path / "x.h5", "--to", "hdf5").code == 0
    assert sorted(read_all(tmp_path / "x.h5")) == ["v", "v.Adam", "w", "w.b"]
    for target in ("back.npz", "again.h5", "names-2"):
        to = ("--to", {"back.npz": "npz", "again.h5": "hdf5", "names-2": "name"}[target])
        assert ckpt("convert", tmp_path / "x.h5", tmp_path / target, *to).code == 0
        expected = {name.replace("/", ".") if to[1] == "hdf5" else name for name in arrays}
        assert set(read_all(tmp_path / target)) == expected
    assert ckpt("convert", tmp_path / "again.h5", tmp_path / "last-2", "--to", "name").code == 0
    assert ckpt("diff", tmp_path / "last-2", tmp_path / "names").code == 0
    collide = {name: np.zeros(2, np.float32) for name in ("v", "v/Adam", "v.Adam")}
    save(tmp_path / "collide", collide)
    refused = ckpt("convert", tmp_path / "collide", tmp_path / "y.h5", "--to", "hdf5")
    assert (refused.code, (tmp_path / "y.h5").exists()) == (3, False)


def test_escapes_and_optimizers_elsewhere_come_back(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    odd = data_path("containers", "odd_names")
    line = ("--kind", "variable", "--exclude", "mapped/../*")
    assert ckpt("convert", odd, tmp_path / "x.npz", *line).code == 0
    assert ckpt("convert", tmp_path / "x.npz", tmp_path / "x-1", "--to", "object").code == 0
    assert set(read_all(tmp_path / "x-1")) - {COUNTER, GRAPH} <= set(read_all(odd))
    # A scope of TensorFlow 1's that has an integer `iter` stays where it is.
    names = {"model/iter": np.array(3), "model/w": np.ones(2), "model/w/Adam": np.ones(2)}
    save(tmp_path / "names", names)
    assert ckpt("convert", tmp_path / "names", tmp_path / "n-1", "--to", "object").code == 0
    assert f"model/iter{SUFFIX}" in read_all(tmp_path / "n-1")


def test_a_listing_of_objects_holds_for_their_export(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    listing = ckpt("ls", GUIDE, "--kind", "variable,slot", "--json", "-l", "--digest", "sha256")
    (tmp_path / "model.lock").write_text(listing.out)
    for file in ("x.npz", "x.h5"):
        assert ckpt("extract", GUIDE, "--kind", "variable,slot", "-o", tmp_path / file).code == 0
        assert ckpt("verify", tmp_path / file, "--against", tmp_path / "model.lock").code == 0
    assert ckpt("extract", GUIDE, "--kind", "variable", "-o", tmp_path / "y.npz").code == 0
    assert ckpt("verify", tmp_path / "y.npz", "--against", tmp_path / "model.lock").code == 1
