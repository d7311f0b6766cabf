"""PyTorch files: keys, views and values are torch's; a file that is damaged or too large raises."""

from __future__ import annotations

import gc
import hashlib
import io
import json
import os
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats import CheckpointError, ChecksumError, CorruptCheckpointError, UnsupportedFeatureError
from formats.core.chunks import PIECE
from formats.store.work.workers import workers
from formats.torch.objects import GLOBALS
from formats.torch.reader import TorchReader
from tests.support import data_path, reads_alike
from tests.torch_files import Call, Named, Opcodes, legacy, storage, tensor, untyped, written, zipped

if TYPE_CHECKING:
    from pathlib import Path

with open(data_path("pytorch", "truth.json"), encoding="utf-8") as file:
    TRUTH = json.load(file)

SIX = np.arange(6, dtype="<f4")


def digest(array: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


@pytest.mark.parametrize("name", [name for name, truth in TRUTH.items() if "keys" in truth and name != "dcp"])
def test_files_are_what_torch_wrote(name: str) -> None:
    with formats.open_checkpoint(data_path("pytorch", name)) as reader:
        found = {
            key: {
                "dtype": spec.dtype.name,
                "shape": list(spec.shape),
                "sha256": digest(reads_alike(reader[key])),
            }
            for key, spec in reader.specs.items()
        }
    assert found == TRUTH[name]["keys"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("evil.pt", r"loading the file would run 'posix.system'"),
        ("evil_plain.pt", "a Python pickle"),
        ("whole_module.pt", r"a whole PyTorch module; loading the file would run '__main__.Whole'"),
        ("deep.pt", "too many objects"),
        ("inflates.pt", "has 268435464 bytes"),
    ],
)
def test_what_would_run_or_never_end_is_rejected_by_name(name: str, why: str) -> None:
    for lenient in (False, True):
        with pytest.raises(CheckpointError, match=why):
            formats.open_checkpoint(data_path("pytorch", name), lenient=lenient)
    assert not os.path.exists("ran_by_a_pickle")


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("evil.pt", "a dictionary of tensors and plain values"),
        ("whole_module.pt", "model.state_dict()"),
    ],
)
def test_what_is_rejected_says_what_to_save(name: str, saved: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        formats.open_checkpoint(data_path("pytorch", name))
    assert caught.value.hints == (f"in the program that made the file, save {saved} with torch.save",)


def test_what_is_shared_sixty_times_over_is_walked_once() -> None:
    with formats.open_checkpoint(data_path("pytorch", "laugh.pt")) as reader:
        assert list(reader) == ["w"]


def keys_of(tmp_path: Path, value: Any) -> list[str]:
    path = written(tmp_path / "x.pt", zipped(value, {"0": SIX.tobytes()}))
    with formats.open_checkpoint(path) as reader:
        return list(reader)


T = tensor()


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        (T, [""]),
        ({"a/b": T, "c%": T}, ["a/b", "c%"]),
        ({"a/b": T, "n": {"c%/d": T}}, ["a%2Fb", "n/c%25%2Fd"]),
        ({"a": [T, 1, (T, {"b": T})]}, ["a/0", "a/2/0", "a/2/1/b"]),
        ({7: T, "7": T}, ["#7", "7"]),
        ({7: T, "7": T, "#7": T}, ["##7", "#7", "7"]),
        ({("t", 1): T, None: T, True: T, 1.5: T}, ["('t', 1)", "1.5", "None", "True"]),
        ({"": T, "m": {"": T}}, ["", "m/"]),
        ({"x": [[], {}, "t"], "y": {"z": 1}}, []),
        ({"\ud800": T}, ["\udced\udca0\udc80"]),
        ({"s": storage()}, ["s"]),
        (5, []),
        (None, []),
        ("text", []),
    ],
)
def test_keys_of_nested_files(tmp_path: Path, value: Any, keys: list[str]) -> None:
    assert keys_of(tmp_path, value) == keys


def test_a_dictionary_under_two_names_is_listed_under_both(tmp_path: Path) -> None:
    shared = Opcodes(b"h\x09")
    first = Opcodes(_inner({"w": T}) + b"q\x09")
    assert keys_of(tmp_path, {"ema": first, "model": shared}) == ["ema/w", "model/w"]


