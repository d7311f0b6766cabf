"""The rules of contract section 2: what is a variable, a slot, optimizer state, state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formats import TensorSpec, create_checkpoint, open_checkpoint
from formats.core import dtypes
from formats.model import name_kinds as kinds_module
from formats.model.name_kinds import name_kinds, named_slots
from formats.model.object_names import ObjectNames
from formats.tf.graph import object_kinds
from tests.support import data_path, facts, recorded

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SLOT_NAMES = facts("slot_names")["checkpoints"]
AVERAGE = "/ExponentialMovingAverage"


@pytest.mark.parametrize(("path", "known"), SLOT_NAMES.items(), ids=list(SLOT_NAMES))
def test_every_optimizer_of_tensorflow_1_and_keras(path: str, known: dict[str, Any]) -> None:
    """TensorFlow reported which keys of each checkpoint are variables, and the variable of each slot."""
    slots = {key: variable for key, variable, _ in known["slots"] if not key.endswith(AVERAGE)}
    for key in known["other_keys"]:
        if f"{AVERAGE}/" in key:  # the sum and the count behind an average that is not biased towards 0
            slots[key] = key.rpartition("/")[0]
    expected = dict.fromkeys(known["variables"], "variable") | dict.fromkeys(slots, "slot")
    expected |= {key: "variable" for key, _, _ in known["slots"] if key.endswith(AVERAGE)}
    for key in set(known["other_keys"]) - set(slots):
        expected[key] = (
            "state" if key == "global_step" else "variable" if key.endswith(AVERAGE) else "optimizer"
        )
    with open_checkpoint(data_path("slot_names", path)) as reader:
        assert dict(reader.kinds) == expected
        assert {key: slot.variable for key, slot in named_slots(reader.specs).items()} == slots


def test_there_is_every_optimizer() -> None:
    optimizers = {name for known in SLOT_NAMES.values() for name in known["get_slot_names"]}
    assert len(SLOT_NAMES) == 42
    assert {
        "Adam",
        "Momentum",
        "Adagrad",
        "RMSProp",
        "Adadelta",
        "Ftrl",
        "AdagradDA",
        "Nadam",
        "SGD",
    } <= optimizers


def kinds_of(path: str) -> dict[str, set[str]]:
    with open_checkpoint(data_path(path)) as reader:
        found: dict[str, set[str]] = {}
        for key, kind in reader.kinds.items():
            found.setdefault(kind, set()).add(key)
        assert list(reader.kinds) == list(reader.specs)
        return found


def test_estimator_v1_keeps_a_slot_for_each_part() -> None:
    found = kinds_of("estimator_iris/models/iris/model.ckpt-200")
    names = facts("estimator_iris")["variable_names"]
    assert found["slot"] == {name for name in names if name.endswith("/t_0/Adagrad")}
    assert found["state"] == {"global_step"}
    assert found["variable"] == set(names) - found["slot"] - found["state"]


def test_estimator_v2_keeps_slots_under_training() -> None:
    found = kinds_of("estimator_iris_v2/models/iris/model.ckpt-200")
    assert found["slot"]
    assert all(key.startswith("training/") for key in found["slot"] | found["optimizer"])
    assert found["state"] == {"global_step"}
    assert not any(key.startswith("training/") for key in found["variable"])


def test_google_bert_keeps_its_moments_as_variables() -> None:
    found = kinds_of("bert_google_slots/model.ckpt-1000")
    assert found["slot"] == {
        key for kind in found.values() for key in kind if key.endswith(("/adam_m", "/adam_v"))
    }
    assert found["state"] == {"global_step"}
    assert len(found["slot"]) == 2 * len(found["variable"])


def test_moving_averages_are_variables() -> None:
    found = kinds_of("name_based/ema/model.ckpt-3")
    assert any(key.endswith("/ExponentialMovingAverage") for key in found["variable"])
    assert not any("ExponentialMovingAverage" in key for key in found.get("slot", ()))


def test_a_kind_is_reported_without_looking_at_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    tell = kinds_module._Names.slot
    monkeypatch.setattr(
        kinds_module._Names, "slot", lambda self, key, spec: asked.append(key) or tell(self, key, spec)
    )
    found = kinds(**{"net/w": W, "net/w/Adam": W, "beta1_power": (), "step": "string"})
    assert (found["net/w/Adam"], found["beta1_power"]) == ("slot", "optimizer")
    assert asked == ["net/w/Adam", "beta1_power"]
    assert next(iter(found.items())) == ("net/w", "variable")
    assert asked[2:] == ["net/w"]
    assert dict(found) == {
        "net/w": "variable",
        "net/w/Adam": "slot",
        "beta1_power": "optimizer",
        "step": "state",
    }
    assert found.get("missing") is None


def test_keys_that_are_between_a_variable_and_its_slot_hide_nothing() -> None:
    found = kinds(
        **{"w": W, "w-1": W, "w.b": (3,), "w/Adam": W, "w0/Adam": W, "v": (), "v/Foo": (), "v/Foo/Bar": ()}
    )
    assert {key for key, kind in found.items() if kind == "slot"} == {"w/Adam", "v/Foo", "v/Foo/Bar"}


def specs(**shapes: tuple[int, ...] | str) -> dict[str, TensorSpec]:
    made = {}
    for name, shape in shapes.items():
        dtype = dtypes.STRING if shape == "string" else dtypes.BY_NAME["float32"]
        made[name] = TensorSpec(name, dtype, () if isinstance(shape, str) else shape)
    return made


def kinds(**shapes: tuple[int, ...] | str) -> Mapping[str, str]:
    return name_kinds(specs(**shapes))


W = (4, 3)


@pytest.mark.parametrize(
    ("key", "shape", "kind"),
    [
        ("net/w/Adam", W, "slot"),
        ("net/w/Adam_1", W, "slot"),
        ("net/w/Foo", W, "slot"),
        ("net/w/t_0/Adagrad", W, "slot"),
        ("net/w/part_0/Ftrl_1", W, "slot"),
        ("net/w/adam_m", W, "slot"),
        ("net/w/adam_v", W, "slot"),
        ("net/w_slot_v", W, "slot"),
        ("net/w_slot_m", W, "slot"),
        ("net/w_slot_vr", (4,), "slot"),
        ("net/w_slot_vc", (3,), "slot"),
        ("net/w/Adafactor", (4,), "slot"),
        ("net/w/Adafactor_1", (3,), "slot"),
        ("training/Adam/net/w/m", W, "slot"),
        ("training/Foo/net/w/vhat", W, "slot"),
        ("Adam/net/w/v", W, "slot"),
        ("train/net/w/Adam", W, "slot"),
        ("net/w/ExponentialMovingAverage", W, "variable"),
        # The variable is missing, or has another shape:
        ("net/u/Adam", W, "variable"),
        ("net/w/Adam", (4,), "variable"),
        ("net/w_slot_v", (4,), "variable"),
        ("net/w_slot_vr", (5,), "variable"),
        ("net/u_slot_vr", (4,), "variable"),
        ("training/Adam/net/u/m", W, "variable"),
        ("w/Adam", W, "variable"),
        # No tensor's own:
        ("beta1_power", (), "optimizer"),
        ("beta2_power_1", (), "optimizer"),
        ("train/beta1_power", (), "optimizer"),
        ("training/Adam/learning_rate", (), "optimizer"),
        ("training/Ftrl/iter", (), "optimizer"),
        ("Adam/beta_1", (), "optimizer"),
        ("global_step", (), "state"),
        ("net/momentum", (), "variable"),
        ("model/learning_rate", (), "variable"),
        ("table-keys", "string", "state"),
    ],
)
def test_names_of_slots(key: str, shape: tuple[int, ...] | str, kind: str) -> None:
    found = kinds(**{"net/w": W, key: shape})
    assert found == {"net/w": "variable", key: kind}


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("step", "state"),
        ("step/.ATTRIBUTES/VARIABLE_VALUE", "state"),
        ("v1..2.Sstep/.ATTRIBUTES/VARIABLE_VALUE", "state"),
        ("net/step", "variable"),
        ("net/step/.ATTRIBUTES/VARIABLE_VALUE", "variable"),
        ("layer.count", "variable"),
    ],
)
def test_one_integer_at_the_root_is_state_in_every_format(tmp_path: Path, key: str, kind: str) -> None:
    for dtype, shape in (("int32", ()), ("int64", ()), ("uint8", ()), ("float32", ()), ("int64", (1,))):
        values = {key: np.ones(shape, dtype), "other/w": np.ones(3, np.float32)}
        made = {name: TensorSpec(name, dtypes.BY_NAME[str(v.dtype)], v.shape) for name, v in values.items()}
        is_lone = dtype != "float32" and not shape
        for name, suffix in EXPORTS.items():
            path = tmp_path / f"{dtype}-{len(shape)}{suffix}"
            with create_checkpoint(path, format=name, specs=made.values()) as writer:
                for written in made:
                    writer.write(written, values[written])
            with open_checkpoint(path) as reader:
                assert reader.kinds[key] == (kind if is_lone else "variable"), name


EXPORTS = {"npz": ".npz", "safetensors": ".safetensors", "hdf5": ".h5", "pytorch": ".pt", "tf-name": "-1"}


def test_scalar_slot_of_a_scalar_variable() -> None:
    assert kinds(**{"s": (), "s/Adam": (), "beta1_power": ()}) == {
        "s": "variable",
        "s/Adam": "slot",
        "beta1_power": "optimizer",
    }


OBJECT_BASED = [golden["path"] for golden in recorded("tf-v2-object")]


@pytest.mark.parametrize("path", OBJECT_BASED)
def test_every_tensor_of_an_object_based_checkpoint_has_a_kind(path: str) -> None:
    with open_checkpoint(data_path(path)) as reader:
        graph = reader.object_graph
        assert graph is not None
        assert list(reader.kinds) == list(reader.specs)
        assert reader.kinds["_CHECKPOINTABLE_OBJECT_GRAPH"] == "graph"
        owners = graph.tensors(reader.specs)
        triples = {slot.node for slot in graph.slots}
        for key, kind in reader.kinds.items():
            assert kind in {"variable", "slot", "optimizer", "state", "graph"}
            if key in owners and owners[key][0] in triples:
                assert kind == "slot", key
            if reader.specs[key].dtype in (dtypes.STRING, dtypes.VARIANT):
                assert kind in {"state", "graph"}, key
        assert reader.kinds.get("save_counter/.ATTRIBUTES/VARIABLE_VALUE", "state") == "state"


@pytest.mark.parametrize("folder", ["guide_adam_legacy", "guide_adam_new", "guide_adam_keras3"])
def test_the_guides_model_with_each_kind_of_adam(folder: str) -> None:
    """Slot triples in legacy Adam, a list of variables since Keras 2.11, of trainable ones too in Keras 3."""
    found = kinds_of(f"{folder}/tf_ckpts/ckpt-10")
    assert {key.partition("/")[0] for key in found["variable"]} == {"net"}
    assert len(found["variable"]) == 2
    assert len(found["slot"]) == 4
    assert found["state"] == {
        "save_counter/.ATTRIBUTES/VARIABLE_VALUE",
        "step/.ATTRIBUTES/VARIABLE_VALUE",
        "iterator/.ATTRIBUTES/ITERATOR_STATE",
    }
    assert any("iter" in key or "/_variables/0/" in key for key in found["optimizer"])


def test_slots_in_lists_beyond_the_bound_are_optimizer_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optimizers may all list the same nodes, so the nodes listed are counted before they are looked at."""
    path = data_path("guide_adam_new", "tf_ckpts", "ckpt-10")
    with open_checkpoint(path) as reader:
        assert sum(kind == "slot" for kind in reader.kinds.values()) == 4
    monkeypatch.setattr(object_kinds, "_MOST_LISTED", 3)
    with open_checkpoint(path) as reader:
        assert "slot" not in reader.kinds.values()
        assert sum(kind == "optimizer" for kind in reader.kinds.values()) == 6


