"""Rules that change keys: prefixes, substitutions and maps, and what follows them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ckpt_cli.operations.select.keys import Renamed, Rules, renamed
from ckpt_cli.operations.select.name_map import read_map
from ckpt_cli.operations.select.selection import NothingSelectedError
from formats import CheckpointError, ConversionError, DuplicateKeyError, open_checkpoint
from formats.location import parse_location
from tests.support import data_path
from tests.writing import save

if TYPE_CHECKING:
    from pathlib import Path

OBJECTS = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
SLOT = "/.OPTIMIZER_SLOT/optimizer/"


def keys(path: object, *subs: str, full_names: bool = False, **rules: Any) -> Renamed:
    with open_checkpoint(str(path)) as reader:
        return renamed(reader, Rules.make(subs, **rules), full_names=full_names)


def changed(path: object, *subs: str, **rules: Any) -> dict[str, str]:
    return keys(path, *subs, **rules).changed


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """A name-based checkpoint with slots in front, behind and joined."""
    w = np.zeros((2, 3), np.float32)
    arrays = {
        "bert/w": w,
        "bert/w/Adam": w,
        "bert/w/Adam_1": w,
        "training/RMSprop/bert/w/rms": w,
        "bert/w_slot_vr": np.zeros(2, np.float32),
        "bert/w/ExponentialMovingAverage": w,
        "bert/b": np.zeros(3, np.float32),
        "global_step": np.array(1),
    }
    save(tmp_path / "ckpt-1", arrays)
    return tmp_path / "ckpt-1"


# Rules ----------------------------------------------------------------------------


def test_prefixes_are_stripped_and_added(named: Path) -> None:
    assert changed(named, strip="bert/")["bert/b"] == "b"
    assert "global_step" not in changed(named, strip="bert/")
    assert keys(named, add="x/").keys["global_step"] == "x/global_step"
    assert changed(named, strip="bert/", add="gpt/")["bert/b"] == "gpt/b"


def test_a_prefix_without_its_slash_takes_it_along(named: Path) -> None:
    assert changed(named, strip="bert")["bert/b"] == "b"


def test_a_name_that_is_all_prefix_stays(named: Path) -> None:
    assert set(changed(named, strip="bert/w")) == {
        "bert/w/Adam",
        "bert/w/Adam_1",
        "bert/w/ExponentialMovingAverage",
        "bert/w_slot_vr",
    }


def test_substitutions_apply_in_order_as_re_sub_does(named: Path) -> None:
    assert changed(named, "^bert=>x", r"^x/(\w)$=>y/\1\1")["bert/b"] == "y/bb"
    assert changed(named, "t=>T")["bert/b"] == "berT/b"


def test_rules_apply_map_strip_sub_add(named: Path) -> None:
    found = changed(named, "^c=>d", strip="a/", add="z/", names={"bert/b": "a/c"})
    assert found["bert/b"] == "z/d"


@pytest.mark.parametrize(
    ("sub", "words"),
    [
        ("abc", "expected the form REGEX=>REPLACEMENT"),
        ("(=>x", "missing \\)"),
        (r"a=>\1", "invalid group"),
        (r"a=>\g<x>", "x"),
    ],
)
def test_malformed_substitutions(sub: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Rules.make([sub])


def test_a_replacement_may_hold_an_arrow(named: Path) -> None:
    assert changed(named, "b$=>=>")["bert/b"] == "bert/=>"


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"strip": "gpt/"}, "--strip-prefix 'gpt/' matches no key"),
        ({"names": {"bert/bb": "x"}}, "--map matches no key"),
    ],
)
def test_rules_that_match_nothing(named: Path, rules: dict[str, Any], words: str) -> None:
    with pytest.raises(NothingSelectedError, match=words) as caught:
        keys(named, **rules)
    assert "bert/b" in str(caught.value.hints) or "ckpt ls" in str(caught.value.hints)


def test_each_substitution_must_match_something(named: Path) -> None:
    with pytest.raises(NothingSelectedError, match="--sub 'bert=>y' matches no key"):
        keys(named, "bert=>x", "bert=>y")


def test_lines_of_a_map_that_match_nothing_are_reported(named: Path) -> None:
    found = keys(named, names={"bert/b": "c", "nope": "x", "neither": "y"})
    assert found.notes == ["2 of 3 lines of the map match no tensor, such as 'nope'"]


# Keys -----------------------------------------------------------------------------


def test_slots_follow_their_variable_by_name(named: Path) -> None:
    assert changed(named, "^bert/w$=>a/b/v") == {
        "bert/w": "a/b/v",
        "bert/w/Adam": "a/b/v/Adam",
        "bert/w/Adam_1": "a/b/v/Adam_1",
        "bert/w_slot_vr": "a/b/v_slot_vr",
        "training/RMSprop/bert/w/rms": "training/RMSprop/a/b/v/rms",
    }


def test_slots_that_a_rule_changed_do_not_follow(named: Path) -> None:
    found = changed(named, names={"bert/w": "v", "bert/w/Adam": "elsewhere"})
    assert found["bert/w/Adam"] == "elsewhere"
    assert found["bert/w/Adam_1"] == "v/Adam_1"


def test_two_tensors_on_one_key(named: Path) -> None:
    with pytest.raises(
        DuplicateKeyError, match="'bert/b' and 'global_step' would both become this key"
    ) as caught:
        keys(named, "^(bert/b|global_step)$=>one")
    assert caught.value.key == "one"
    assert caught.value.path == str(named)


def test_an_empty_key(named: Path) -> None:
    with pytest.raises(ConversionError, match="empty") as caught:
        keys(named, "^global_step$=>")
    assert caught.value.key == "global_step"


def test_the_key_of_object_graphs(named: Path) -> None:
    with pytest.raises(ConversionError, match="reserved for the object graph"):
        keys(named, "^global_step$=>_CHECKPOINTABLE_OBJECT_GRAPH")


def test_the_full_name_of_a_name_is_the_name(named: Path) -> None:
    assert keys(named, strip="bert/").full_names["w"] == "w"


def test_optimizer_weights_of_hdf5_follow() -> None:
    path = data_path("keras_mlp")
    models = [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".h5")]
    found = False
    for model in models:
        with open_checkpoint(model) as reader:
            slots = [key for key, kind in reader.kinds.items() if kind == "slot"]
            variable = next(key for key, kind in reader.kinds.items() if kind == "variable")
            mine = [key for key in slots if f"/{variable}/" in f"/{key}/"]
            if not mine:
                continue
            found = True
            new = renamed(reader, Rules.make(names={variable: "first/of/all"})).changed
            assert set(new) == {variable, *mine}
            assert all(new[key] == key.replace(variable, "first/of/all") for key in mine)
    assert found


# Objects --------------------------------------------------------------------------


def test_rules_see_object_paths_and_keys_follow() -> None:
    assert changed(OBJECTS, "^net/l1/kernel$=>w") == {
        f"net/l1/kernel{VALUE}": f"w{VALUE}",
        f"net/l1/kernel{SLOT}m{VALUE}": f"w{SLOT}m{VALUE}",
        f"net/l1/kernel{SLOT}v{VALUE}": f"w{SLOT}v{VALUE}",
    }
    assert changed(OBJECTS, "^iterator$=>data") == {
        "iterator/.ATTRIBUTES/ITERATOR_STATE": "data/.ATTRIBUTES/ITERATOR_STATE"
    }


def test_an_optimizer_goes_with_its_hyperparameters() -> None:
    """Rules that match only paths below a container apply to the container, including slot triples."""
    assert changed(OBJECTS, "^optimizer/=>opt/") == changed(OBJECTS, "^optimizer=>opt")


def test_maps_take_keys_as_well_as_paths() -> None:
    by_key = changed(OBJECTS, names={f"net/l1/kernel{VALUE}": f"a..b/w{VALUE}"})
    by_path = changed(OBJECTS, names={"net/l1/kernel": "a.b/w"})
    assert by_key == by_path
    assert by_key[f"net/l1/kernel{SLOT}m{VALUE}"] == f"a..b/w{SLOT}m{VALUE}"


def test_a_map_of_all_keys_moves_slots_with_their_variables() -> None:
    whole = changed(OBJECTS, "^net=>model", "^optimizer=>opt")
    assert changed(OBJECTS, names=whole) == whole


def test_rules_that_match_no_path_are_tried_on_keys() -> None:
    assert changed(OBJECTS, f"kernel{VALUE}$=>w{VALUE}") == changed(OBJECTS, "kernel$=>w")


def test_the_attribute_is_not_ours_to_change() -> None:
    """Trap 13: the live object looks for its own attribute's name."""
    with pytest.raises(ConversionError, match="belongs to the program's object"):
        keys(OBJECTS, "VARIABLE_VALUE$=>OTHER")
    with pytest.raises(ConversionError, match="belongs to the program's object"):
        keys(OBJECTS, names={f"net/l1/kernel{VALUE}": "w/.ATTRIBUTES/OTHER"})


