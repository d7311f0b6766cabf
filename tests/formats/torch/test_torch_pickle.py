"""Pickles are data: functions that a file names are never called, and its memory is limited."""

from __future__ import annotations

import collections
import pickle
import time
from typing import Any

import pytest

from formats.torch.objects import GLOBALS, storage_of
from formats.torch.pickle import MOST_OBJECTS, Machine, RejectedGlobalError
from formats.torch.values import Bag, Made, Pairs
from tests.torch_files import Call, Named, Opcodes, pickled, storage, tensor


def run(data: bytes) -> Any:
    return Machine(data, GLOBALS, storage_of).run()


def plain(value: Any) -> Any:
    """Return what a machine made with Python's dictionaries and sets."""
    if isinstance(value, Pairs):
        return {plain(key): plain(item) for key, item in value.items}
    if isinstance(value, Bag):
        return set(map(plain, value.items))
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return value


VALUES = [
    None,
    True,
    -1,
    255,
    65535,
    1 << 40,
    -(1 << 200),
    1.5,
    float("-inf"),
    "ключ",
    "x" * 300,
    b"bytes\xff",
    b"y" * 300,
    (),
    (1,),
    (1, 2),
    (1, 2, 3),
    (1, 2, 3, 4),
    [],
    [1, [2]],
    {"a": {7: (1, "b")}, ("t", 1): None},
    {1, 2, 3},
    1 + 2j,
]


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_bytes_that_can_be_changed_stay_what_they_are(protocol: int) -> None:
    """torch takes them by an opcode of their own since protocol 5; they were written as bytes that cannot."""
    assert run(pickle.dumps(bytearray(b"xy"), protocol)) == Made("builtins.bytearray", (b"xy",))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_plain_values_are_what_python_loads(value: Any, protocol: int) -> None:
    assert plain(run(pickle.dumps(value, protocol))) == value
    shared = [value, value]
    assert plain(run(pickle.dumps(shared, protocol))) == shared


