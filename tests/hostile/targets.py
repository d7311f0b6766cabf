"""Targets of the fuzzer: each parser with its seeds, its way of mutating, and the errors that it may raise.

`Target.run` takes one mutated input and returns how it ended: `read`, `damaged` (a typed error for a part) or
`refused` (a typed error for all). Everything else is a finding: another exception, a crash, or seconds where
milliseconds are expected. If a parser has an inverse, `run` checks that the two agree.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import tempfile
import zipfile
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import formats
from ckpt_cli.operations.look.listing import Tensors
from formats.core import dtypes
from formats.core.npy import decode_header
from formats.core.spec import TensorSpec, key_bytes
from formats.core.words import FirstNames
from formats.h5.native.messages import UnfamiliarError
from formats.h5.native.structure import FileStructure
from formats.h5.native.superblock import Superblock
from formats.model.object_graph import ObjectGraph
from formats.tf.bundle import payload
from formats.tf.bundle.slices import decode_slice_key, slice_key
from formats.tf.graph.object_kinds import object_kinds
from formats.tf.run.state_file import StateFile, looks_like_state_file
from formats.torch.dcp_metadata import decode as decode_distributed
from formats.torch.encoding import WholeStorage, encode
from formats.torch.keys import tensors_of, values_of
from formats.torch.objects import GLOBALS, storage_of
from formats.torch.optimizer import optimizers_in
from formats.torch.pickle import Machine
from formats.torch.structure import NestedStructure as TorchStructure
from formats.wire import ordered_code
from formats.wire.coding import decode_varint, encode_varint
from formats.wire.compression import compress, decompress
from formats.wire.jsontext import parse_object
from formats.wire.messages import BundleEntryProto, BundleHeaderProto, SavedTensorSlices, TrackableObjectGraph
from formats.wire.sstable import Table, decode_block, encode_block
from tests import torch_files
from tests.hostile import budget_server, commands, mutation, pickle_programs, run_files, tree_files
from tests.matching import match_graphs
from tests.support import BUNDLES, data_path, recorded, strings, variants

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.hostile.mutation import Mutate

__all__ = ["TARGETS", "Target", "copy_shards", "outcome"]

READ, DAMAGED, REFUSED = "read", "damaged", "refused"
LARGEST_SEED = 40_000
SHARD = "model_00000.weights.h5"
CHUNKS = "__0_0.distcp"


class Target(NamedTuple):
    """One parser.  `run(input, workspace)` may write to the folder `workspace`; `library` may crash."""

    name: str
    seeds: Callable[[], list[bytes]]
    mutate: Mutate
    run: Callable[[bytes, str], str]
    library: bool = False

    def case(self, dice: random.Random) -> bytes:
        """Return one mutated input."""
        return self.mutate(dice, dice.choice(_seeds_of(self.seeds)))


@cache
def _seeds_of(seeds: Callable[[], list[bytes]]) -> list[bytes]:
    found = seeds()
    assert found
    return found


def load(path: str) -> bytes:
    with open(data_path(path), "rb") as file:
        return file.read()


def _exports(folder: str, suffix: str = "") -> list[bytes]:
    """Return the small samples of exported models."""
    names = sorted(os.listdir(data_path("exports", folder)))
    paths = [os.path.join("exports", folder, name) for name in names if name.endswith(suffix or f".{folder}")]
    return [load(path) for path in paths]


def _explains(error: Exception) -> None:
    assert str(error), f"{type(error).__name__} without a word"


def outcome(path: str) -> str:
    """Open a checkpoint, list, describe, read and verify it; return what came of it."""
    try:
        with formats.open_checkpoint(path, lenient=True) as reader:
            assert len(reader.kinds) == len(reader.specs)
            assert isinstance(reader.facts.document(), dict)
            assert set(reader.object_paths) | set(reader.full_names) <= set(reader.specs)
            damaged = 0
            for key, spec in reader.specs.items():
                assert spec.size >= 0
                try:
                    value = reader[key].read()
                except formats.CheckpointError as error:
                    _explains(error)
                    damaged += 1
                else:
                    assert value.shape == spec.shape
            findings = sum(len(step.findings) for step in reader.verify())
    except formats.CheckpointError as error:
        _explains(error)
        return REFUSED
    return DAMAGED if damaged or findings else READ


def opens_strictly(path: str) -> None:
    """Open a checkpoint as a command does that does not forgive."""
    try:
        with formats.open_checkpoint(path) as reader:
            list(reader.specs)
    except formats.CheckpointError as error:
        _explains(error)


# Bytes ------------------------------------------------------------------------------


def _values(parse: Callable[[bytes], Any]) -> Callable[[bytes, str], str]:
    """Return a `run` of a function that says ValueError to what it cannot parse."""

    def run(data: bytes, workspace: str) -> str:
        try:
            parse(data)
        except ValueError as error:
            _explains(error)
            return REFUSED
        return READ

    return run


def _ordered(data: bytes) -> None:
    number, position = ordered_code.decode_num(data, 0)
    assert ordered_code.encode_num(number) == data[:position]
    text, position = ordered_code.decode_str(data, position)
    name, extents = decode_slice_key(data)
    assert (name, slice_key(name, extents)) == (text, data)


def _varint(data: bytes) -> None:
    value, position = decode_varint(data, 0)
    assert 0 <= value < 1 << 64
    assert decode_varint(encode_varint(value), 0)[0] == value
    assert position <= 10


def _block(data: bytes) -> None:
    entries = decode_block(data)
    assert sum(len(key) + len(value) for key, value in entries) < 64 * len(data) + (1 << 21)
    assert decode_block(encode_block(entries)) == entries


def _snappy(data: bytes) -> None:
    content = decompress(data)
    assert decompress(compress(content)) == content


def _table(data: bytes, workspace: str) -> str:
    try:
        table = Table(lambda offset, size: data[offset : offset + size], len(data), "fuzzed")
        entries = list(table)
        for key, _ in entries[:3]:
            table.get(key)
    except formats.CorruptCheckpointError:
        return REFUSED
    return READ


def _messages(data: bytes) -> None:
    known = []
    for kind in (BundleEntryProto, BundleHeaderProto, TrackableObjectGraph, SavedTensorSlices):
        try:
            known.append(kind.decode(data))
        except ValueError as error:
            _explains(error)
    for message in known:
        assert type(message).decode(message.encode()) == message
        assert message.replace() == message
    if not known:
        raise ValueError("no message at all")


def _graph(data: bytes) -> None:
    graph = ObjectGraph.decode(data)
    whole = _object_based()
    assert list(graph.flaws(whole)) is not None
    assert set(graph.paths) <= set(range(len(graph.nodes)))
    assert set(object_kinds(graph, whole)) == set(whole)
    graph.mark_checkpoint_values()
    assert ObjectGraph.decode(graph.encode()).nodes == graph.nodes
    for matching, target in (
        match_graphs(graph, _object_graph()),
        match_graphs(_object_graph(), graph),
    ):
        assert matching
        assert target


_MOST_OF_ATTRIBUTE = 16 << 20
"""Bytes of strings that are read of an attribute: many may be said to be one and the same."""


def _structure(data: bytes, workspace: str) -> str:
    """Walk an HDF5 file's groups without the library, which is to have what is out of the ordinary."""
    superblock = Superblock.find(data[:4096])
    ended = READ
    if superblock is None:
        return REFUSED
    try:
        structure = FileStructure(lambda offset, size: data[offset : offset + size], len(data), superblock)
        left = list(structure.links(structure.root).values())
    except UnfamiliarError:
        return REFUSED
    seen: set[int] = set()
    while left:
        address = left.pop().address
        if address is None or address in seen:
            continue
        seen.add(address)
        try:
            found = structure.object(address)
            for name in found.attributes:
                assert sum(map(len, structure.strings(found, name) or ())) <= _MOST_OF_ATTRIBUTE
            if found.is_group:
                left += structure.links(found).values()
            else:
                found.outline()
        except (UnfamiliarError, ValueError):
            ended = DAMAGED
    return ended