def _inner(value: Any) -> bytes:
    from tests.torch_files import pickled

    return pickled(value)[2:-1]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"a": T, "circle": Opcodes(b"]q\x09h\x09a")}, "contains itself"),
        (Opcodes(b"]" + _inner(T) + b"a" + b"q\x01]h\x01ah\x01a" + b"00" + _inner(T)), None),
        ({"s": Opcodes(b"\x8f(" + _inner(T) + b"\x90")}, "a tensor is in a set"),
        ({"l": Opcodes(b"](" * 300 + _inner(T) + b"e" * 300)}, "levels deep"),
        (Opcodes(b"}(K\1" + _inner(T) + b"K\1" + _inner(T) + b"u"), "has the key '1' twice"),
        ({"m": Opcodes(b"}(K\1" + _inner(T) + b"\x88" + _inner(T) + b"u")}, "has the key 'True' twice"),
        (
            Opcodes(b"}(" + _inner((1, 2.0)) + b"N" + _inner((1.0, 2)) + _inner(T) + b"u"),
            "has the key '.1.0, 2.' twice",
        ),
        (Opcodes(b"}(]" + _inner(T) + b"u"), "a dictionary has a list as a key"),
        (Opcodes(b"}(" + _inner(tuple(range(100))) + _inner(T) + b"u"), "a dictionary has a tuple as a key"),
        (Opcodes(b"}(" + _inner(((((1,),),),)) + _inner(T) + b"u"), None),
        (Opcodes(b"}(" + _inner((((((1,),),),),)) + _inner(T) + b"u"), "a dictionary has a tuple as a key"),
    ],
)
def test_objects_whose_tensors_have_no_names_are_rejected(
    tmp_path: Path, value: Any, why: str | None
) -> None:
    path = written(tmp_path / "x.pt", zipped(value, {"0": SIX.tobytes()}))
    if why is None:
        formats.open_checkpoint(path).close()
        return
    with pytest.raises(UnsupportedFeatureError, match=why):
        formats.open_checkpoint(path)


def test_lists_that_share_a_tensor_a_trillion_times_are_rejected(tmp_path: Path) -> None:
    doubled = b"]" + _inner(T) + b"aq\x01" + b"".join(b"]h\x01ah\x01aq\x01" for _ in range(40))
    path = written(tmp_path / "x.pt", zipped({"x": Opcodes(doubled)}, {"0": SIX.tobytes()}))
    with pytest.raises(UnsupportedFeatureError, match="1 tensor would have more than 2 keys each"):
        formats.open_checkpoint(path)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (
            Opcodes(b"](](" + _inner(T) * 10_000 + b"eq\1" + b"h\1" * 9 + b"e"),
            "10,000 tensors would have more than 2 keys each",
        ),
        (
            Opcodes(b"](](" + _inner(T) + b"N" * 9_000 + b"eq\1" + b"h\1" * 999 + b"e"),
            "too many lists and dictionaries are shared",
        ),
        (
            Opcodes(b"}((" + _inner("k" * 60_000) + b"q\1" + b"h\1" * 50 + b"t" + _inner(T) + b"u"),
            "a dictionary key that is not text has more than 65536 characters",
        ),
    ],
)
def test_what_is_shared_is_bounded(tmp_path: Path, value: Any, why: str) -> None:
    path = written(tmp_path / "x.pt", zipped(value, {"0": SIX.tobytes()}))
    with pytest.raises(UnsupportedFeatureError, match=why):
        formats.open_checkpoint(path)


def test_keys_that_are_made_are_bounded_together(tmp_path: Path) -> None:
    """Each is as long as a key may be, and their text is one."""
    keys = (b"(h\1" + _inner(number) + b"t" + _inner(T) for number in range(200))
    value = Opcodes(b"}(" + _inner("k" * 60_000) + b"q\1" + _inner(T) + b"".join(keys) + b"u")
    path = written(tmp_path / "x.pt", zipped(value, {"0": SIX.tobytes()}))
    with pytest.raises(UnsupportedFeatureError, match="characters"):
        formats.open_checkpoint(path)


def test_dictionaries_may_be_in_several_places(tmp_path: Path) -> None:
    value = Opcodes(b"](](" + _inner(T) * 100 + b"N" * 1_000 + b"eq\1" + b"h\1" * 99 + b"e")
    path = written(tmp_path / "x.pt", zipped(value, {"0": SIX.tobytes()}))
    with formats.open_checkpoint(path) as reader:
        assert len(reader.specs) == 100 * 100
        assert len(reader.tied) == 100 * 100 - 1