def test_an_ordered_dictionary_and_its_attributes() -> None:
    value = collections.OrderedDict(b=1, a=2)
    value._metadata = {"": {"version": 1}}  # type: ignore[attr-defined]
    for protocol in (2, 4):
        assert list(plain(run(pickle.dumps(value, protocol))).items()) == [("b", 1), ("a", 2)]


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "posix.system",
        "builtins.eval",
        "builtins.getattr",
        "torch.load",
        "torch._utils._import_dotted_name",
        "torch.nn.modules.linear.Linear",
        "collections.OrderedDict.fromkeys",
        "numpy.core.multiarray._reconstruct",
    ],
)
def test_what_is_not_on_the_list_is_rejected_by_its_name(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    for data in (
        pickled(Call(name, ("touch ran",))),
        pickled(Named(name)),
        b"\x80\x04\x8c%c%b\x8c%c%b\x93." % (len(module), module.encode(), len(attribute), attribute.encode()),
    ):
        with pytest.raises(RejectedGlobalError, match=name) as caught:
            run(data)
        assert caught.value.name == name


def test_the_list_is_no_longer_than_torchs() -> None:
    """By its own in torch 2.13; of what is next to it, records of the same functions."""
    functions = {name for name, found in GLOBALS.items() if found.make is not None}
    assert {name for name in functions if not name.startswith("torch.")} == {
        "_codecs.encode",
        "builtins.bytearray",
        "builtins.complex",
        "builtins.set",
        "collections.Counter",
        "collections.OrderedDict",
    }


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is truncated"),
        (b"\x80\x02", "it is truncated"),
        (b"\x80\x02.", "it is truncated"),
        (b"\x80\x02N0N", "it is truncated"),
        (b"\x80\x02]K\1.", "ends before its object"),
        (b"\x80\x02](K\1.", "ends before its object"),
        (b"\x80\x02X\xff\xff\xff\xffabc.", "an argument needs 4294967295 bytes"),
        (b"\x80\x02\x8d" + b"\xff" * 8 + b"abc.", "an argument needs"),
        (b"\x80\x02\x8b\0\1\0\0" + b"\1" * 256 + b".", "an integer is too large: 256 bytes"),
        (b"\x80\x02h\x05.", "memo entry 5 does not exist"),
        (b"\x80\x02NNa.", "appends to a NoneType; expected a list"),
        (b"\x80\x02](K", "it is truncated"),
        (b"\x80\x02}(K\1u.", "a key has no value"),
        (b"\x80\x02N(NNu.", "expected a dictionary"),
        (b"\x80\x02](N\x90.", "adds to a list; expected a set"),
        (b"\x80\x02N)R.", "it calls something that is not a global"),
        (b"\x80\x02ctorch\nfloat32\n)R.", "'torch.float32', a constant"),
        (b"\x80\x02ccollections\nOrderedDict\nNR.", "it calls "),
        (b"\x80\x02]}b.", "a list cannot have attributes"),
        (b"\x80\x02I1\n.", "opcode 0x49"),
        (b"\x80\x02\x82\1.", "opcode 0x82"),
        (b"\x80\x02c" + b"m" * 600, "a global has no name"),
        (b"\x80\x02N\x8c\1a\x93.", "the name of a global is not text"),
        (b"\x80\x02X\1\0\0\0\xff.", "not UTF-8"),
        (b"\x80\x021.", "it is truncated"),
        (b"\x80\x02\x87.", "more values than there are"),
        (pickled(Call("_codecs.encode", ("x", "utf-8"))), "latin1"),
        (pickled(Call("builtins.complex", ("1", 2.0))), "not made of floats"),
        (pickled(Call("torch.Size", (1,))), "the elements are not in a list"),
        (pickled(Call("collections.OrderedDict", ([1],))), "not made of pairs"),
        (pickled(Opcodes(b"K\1Q")), "not a storage"),
    ],
)
def test_what_is_not_a_sound_pickle_is_a_value_error(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        run(data)


@pytest.mark.parametrize("opcode", [b"]", b"}", b"(", b"]\x94", b"\x8f", b")\x85"])
def test_objects_are_bounded_by_the_bytes_there_are(opcode: bytes) -> None:
    few, many = MOST_OBJECTS // 2, MOST_OBJECTS * 4
    with pytest.raises(ValueError, match="ends before its object"):  # so many may be
        run(b"\x80\x02" + opcode * (few if len(opcode) == 1 else 10) + b"N.")
    with pytest.raises(ValueError, match="too many objects"):
        Machine(b"\x80\x02" + opcode * many + b"N.", GLOBALS, storage_of, stored=1000).run()


AGAIN = 20_000
"""Calls with the same arguments, of five bytes each."""


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("_codecs.encode", ("k" * 100_000, "latin1")),
        ("collections.OrderedDict", (dict.fromkeys(range(2000)),)),
        ("collections.OrderedDict", ([[number, None] for number in range(2_000)],)),
        ("collections.Counter", (dict.fromkeys(range(2000), 1),)),
        ("torch.Size", ((1,) * 10_000,)),
        ("builtins.set", ([1] * 10_000,)),
        (
            "torch._utils._rebuild_sparse_tensor",
            (Call("torch.serialization._get_layout", ("x",)), (tensor(), *[()] * 10_000)),
        ),
        (
            "torch._utils._rebuild_tensor_v2",
            (*(storage(), 0, (6,), (1,), False, None), Opcodes(b"}(" + b"X\3\0\0\0negN" * 10_000 + b"u")),
        ),
        ("torch._utils._rebuild_tensor", (storage(), 0, (1,) * 200, (1,) * 200)),
    ],
)
def test_a_call_is_charged_by_what_it_reads(function: str, arguments: tuple[Any, ...]) -> None:
    """So that a small file does not do the same again and again to something large."""
    start = b"\x80\x02(" + pickled(Named(function))[2:-1] + b"q\1" + pickled(arguments)[2:-1] + b"q\2" + b"1"
    machine = Machine(start + b"](" + b"h\1h\2R" * AGAIN + b"e.", GLOBALS, storage_of)
    with pytest.raises(ValueError, match="too many values for its size"):
        machine.run()
    assert machine.at < len(start) + 5 * AGAIN


def test_what_a_call_costs_is_soon_reported() -> None:
    """Adding up the sizes of the arguments takes no longer than reading them."""
    many = pickled(Call("torch.device", (0,) * 20_000))[2:-1] + b"q\1"
    data = (
        b"\x80\x02("
        + many
        + b"]("
        + b"h\1" * 20_000
        + b"eq\2"
        + pickled(Named("torch.device"))[2:-1]
        + b"q\3"
    )
    begun = time.process_time()
    run(data + b"1](" + b"h\3h\2\x85R" * 20 + b"e.")
    with pytest.raises(ValueError, match="values for its size"):
        run(data + b"1h\3(" + b"h\2" * 20_000 + b"tR.")
    assert time.process_time() - begun < 2


def test_tensors_as_they_are_cost_a_call_nothing_next_to_the_object() -> None:
    machine = Machine(pickled([tensor() for _ in range(10_000)]), GLOBALS, storage_of, stored=0)
    assert len(machine.run()) == 10_000


def test_text_that_is_wider_in_memory_than_in_the_file_is_bounded() -> None:
    for text, times in (
        ("k" * 200_000, 500),
        ("é" * 100_000, 500),
        ("\u4e00" * 50_000, 200),
        ("𝄞" * 20_000, 100),
    ):
        assert len(run(pickled([text] * times))) == times
    for end, size in (("\u4e00", 1 << 26), ("𝄞", 12 << 20)):
        with pytest.raises(ValueError, match="takes too much memory"):
            run(pickled("k" * size + end))


def test_a_storage_has_a_short_key() -> None:
    with pytest.raises(ValueError, match="the key of a storage has 600 characters"):
        run(pickled(tensor(storage("k" * 600))))