def _payload(data: bytes) -> None:
    count = data[0] % 8 if data else 0
    raw = data[1:]

    def read(offset: int, size: int) -> bytes:
        assert 0 <= offset <= offset + size <= len(raw)
        return raw[offset : offset + size]

    for dtype in (dtypes.STRING, dtypes.VARIANT):
        for find in (payload.checksum, payload.elements):
            try:
                find(read, dtype, count, len(raw))
            except ValueError as error:
                _explains(error)
        list(payload.ElementStream(read, dtype, count, len(raw)))


def _state(data: bytes) -> None:
    looks_like_state_file(data)
    state = StateFile.parse(data)
    assert StateFile.parse(state.text()).paths == state.paths


def _json(data: bytes) -> None:
    assert isinstance(parse_object(data), dict)


# Files ------------------------------------------------------------------------------


def _file(name: str, data: bytes, workspace: str) -> str:
    path = os.path.join(workspace, name)
    with open(path, "wb") as file:
        file.write(data)
    opens_strictly(path)
    return outcome(path)


def _bundle(data: bytes, workspace: str) -> str:
    """Open an index next to the data shards that it had; its first byte says whose they are."""
    directory = os.path.join(workspace, str(data[0]))
    if not os.path.isdir(directory):
        os.mkdir(directory)
        copy_shards(data[0], directory)
    return _file(os.path.join(directory, "b.index"), data[1:], directory)