@pytest.mark.parametrize("root", [1.5, Opcodes(b"\x8f")], ids=["number", "set"])
def test_what_holds_no_tensor_has_nothing_next_to_one(tmp_path: Path, root: Any) -> None:
    path = written(tmp_path / "x.pt", zipped(root, {}))
    with formats.open_checkpoint(path) as reader:
        assert [*reader.facts.beside()] == []  # type: ignore[attr-defined]


def test_what_a_run_says_next_to_its_tensors() -> None:
    with formats.open_checkpoint(data_path("pytorch", "training.bin")) as reader:
        assert reader.facts.document() == {
            "producer": "PyTorch",
            "version": None,
            "values": {"epoch": 3, "args/lr": 0.01, "args/name": "run"},
        }
        kinds = reader.kinds
    assert kinds["model/2.num_batches_tracked"] == "state"
    assert kinds["model/0.weight"] == "variable"
    assert kinds["optimizer/state/0/exp_avg"] == "slot"
    assert kinds["optimizer/state/0/step"] == "optimizer"


def test_an_optimizer_alone_has_slots(tmp_path: Path) -> None:
    scalar = tensor(None, 0, (), ())
    value = {"state": {0: {"exp_avg": T, "step": scalar}}, "param_groups": [{"lr": 0.1, "params": [0]}]}
    path = written(tmp_path / "x.pt", zipped(value, {"0": SIX.tobytes()}))
    with formats.open_checkpoint(path) as reader:
        assert dict(reader.kinds) == {"state/0/exp_avg": "slot", "state/0/step": "optimizer"}


# Views ------------------------------------------------------------------------------


def strided(values: np.ndarray[Any, Any], first: int, shape: Any, strides: Any) -> np.ndarray[Any, Any]:
    """Return the elements of a view, as numpy finds them."""
    return np.ndarray(shape, values.dtype, values.tobytes(), first * 4, [each * 4 for each in strides]).copy()


CASES = [
    (0, (2, 3), (3, 1)),
    (0, (3, 2), (1, 3)),
    (3, (3,), (1,)),
    (1, (2,), (3,)),
    (0, (4, 3), (0, 1)),
    (0, (2, 2, 2), (0, 2, 1)),
    (0, (4, 3), (1, 1)),
    (5, (), ()),
    (2, (1, 1), (99, 7)),
    (0, (0, 3), (3, 1)),
    (6, (2, 0), (1, 1)),
]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize(("first", "shape", "strides"), CASES, ids=str)
def test_views(tmp_path: Path, method: int, first: int, shape: Any, strides: Any) -> None:
    data = zipped({"v": tensor(None, first, shape, strides)}, {"0": SIX.tobytes()}, method=method)
    with formats.open_checkpoint(written(tmp_path / "x.pt", data)) as reader:
        expected = strided(SIX, first, shape, strides) if 0 not in shape else np.zeros(shape, "f4")
        assert np.array_equal(reads_alike(reader["v"]), expected)
        if shape and expected.size:
            assert np.array_equal(reader["v"].read_slice((..., slice(1, None))), expected[..., 1:])


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((1100, 900), (900, 1)),
        ((900, 1100), (1, 900)),
        ((1100,), (900,)),
        ((11, 100, 30), (90_000, 900, 30)),
        ((30, 11, 100), (30, 90_000, 900)),
        ((1090, 3), (900, 450)),
        ((2,), (980_000,)),
        ((2, 2, 2), (400_000, 300_000, 280_000)),
        ((3, 700_000), (100_000, 1)),
    ],
    ids=str,
)
def test_views_larger_than_a_piece(tmp_path: Path, shape: Any, strides: Any) -> None:
    values = np.random.default_rng(0).random(1100 * 900, np.float32)
    assert values.nbytes > 3 * PIECE
    of = storage("0", values.size)
    path = written(tmp_path / "x.pt", zipped({"v": tensor(of, 0, shape, strides)}, {"0": values.tobytes()}))
    expected = strided(values, 0, shape, strides)
    with formats.open_checkpoint(path) as reader:
        assert np.array_equal(reader["v"].read(), expected)
        assert b"".join(map(bytes, reader["v"].chunks(1000))) == expected.tobytes()
        part = tuple(slice(1, None, 2) for _ in shape)
        assert np.array_equal(reader["v"].read_slice(part), expected[part])


