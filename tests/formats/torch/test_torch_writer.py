"""Written PyTorch files: the tensors, the structure they were read with, one file for the same tensors."""

from __future__ import annotations

import os
import struct
import time
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats import ConversionError, TensorSpec, UnsupportedDtypeError
from formats.core.dtypes import BY_NAME, DTYPES
from formats.find.creating import create_writer
from formats.location import parse_location
from formats.store.archive import writer as zips
from formats.store.local.staged_file import StagedFile
from formats.torch.encoding import encode
from formats.torch.facts import TorchFacts
from formats.torch.objects import DTYPES_READ, GLOBALS, TensorPosition, storage_of
from formats.torch.pickle import Machine
from formats.torch.reader import TorchReader
from formats.torch.structure import NestedStructure, _Named
from formats.torch.values import Bag, Made, Pairs
from tests.support import data_path, same
from tests.torch_files import Call, Named, Opcodes, storage, tensor, written, zipped

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SIX = np.arange(6, dtype="<f4")
DRAWN = np.arange(12, dtype=np.float32).reshape(3, 4)


def save(path: Path, arrays: Mapping[str, Any], facts: Any = None, **options: Any) -> None:
    specs = [TensorSpec(key, BY_NAME[array.dtype.name], array.shape) for key, array in arrays.items()]
    with formats.create_checkpoint(path, format="pytorch", specs=specs, facts=facts, **options) as writer:
        for key, array in arrays.items():
            writer.write(key, array)


def again(source: str, target: Path, names: dict[str, str] | None = None) -> None:
    """Write what was read, all of it, or these tensors under other keys."""
    with formats.open_checkpoint(source) as reader:
        names = {key: key for key in reader.specs} if names is None else names
        specs = [reader.specs[old]._replace(key=new) for old, new in names.items()]
        facts = reader.facts.rekeyed(names)  # type: ignore[attr-defined]
        with formats.create_checkpoint(target, format="pytorch", specs=specs, facts=facts) as writer:
            for old, new in names.items():
                writer.write(new, reader[old].chunks())


def plain(value: Any) -> Any:
    """Return an object as Python has it, a tensor as its shape."""
    if type(value) is Pairs:
        items = {key: plain(each) for key, each in value.items}
        return items if value.attributes is None else (value.name, items, plain(value.attributes))
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value) is Bag:
        return set(value.items)
    return ("tensor", value.shape) if hasattr(value, "strides") else value


def root_of(path: object) -> Any:
    with formats.open_checkpoint(str(path)) as reader:
        assert isinstance(reader, TorchReader)
        return plain(reader._container.root)


def arrays_of(path: object) -> dict[str, Any]:
    with formats.open_checkpoint(str(path)) as reader:
        assert [found for step in reader.verify() for found in step.findings] == []
        return {key: reader[key].read() for key in reader.specs}


def test_every_dtype_that_torch_has_reads_back(tmp_path: Path) -> None:
    arrays = {name: DRAWN.astype(BY_NAME[name].numpy) for name in sorted(DTYPES_READ)}
    arrays |= {"scalar": np.float32(1.5).reshape(()), "empty": np.zeros((0, 4)), "ключ/a%": DRAWN}
    save(tmp_path / "x.pt", arrays)
    found = arrays_of(tmp_path / "x.pt")
    assert sorted(found) == sorted(arrays)
    assert all(same(found[key], arrays[key]) for key in arrays)


@pytest.mark.parametrize("name", sorted(dtype.name for dtype in DTYPES if dtype.name not in DTYPES_READ))
def test_other_dtypes_are_rejected_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedDtypeError, match=f"pytorch cannot store {name} tensors") as caught:
        formats.create_checkpoint(
            tmp_path / "x.pt", format="pytorch", specs=[TensorSpec("w", BY_NAME[name], (2,))]
        )
    assert any("--cast" in hint for hint in caught.value.hints) == BY_NAME[name].is_floating
    assert os.listdir(tmp_path) == []