F, I = dtypes.BY_NAME["float32"], dtypes.BY_NAME["int64"]  # noqa: E741  as the kinds of numbers
LISTED: dict[str, tuple[Any, tuple[int, ...], str | None]] = {
    "net/w": (F, (2, 3), "variable"),
    "net/ids": (I, (9,), "variable"),
    "net/h": (F, (4,), None),
    "net/h/.OPTIMIZER_SLOT/opt/m": (F, (5,), "slot"),
    "opt/_iterations": (I, (), "optimizer"),
    "opt/_trainable_variables/0": (F, (7,), "variable"),
    "opt/_variables/1": (F, (2, 3), "slot"),
    "opt/_variables/2": (F, (4,), "slot"),
    "opt/_variables/3": (F, (7,), "slot"),
    "opt/_variables/4": (F, (), "optimizer"),
    "opt/_variables/5": (F, (3, 2), "optimizer"),
    "opt/_variables/6": (F, (9,), "optimizer"),  # a shape that integers alone have
    "opt/_variables/7": (F, (5,), "optimizer"),  # and one that slots alone have
    "opt/_variables/x": (F, (2, 3), "optimizer"),
    "opt/other/1": (F, (2, 3), "optimizer"),
}


def test_of_what_an_optimizer_lists_slots_have_the_shapes_of_weights() -> None:
    """In files without an object graph only the spelling and the shapes show it."""
    names = ObjectNames({key: TensorSpec(key, dtype, shape) for key, (dtype, shape, _) in LISTED.items()})
    assert names.is_marked
    found = {key: names.kind(key, TensorSpec(key, dtype, shape)) for key, (dtype, shape, _) in LISTED.items()}
    expected = {key: kind for key, (_, _, kind) in LISTED.items()}
    expected |= {"net/w": None, "net/ids": None}
    assert found == expected
