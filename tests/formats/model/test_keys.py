from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.model.object_keys import escape, looks_object_based, unescape
from tests.support import recorded

ESCAPED = [
    ("kernel", "kernel"),
    ("a.b", "a..b"),
    ("a/b", "a.Sb"),
    ("a./b", "a...Sb"),
    ("a.S", "a..S"),
    ("/", ".S"),
    (".", ".."),
    ("..", "...."),
    ("0", "0"),
    ("", ""),
]


@pytest.mark.parametrize(("name", "escaped"), ESCAPED)
def test_edge_names_are_escaped_as_tensorflow_does(name: str, escaped: str) -> None:
    assert escape(name) == escaped
    assert unescape(escaped) == name


@given(st.text(st.sampled_from("a./SA"), max_size=10))
def test_escaping_comes_back_and_has_no_slash(name: str) -> None:
    assert unescape(escape(name)) == name
    assert "/" not in escape(name)


@given(st.text(st.sampled_from("./S"), max_size=6), st.text(st.sampled_from("./S"), max_size=6))
def test_different_names_are_spelled_differently(left: str, right: str) -> None:
    assert (escape(left) == escape(right)) == (left == right)


def test_no_escaped_name_looks_like_tensorflows_own_components() -> None:
    assert escape(".ATTRIBUTES") == "..ATTRIBUTES"
    assert escape(".OPTIMIZER_SLOT") == "..OPTIMIZER_SLOT"


def test_paths_escaped_are_how_tensorflow_spells_keys() -> None:
    """The keys TensorFlow wrote are the edge names it wrote, escaped; slots and doubled attributes aside."""
    from formats import open_checkpoint
    from tests.support import data_path

    spelled = 0
    for golden in recorded("tf-v2-object"):
        with open_checkpoint(data_path(golden["path"])) as reader:
            graph = reader.object_graph
            assert graph is not None
            came_from = graph.reachable()
            for key, (owner, attribute, _) in graph.tensors(reader.specs).items():
                names: list[str] = []
                step = came_from.get(owner)
                while step is not None:
                    names.insert(0, escape(step[1]))
                    step = came_from[step[0]]
                if key == "/".join([*names, ".ATTRIBUTES", attribute]):
                    spelled += 1
    assert spelled > 500


def test_keys_tell_their_kind() -> None:
    assert looks_object_based("net/kernel/.ATTRIBUTES/VARIABLE_VALUE")
    assert not looks_object_based("net/kernel")
    for golden in recorded("tf-v2-name"):
        assert not any(looks_object_based(tensor["key"]) for tensor in golden["tensors"])
