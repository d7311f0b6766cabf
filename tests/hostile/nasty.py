"""Checkpoints full of texts that a terminal would obey: in keys, edges, names, configurations, values.

Each function writes one to a folder, and returns what it is called.
"""

from __future__ import annotations

import io
import json
import os
import shutil
from typing import TYPE_CHECKING

import h5py
import numpy as np

from formats.wire.messages import (
    ObjectReference,
    SerializedTensor,
    SlotVariableReference,
    TrackableObject,
    TrackableObjectGraph,
)
from tests import torch_files
from tests.hostile.bombs import GRAPH
from tests.hostile.mutation import NASTY_TEXTS, pack_zip, unpack_zip
from tests.support import data_path, strings, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["BLINK", "NASTY"]

BLINK = "\x1b[5;7m"
"""An escape sequence that `ckpt` itself never prints, so tests with colour recognise it."""

TEXTS = [text for text in (*NASTY_TEXTS, f"{BLINK}blink", "\u202e\u2066\u200f\ufeffx", "k\u200bk") if text]
PLAIN = [text for text in TEXTS if not any("\ud800" <= c <= "\udfff" for c in text)]
"""Those that are UTF-8."""

FILE_NAMES = [text for text in PLAIN if not {"/", "\0"} & set(text) and len(text) < 100 and text != ".."]


def bundle(directory: Path) -> str:
    """Keys, edges, full names, slot names: all of the texts in each place."""
    texts = [text for text in TEXTS if text != "\ud800"]
    edges = [ObjectReference(node_id=number, local_name=text) for number, text in enumerate(texts, 1)]
    slots = [
        SlotVariableReference(original_variable_node_id=1, slot_name=text, slot_variable_node_id=2)
        for text in texts
    ]
    nodes = [TrackableObject(children=edges, slot_variables=slots)]
    nodes += [
        TrackableObject(
            attributes=[SerializedTensor(name="VARIABLE_VALUE", full_name=text, checkpoint_key=text)],
            children=[ObjectReference(node_id=0, local_name=text)],
        )
        for text in texts
    ]
    graph = TrackableObjectGraph(nodes=nodes).encode()
    tensors = {text.encode("utf-8", "surrogateescape"): np.float32(1) for text in texts}
    write_bundle(str(directory / "b-1"), {GRAPH.encode(): strings([graph], ()), **tensors})
    return str(directory / "b-1")


def values(directory: Path) -> str:
    """A tensor of strings."""
    held = [text.encode("utf-8", "surrogatepass") for text in TEXTS]
    write_bundle(str(directory / "b-1"), {"s": strings(held), "v": np.float32(1)})
    return str(directory / "b-1")


def npz(directory: Path) -> str:
    with open(data_path("interop", "weights.npz"), "rb") as file:
        member = next(iter(unpack_zip(file.read()).values()))
    names = [text for text in PLAIN if "\0" not in text and not text.startswith((".", "/"))]
    (directory / "a.npz").write_bytes(pack_zip([(f"{name}.npy", member) for name in names]))
    return str(directory / "a.npz")


def safetensors(directory: Path) -> str:
    row = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = {"__metadata__": {text: text for text in PLAIN}, **dict.fromkeys(PLAIN, row)}
    data = json.dumps(header).encode()
    (directory / "w.safetensors").write_bytes(len(data).to_bytes(8, "little") + data)
    return str(directory / "w.safetensors")


def torch(directory: Path) -> str:
    """Keys, keys within keys, and what is next to tensors."""
    tensor = torch_files.tensor()
    value = dict.fromkeys(TEXTS, tensor) | {"nested": {text: [tensor] for text in TEXTS}}
    value |= {f"said {number}": text for number, text in enumerate(TEXTS)}
    (directory / "w.pt").write_bytes(torch_files.zipped(value, {"0": bytes(24)}))
    return str(directory / "w.pt")


def hdf5(directory: Path) -> str:
    path = directory / "w.h5"
    with h5py.File(path, "w") as file:
        names = [text.strip("/") for text in PLAIN if "\0" not in text and ".." not in text]
        for number, name in enumerate(name for name in names if name):
            file.create_group(f"g{number}").create_dataset(name, data=1.0)
    return str(path)


def keras(directory: Path) -> str:
    """Names of layers and classes, of objects, versions and assets."""
    layers = [{"class_name": text, "config": {"name": text, "units": 3}} for text in PLAIN]
    config = json.dumps({"class_name": PLAIN[3], "config": {"name": PLAIN[4], "layers": layers}})
    held = io.BytesIO()
    with h5py.File(held, "w") as file:
        for number, text in enumerate(PLAIN):
            group = file.create_group(f"layers/l{number}/vars")
            group["0"] = 1.0
            group.attrs["name"] = text.replace("\0", "")
    metadata = json.dumps({"keras_version": BLINK, "date_saved": "\u202e"})
    members = [("metadata.json", metadata), ("config.json", config), (f"assets/{BLINK}", "")]
    packed = [(name, text.encode()) for name, text in members] + [("model.weights.h5", held.getvalue())]
    (directory / "m.keras").write_bytes(pack_zip(packed))
    return str(directory / "m.keras")


def file_names(directory: Path) -> str:
    """The files' own names, and what the state file lists."""
    for text in FILE_NAMES:
        for suffix in (".index", ".data-00000-of-00001"):
            shutil.copy(data_path("pairs", f"name_based{suffix}"), directory / f"{text}-1{suffix}")
        (directory / f"{text}.h5").write_bytes(b"nothing of the kind")
    listed = [text.replace("\\", "").replace('"', "").replace("\n", "") for text in PLAIN]
    lines = [f'all_model_checkpoint_paths: "{text}"\n' for text in listed]
    (directory / "checkpoint").write_text(f'model_checkpoint_path: "{BLINK}"\n{"".join(lines)}')
    return os.path.join(directory, f"{BLINK}blink-1")


NASTY: list[Callable[[Path], str]] = [bundle, values, npz, safetensors, torch, hdf5, keras, file_names]