def copy_shards(number: int, directory: str) -> None:
    """Copy the data shards of the bundle of this number, which a case of an index names first."""
    for shard in _bundles()[number % len(_bundles())].shards:
        shutil.copy(shard, os.path.join(directory, "b" + shard[shard.rindex(".data-") :]))


def _weight_map(data: bytes, workspace: str) -> str:
    """The map of sharded Keras weights, next to the one shard that there is."""
    shard = os.path.join(workspace, SHARD)
    if not os.path.exists(shard):
        shutil.copy(data_path("interop", "weights.weights.h5"), shard)
    return _file("model.weights.json", data, workspace)


def _entry_value(dice: random.Random, data: bytes) -> bytes:
    return mutation.mutate_message(dice, data)


def _mutate_bundle(dice: random.Random, data: bytes) -> bytes:
    return data[:1] + _mutate_index(dice, data[1:])


def _mutate_index(dice: random.Random, data: bytes) -> bytes:
    if dice.random() < 0.1:
        return mutation.mutate_table(dice, data)
    entries = mutation.mutate_entries(dice, mutation.unpack_table(data), _entry_value)
    return mutation.pack_table(dice, entries)


def _mutate_npz(dice: random.Random, data: bytes) -> bytes:
    return mutation.mutate_zip(dice, data, _mutate_npy)


def _mutate_npy(dice: random.Random, data: bytes) -> bytes:
    if dice.random() < 0.5:
        size = 10 + int.from_bytes(data[8:10], "little")
        return mutation.mutate_text(dice, data[:size]) + data[size:]
    return mutation.mutate_bytes(dice, data)


def _mutate_keras(dice: random.Random, data: bytes) -> bytes:
    def member(dice: random.Random, content: bytes) -> bytes:
        if content.startswith(b"\x89HDF"):
            return mutation.mutate_h5(dice, content)
        return mutation.mutate_json(dice, content) if content[:1] in b"{" else content

    return mutation.mutate_zip(dice, data, member)


def _mutate_safetensors(dice: random.Random, data: bytes) -> bytes:
    if dice.random() < 0.15:
        return mutation.mutate_bytes(dice, data)
    if data.startswith(b"{"):  # the index of a sharded one
        return mutation.mutate_json(dice, data)
    size = int.from_bytes(data[:8], "little")
    header = mutation.mutate_json(dice, data[8 : 8 + size])
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def _mutate_pytorch(dice: random.Random, data: bytes) -> bytes:
    def member(dice: random.Random, content: bytes) -> bytes:
        is_pickle = content.startswith(b"\x80")
        return (mutation.mutate_pickle if is_pickle else mutation.mutate_bytes)(dice, content)

    if data.startswith(b"PK"):
        return mutation.mutate_zip(dice, data, member)
    return mutation.mutate_bytes(dice, data)