def test_the_same_tensors_are_the_same_bytes_at_every_multiple_of_64(tmp_path: Path) -> None:
    arrays = {f"k{number}": np.arange(number, dtype=np.int16) for number in range(5)}
    for name in ("a.pt", "b.bin"):
        save(tmp_path / name, arrays)
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "b.bin").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.pt") as archive, open(tmp_path / "a.pt", "rb") as file:
        assert archive.testzip() is None
        assert {info.date_time[:3] for info in archive.infolist()} == {(1980, 0, 0)}
        for info in archive.infolist():
            file.seek(info.header_offset + 26)
            name_size, extra_size = struct.unpack("<HH", file.read(4))
            assert (info.header_offset + 30 + name_size + extra_size) % 64 == 0


@pytest.mark.parametrize("name", ["state_dict.pt", "training.bin", "odd_keys.pt", "views.pt", "legacy.pth"])
def test_what_was_read_is_written_with_its_structure(name: str, tmp_path: Path) -> None:
    source = data_path("pytorch", name)
    again(source, tmp_path / "x.pt")
    assert root_of(tmp_path / "x.pt") == root_of(source)
    before, after = arrays_of(source), arrays_of(tmp_path / "x.pt")
    assert sorted(before) == sorted(after)
    assert all(same(after[key], before[key]) for key in before)


def nested(tmp_path: Path) -> str:
    """Return a file of every kind of value that may accompany tensors."""
    shared = Opcodes(b"](K\x01K\x02eq\x63")  # a list that is in two places
    value = {
        "model": {"w": tensor(), "b/c": tensor(storage("1"))},
        "optimizer": {"state": {0: {"step": 3, "m": tensor(storage("2"))}}, "param_groups": [{"lr": 0.5}]},
        "many": (None, True, -1, 1 << 40, 2.5, "текст", b"".join([b""]).decode()),
        "list": [tensor(storage("3")), 7],
        "shared": [shared, Opcodes(b"h\x63")],
        "size": Call("torch.Size", ([2, 3],)),
        "device": Call("torch.device", ("cuda", 1)),
        "dtype": Named("torch.float16"),
        "set": Call("builtins.set", ([1, 2],)),
        "complex": Call("builtins.complex", (1.0, -2.0)),
        "bytes": Call("_codecs.encode", ("\x00\xff", "latin1")),
        "counter": Call("collections.Counter", ({"a": 1},)),
    }
    return written(tmp_path / "n.pt", zipped(value, {str(key): SIX.tobytes() for key in range(4)}))


def test_values_next_to_tensors_are_kept(tmp_path: Path) -> None:
    source = nested(tmp_path)
    again(source, tmp_path / "x.pt")
    root = root_of(tmp_path / "x.pt")
    assert root == root_of(source)
    assert root["size"] == Made("torch.Size", ((2, 3),))
    assert root["bytes"] == b"\x00\xff"
    assert root["many"] == (None, True, -1, 1 << 40, 2.5, "текст", "")


def test_keys_that_change_move_what_leads_to_them(tmp_path: Path) -> None:
    source = nested(tmp_path)
    with formats.open_checkpoint(source) as reader:
        names = {key: key.replace("model/", "net/").replace("optimizer/", "opt/") for key in reader.specs}
    again(source, tmp_path / "x.pt", names)
    root = root_of(tmp_path / "x.pt")
    assert list(root) == ["net", "opt", *list(root_of(source))[2:]]
    assert root["opt"]["param_groups"] == [{"lr": 0.5}]
    assert root["opt"]["state"][0]["step"] == 3
    assert sorted(arrays_of(tmp_path / "x.pt")) == sorted(names.values())


def test_a_key_goes_where_it_says(tmp_path: Path) -> None:
    source = nested(tmp_path)
    names = {
        "model/w": "model/deep/er/w",
        "model/b%2Fc": "model/b%2Fd",
        "optimizer/state/0/m": "optimizer/state/1/m",
    }
    again(source, tmp_path / "x.pt", names)
    root = root_of(tmp_path / "x.pt")
    assert root["model"] == {"b/d": ("tensor", (2, 3)), "deep": {"er": {"w": ("tensor", (2, 3))}}}
    assert root["optimizer"]["state"] == {1: {"step": 3, "m": ("tensor", (2, 3))}}
    assert sorted(arrays_of(tmp_path / "x.pt")) == sorted(names.values())