def test_containers_may_be_named_themselves() -> None:
    assert set(changed(OBJECTS, names={"net": "model"}).values()) == {
        f"model/l1/{name}{tail}{VALUE}"
        for name in ("kernel", "bias")
        for tail in ("", f"{SLOT}m", f"{SLOT}v")
    }


def test_slot_names_change() -> None:
    assert changed(OBJECTS, r"\(m of=>(first of") == {
        f"net/l1/{name}{SLOT}m{VALUE}": f"net/l1/{name}{SLOT}first{VALUE}" for name in ("kernel", "bias")
    }


def test_slots_are_their_variables() -> None:
    with pytest.raises(ConversionError, match="a slot variable follows its variable"):
        keys(OBJECTS, names={"net/l1/kernel (m of optimizer)": "momentum"})
    with pytest.raises(ConversionError, match="a slot variable follows its variable"):
        keys(OBJECTS, names={"net/l1/kernel (m of optimizer)": "net/l1/bias (m of optimizer)"})
    with pytest.raises(ConversionError, match="a slot needs a name"):
        keys(OBJECTS, r"\(m of=>( of")


def test_a_rule_for_every_path_leaves_slots_with_their_variables() -> None:
    """`net/l1/kernel (m of optimizer)_x` is not a slot's path; the rule applies to the variable."""
    new = changed(OBJECTS, "$=>_x")[f"net/l1/kernel{SLOT}m{VALUE}"]
    assert new == f"net/l1/kernel_x/.OPTIMIZER_SLOT/optimizer_x/m{VALUE}"