def _pickle(data: bytes) -> None:
    """Go through a pickle, and through what it made."""
    made = Machine(data, GLOBALS, storage_of).run()
    values_of(made)
    views = tensors_of(made)
    for key, view in views.items():
        key_bytes(key)
        assert len(view.shape) == len(view.strides)
    structure = TorchStructure(made)
    str(FirstNames(structure.beside()))
    assert structure.tied().keys() <= views.keys()
    optimizers_in(made)
    _written_again(made, [*views])


def _written_again(made: Any, keys: list[str]) -> None:
    """Write an object, all of it and half of it, and find these keys in what was written."""
    for kept in (keys, keys[::2]):
        arranged = TorchStructure(made, {key: key for key in kept}).arranged(kept)
        stored = {key: WholeStorage("0", TensorSpec(key, dtypes.BY_NAME["uint16"], (2,))) for key in kept}
        again = Machine(encode(arranged.root, stored), GLOBALS, storage_of).run()
        assert tensors_of(again).keys() == set(kept)


def _described(data: bytes) -> None:
    """Go through what the metadata of a distributed checkpoint describes."""
    for described in decode_distributed(data).tensors.values():
        assert all(chunk.begin >= 0 and chunk.length >= 0 for chunk in described.chunks)


_MEMORY, _SECONDS = 100 << 20, 20
"""The memory that a command may use in addition to a file's size, and its longest time."""


def _in_little_memory(parse: Callable[[bytes], Any]) -> Callable[[bytes, str], str]:
    """Return a `run` of a function in so much memory; a MemoryError is a finding."""

    def run(data: bytes, workspace: str) -> str:
        with open("/proc/self/statm", encoding="ascii") as file:
            taken = int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (taken + len(data) + _MEMORY, before[1]))
        try:
            return _values(parse)(data, workspace)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)

    return run


_ON_PROGRAMS = tuple(
    line.split()
    for line in """
    ls -l {}
    ls --json -l {}
    show {}
    show --json {}
    verify {}
    stats {}
    convert {} +.safetensors
    convert {} +.pt
    rename {} +.pt --add-prefix x/
    """.splitlines()
    if line.strip()
)


def _program(dice: random.Random, _: bytes) -> bytes:
    return pickle_programs.program(dice)


def _metadata_program(dice: random.Random, _: bytes) -> bytes:
    return pickle_programs.metadata_program(dice)


def _commanded_program(dice: random.Random, _: bytes) -> bytes:
    """Return a program with two bytes in front: the number of a command, and the kind of the file."""
    kind = dice.randrange(3)
    make = _metadata_program if kind == 2 else _program
    return bytes((dice.randrange(len(_ON_PROGRAMS)), kind)) + make(dice, b"")


def _in_budget(data: bytes, workspace: str) -> str:
    """Run a command on a program in a process of its own, which may take little memory, and seconds."""
    with tempfile.TemporaryDirectory(dir=workspace) as directory:
        path = os.path.join(directory, ".metadata" if data[1] == 2 else "model.pt")
        content = data[2:]
        if data[1] < 2:
            method = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)[data[1]]
            value = torch_files.Opcodes(content[2:-1])
            content = torch_files.zipped(value, {"0": bytes(24)}, method=method)
        with open(path, "wb") as file:
            file.write(content)
        line = commands.arguments(_ON_PROGRAMS[data[0]], path, os.path.join(directory, "new"))
        cost = budget_server.measure(line)
        assert cost["code"] in (0, 1, 3), cost
        assert float(str(cost["seconds"])) < _SECONDS, cost
        assert "Traceback" not in str(cost["err"]), cost
        assert "memory" not in str(cost["err"]), cost
        grown = int(str(cost["resident"])) - _resident_without_work()
        assert grown <= len(content) + _MEMORY, (grown >> 20, len(content), cost)
    return {0: READ, 1: DAMAGED, 3: REFUSED}[int(str(cost["code"]))]


@cache
def _resident_without_work() -> int:
    budget_server.import_all()
    return int(str(budget_server.measure([])["resident"]))


def _distributed(data: bytes, workspace: str) -> str:
    """Open a distributed checkpoint by such metadata, with its chunks next to it."""
    chunks = os.path.join(workspace, CHUNKS)
    if not os.path.exists(chunks):
        shutil.copy(data_path("pytorch", "dcp", CHUNKS), chunks)
    return _file(".metadata", data, workspace)