@pytest.mark.parametrize(
    ("keys", "added", "expected"),
    [
        ([0, 1], ["2", "x", "3"], [2, "x", "3"]),
        ([5], ["07", "\u00b2"], [7, "\u00b2"]),
        (["a"], ["2"], ["2"]),
        ([0, "a"], ["2"], ["2"]),
        ([], ["0"], ["0"]),
    ],
)
def test_a_new_key_is_a_number_where_all_others_are(
    keys: list[Any], added: list[str], expected: list[Any]
) -> None:
    pairs = Pairs([(key, None) for key in keys])
    named = _Named(pairs)
    for name in added:
        named.add(name, None)
    assert [key for key, _ in pairs.items] == [*keys, *expected]


def test_what_loses_all_tensors_goes_and_is_reported(tmp_path: Path) -> None:
    source = nested(tmp_path)
    with formats.open_checkpoint(source) as reader:
        kept = {key: key for key in reader.specs if key.startswith("model/")}
        facts = reader.facts.rekeyed(kept)  # type: ignore[attr-defined]
        specs = [reader.specs[key] for key in kept]
        writer = create_writer(tmp_path / "x.pt", format="pytorch", specs=specs, facts=facts, rehearsal=True)
    left_out = "list/1, optimizer/param_groups, optimizer/state/0/step"
    assert writer.notes == [f"left out {left_out}: the tensors next to it are not written"]
    again(source, tmp_path / "x.pt", kept)
    assert set(root_of(source)) - set(root_of(tmp_path / "x.pt")) == {"optimizer", "list"}


@pytest.mark.parametrize(
    ("value", "names", "why"),
    [
        ({"m": {"w": tensor()}, "a/b": tensor()}, {"a%2Fb": "a%2Fb"}, "it would be read as 'a/b'"),
        ({"m": {"w": tensor()}, "e": 3}, {"m/w": "e"}, "has the key 'e' twice"),
        ({"m": {0: tensor(), True: 3}}, {"m/0": "m/1"}, "has the key 'True' twice"),
        ({"m": {"w": tensor()}, "e": 3}, {"m/w": "e/w"}, "does not fit into the structure"),
        ([{"w": tensor()}], {"0/w": "x/w"}, "does not fit into the structure"),
        ({"m": {"w": tensor()}}, {"m/w": "m/\udcff"}, "is not UTF-8"),
        ({"w": tensor()}, {"w": "\udcff"}, "is not UTF-8"),
    ],
)
def test_what_has_no_place_is_rejected(value: Any, names: dict[str, str], why: str, tmp_path: Path) -> None:
    source = written(tmp_path / "s.pt", zipped(value, {"0": SIX.tobytes()}))
    with pytest.raises(ConversionError, match=why):
        again(source, tmp_path / "x.pt", names)
    assert sorted(os.listdir(tmp_path)) == ["s.pt"]


def test_a_list_keeps_keys_when_elements_are_left_out(tmp_path: Path) -> None:
    source = written(tmp_path / "s.pt", zipped({"l": [tensor(), 5, tensor()]}, {"0": SIX.tobytes()}))
    again(source, tmp_path / "x.pt", {"l/2": "l/2"})
    assert root_of(tmp_path / "x.pt") == {"l": {1: 5, 2: ("tensor", (2, 3))}}
    again(source, tmp_path / "y.pt", {"l/0": "l/0"})
    assert root_of(tmp_path / "y.pt") == {"l": [("tensor", (2, 3)), 5]}


def test_what_module_state_dict_says_of_modules_is_kept_as_long_as_names_are(tmp_path: Path) -> None:
    attributes = Call("collections.OrderedDict")
    value = Opcodes(
        _code(Call("collections.OrderedDict"))
        + b"(" + _code("w") + _code(tensor()) + b"u"
        + _code({"_metadata": attributes}) + b"b"
    )  # fmt: skip
    source = written(tmp_path / "s.pt", zipped(value, {"0": SIX.tobytes()}))
    again(source, tmp_path / "x.pt")
    kept = ("collections.OrderedDict", {"w": ("tensor", (2, 3))}, {"_metadata": {}})
    assert root_of(tmp_path / "x.pt") == root_of(source) == kept
    again(source, tmp_path / "y.pt", {"w": "v"})
    assert root_of(tmp_path / "y.pt") == {"v": ("tensor", (2, 3))}


