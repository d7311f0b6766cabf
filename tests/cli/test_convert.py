"""`ckpt convert`: the result for each tensor, the order, and rejections."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

import formats
from formats.tf.graph.invent import invent_graph
from tests.support import data_path, facts, numbers, same, strings, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BERT = data_path("bert_tiny", "bert_model.ckpt-2")
GUIDE = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
TEMPLATES = data_path("bert_template")
SLOT_NAMES = facts("slot_names")["checkpoints"]
SHARD = ".data-00000-of-00001"


def content(path: str | Path) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def values(path: str | Path) -> dict[str, np.ndarray]:
    with formats.open_checkpoint(path) as reader:
        return {key: reader[key].read() for key in reader if reader.specs[key].dtype.name != "variant"}


@pytest.mark.parametrize(
    "name", [*SLOT_NAMES, "../bert_google_slots/model.ckpt-1000", "../bert_tiny/bert_model.ckpt-2"]
)
def test_names_become_objects_and_the_same_names_and_bytes_again(
    name: str, tmp_path: Path, ckpt: Callable
) -> None:
    source = data_path("slot_names", name)
    there, back = tmp_path / "object-1", tmp_path / "back-1"
    assert ckpt("convert", source, there, "--to", "object").code == 0
    assert ckpt("verify", there).code == 0
    assert ckpt("convert", there, back, "--to", "name").code == 0
    assert content(f"{back}.index") == content(f"{source}.index")
    assert content(f"{back}{SHARD}") == content(f"{source}{SHARD}")


@pytest.mark.parametrize("form", ["tf-name", "tf-v1", "tf-object"])
def test_what_a_damaged_object_graph_would_show_is_not_made_up(
    form: str, tmp_path: Path, ckpt: Callable
) -> None:
    done = ckpt("convert", data_path("corrupt", "graph_cut", "ckpt"), tmp_path / "out-1", "--to", form)
    assert done.code == 3
    assert "the object graph cannot be read, and the keys have no meaning without it: " in done.err
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "extract {} --kind variable -o {new}.npz",
        "convert {} {new}.npz --weights-only",
        "convert {} {new}.npz --exclude net/*/bias",
        "stats {} --kind slot",
        "diff {} {} --by object-path",
        "diff {} {} --by full-name",
    ],
)
def test_nothing_is_chosen_by_what_a_damaged_object_graph_would_tell(
    line: str, tmp_path: Path, ckpt: Callable
) -> None:
    """Kinds were guessed from the keys, paths were taken for missing ones: other tensors were written."""
    damaged = data_path("corrupt", "graph_cut", "ckpt")
    done = ckpt(*(word.format(damaged, new=tmp_path / "out") for word in line.split()))
    assert (done.code, done.out) == (3, "")
    assert "object graph" in done.err
    assert not os.listdir(tmp_path)


def test_a_target_that_keeps_keys_needs_no_object_graph(tmp_path: Path, ckpt: Callable) -> None:
    source = data_path("corrupt", "graph_cut", "ckpt")
    done = ckpt("convert", source, tmp_path / "out.npz")
    assert done.code == 0
    assert "warning: " in done.err
    with formats.open_checkpoint(source) as before, formats.open_checkpoint(tmp_path / "out.npz") as after:
        keys = {key.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE"): key for key in before}
        assert set(keys) - set(after) == {"_CHECKPOINTABLE_OBJECT_GRAPH"}
        assert all(same(before[keys[key]].read(), after[key].read()) for key in after)


@pytest.mark.parametrize("name", SLOT_NAMES)
def test_slots_have_the_names_of_tensorflows_optimizers(name: str) -> None:
    # Slot names that a program chose for an optimizer do not show their meaning, and the second of two keys
    # of one slot cannot have its name.
    unknowable = {"acc": "accum", "lin": "linear"}
    with formats.open_checkpoint(data_path("slot_names", name)) as reader:
        graph = invent_graph(reader.specs).graph
    found = {
        graph.nodes[slot.node].attributes[0].full_name: (
            graph.nodes[slot.variable].attributes[0].full_name,
            slot.name,
        )
        for slot in graph.slots
    }
    for key, variable, slot_name in SLOT_NAMES[name]["slots"]:
        if slot_name == "average":
            assert key not in found
            continue
        assert found[key][0] == variable
        told = unknowable.get(found[key][1], found[key][1])
        assert told.removesuffix("_1" if "t_1/" in key else "") == slot_name


def test_hyperparameters_hang_below_their_optimizer(tmp_path: Path, ckpt: Callable) -> None:
    source = data_path("slot_names", "tf1", "adam_twice", "model.ckpt-3")
    assert ckpt("convert", source, tmp_path / "o-3", "--to", "object").code == 0
    with formats.open_checkpoint(tmp_path / "o-3") as reader:
        paths = {reader.full_names[key]: path for key, path in reader.object_paths.items()}
        assert paths["beta1_power"] == "optimizer/beta1_power"
        assert paths["beta1_power_1"] == "optimizer_1/beta1_power"
        assert paths["w/Adam_2"] == "w (m of optimizer_1)"
        assert reader["save_counter/.ATTRIBUTES/VARIABLE_VALUE"].read() == 3
        assert reader.kinds["optimizer/beta1_power/.ATTRIBUTES/VARIABLE_VALUE"] == "optimizer"


def test_the_document(tmp_path: Path, ckpt: Callable) -> None:
    found = ckpt("convert", "--json", GUIDE, tmp_path / "n-1", "--to", "name").json
    assert (found["schema"], found["source"], found["target"]) == (1, GUIDE, str(tmp_path / "n-1"))
    assert (found["format"], found["verified"]) == ("tf-name", True)
    assert {
        "from": "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE",
        "to": "net/dense/kernel",
        "dtype": "float32",
        "shape": [1, 5],
    } in found["tensors"]
    assert {dropped["key"].split("/")[0] for dropped in found["dropped"]} == {
        "_CHECKPOINTABLE_OBJECT_GRAPH",
        "iterator",
        "save_counter",
    }


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path: Path, ckpt: Callable) -> None:
    real = ckpt("convert", "--json", BERT, tmp_path / "a-1", "--to", "object").json
    (tmp_path / "b").mkdir()
    planned = ckpt("convert", "--json", "-n", BERT, tmp_path / "b" / "a-1", "--to", "object").json
    assert os.listdir(tmp_path / "b") == []
    assert planned["verified"] is False
    assert planned["tensors"] == real["tensors"]


def test_the_format_follows_from_suffix_source_and_option(tmp_path: Path, ckpt: Callable) -> None:
    def target(*arguments: object) -> str:
        return ckpt("convert", "--json", "-n", *arguments).json["format"]

    assert target(BERT, tmp_path / "x") == "tf-name"
    assert target(GUIDE, tmp_path / "x") == "tf-object"
    assert target(BERT, tmp_path / "x", "--to", "v1") == "tf-v1"
    assert target(BERT, tmp_path / "x", "--to", "tf-object") == "tf-object"
    result = ckpt("convert", BERT, tmp_path / "x", "--to", "onnx")
    assert result.code in (2, 3)
    assert "onnx" in result.err


def test_weights_only_drops_slots_and_their_optimizer(tmp_path: Path, ckpt: Callable) -> None:
    assert ckpt("convert", GUIDE, tmp_path / "w-1", "--weights-only").code == 0
    assert sorted(values(tmp_path / "w-1")) == [
        "_CHECKPOINTABLE_OBJECT_GRAPH",
        "net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE",
        "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE",
    ]
    with formats.open_checkpoint(tmp_path / "w-1") as reader:
        assert reader.object_graph is not None
        assert list(reader.object_graph.flaws(reader.specs)) == []
        assert "optimizer" not in reader.object_graph.paths.values()
    google = data_path("bert_google_slots", "model.ckpt-1000")
    found = ckpt("convert", "--json", google, tmp_path / "g-1", "--weights-only").json
    assert sorted(row["to"] for row in found["tensors"]) == sorted(facts("bert_google_slots")["weights"])


def test_a_template_keeps_its_step_with_a_warning(tmp_path: Path, ckpt: Callable) -> None:
    """The step is not a weight: its absence is not an error, and -q does not hide the warning."""
    assert ckpt("convert", GUIDE, tmp_path / "w.npz", "--exclude", "step*").code == 0
    done = ckpt("convert", "-q", tmp_path / "w.npz", tmp_path / "b-1", "--like", GUIDE)
    assert (done.code, done.out) == (0, "")
    assert (
        done.err == "warning: 1 integer of TEMPLATE keeps its value, because SRC has no such value: 'step'\n"
    )
    assert ckpt("diff", tmp_path / "b-1", GUIDE).code == 0
    assert not ckpt("convert", "-q", GUIDE, tmp_path / "c-1", "--like", GUIDE).err


def test_a_step_without_a_full_name_keeps_its_path(tmp_path: Path, ckpt: Callable) -> None:
    with formats.open_checkpoint(GUIDE) as reader:
        graph, whole = reader.object_graph, {key: reader[key].read() for key in reader.specs}
        for node in graph.nodes:
            for attribute in node.attributes:
                attribute.full_name = ""
        graph_key = "_CHECKPOINTABLE_OBJECT_GRAPH"
        specs = [spec for spec in reader.specs.values() if spec.key != graph_key]
        with formats.create_checkpoint(
            tmp_path / "n-1", format="tf-object", specs=specs, object_graph=graph
        ) as writer:
            for spec in specs:
                writer.write(spec.key, whole[spec.key])
    assert ckpt("convert", tmp_path / "n-1", tmp_path / "names-1", "--to", "name").code == 0
    assert values(tmp_path / "names-1")["step"] == whole["step/.ATTRIBUTES/VARIABLE_VALUE"]


def test_a_whole_copy_keeps_every_byte(tmp_path: Path, ckpt: Callable) -> None:
    assert ckpt("convert", GUIDE, tmp_path / "c-10").code == 0
    assert content(tmp_path / f"c-10{SHARD}") == content(GUIDE + SHARD)
    assert content(tmp_path / "c-10.index") == content(GUIDE + ".index")


def test_cast_changes_floating_tensors_only(tmp_path: Path, ckpt: Callable) -> None:
    assert ckpt("convert", BERT, tmp_path / "h-2", "--cast", "bfloat16").code == 0
    before, after = values(BERT), values(tmp_path / "h-2")
    assert after["global_step"].dtype == np.int64
    for key in ("bert/pooler/dense/kernel", "bert/pooler/dense/kernel/Adam"):
        assert same(after[key], before[key].astype(after[key].dtype))
        assert after[key].dtype.name == "bfloat16"
    assert ckpt("convert", BERT, tmp_path / "x", "--cast", "int8").code == 2


def test_partitioned_tensors_stay_so_or_come_out_whole(tmp_path: Path, ckpt: Callable) -> None:
    source = data_path("max_shard_size", "split")
    assert ckpt("convert", source, tmp_path / "kept").code == 0
    assert ckpt("convert", source, tmp_path / "whole", "--merge-slices").code == 0
    with (
        formats.open_checkpoint(tmp_path / "kept") as kept,
        formats.open_checkpoint(tmp_path / "whole") as whole,
    ):
        key = "w1/.ATTRIBUTES/VARIABLE_VALUE"
        assert len(kept[key].pieces()) == 2
        assert whole[key].pieces() == []
        assert same(kept[key].read(), whole[key].read())
        assert same(whole[key].read(), np.load(data_path("max_shard_size", "w1.npy")))


def test_shards_are_bounded(tmp_path: Path, ckpt: Callable) -> None:
    assert ckpt("convert", BERT, tmp_path / "s-2", "--shard-size", "8000").code == 0
    shards = [name for name in os.listdir(tmp_path) if ".data-" in name]
    assert len(shards) == 3
    assert max(os.path.getsize(tmp_path / name) for name in shards) <= 8000
    assert ckpt("diff", "-q", BERT, tmp_path / "s-2").code == 0


def test_v1_and_back(tmp_path: Path, ckpt: Callable) -> None:
    source = data_path("name_based", "partitioned", "model.ckpt-4")
    assert ckpt("convert", source, tmp_path / "old.ckpt", "--to", "v1").code == 0
    assert ckpt("convert", tmp_path / "old.ckpt", tmp_path / "new-4", "--to", "name").code == 0
    assert content(tmp_path / "new-4.index") == content(source + ".index")


def test_what_the_target_cannot_hold_names_the_remedy(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("convert", data_path("dtypes", "all"), tmp_path / "x.ckpt", "--to", "v1")
    assert result.code == 3
    assert "tf-v1 cannot store bfloat16 tensors" in result.err
    assert "hint: to write another dtype, pass --cast float32" in result.err
    assert "--exclude num/bfloat16" in result.err
    assert os.listdir(tmp_path) == []


def test_the_remedy_can_be_pasted_for_any_key(tmp_path: Path, ckpt: Callable) -> None:
    source = tmp_path / "s-1"
    half = np.zeros((), ml_dtypes.bfloat16)
    write_bundle(str(source), {"it's a key/$HOME": half, "kept": np.zeros((), np.float32)})
    command = ("convert", source, tmp_path / "x.ckpt", "--to", "v1")
    hint = next(line for line in ckpt(*command).err.splitlines() if "to leave this tensor out" in line)
    assert ckpt(*command, *shlex.split(hint.partition("pass ")[2].partition(" to leave")[0])).code == 0
    assert ckpt("ls", "-1", tmp_path / "x.ckpt").out == "kept\n"


def test_an_existing_target_is_rejected_and_then_replaced(tmp_path: Path, ckpt: Callable) -> None:
    target = tmp_path / "t-1"
    assert ckpt("convert", GUIDE, target).code == 0
    before = content(f"{target}.index")
    result = ckpt("convert", BERT, target)
    assert result.code == 3
    assert "hint: pass --overwrite to replace it" in result.err
    assert content(f"{target}.index") == before
    assert ckpt("convert", BERT, target, "--overwrite").code == 0
    assert sorted(values(target)) == sorted(values(BERT))
    assert sorted(os.listdir(tmp_path)) == ["t-1.data-00000-of-00001", "t-1.index"]


def test_two_tensors_on_one_key_are_rejected(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("convert", BERT, tmp_path / "x", "--sub", "layer_[01]=>layer")
    assert result.code == 3
    assert os.listdir(tmp_path) == []


def test_rules_change_names_and_slots_follow(tmp_path: Path, ckpt: Callable) -> None:
    target = tmp_path / "r-2"
    assert ckpt("convert", BERT, target, "--sub", "^bert/=>encoder/", "--match", "bert/pooler/*").code == 0
    assert sorted(values(target)) == [
        f"encoder/pooler/dense/{name}{slot}"
        for name in ("bias", "kernel")
        for slot in ("", "/Adam", "/Adam_1")
    ]
    assert ckpt("convert", GUIDE, tmp_path / "o-1", "--sub", "^net/=>model/").code == 0
    with formats.open_checkpoint(tmp_path / "o-1") as reader:
        assert "model/l1/kernel (m of optimizer)" in reader.object_paths.values()


def test_a_source_that_is_damaged_leaves_nothing(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("convert", data_path("corrupt", "data_flip", "ckpt"), tmp_path / "x-1")
    assert result.code == 3
    assert "tensor 'net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE'" in result.err
    assert os.listdir(tmp_path) == []


# --like -----------------------------------------------------------------------------


@pytest.mark.parametrize("template", ["other_names", "same_names"])
def test_weights_and_slots_fill_a_template(template: str, tmp_path: Path, ckpt: Callable) -> None:
    like = os.path.join(TEMPLATES, template, "with_adam", "ckpt-1")
    options = ["--map", os.path.join(TEMPLATES, "gold_map.tsv")] if template == "other_names" else []
    target, saved = tmp_path / "bert-1", tmp_path / "map.tsv"
    result = ckpt("convert", "--json", BERT, target, "--like", like, "--save-map", saved, *options)
    assert result.code == 0
    found = {row["to"]: row["from"] for row in result.json["tensors"]}
    gold = dict(
        line.split("\t")[::-1]
        for name in ("gold_map.tsv", "gold_map_slots.tsv")
        for line in content(os.path.join(TEMPLATES, name)).decode().splitlines()
    )
    assert {key: source for key, source in found.items() if source is not None} == gold
    before, template_values, after = values(BERT), values(like), values(target)
    for key, source in found.items():
        assert same(after[key], before[source] if source else template_values[key])
    saved_pairs = dict(line.split("\t")[::-1] for line in saved.read_text().splitlines())
    assert saved_pairs == gold
    again = ckpt("convert", "--json", BERT, tmp_path / "again-1", "--like", like, "--map", saved)
    assert again.code == 0


def test_the_order_and_the_graph_are_the_templates(tmp_path: Path, ckpt: Callable) -> None:
    like = os.path.join(TEMPLATES, "same_names", "model", "ckpt-1")
    assert ckpt("convert", BERT, tmp_path / "bert-1", "--like", like, "--weights-only").code == 0
    with formats.open_checkpoint(tmp_path / "bert-1") as mine, formats.open_checkpoint(like) as theirs:
        assert [mine[key].stored[:2] for key in mine] == [theirs[key].stored[:2] for key in theirs]
        assert mine["_CHECKPOINTABLE_OBJECT_GRAPH"].read() == theirs["_CHECKPOINTABLE_OBJECT_GRAPH"].read()


def test_weights_without_a_value_fail_unless_partial(tmp_path: Path, ckpt: Callable) -> None:
    like = os.path.join(TEMPLATES, "other_names", "model", "ckpt-1")
    result = ckpt("convert", BERT, tmp_path / "x-1", "--like", like)
    assert result.code == 3
    assert "44 tensors of TEMPLATE get no value: 'model/pooler/kernel'" in result.err
    assert "hint: " in result.err
    assert os.listdir(tmp_path) == []
    refused = ckpt("convert", BERT, tmp_path / "x-1", "--like", like, "--partial")
    assert (refused.code, "none of the 44 weights of SRC matches a weight of TEMPLATE" in refused.err) == (
        3,
        True,
    )
    assert os.listdir(tmp_path) == []
    one = ("--sub", "^bert/pooler/dense/kernel$=>model/pooler/kernel")
    kept = ckpt("convert", BERT, tmp_path / "x-1", "--like", like, "--partial", "-q", *one)
    assert kept.code == 0
    (warning,) = kept.err.splitlines()
    assert warning.startswith(
        "warning: 43 weights of TEMPLATE keep their values, because of --partial: 'model/"
    )
    assert len(re.findall("'model/[^']*'", warning)) == 43
    with formats.open_checkpoint(str(tmp_path / "x-1")) as reader, formats.open_checkpoint(BERT) as source:
        carried = reader["model/pooler/kernel/.ATTRIBUTES/VARIABLE_VALUE"].read()
        assert same(carried, source["bert/pooler/dense/kernel"].read())


def test_pairs_that_differ_are_rejected(tmp_path: Path, ckpt: Callable) -> None:
    wide = {"w": np.ones((2, 3), np.float32), "b": np.ones(3, np.float64)}
    write_bundle(str(tmp_path / "wide-1"), wide)
    write_bundle(str(tmp_path / "other-1"), {"w": np.ones((3, 2), np.float32), "b": np.ones(3, np.float64)})
    write_bundle(str(tmp_path / "narrow-1"), {"w": wide["w"], "b": np.ones(3, np.float32)})
    result = ckpt("convert", tmp_path / "wide-1", tmp_path / "x", "--like", tmp_path / "other-1")
    assert result.code == 3
    assert "1 pair differs in shape: 'w' of SRC is [2, 3], but 'w' of TEMPLATE is [3, 2]" in result.err
    result = ckpt("convert", tmp_path / "wide-1", tmp_path / "x", "--like", tmp_path / "narrow-1")
    assert result.code == 3
    assert "1 pair differs in dtype: 'b' of SRC is float64, but 'b' of TEMPLATE is float32" in result.err
    assert (
        ckpt(
            "convert",
            tmp_path / "wide-1",
            tmp_path / "x",
            "--like",
            tmp_path / "narrow-1",
            "--cast",
            "float32",
        ).code
        == 0
    )
    assert values(tmp_path / "x")["b"].dtype == np.float32


def test_shapes_pair_only_when_asked_and_unique(tmp_path: Path, ckpt: Callable) -> None:
    write_bundle(
        str(tmp_path / "a-1"), {"x": np.full((2, 3), 7, np.float32), "p": np.ones(4), "q": np.ones(4)}
    )
    write_bundle(str(tmp_path / "b-1"), {"y": np.zeros((2, 3), np.float32)})
    assert ckpt("convert", tmp_path / "a-1", tmp_path / "c", "--like", tmp_path / "b-1").code == 3
    assert (
        ckpt("convert", tmp_path / "a-1", tmp_path / "c", "--like", tmp_path / "b-1", "--pair-by-shape").code
        == 0
    )
    assert (values(tmp_path / "c")["y"] == 7).all()
    write_bundle(str(tmp_path / "d-1"), {"r": np.zeros(4)})
    result = ckpt("convert", tmp_path / "a-1", tmp_path / "e", "--like", tmp_path / "d-1", "--pair-by-shape")
    assert result.code == 3


def test_strings_and_odd_dtypes_survive(tmp_path: Path, ckpt: Callable) -> None:
    source = data_path("dtypes", "all")
    assert ckpt("convert", source, tmp_path / "o-1", "--to", "object").code == 0
    assert ckpt("convert", tmp_path / "o-1", tmp_path / "n-1", "--to", "name").code == 0
    assert content(tmp_path / "n-1.index") == content(source + ".index")
    tensors = {"s": strings([b"", b"\xff\x00"]), "i": numbers(np.array([1, -2], np.int16))}
    write_bundle(str(tmp_path / "s-1"), tensors)
    assert ckpt("convert", tmp_path / "s-1", tmp_path / "t-1", "--to", "object").code == 0
    assert values(tmp_path / "t-1")["s/.ATTRIBUTES/VARIABLE_VALUE"].tolist() == [b"", b"\xff\x00"]


def test_a_source_that_is_replaced_meanwhile_is_noticed(tmp_path: Path, ckpt: Callable) -> None:
    for suffix in (".index", SHARD):
        shutil.copy(GUIDE + suffix, tmp_path / f"s-1{suffix}")
    os.truncate(tmp_path / f"s-1{SHARD}", 100)
    result = ckpt("convert", tmp_path / "s-1", tmp_path / "t-1")
    assert result.code == 3
    assert "the shard has only 100" in result.err
    assert not (tmp_path / "t-1.index").exists()


def test_every_large_range_is_synced_while_it_is_copied(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(tmp_path / "a-1")
    write_bundle(source, {"large": numbers(np.ones(10 << 20, np.float32))})
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _fd, offset, size, _: told.append((offset, size)))
    assert ckpt("convert", source, tmp_path / "b-1", "--no-verify").code == 0
    assert sum(size for _, size in told) == 40 << 20
    assert len({offset for offset, _ in told}) == len(told) > 1


# Names that tell too little, or something else -----------------------------------------


def test_full_names_that_variables_share_name_nothing(tmp_path: Path, ckpt: Callable) -> None:
    """Trap 15: every unnamed variable is called `Variable`, and the last would win in TensorFlow."""
    source = data_path("containers", "nested")
    result = ckpt("convert", source, tmp_path / "names", "--to", "name")
    assert "named by object path, because full names are missing or not unique" in result.err
    with formats.open_checkpoint(source) as reader, formats.open_checkpoint(tmp_path / "names") as names:
        paths = {path: key for key, path in reader.object_paths.items()}
        assert len({name for name in reader.full_names.values() if name}) < len(names) == len(paths)
        assert all(names[path].read().tolist() == reader[key].read().tolist() for path, key in paths.items())


def test_weights_that_keras_3_keys_below_the_optimizer_are_the_models(tmp_path: Path, ckpt: Callable) -> None:
    """Trap 16: the shortest path to a weight runs through the optimizer; edges tell the layer."""
    source, like = data_path("keras3_mlp", "mlp_both-1"), data_path("keras3_mlp", "mlp.weights.h5")
    config = data_path("keras3_mlp", "mlp.keras")
    result = ckpt("convert", "--json", source, tmp_path / "m.weights.h5", "--config", config)
    below = {row["to"] for row in result.json["tensors"] if "/_trainable_variables/" in row["from"]}
    assert "layers/dense/vars/0" in below
    assert ckpt("diff", tmp_path / "m.weights.h5", like, "--exact").code == 0
    with formats.open_checkpoint(source) as reader:
        weights = {key for key, kind in reader.kinds.items() if kind == "variable"}
    kept = ckpt("convert", "--json", source, tmp_path / "w-1", "--weights-only").json["tensors"]
    assert {row["from"] for row in kept} == {row["to"] for row in kept} == weights
    assert ckpt("verify", tmp_path / "w-1").code == 0


# Messages ----------------------------------------------------------------------


def test_in_a_pipe_it_says_what_was_written_and_prints_nothing(tmp_path: Path, ckpt: Callable) -> None:
    """In the log of a job it printed each tensor, and never that the result had been verified."""
    done = ckpt("convert", BERT, tmp_path / "x.safetensors")
    assert (done.code, done.out) == (0, "")
    assert re.fullmatch(
        r"wrote \S+x\.safetensors \(safetensors, 1\d\d tensors, [\d.]+ [kM]B\), verified",
        done.err.splitlines()[-1],
    )
    for option, proof in (("--no-verify", ""), ("-n", "")):
        done = ckpt("convert", BERT, tmp_path / f"x{option}.npz", option)
        assert done.code == 0
        assert done.err.splitlines()[-1].endswith(")" + proof)
        assert bool(done.out) == (option == "-n"), "the plan is what a dry run prints"
    quiet = ckpt("convert", BERT, tmp_path / "q.safetensors", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


@pytest.mark.parametrize("command", ["convert", "match"])
def test_a_map_is_printed(command: str, tmp_path: Path, ckpt: Callable) -> None:
    like = os.path.join(TEMPLATES, "other_names", "with_adam", "ckpt-1")
    options = ["--map", os.path.join(TEMPLATES, "gold_map.tsv")]
    line = ["match", BERT, like]
    if command == "convert":
        line = ["convert", BERT, tmp_path / "bert-1", "--like", like, *options]
    done = ckpt(*line, "--save-map", "-")
    assert done.code == (0 if command == "convert" else 1)
    rows = [row for row in done.out.splitlines() if not row.startswith("#")]
    assert len(rows) >= 44
    assert all(row.count("\t") == 1 for row in rows)
    refused = ckpt(*line, "--save-map", "-", "--json")
    assert (refused.code, refused.out) == (2, "")
    assert "--save-map - and --json both write to stdout" in refused.err


def test_a_suffix_of_no_format_is_named_in_a_note(tmp_path: Path, ckpt: Callable) -> None:
    done = ckpt("convert", GUIDE, tmp_path / "weights.foo")
    assert done.code == 0
    assert (
        f"note: {tmp_path}/weights.foo: .foo is not the suffix of a format, so ckpt writes a TensorFlow"
        in done.err
    )
    for name in ("weights", "weights.ckpt", "weights.ckpt-10", "weights.v1.2"):
        assert "suffix of a format" not in ckpt("convert", GUIDE, tmp_path / name).err


@pytest.mark.parametrize(("count", "more"), [(3, False), (4, True)])
def test_three_pairs_that_differ_are_named(ckpt, tmp_path, count, more):
    source, template = str(tmp_path / "source"), str(tmp_path / "template")
    for prefix, size in ((source, 2), (template, 3)):
        write_bundle(prefix, {f"t{number}": np.zeros(size, np.float32) for number in range(count)})
    result = ckpt("convert", source, str(tmp_path / "out"), "--like", template)
    assert result.code == 3
    assert f"{count} pairs differ in shape: 't0' of SRC is [2], but 't0' of TEMPLATE is [3]; " in result.err
    assert ("'t2' of SRC is [2], but 't2' of TEMPLATE is [3] and 1 more" in result.err) == more
    assert "'t3'" not in result.err