def _mutate_ordered(dice: random.Random, data: bytes) -> bytes:
    if dice.random() < 0.5:
        return mutation.mutate_bytes(dice, data)
    extents = tuple(
        (
            dice.choice(mutation.NUMBERS) % (1 << 63),
            dice.choice((-1, 0, 1, dice.choice(mutation.NUMBERS) >> 2)),
        )
        for _ in range(dice.randrange(5))
    )
    key = slice_key(dice.randbytes(dice.randrange(6)), extents)
    return key if dice.random() < 0.5 else mutation.mutate_bytes(dice, key)


# Commands ---------------------------------------------------------------------------


def _mutate_commanded(dice: random.Random, data: bytes) -> bytes:
    """Change a file as its kind requires; its name and the number of a command come first."""
    kind = data[0]
    _, mutate = _COMMANDED[kind]
    return bytes((kind, dice.randrange(len(commands.COMMANDS)))) + mutate(dice, data[1:])


def _command(data: bytes, workspace: str) -> str:
    name, _ = _COMMANDED[data[0]]
    with tempfile.TemporaryDirectory(dir=workspace) as directory:
        path, new = os.path.join(directory, "run", name), os.path.join(directory, "new")
        os.mkdir(os.path.dirname(path))
        data_of_bundle = data[2:]
        if name.endswith(".index"):
            copy_shards(data[2], os.path.dirname(path))
            data_of_bundle = data[3:]
        with open(path, "wb") as file:
            file.write(data_of_bundle)
        line = commands.arguments(commands.COMMANDS[data[1]], path.removesuffix(".index"), new)
        ended = commands.run_command(line)
        commands.check(line, ended, new)
    return {0: READ, 1: DAMAGED, 3: REFUSED}[ended.code]


def _commanded() -> list[bytes]:
    """Return files of all kinds, the number of the kind before each."""
    found = [bytes((0,)) + data for data in _numbered_indexes()]
    for kind, (name, _) in enumerate(_COMMANDED[1:], 1):
        seeds = next(target.seeds for target in TARGETS if target.name == _KIND_OF[name])
        found += [bytes((kind,)) + data for data in seeds()]
    return found


# Seeds ------------------------------------------------------------------------------


@cache
def _of_formats(*names: str, suffix: str = "") -> list[bytes]:
    """Return the small files of recorded checkpoints of these formats, the data shards left out."""
    paths = sorted({path for entry in recorded(*names) for path in entry.get("files", [entry["path"]])})
    wanted = [path for path in paths if path.endswith(suffix) and ".data-" not in path]
    found = [data_path(path) for path in wanted if not path.endswith(".meta")]
    sizes = {path: os.path.getsize(path) for path in found if os.path.isfile(path)}
    return [load(path) for path, size in sizes.items() if 0 < size <= LARGEST_SEED]


class _Bundle(NamedTuple):
    """A recorded bundle: its index, and the paths of its data shards."""

    index: bytes
    shards: tuple[str, ...]


@cache
def _bundles() -> list[_Bundle]:
    """Return up to 256 recorded bundles, small ones."""
    found = []
    for entry in recorded(*BUNDLES):
        with formats.open_checkpoint(data_path(entry["path"])) as reader:
            index, *shards = reader.files()
        if sum(map(os.path.getsize, (index, *shards))) < LARGEST_SEED:
            found.append(_Bundle(load(index), tuple(shards)))
    return found[:256]


@cache
def _indexes() -> list[bytes]:
    return [bundle.index for bundle in _bundles()]


def _numbered_indexes() -> list[bytes]:
    return [bytes((number,)) + bundle.index for number, bundle in enumerate(_bundles())]


@cache
def _index_values() -> list[bytes]:
    values = {value for data in _indexes()[:60] for _, value in mutation.unpack_table(data)}
    return sorted(values)[:500]


@cache
def _v1_values() -> list[bytes]:
    return [value for data in _of_formats("tf-v1") for _, value in mutation.unpack_table(data)]


@cache
def _graphs() -> list[bytes]:
    found = []
    for entry in recorded("tf-v2-object"):
        with formats.open_checkpoint(data_path(entry["path"])) as reader:
            if reader.object_graph is not None:
                found.append(reader.object_graph.encode())
    return sorted(set(found), key=len)[:30]