def _code(value: Any) -> bytes:
    from tests.torch_files import pickled

    return pickled(value)[2:-1]


TIED = {"b": tensor(), "a": tensor(), "other": tensor(storage("0"), 0, (3, 2), (2, 1))}


def test_tied_tensors_are_written_once(tmp_path: Path) -> None:
    source = written(tmp_path / "s.pt", zipped(TIED, {"0": SIX.tobytes()}))
    again(source, tmp_path / "x.pt", {"b": "b", "a": "c", "other": "other"})
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        assert sum("/data/" in name for name in archive.namelist()) == 2
    with formats.open_checkpoint(tmp_path / "x.pt") as reader:
        assert isinstance(reader, TorchReader)
        assert reader._views["b"] == reader._views["c"]
        assert reader["c"].read().reshape(-1).tolist() == SIX.tolist()


def test_tied_tensors_are_in_one_shard(tmp_path: Path) -> None:
    source = written(tmp_path / "s.pt", zipped(TIED, {"0": SIX.tobytes()}))
    with formats.open_checkpoint(source) as reader:
        options = {"specs": reader.specs, "facts": reader.facts, "shard_size": 1}
        with formats.create_checkpoint(tmp_path / "m.bin", format="pytorch", **options) as writer:
            for key in reader.specs:
                writer.write(key, reader[key].chunks())
    assert len(os.listdir(tmp_path)) == 4
    assert {key: array.shape for key, array in arrays_of(tmp_path / "m.bin").items()} == {
        "a": (2, 3), "b": (2, 3), "other": (3, 2)
    }  # fmt: skip


def test_tensors_that_are_marked_as_one_and_differ_are_rejected(tmp_path: Path) -> None:
    source = written(tmp_path / "s.pt", zipped(TIED, {"0": SIX.tobytes()}))
    with formats.open_checkpoint(source) as reader:
        arrays = {key: reader[key].read() for key in reader.specs}
        facts = reader.facts
    arrays["b"][0, 0] = 7
    with pytest.raises(ConversionError, match=r"the tensor is the same as 'a' .* has different values"):
        save(tmp_path / "x.pt", arrays, facts)
    assert sorted(os.listdir(tmp_path)) == ["s.pt"]


def test_structures_can_be_made(tmp_path: Path) -> None:
    """As a conversion of layouts makes an optimizer's state."""
    root = Pairs(
        [
            ("model", Pairs([("w", TensorPosition("model/w"))])),
            ("epoch", 3),
            ("groups", [{"lr": 0.5, "params": [0]}]),
        ]
    )
    save(tmp_path / "x.pt", {"model/w": DRAWN}, TorchFacts(structure=NestedStructure(root)))
    assert root_of(tmp_path / "x.pt") == {
        "model": {"w": ("tensor", (3, 4))},
        "epoch": 3,
        "groups": [{"lr": 0.5, "params": [0]}],
    }


def test_shards_are_named_by_an_index_and_hold_tensors_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    source = data_path("pytorch", "training.bin")
    with formats.open_checkpoint(source) as reader:
        options = {"specs": reader.specs, "facts": reader.facts, "shard_size": 80}
        with pytest.raises(ConversionError, match="they cannot store optimizer/param_groups of") as caught:
            formats.create_checkpoint(tmp_path / "out", format="pytorch", **options)
        assert caught.value.key.startswith("optimizer/state/0/")  # type: ignore[union-attr]
        keys = [key for key, kind in reader.kinds.items() if kind == "variable"]
        options["specs"] = {key: reader.specs[key] for key in keys}
        with formats.create_checkpoint(tmp_path / "out", format="pytorch", **options) as writer:
            for key in keys:
                writer.write(key, reader[key].chunks())
    assert writer.notes[1] == "left out args, epoch, optimizer/param_groups: a shard contains only tensors"
    names = os.listdir(tmp_path / "out")
    shards = [f"pytorch_model-{number:05}-of-{len(names) - 1:05}.bin" for number in range(1, len(names))]
    assert sorted(names) == sorted(["pytorch_model.bin.index.json", *shards])
    assert len(shards) > 2
    before, after = arrays_of(source), arrays_of(tmp_path / "out")
    assert sorted(after) == sorted(keys)
    assert all(same(after[key], before[key]) for key in after)