def test_elements_that_must_be_conjugated_or_negated(tmp_path: Path) -> None:
    values = np.array([1 + 2j, 3 - 4j, 5j], np.complex64)
    complexes = storage("1", 3, "torch.ComplexFloatStorage")
    value = {
        "conj": tensor(complexes, 0, (3,), (1,), {"conj": True}),
        "not": tensor(complexes, 0, (3,), (1,), {"conj": False}),
        "neg": tensor(None, 0, (6,), (1,), {"neg": True}),
    }
    path = written(tmp_path / "x.pt", zipped(value, {"0": SIX.tobytes(), "1": values.tobytes()}))
    with formats.open_checkpoint(path) as reader:
        assert np.array_equal(reads_alike(reader["conj"]), values.conj())
        assert np.array_equal(reads_alike(reader["not"]), values)
        assert np.array_equal(reads_alike(reader["neg"]), -SIX)
        assert reader["conj"].shard_range() is None
    unknown = tensor(None, 0, (6,), (1,), {"twisted": True})
    with pytest.raises(CorruptCheckpointError, match="unknown flag 'twisted'"):
        formats.open_checkpoint(written(tmp_path / "y.pt", zipped(unknown, {"0": SIX.tobytes()})))


def test_big_endian_files(tmp_path: Path) -> None:
    value = {
        "f": tensor(),
        "c": tensor(storage("1", 1, "torch.ComplexFloatStorage"), 0, (1,), (1,)),
        "b": tensor(storage("2", 2, "torch.BoolStorage"), 0, (2,), (1,)),
        "u": untyped("uint16", "3", 4, (2,)),
        "e": untyped("float8_e5m2", "4", 2, (2,)),
    }
    storages = {
        "0": SIX.astype(">f4").tobytes(),
        "1": np.array([1 + 2j], ">c8").tobytes(),
        "2": b"\1\2",
        "3": b"\0\1\0\2",
        "4": b"\x3c\x40",
    }
    path = written(tmp_path / "x.pt", zipped(value, storages, {"byteorder": b"big"}))
    with formats.open_checkpoint(path) as reader:
        assert np.array_equal(reads_alike(reader["f"]), SIX.reshape(2, 3))
        assert reads_alike(reader["c"]).tolist() == [1 + 2j]
        assert reads_alike(reader["b"]).tolist() == [True, True]
        assert reads_alike(reader["e"]).astype("f4").tolist() == [1.0, 2.0]
        with pytest.raises(UnsupportedFeatureError, match="big-endian uint16"):
            reader["u"]
    path = written(tmp_path / "y.pt", zipped(value, storages, {"byteorder": b"middle"}))
    with pytest.raises(CorruptCheckpointError, match="byteorder contains 'middle'; expected"):
        formats.open_checkpoint(path)


HOOKS = Call("collections.OrderedDict")
QUANTIZED = (
    storage("0", 6, "torch.QInt8Storage"),
    0,
    (2, 3),
    (3, 1),
    (Named("torch.per_tensor_affine"), 0.1, 3),
)
WITHOUT_VALUES = {
    "quantized": Call("torch._utils._rebuild_qtensor", (*QUANTIZED, False, HOOKS)),
    "sparse": Call(
        "torch._utils._rebuild_sparse_tensor",
        (
            Call("torch.serialization._get_layout", ("torch.sparse_coo",)),
            (T, T, Call("torch.Size", ((9, 9),)), True),
        ),
    ),
    "meta": Call(
        "torch._utils._rebuild_meta_tensor_no_storage", (Named("torch.float32"), (2, 2), (2, 1), False)
    ),
    "nested": Call("torch._utils._rebuild_nested_tensor", (T, T, T, T)),
    "tensor subclass": Call(
        "torch._utils._rebuild_wrapper_subclass",
        (Named("torch.Tensor"), Named("torch.float32"), (2, 2), (2, 1), 0, None, None, False),
    ),
}

ARGUMENTS = {
    "torch._tensor._rebuild_from_type_v2": (4, 4),
    "torch._utils._rebuild_tensor": (4, 4),
    "torch._utils._rebuild_tensor_v2": (6, 7),
    "torch._utils._rebuild_tensor_v3": (7, 8),
    "torch._utils._rebuild_parameter": (3, 4),
    "torch._utils._rebuild_parameter_with_state": (3, 4),
    "torch._utils._rebuild_qtensor": (7, 7),
    "torch._utils._rebuild_sparse_tensor": (2, 2),
    "torch._utils._rebuild_meta_tensor_no_storage": (4, 4),
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": (4, 4),
    "torch._utils._rebuild_wrapper_subclass": (8, 8),
}
"""The least and the most arguments of PyTorch's functions."""


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_function_takes_the_arguments_that_torch_gives_it(name: str) -> None:
    make, (least, most) = GLOBALS[name].make, ARGUMENTS[name]
    for count in range(11):
        with pytest.raises(ValueError) as found:
            make((None,) * count)
        wrong = f"a call has {count} arguments; expected {least}"
        assert (str(found.value) == wrong) == (not least <= count <= most)