@cache
def _object_based() -> Any:
    with formats.open_checkpoint(data_path("guide_adam_legacy/tf_ckpts/ckpt-10")) as reader:
        return dict(reader.specs)


@cache
def _object_graph() -> Any:
    with formats.open_checkpoint(data_path("guide_adam_legacy/tf_ckpts/ckpt-10")) as reader:
        return reader.object_graph


@cache
def _states() -> list[bytes]:
    places = ("absolute", "relative", "stale", "crash", "two_prefixes")
    return [load(f"state_files/{place}/checkpoint") for place in places]


@cache
def _listing() -> list[bytes]:
    found = []
    for path in ("pairs/step1", "pairs/name_based", "interop/weights.npz"):
        with formats.open_checkpoint(data_path(path)) as reader:
            (columns,) = reader.columns()
            rows = list(Tensors(reader, columns).rows(long=True))
            document = {"schema": 1, "path": path, "format": reader.format.name, "tensors": rows}
            found.append(json.dumps(document).encode())
    return found


def _weight_maps() -> list[bytes]:
    groups = {"/layers/dense/vars": SHARD, "/layers/dense_1/vars": [SHARD]}
    return [json.dumps({"metadata": {"total_size": 104}, "weight_map": groups}).encode()]


def _slice_keys() -> list[bytes]:
    return [
        slice_key(b"v", ()),
        slice_key(b"a\0\xffb", ((0, -1), (300, 1 << 40))),
        slice_key(b"", ((-1, -1),)),
    ]


def _payloads() -> list[bytes]:
    values = [b"", b"one", b"x" * 200]
    return [b"\3" + strings(values).data, b"\3" + variants(values).data, b"\0", b"\1" + strings([b""]).data]


def _h5_files() -> list[bytes]:
    return _of_formats("h5-keras2-weights", "h5-keras2-model", "h5-keras3-weights", suffix=".h5")


def _npys() -> list[bytes]:
    members = mutation.unpack_zip(load("interop/weights.npz"))
    return list(members.values())


def _torch_files() -> list[bytes]:
    names = ("state_dict.pt", "training.bin", "views.pt", "dtypes.pt", "odd_keys.pt", "laugh.pt", "evil.pt")
    return [load(f"pytorch/{name}") for name in (*names, "legacy.pth")]


def _metadata() -> list[bytes]:
    return [load("pytorch/dcp/.metadata")]


def _pickles() -> list[bytes]:
    archives = [mutation.unpack_zip(data) for data in _torch_files() if data.startswith(b"PK")]
    return [data for archive in archives for name, data in archive.items() if name.endswith("data.pkl")]


def _header(data: bytes) -> None:
    header = decode_header(data)
    assert header.nbytes >= 0


_COMMANDED: tuple[tuple[str, Mutate], ...] = (
    ("b.index", _mutate_bundle),
    ("v1.ckpt", _mutate_index),
    ("checkpoint", mutation.mutate_text),
    ("listing.json", mutation.mutate_json),
    ("arrays.npz", _mutate_npz),
    ("weights.safetensors", _mutate_safetensors),
    ("weights.h5", mutation.mutate_h5),
    ("model.keras", _mutate_keras),
    ("model.pt", _mutate_pytorch),
)
"""Names under which commands get files, and how each is mutated."""

_KIND_OF = {
    "v1.ckpt": "v1",
    "checkpoint": "state-file",
    "listing.json": "listing",
    "arrays.npz": "npz",
    "weights.safetensors": "safetensors",
    "weights.h5": "hdf5",
    "model.keras": "keras",
    "model.pt": "pytorch",
}