def test_a_member_of_4_gib_and_more_members_than_16_bits_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the limits set low, for the sake of time; the real ones are the same branches."""
    monkeypatch.setattr(zips, "_MOST_MEMBERS", 3)
    file = StagedFile(str(tmp_path / "x.zip"), parse_location("x"))
    archive = zips.Zipped(file)
    for number in range(5):
        archive.add(f"m/{number}", bytes([number]) * number)
    archive.finish()
    file.close()
    data = (tmp_path / "x.zip").read_bytes()
    assert b"PK\6\6" in data
    assert b"PK\6\7" in data
    with zipfile.ZipFile(tmp_path / "x.zip") as found:
        assert found.testzip() is None
        assert len(found.namelist()) == 5


class _Counted:
    """A file that keeps only its size."""

    def __init__(self) -> None:
        self.size = 0
        self.parts: list[tuple[int, bytes]] = []

    def write(self, data: Any) -> None:
        if len(data) < 1 << 20:
            self.parts.append((self.size, bytes(data)))
        self.size += len(data)


def test_sizes_beyond_32_bits_are_in_their_extra_fields() -> None:
    file = _Counted()
    archive = zips.Zipped(file)  # type: ignore[arg-type]
    piece = np.zeros(1 << 28, np.uint8)
    archive.begin("a/data/0", 17 << 28)
    for _ in range(17):
        archive._file.write(piece)
    archive.end()
    archive.add("a/version", b"3\n")
    archive.finish()
    parts = dict(file.parts)
    local = parts[0]
    assert local[18:26] == b"\xff" * 8
    assert struct.unpack_from("<HHQQ", local, 30 + 8) == (1, 16, 17 << 28, 17 << 28)
    entries = next(data for data in parts.values() if data.startswith(b"PK\1\2"))
    assert struct.unpack_from("<HHQQ", entries, 46 + 8) == (1, 16, 17 << 28, 17 << 28)
    second = entries[46 + 8 + 20 :]
    offset = next(at for at, data in file.parts if data.startswith(b"PK\3\4") and at)
    assert struct.unpack_from("<HHQ", second, 46 + 9) == (1, 8, offset)
    assert file.parts[-1][1].startswith(b"PK\6\6")


@pytest.mark.parametrize("kept", ["k" * 50_000, b"k" * 50_000, -(1 << 2000), 1 + 2j], ids=type)
def test_what_is_in_many_places_is_written_once(kept: Any) -> None:
    pickle = encode(Pairs([("values", [kept] * 1_000)]), {})
    assert len(pickle) < 60_000
    assert plain(Machine(pickle, GLOBALS, storage_of).run()) == {"values": [kept] * 1_000}


def test_a_tuple_that_holds_itself_is_rejected() -> None:
    below: list[Any] = []
    deep: Any = (below,)
    for _ in range(1_000):
        deep = (deep,)
    below.append(deep)
    with pytest.raises(ValueError, match="a tuple contains itself"):
        encode(deep, {})


def test_tensors_get_other_names_in_a_time_that_grows_with_their_number() -> None:
    """Keys that have no place yet were looked for in all that is next to them."""
    count = 20_000
    keys = [f"new/{number}" for number in range(count)]
    root = Pairs([("old", Pairs([(f"w{number}", TensorPosition("")) for number in range(count)]))])
    names = {f"old/w{number}": key for number, key in enumerate(keys)}
    names["old/w0"] = "other/0"
    begun = time.process_time()
    arranged = NestedStructure(root, names).arranged([*names.values()])
    assert time.process_time() - begun < 5
    assert [key for key, _ in arranged.root.items] == ["other", "new"]


def test_more_bytes_than_a_file_can_have_are_rejected(tmp_path: Path) -> None:
    specs = [TensorSpec("w", BY_NAME["float32"], (1 << 62, 1 << 62))]
    with pytest.raises(ConversionError, match="too large for one file") as caught:
        formats.create_checkpoint(tmp_path / "x.pt", format="pytorch", specs=specs)
    assert (caught.value.path, caught.value.key) == (str(tmp_path / "x.pt"), "w")
    assert os.listdir(tmp_path) == []