def test_full_names_change_when_asked() -> None:
    found = keys(OBJECTS, "^net/=>model/", full_names=True).full_names
    assert found[f"model/l1/kernel{VALUE}"] == "model/dense/kernel"
    assert found[f"model/l1/kernel{SLOT}m{VALUE}"] == "model/dense/kernel/m"
    found = keys(OBJECTS, "^net/=>model/").full_names
    assert found[f"model/l1/kernel{VALUE}"] == "net/dense/kernel"


def test_object_paths_are_given_by_new_key() -> None:
    found = keys(OBJECTS, "^net/l1=>dense").object_paths
    assert found[f"dense/kernel{SLOT}m{VALUE}"] == "dense/kernel (m of optimizer)"


def test_a_graph_that_cannot_be_read_is_named() -> None:
    with pytest.raises(CheckpointError, match="object graph cannot be read") as caught:
        keys(data_path("corrupt", "graph_cut", "ckpt"), "a=>b")
    assert caught.value.code == "graph-decode"


# Maps -----------------------------------------------------------------------------


def test_maps_are_columns_or_json(tmp_path: Path) -> None:
    file = tmp_path / "map"
    file.write_bytes(b"# made by hand\n\na\tb\nwith space\tx y\r\n")
    assert read_map(parse_location(str(file))) == {"a": "b", "with space": "x y"}
    file.write_text(json.dumps({"a": "b", "c\udcff": "d"}))
    assert read_map(parse_location(str(file))) == {"a": "b", "c\udcff": "d"}


def test_columns_spell_bytes_as_ckpt_prints_them(tmp_path: Path) -> None:
    file = tmp_path / "map"
    file.write_bytes(rb"a\x09b\\\xff" + b"\tc\n")
    assert read_map(parse_location(str(file))) == {"a\tb\\\udcff": "c"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a b\n", "line 1 has 1 column"),
        (b"a\tb\nc\td\tT\te\n", "line 2 has 4 columns"),
        (b"a\tb\na\tc\n", "'a' has two new names, 'b' and 'c'"),
        (b'{"a": "b", "a": "c"}', "'a' has two new names, 'b' and 'c'"),
        (b'{"a": 1}', "the new name of 'a' is not a string"),
        (b'{"a": {"b": "c"}}', "the new name of 'a' is not a string"),
        (b"{", "starts like JSON, but is not valid JSON"),
        (b'{"a":' * 100_000, "starts like JSON, but is not valid JSON"),
    ],
)
def test_malformed_maps(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "map"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=words) as caught:
        read_map(parse_location(str(file)))
    assert caught.value.path == str(file)


def test_the_gold_maps_fit_their_checkpoint() -> None:
    for name in ("gold_map.tsv", "gold_map_paths.tsv"):
        names = read_map(parse_location(data_path("bert_template", name)))
        with open_checkpoint(data_path("bert_tiny")) as reader:
            found = renamed(reader, Rules.make(names=names))
        assert {old: new for old, new in found.changed.items() if old in names} == names
        assert found.notes == []
