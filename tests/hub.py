"""Models of transformers by their names of tensors: what it makes of them in PyTorch, and what ckpt does.

    python -m tests.hub FOLDER     writes the table of architectures, the records of the tests and the page of
                                   the documentation, by what `tests/interop/oracle_hub.py FOLDER` has found

A record has of each class the variables that the library stores, and the tensors that transformers makes of
them: name, shape, dtype, and the beginning of the SHA-256 of the bytes.  Values follow from names.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

import formats
from ckpt_cli.operations.convert.framework_layout import lay_out
from ckpt_cli.operations.convert.hub.architectures import Architecture, architectures
from ckpt_cli.operations.convert.hub.layout import HubModel
from ckpt_cli.operations.convert.requested_layout import FrameworkLayout
from formats.keras.config import snake_case
from tests import hub_page as page
from tests.interop.hub_values import values
from tests.msgpack_files import packed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "tests" / "data" / "hub"
TABLE = ROOT / "ckpt_cli" / "operations" / "convert" / "hub" / "classes.tsv"
LIBRARIES = {"tensorflow": "TensorFlow", "flax": "Flax"}
BACK = ("bert", "gpt2", "t5")
"""Architectures with a way back from PyTorch."""

BACK_TABLE = TABLE.with_name("back.tsv")

COMPUTED = re.compile(r"(embed_positions\.weights?|relative_position_index|attention_bias_idxs)$")
"""Buffers that PyTorch computes when it builds a model, and stores."""

UNUSED = {("big_bird", "flax"): re.compile(r"^bert\.pooler\.")}
"""Weights that only the PyTorch model has: PyTorch initialises them, and does not use them."""

NOT_LOADED = re.compile(r"(^final_logits_bias|\.running_mean|\.running_var)$")
"""Weights of TensorFlow's models that transformers 4.41 initialises instead of loading; ckpt keeps them."""


