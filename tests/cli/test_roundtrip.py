"""`ckpt verify --roundtrip`: what survives the way to another format and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import formats
from ckpt_cli.operations.convert import roundtrip
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable

WAYS = [
    (path, to)
    for path in (
        "guide_adam_legacy/tf_ckpts/ckpt-10",
        "guide_adam_new/tf_ckpts/ckpt-10",
        "name_based/adam/model.ckpt-5",
        "max_shard_size/split",
        "containers/nested",
        "bert_tiny/bert_model.ckpt-2",
    )
    for to in ("object", "name", "v1", "npz", "safetensors")
]


def _only(result: object) -> dict:
    (found,) = result.json["results"]
    return found


@pytest.mark.parametrize(("path", "to"), WAYS)
def test_nothing_is_lost(path: str, to: str, ckpt: Callable) -> None:
    result = ckpt("verify", "--json", data_path(path), "--roundtrip", to)
    found = _only(result)
    assert (result.code, found["ok"]) == (0, True), found["findings"]
    left_out = {finding["key"] for finding in found["findings"]}
    assert {(f["severity"], f["code"]) for f in found["findings"]} <= {("warning", "roundtrip")}
    with formats.open_checkpoint(data_path(path)) as reader:
        assert not [key for key in left_out if reader.kinds[key] not in ("graph", "state")]


@pytest.mark.parametrize("to", ["npz", "safetensors", "object", "weights-h5", "h5"])
@pytest.mark.parametrize(
    "path",
    [
        "keras_mlp/mlp.full.h5",
        "keras_mlp/mlp.with_optimizer.h5",
        "keras_rnn/rnn.full.h5",
        "keras_nested/nest.full.h5",
        "keras3_conv/conv.keras",
        "keras3_mlp/mlp.keras",
        "keras3_mlp/mlp.legacy.h5",
    ],
)
def test_a_keras_model_comes_back(path: str, to: str, ckpt: Callable) -> None:
    found = _only(ckpt("verify", "--json", data_path(path), "--roundtrip", to))
    assert found["findings"] == []


@pytest.mark.parametrize("to", ["object", "name", "hdf5"])
def test_every_dtype_survives(to: str, ckpt: Callable) -> None:
    found = _only(ckpt("verify", "--json", data_path("dtypes", "all"), "--roundtrip", to))
    assert found["ok"], found["findings"]


def test_what_has_no_place_there_is_a_warning(ckpt: Callable) -> None:
    path = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
    findings = _only(ckpt("verify", "--json", path, "--roundtrip", "npz"))["findings"]
    assert {(finding["key"], finding["message"]) for finding in findings} == {
        ("_CHECKPOINTABLE_OBJECT_GRAPH", "the tensor was left out: npz cannot store an object graph"),
        ("iterator/.ATTRIBUTES/ITERATOR_STATE", "the tensor was left out: npz cannot store variant tensors"),
    }


def test_names_that_a_format_spells_otherwise_come_back(ckpt: Callable) -> None:
    path = data_path("name_based", "adam", "model.ckpt-5")
    findings = _only(ckpt("verify", "--json", path, "--roundtrip", "hdf5"))["findings"]
    assert [finding for finding in findings if finding["severity"] == "error"] == []


@pytest.mark.parametrize(
    ("path", "to", "message"),
    [
        ("dtypes/all", "npz", "tensor 'num/bfloat16': npz cannot store bfloat16 tensors"),
    ],
)
def test_an_impossible_way_exits_3(path: str, to: str, message: str, ckpt: Callable) -> None:
    result = ckpt("verify", data_path(path), "--roundtrip", to)
    assert result.code == 3
    assert message in result.err
    assert "Traceback" not in result.err


def test_what_is_damaged_is_not_sent_on_its_way(ckpt: Callable) -> None:
    result = ckpt("verify", "--json", data_path("corrupt", "data_flip", "ckpt"), "--roundtrip", "name")
    assert result.code == 1
    assert [finding["code"] for finding in _only(result)["findings"]] == ["tensor-checksum"]


def test_a_change_on_the_way_is_found(ckpt: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion back that takes one tensor for another, and one that forgets one."""
    plan_back = roundtrip._plan_back

    def mistaken(*args: object) -> object:
        plan = plan_back(*args)
        moves = {move.spec.key: move for move in plan.moves}
        one, other = moves.pop("beta1_power"), moves.pop("beta2_power")
        forgotten = moves.pop("global_step")
        moves = (*moves.values(), one._replace(spec=other.spec), other._replace(spec=one.spec))
        return plan._replace(moves=(*moves, forgotten._replace(source=None)))

    monkeypatch.setattr(roundtrip, "_plan_back", mistaken)
    path = data_path("name_based", "adam", "model.ckpt-5")
    result = ckpt("verify", "--json", path, "--roundtrip", "npz")
    messages = {f["key"]: f["message"] for f in _only(result)["findings"] if f["severity"] == "error"}
    assert result.code == 1
    assert messages["beta1_power"] == "the tensor came back as 'beta2_power'"
    assert messages["beta2_power"] == "the tensor came back as 'beta1_power'"
    assert messages["global_step"] == "the tensor was lost when npz was converted back"