@pytest.mark.parametrize("what", WITHOUT_VALUES)
def test_tensors_without_values_here_are_listed_and_rejected_by_name(tmp_path: Path, what: str) -> None:
    value = {"lacks": WITHOUT_VALUES[what], "w": tensor(storage("1"))}
    path = written(tmp_path / "x.pt", zipped(value, {"0": bytes(24), "1": SIX.tobytes()}))
    with formats.open_checkpoint(path) as reader:
        assert list(reader.specs) == ["lacks", "w"]
        assert reader.specs["lacks"].dtype.is_unmapped
        assert reader.specs["lacks"].nbytes is None
        with pytest.raises(UnsupportedFeatureError, match=what):
            reader["lacks"]
        assert reader["w"].read().size == 6
        assert [(found.severity, found.key) for found in reader.findings] == [("warning", "lacks")]
        assert not any(found.severity == "error" for step in reader.verify() for found in step.findings)
        assert sum(step.tensors for step in reader.verify()) == 2


@pytest.mark.parametrize(("name", "itemsize"), [("complex32", 4), ("float4_e2m1fn_x2", 1), ("bits16", 2)])
def test_bytes_of_types_that_are_not_mapped_are_gathered(tmp_path: Path, name: str, itemsize: int) -> None:
    data = bytes(range(24))
    count = 24 // itemsize
    rebuild = "torch._utils._rebuild_tensor_v3"
    turned = untyped(name, "0", 24, (2, count // 2))
    assert turned.name == rebuild
    arguments = list(turned.arguments)
    arguments[3] = (1, 2)  # strides: the second dimension goes by columns
    value = {"plain": untyped(name, "0", 24, (count,)), "turned": Call(rebuild, tuple(arguments))}
    path = written(tmp_path / "x.pt", zipped(value, {"0": data}))
    with formats.open_checkpoint(path) as reader:
        assert {spec.dtype.name for spec in reader.specs.values()} == {name}
        assert [spec.nbytes for spec in reader.specs.values()] == [24, 24]
        assert b"".join(map(bytes, reader["plain"].chunks())) == data
        elements = np.frombuffer(data, f"V{itemsize}").reshape(count // 2, 2).T
        assert b"".join(map(bytes, reader["turned"].chunks())) == elements.tobytes()
        with pytest.raises(UnsupportedFeatureError, match=f"values of dtype {name} cannot be read"):
            reader["plain"].read()


def test_a_parameter_and_its_attributes(tmp_path: Path) -> None:
    rebuild = Named("torch._utils._rebuild_tensor_v2")
    value = {
        "p": Call("torch._utils._rebuild_parameter", (T, True, HOOKS)),
        "s": Call("torch._utils._rebuild_parameter_with_state", (T, True, HOOKS, {"note": 1})),
        "t": Call(
            "torch._tensor._rebuild_from_type_v2", (rebuild, Named("torch.Tensor"), T.arguments, {"note": 1})
        ),
        "old": Call("torch._utils._rebuild_tensor", T.arguments[:4]),
    }
    path = written(tmp_path / "x.pt", zipped(value, {"0": SIX.tobytes()}))
    with formats.open_checkpoint(path) as reader:
        assert all(np.array_equal(reader[key].read(), SIX.reshape(2, 3)) for key in value)
        assert sum(step.nbytes for step in reader.verify()) < 24 + 2000


# Damage -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (tensor(None, 1), "reaches past the end of its storage"),
        (tensor(None, 0, (7,), (1,)), "reaches past the end of its storage"),
        (tensor(None, 0, (2, 2), (1 << 61, 1)), "reaches past the end of its storage"),
        (tensor(storage("1")), "storage '1' is missing"),
        (tensor(storage("0", 7), 0, (7,), (1,)), "has 24 bytes, but 7 float32 need 28"),
        (tensor(None, 0, (2, 3), (3, -1)), "invalid strides"),
        (tensor(None, 0, (2, -3), (3, 1)), "invalid shape"),
        (tensor(None, 0, (2, 1 << 70), (3, 1)), "invalid shape"),
        (tensor(None, 0, (1,) * 300, (1,) * 300), "invalid shape"),
        (tensor(None, -1), "not a view of a storage"),
        (tensor(None, 0, (2, 3), (1,)), "not a view of a storage"),
        (tensor(storage("0", -1)), "or no size"),
        (tensor(storage("0", 6, "torch.float32")), "a storage has no known type"),
        (Call("torch._utils._rebuild_tensor_v2", (1, 0, (), (), False, HOOKS)), "has no storage"),
        (Call("torch._utils._rebuild_tensor_v2", (storage(),)), "1 arguments; expected 6"),
        (Call("torch._utils._rebuild_parameter", (1, True, HOOKS)), "a parameter is not a tensor"),
    ],
)
def test_what_is_not_a_view_of_a_storage_is_damage(tmp_path: Path, value: Any, why: str) -> None:
    path = written(tmp_path / "x.pt", zipped({"v": value, "w": tensor()}, {"0": SIX.tobytes()}))
    with pytest.raises(CorruptCheckpointError, match=why):
        formats.open_checkpoint(path)


def test_a_lenient_reader_lists_what_is_not_where_it_should_be(tmp_path: Path) -> None:
    path = written(tmp_path / "x.pt", zipped({"v": tensor(storage("1")), "w": T}, {"0": SIX.tobytes()}))
    with formats.open_checkpoint(path, lenient=True) as reader:
        assert list(reader) == ["v", "w"]
        with pytest.raises(CorruptCheckpointError, match="is missing"):
            reader["v"]
        assert reader["w"].read().size == 6
        findings = [found for step in reader.verify() for found in step.findings]
        assert [(found.severity, found.code, found.key) for found in findings] == [
            ("error", "tensor-size", "v")
        ]


def test_a_few_bytes_are_not_made_into_thousands_of_millions(tmp_path: Path) -> None:
    value = {"v": tensor(None, 0, (1 << 40, 3), (0, 1))}
    path = written(tmp_path / "x.pt", zipped(value, {"0": SIX.tobytes()}))
    with pytest.raises(UnsupportedFeatureError, match="24 stored bytes expand"):
        formats.open_checkpoint(path)


def test_a_flipped_bit_in_a_storage_is_found_in_all_its_tensors(tmp_path: Path) -> None:
    data = zipped(
        {"a": T, "part": tensor(None, 0, (1,), (1,)), "b": tensor(storage("1"))},
        {"0": SIX.tobytes(), "1": SIX.tobytes()},
    )
    at = data.index(SIX.tobytes()) + 20
    path = written(tmp_path / "x.pt", data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
    with formats.open_checkpoint(path) as reader:
        for key in ("a", "part"):
            with pytest.raises(ChecksumError) as caught:
                reader[key].read()
            assert caught.value.key == key
            with pytest.raises(ChecksumError):
                list(reader[key].chunks())
            with pytest.raises(ChecksumError):
                reader[key].read_slice(0)
        assert reader["b"].read().size == 6
        findings = [found for step in reader.verify() for found in step.findings]
    assert [(found.code, found.key) for found in findings] == [
        ("tensor-checksum", "a"),
        ("tensor-checksum", "part"),
    ]


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_threads_find_what_one_finds(tmp_path: Path, compression: int) -> None:
    values = [np.arange(5000, dtype="<f4") + number for number in range(4)]
    views = {f"v{number}": tensor(storage(str(number), 5000), 0, (5000,), (1,)) for number in range(4)}
    data = zipped(
        views | {"tied": views["v2"]}, {str(number): each.tobytes() for number, each in enumerate(values)}
    )
    if compression == zipfile.ZIP_STORED:
        at = data.index(values[2].tobytes()) + 12345
        data = data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
    else:
        data = deflated(data)
    with formats.open_checkpoint(written(tmp_path / "x.pt", data)) as reader, workers(3) as pool:
        pool.task_bytes = 1 << 12
        found = [*reader.verify(pool)]
        shared = pool.sent[0]
    with formats.open_checkpoint(tmp_path / "x.pt") as reader:
        alone = [*reader.verify()]
    assert bool(shared) is (compression == zipfile.ZIP_STORED)
    for steps in (found, alone):
        findings = [(each.code, each.key) for step in steps for each in step.findings]
        is_flipped = compression == zipfile.ZIP_STORED
        assert findings == ([("tensor-checksum", "tied"), ("tensor-checksum", "v2")] if is_flipped else [])
        assert sum(step.tensors for step in steps) == (3 if is_flipped else 5)
    assert sum(step.nbytes for step in found) == sum(step.nbytes for step in alone) >= 80_000


def deflated(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as there, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name in there.namelist():
            made.writestr(name, there.read(name))
    return out.getvalue()


@pytest.mark.parametrize("name", ["version", "data/unused"])
def test_a_flipped_bit_in_what_is_not_a_tensor_is_found(tmp_path: Path, name: str) -> None:
    data = zipped({"a": T}, {"0": SIX.tobytes()}, {name: b"sound and whole"})
    path = written(tmp_path / "x.pt", data.replace(b"sound", b"sOund"))
    with formats.open_checkpoint(path) as reader:
        findings = [found for step in reader.verify() for found in step.findings]
    assert [(found.code, found.key) for found in findings] == [("tensor-checksum", None)]


# The legacy form --------------------------------------------------------------------

LEGACY = {"a": T, "b": tensor(storage("1", 4, "torch.LongStorage", ("2", 1, 2)), 0, (2,), (1,))}
STORAGES = {"1": (4, np.arange(4).tobytes()), "0": (6, SIX.tobytes())}


def test_the_legacy_form_and_views_of_storages(tmp_path: Path) -> None:
    with formats.open_checkpoint(written(tmp_path / "x.pth", legacy(LEGACY, STORAGES))) as reader:
        assert np.array_equal(reads_alike(reader["a"]), SIX.reshape(2, 3))
        assert reads_alike(reader["b"]).tolist() == [1, 2]
        assert not reader.has_checksums
        assert [found for step in reader.verify() for found in step.findings] == []


def test_storages_of_what_has_no_values_are_passed_over_in_the_legacy_form(tmp_path: Path) -> None:
    """A quantized tensor, and both parts of a sparse one, come before the tensor that is read."""
    quantized = Call(
        "torch._utils._rebuild_qtensor",
        (
            storage("q", 3, "torch.QInt8Storage"),
            0,
            (3,),
            (1,),
            (Named("torch.per_tensor_affine"), 1.0, 0),
            False,
            HOOKS,
        ),
    )
    layout = Call("torch.serialization._get_layout", ("torch.sparse_coo",))
    parts = (
        tensor(storage("i", 2, "torch.LongStorage"), 0, (1, 2), (2, 1)),
        tensor(storage("v", 2), 0, (2,), (1,)),
        (9,),
    )
    sparse = Call("torch._utils._rebuild_sparse_tensor", (layout, parts))
    storages = {"q": (3, b"123"), "i": (2, b"i" * 16), "v": (2, b"v" * 8), "0": (6, SIX.tobytes())}
    data = legacy({"q": quantized, "s": sparse, "a": T}, storages)
    with formats.open_checkpoint(written(tmp_path / "x.pth", data)) as reader:
        assert np.array_equal(reader["a"].read(), SIX.reshape(2, 3))
        assert [found.code for step in reader.verify() for found in step.findings] == ["dtype", "dtype"]


def test_every_truncation_of_the_legacy_form_is_an_error(tmp_path: Path) -> None:
    data = legacy(LEGACY, STORAGES)
    for size in range(15, len(data)):
        with pytest.raises(CorruptCheckpointError):
            formats.open_checkpoint(written(tmp_path / "x.pth", data[:size]))


@pytest.mark.parametrize(
    ("storages", "why"),
    [
        ({"0": STORAGES["0"]}, "storage '1' is missing"),
        ({**STORAGES, "9": (0, b"")}, "the object does not name storage '9'"),
        ({**STORAGES, "0": (6, SIX.tobytes() + b"x")}, "the storages end at byte"),
    ],
)
def test_storages_of_the_legacy_form_that_do_not_fit(tmp_path: Path, storages: Any, why: str) -> None:
    with pytest.raises(CorruptCheckpointError, match=why):
        formats.open_checkpoint(written(tmp_path / "x.pth", legacy(LEGACY, storages)))


def test_a_count_that_the_object_contradicts(tmp_path: Path) -> None:
    storages = {**STORAGES, "0": (5, SIX.tobytes())}
    with formats.open_checkpoint(written(tmp_path / "x.pth", legacy(LEGACY, storages))) as reader:
        with pytest.raises(CorruptCheckpointError, match="the storage has 5 elements, but the object says 6"):
            reader["a"].read()
        assert [found.key for step in reader.verify() for found in step.findings] == ["a"]


def test_a_module_of_the_legacy_form_is_rejected(tmp_path: Path) -> None:
    from tests.torch_files import Saved

    value = Saved(("module", Named("torch.Tensor"), "x.py", "class Net: pass"))
    with pytest.raises(CorruptCheckpointError, match="a module with its source"):
        formats.open_checkpoint(written(tmp_path / "x.pth", legacy(value, {})))


def test_a_large_object_of_the_legacy_form_is_read_piece_by_piece(tmp_path: Path) -> None:
    value = {f"{number}{'k' * 100}": T for number in range(3000)}
    data = legacy(value, {"0": STORAGES["0"]})
    assert len(data) > 1 << 19
    with formats.open_checkpoint(written(tmp_path / "x.pth", data)) as reader:
        assert len(reader) == 3000


# Shards -----------------------------------------------------------------------------


def sharded(folder: Path, weight_map: dict[str, str], **shards: Any) -> str:
    """Write shards of one tensor each, and their index; return its path."""
    folder.mkdir(exist_ok=True)
    for number, (name, data) in enumerate(shards.items(), 1):
        path = folder / f"pytorch_model-{number:05d}-of-{len(shards):05d}.bin"
        written(path, data if isinstance(data, bytes) else zipped({name: data}, {"0": SIX.tobytes()}))
    index = folder / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    return str(index)


FIRST, SECOND = (f"pytorch_model-0000{number}-of-00002.bin" for number in (1, 2))


def test_shards_are_one_checkpoint_by_folder_and_by_index(tmp_path: Path) -> None:
    index = sharded(tmp_path / "m", {"a": FIRST, "b": SECOND}, a=T, b=T)
    for path in (index, tmp_path / "m", index.removesuffix(".index.json")):
        with formats.open_checkpoint(path) as reader:
            assert (reader.format.name, list(reader), len(reader.files())) == ("pytorch", ["a", "b"], 3)
            assert np.array_equal(reader["b"].read(), SIX.reshape(2, 3))
            assert [found for step in reader.verify() for found in step.findings] == []
    with formats.open_checkpoint(tmp_path / "m" / SECOND) as reader:
        assert list(reader) == ["b"]


@pytest.mark.parametrize(
    ("weight_map", "second", "why"),
    [
        ({"a": SECOND, "b": FIRST}, T, f"weight_map says {SECOND}, but the tensor is in {FIRST}"),
        ({"a": FIRST, "c": SECOND}, T, "but the tensor is not in that file"),
        ({"a": FIRST, "b": "../x.bin"}, T, "not a file in this folder"),
        ({"a": FIRST, "b": "pytorch_model-00003-of-00003.bin"}, T, "no such file"),
        ({"a": FIRST, "b": SECOND}, b"<html>", "an HTML page"),
        ({"a": FIRST, "b": SECOND}, Named("os.system"), "loading the file would run 'os.system'"),
    ],
)
def test_shards_that_contradict_their_index_are_rejected(
    tmp_path: Path, weight_map: dict[str, str], second: Any, why: str
) -> None:
    index = sharded(tmp_path, weight_map, a=T, b=second)
    with pytest.raises(CheckpointError, match=why):
        formats.open_checkpoint(index)


def test_half_a_model_is_never_a_checkpoint(tmp_path: Path) -> None:
    """Without the index a directory has only shards, and none of them is the whole model."""
    index = sharded(tmp_path, {"a": FIRST, "b": SECOND}, a=T, b=T)
    os.remove(index)
    with pytest.raises(CorruptCheckpointError, match=r"found 2 of 2 shards, but not pytorch_model\.bin"):
        formats.open_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "data", [zipped({"a": T}, {"0": SIX.tobytes()}), legacy({"a": T}, {"0": (6, SIX.tobytes())})]
)
def test_the_garbage_collector_waits_while_a_file_is_opened_and_no_longer(
    tmp_path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would go through all that was made of the file each time that a few hundred objects are new."""
    seen = []
    real = TorchReader._check_sizes

    def check_sizes(reader: TorchReader) -> None:
        seen.append(gc.isenabled())
        real(reader)

    monkeypatch.setattr(TorchReader, "_check_sizes", check_sizes)
    was_enabled = gc.isenabled()
    gc.enable()
    try:
        formats.open_checkpoint(written(tmp_path / "x.pt", data)).close()
        with pytest.raises(CorruptCheckpointError):
            formats.open_checkpoint(written(tmp_path / "y.pt", data.replace(b"\x89", b"\xff")))
        assert gc.isenabled()
    finally:
        if not was_enabled:
            gc.disable()
    assert seen == [False]