TARGETS = [
    Target(
        "varint",
        lambda: [b"\0", b"\x80\1", b"\xff" * 9 + b"\1", b"\x80" * 19 + b"\1"],
        mutation.mutate_bytes,
        _values(_varint),
    ),
    Target("ordered-code", _slice_keys, _mutate_ordered, _values(_ordered)),
    Target(
        "messages", lambda: [*_index_values(), *_v1_values()], mutation.mutate_message, _values(_messages)
    ),
    Target(
        "block",
        lambda: [encode_block(mutation.unpack_table(data)) for data in _indexes()[:40]],
        mutation.mutate_bytes,
        _values(_block),
    ),
    Target(
        "snappy",
        lambda: [compress(data) for data in _indexes()[:20]],
        mutation.mutate_bytes,
        _values(_snappy),
    ),
    Target("table", _indexes, mutation.mutate_table, _table),
    Target("bundle", _numbered_indexes, _mutate_bundle, _bundle),
    Target("object-graph", _graphs, mutation.mutate_message, _values(_graph)),
    Target("strings", _payloads, mutation.mutate_bytes, _values(_payload)),
    Target("v1", lambda: _of_formats("tf-v1"), _mutate_index, partial(_file, "v1.ckpt")),
    Target("state-file", _states, mutation.mutate_text, _values(_state)),
    Target("json", _listing, mutation.mutate_json, _values(_json)),
    Target("listing", _listing, mutation.mutate_json, partial(_file, "listing.json")),
    Target("weight-map", _weight_maps, mutation.mutate_json, _weight_map, library=True),
    Target("npy-header", _npys, _mutate_npy, _values(_header)),
    Target("npz", lambda: _of_formats("npz"), _mutate_npz, partial(_file, "arrays.npz")),
    Target(
        "safetensors",
        lambda: _of_formats("safetensors"),
        _mutate_safetensors,
        partial(_file, "weights.safetensors"),
    ),
    Target("pickle", _pickles, mutation.mutate_pickle, _values(_pickle)),
    Target(
        "dcp-metadata", lambda: [load("pytorch/dcp/.metadata")], mutation.mutate_pickle, _values(_described)
    ),
    Target("pytorch-dcp", lambda: [load("pytorch/dcp/.metadata")], mutation.mutate_pickle, _distributed),
    Target("pytorch", _torch_files, _mutate_pytorch, partial(_file, "model.pt")),
    Target("pickle-program", _pickles, _program, _in_little_memory(_pickle), library=True),
    Target("metadata-program", _metadata, _metadata_program, _in_little_memory(_described), library=True),
    Target("programs-in-commands", _pickles, _commanded_program, _in_budget, library=True),
    Target("hdf5-structure", _h5_files, mutation.mutate_h5, _structure),
    Target(
        "hdf5",
        _h5_files,
        mutation.mutate_h5,
        partial(_file, "weights.h5"),
        library=True,
    ),
    Target(
        "keras", lambda: _of_formats("keras3-zip"), _mutate_keras, partial(_file, "model.keras"), library=True
    ),
    Target("tflite", lambda: _exports("tflite"), mutation.mutate_bytes, partial(_file, "model.tflite")),
    Target("graphdef", lambda: _exports("graphdef", ".pb"), mutation.mutate_message, partial(_file, "g.pb")),
    Target("tfjs", lambda: [load("exports/tfjs/model.json")], mutation.mutate_json, partial(_file, "m.json")),
    Target("onnx", lambda: _exports("onnx"), mutation.mutate_message, partial(_file, "model.onnx")),
    Target("gguf", lambda: _exports("gguf"), mutation.mutate_bytes, partial(_file, "model.gguf")),
    Target("ocdbt", tree_files.seeds_of_frames, tree_files.mutate_frame, _values(tree_files.parse_frame)),
    Target("zarr", tree_files.seeds_of_zarr, mutation.mutate_json, _values(tree_files.parse_zarr)),
    Target(
        "orbax",
        tree_files.seeds_of_checkpoints,
        tree_files.mutate_named,
        tree_files.checkpoint_in(outcome),
    ),
    Target("flax", tree_files.seeds_of_flax, mutation.mutate_bytes, partial(_file, "tree.msgpack")),
    Target("events", run_files.seeds_of_events, run_files.mutate_events, run_files.events),
    Target("meta-graph", run_files.seeds_of_meta_graphs, mutation.mutate_message, run_files.meta_graph),
    Target(
        "saved-model", run_files.seeds_of_saved_models, run_files.mutate_saved_model, run_files.saved_model
    ),
    Target("commands", _commanded, _mutate_commanded, _command, library=True),
]