def records(library: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the records of a library's classes, by model_type."""
    for path in sorted((RECORDS / library).glob("*.json.gz")):
        yield path.name.removesuffix(".json.gz"), json.loads(gzip.decompress(path.read_bytes()))


def stored(library: str, record: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the variables of a class."""
    return {
        name: values(name, tuple(shape)) if dtype == "float32" else np.ones(shape, dtype)
        for name, shape, dtype in record["stored"]
    }


def write(folder: Path, library: str, record: dict[str, Any], config: dict[str, Any]) -> Path:
    """Write the file of a class as its library does, and its configuration next to it."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    arrays = stored(library, record)
    if library == "flax":
        path = folder / "flax_model.msgpack"
        path.write_bytes(packed(_nested(arrays)))
        return path
    path = folder / "tf_model.h5"
    layers: dict[str, list[str]] = {}
    for name in arrays:
        levels = name.split("/")
        layers.setdefault(levels[1] if len(levels) > 1 else "top_level_model_weights", []).append(name)
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [layer.encode() for layer in layers if layer != "top_level_model_weights"]
        file.attrs["backend"], file.attrs["keras_version"] = b"tensorflow", b"2.15.0"
        for layer, names in layers.items():
            group = file.create_group(layer)
            group.attrs["weight_names"] = [name.encode() for name in names]
            for name in names:
                group.create_dataset(name, data=arrays[name])
    return path


def _nested(arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, array in arrays.items():
        *above, last = name.split("/")
        level = tree
        for part in above:
            level = level.setdefault(part, {})
        level[last] = array
    return tree


def write_shards(folder: Path, library: str, record: dict[str, Any], config: dict[str, Any]) -> Path:
    """Write a class in two shards as transformers does, their index, and the configuration."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    arrays, weight_map = [*stored(library, record).items()], {}
    base, suffix = ("flax_model", ".msgpack") if library == "flax" else ("tf_model", ".h5")
    for number, held in enumerate((dict(arrays[::2]), dict(arrays[1::2])), 1):
        path = folder / f"{base}-{number:05d}-of-00002{suffix}"
        weight_map |= dict.fromkeys(held, path.name)
        if library == "flax":
            path.write_bytes(packed(_nested(held)))
            continue
        with h5py.File(path, "w") as file:
            for name, array in held.items():
                file[name.partition("/")[2]] = array
            file.attrs["layer_names"] = [name.partition("/")[2].encode() for name in held]
    index = folder / f"{base}{suffix}.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    return index


def laid_out(path: Path) -> dict[str, list[Any]]:
    """Return what ckpt makes of a file in PyTorch, by name: shape, dtype and digest."""
    with formats.open_checkpoint(path) as reader:
        laid = lay_out(reader, list(reader.specs), FrameworkLayout("pytorch")).reader
        return {name: [*described(laid[name].read())] for name in laid}


def described(array: np.ndarray[Any, Any]) -> tuple[list[int], str, str]:
    """Return the shape, the dtype and the digest of a tensor."""
    return list(array.shape), array.dtype.name, hashlib.sha256(array.tobytes()).hexdigest()[:16]


def differences(
    library: str, model_type: str, record: dict[str, Any], found: dict[str, list[Any]]
) -> list[str]:
    """Return in which names, shapes, dtypes and bytes what was made differs from transformers' own."""
    expected = {name: rest for name, *rest in record["tensors"]}
    out = [f"{name} is one too many" for name in found if name not in expected]
    unused = UNUSED.get((model_type, library))
    for name, (shape, dtype, digest) in expected.items():
        if name not in found:
            if not (COMPUTED.search(name) or (unused and unused.search(name))):
                out.append(f"{name} is missing")
            continue
        its_shape, its_dtype, its_digest = found[name]
        if (its_shape, its_dtype) != (shape, dtype):
            out.append(f"{name} is {its_dtype} {its_shape}, expected {dtype} {shape}")
        elif its_digest != digest and not (library == "tensorflow" and NOT_LOADED.search(name)):
            out.append(f"{name} has other values")
    return out


# Making the table, the records and the page -------------------------------------------------


def _model(library: str, model_type: str, called: str, record: dict[str, Any]) -> HubModel:
    prefix = record["prefix"]
    is_bare = not any(
        name.startswith(prefix) if library == "tensorflow" else name.split(".")[0] == prefix
        for name in record["parameters"]
    )
    its = frozenset((called.partition("+")[0],))
    none: frozenset[str] = frozenset()
    rules = architectures.__wrapped__()[model_type, library][0].rules
    architecture = Architecture(
        model_type, library, prefix, none if is_bare else its, its if is_bare else none, rules
    )
    return HubModel(architecture, *its)


def made(library: str, model: HubModel, record: dict[str, Any]) -> dict[str, list[Any]]:
    """Return what ckpt makes of the variables of a class, by name: shape, dtype and digest."""
    arrays = {name.removesuffix(":0"): array for name, array in stored(library, record).items()}
    out = {}
    for row in model.rows({name: array.shape for name, array in arrays.items()}):
        (array,) = row.steps.apply([arrays[row.old.text]])
        out[row.new.text] = [*described(np.ascontiguousarray(array).reshape(array.shape))]
    for name in list(out):
        if name.endswith(".running_var"):
            out[name.removesuffix("running_var") + "num_batches_tracked"] = [
                *described(np.zeros((), "int64"))
            ]
    return out


def main(folder: Path) -> None:
    """Write the table, the records and the page."""
    found = {
        (path.stem, library): json.loads(path.read_text())
        for library in LIBRARIES
        for path in sorted((folder / library).glob("*.json"))
    }
    # All of them for a moment, for their rules.
    TABLE.write_text("".join(f"{model_type}\t{library}\t\t\t\n" for model_type, library in found))
    rows = []
    for (model_type, library), classes in sorted(found.items()):
        good, kept = _proved(library, model_type, classes)
        rows += _rows(model_type, library, good)
        _write_record(library, model_type, kept)
    for path in sorted((folder / "google").glob("*.json")):
        _write_record("google", path.stem, json.loads(path.read_text()))
    head = "# model_type\tlibrary\tprefix of the base model\tclasses with it\tclasses without it\n"
    TABLE.write_text(head + "".join(rows))
    BACK_TABLE.write_text("".join(back_lines()))
    architectures.cache_clear()
    page.write()


def _proved(
    library: str, model_type: str, classes: dict[str, Any]
) -> tuple[dict[str, HubModel], dict[str, Any]]:
    """Return the classes that ckpt converts as transformers does, and the records of them."""
    good: dict[str, HubModel] = {}
    bad = set()
    kept = {}
    for called, record in classes.items():
        name = called.partition("+")[0]
        if "error" in record:
            continue
        model = _model(library, model_type, called, record)
        try:
            wrong = differences(library, model_type, record, made(library, model, record))
        except formats.errors.ConversionError as error:
            kept[called] = {"rejected": True, "stored": record["stored"]}
            _say(library, model_type, called, str(error))
            continue
        if wrong:
            bad.add(name)
            _say(library, model_type, called, f"{len(wrong)} differences, such as {wrong[0]}")
            continue
        good[name] = model
        kept[called] = {"stored": record["stored"], "tensors": record["tensors"]}
    good = {name: model for name, model in good.items() if name not in bad}
    return good, {called: record for called, record in kept.items() if called.partition("+")[0] in good}


def _say(*words: str) -> None:
    sys.stderr.write(" ".join(words) + "\n")


def _rows(model_type: str, library: str, good: dict[str, HubModel]) -> Iterator[str]:
    for prefix in sorted({model.architecture.prefix for model in good.values()}):
        its = {name: model.is_bare for name, model in good.items() if model.architecture.prefix == prefix}
        headed, bare = (
            ",".join(sorted(name for name in its if its[name] is is_bare)) for is_bare in (False, True)
        )
        yield f"{model_type}\t{library}\t{prefix}\t{headed}\t{bare}\n"


def back_lines() -> Iterator[str]:
    """Yield the table of variables by which PyTorch's weights come back, as the records have them."""
    yield "# library\tmodel_type\trank\tclasses, with their configurations\tname\n"
    for library in LIBRARIES:
        for model_type, classes in records(library):
            found: dict[tuple[str, int], dict[str, None]] = {}
            for called, record in classes.items() if model_type in BACK else ():
                ranks = {name.removesuffix(":0"): len(shape) for name, shape, _ in record["stored"]}
                for name, rank in ranks.items():
                    found.setdefault((_template(name, ranks, called), rank), {})[called] = None
            for (name, rank), its in found.items():
                yield f"{library}\t{model_type}\t{rank}\t{','.join(its)}\t{name}\n"


def _template(name: str, there: Collection[str], called: str) -> str:
    """Return a name without the model's scope, and without the number of a layer if all layers have it."""
    scope = snake_case("TF" + called.partition("+")[0]) + "/"
    number = re.search(r"(?:layer|block|h)(?:_\._|/)([01])/", name)
    if number is not None:
        begin, end = number.span(1)
        if name[:begin] + str(1 - int(number[1])) + name[end:] in there:
            name = f"{name[:begin]}{{n}}{name[end:]}"
    return "{model}/" + name.removeprefix(scope) if name.startswith(scope) else name


def _write_record(library: str, model_type: str, kept: dict[str, Any]) -> None:
    path = RECORDS / library / f"{model_type}.json.gz"
    path.unlink(missing_ok=True)
    if kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(json.dumps(kept).encode(), mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
