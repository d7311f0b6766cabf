"""`ckpt diff`: contract section 5, on pairs that TensorFlow and Keras wrote."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from formats.tf.bundle import reader
from tests.pages import PageSource
from tests.support import data_path, facts, numbers, recorded_at, strings, write_bundle
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GUIDE = data_path("guide_adam_legacy", "tf_ckpts")


def pair(name: str) -> str:
    return data_path("pairs", name)


def changes(document: dict[str, Any]) -> dict[str, str]:
    return {entry["key"].split("/.")[0]: entry["change"] for entry in document["entries"]}


SUMMARIES = [
    # left, right, options, same, changed, added, removed, renamed
    ("step1", "step2", "", 2, 9, 0, 0, 0),
    ("step1", "copy_of_step1", "", 11, 0, 0, 0, 0),
    ("step1", "copy_of_step1", "--exact", 11, 0, 0, 0, 0),
    ("step1", "shape_change", "", 0, 5, 0, 6, 0),
    ("step1.h5", "step2.h5", "", 0, 4, 0, 0, 0),
    ("step1.h5", "shape_change.h5", "", 0, 4, 0, 0, 0),
    ("step1.h5", "renamed_layer.h5", "", 2, 0, 2, 2, 0),
    ("step1.h5", "renamed_layer.h5", "-M", 2, 0, 0, 0, 2),
    ("step1.h5", "name_based", "", 4, 0, 0, 0, 0),
    ("name_based", "same_weights.npz", "", 4, 0, 0, 0, 0),
    ("name_based", "name_based_renamed", "", 2, 0, 2, 2, 0),
    ("name_based", "name_based_renamed", "-M", 2, 0, 0, 0, 2),
    ("name_based", "name_based_f16", "", 0, 4, 0, 0, 0),
    ("name_based", "name_based_f64", "", 0, 4, 0, 0, 0),
    ("name_based", "name_based_nan", "", 3, 1, 0, 0, 0),
    ("name_based_nan", "name_based_nan", "--exact", 4, 0, 0, 0, 0),
    ("name_based", "object_based", "", 0, 0, 5, 4, 0),
    ("name_based", "object_based", "-M", 0, 0, 1, 0, 4),
    ("name_based", "object_based", "--by object-path", 4, 0, 1, 0, 0),
    ("name_based", "object_based", "--by object-path --exclude _CHECK*", 4, 0, 0, 0, 0),
    ("step1", "step2", "--no-values", 11, 0, 0, 0, 0),
    ("step1", "step2", "--atol 0.3 --rtol 0.3", 10, 1, 0, 0, 0),
    ("step1", "step2", "--kind variable", 0, 4, 0, 0, 0),
    ("step1", "step2", "*/kernel", 0, 2, 0, 0, 0),
]


@pytest.mark.parametrize("case", SUMMARIES, ids=lambda case: " ".join(map(str, case[:3])))
def test_every_pair_has_its_summary(case: tuple, ckpt: Callable) -> None:
    left, right, options, *counts = case
    result = ckpt("diff", "--json", pair(left), pair(right), *options.split())
    document = result.json
    assert document["summary"] == dict(
        zip(("same", "changed", "added", "removed", "renamed"), counts, strict=True)
    )
    assert (document["schema"], document["left"], document["right"]) == (1, pair(left), pair(right))
    assert result.code == int(any(counts[1:]))
    assert len(document["entries"]) == sum(counts[1:])
    everything = ckpt("diff", "--json", "--all", pair(left), pair(right), *options.split()).json["entries"]
    assert len(everything) == sum(counts)
    assert [entry["key"] for entry in everything] == sorted(entry["key"] for entry in everything)


def test_all_that_the_fixtures_call_the_same_is_the_same(ckpt: Callable) -> None:
    (names,) = facts("pairs")["same_values"]
    assert len(names) == 8
    for name in names:
        result = ckpt("diff", "-M", "--kind", "variable", "--json", pair("name_based"), pair(name))
        assert result.json["summary"]["changed"] == 0, name
        keys = 4 if name not in ("step1", "copy_of_step1") else 0
        found = result.json["summary"]
        assert found["same"] + found["renamed"] >= keys, name


def test_entries_have_the_fields_of_the_contract(ckpt: Callable) -> None:
    document = ckpt("diff", "--json", pair("step1"), pair("shape_change")).json
    entries = {entry["key"]: entry for entry in document["entries"]}
    fields = ["key", "change", "from", "left", "right", "max_abs", "max_rel", "differing"]
    assert all(list(entry)[:8] == fields for entry in entries.values())
    kernel = entries["layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE"]
    assert kernel == {
        **dict.fromkeys(fields),
        "key": kernel["key"],
        "change": "shape",
        "left": {"dtype": "float32", "shape": [3, 4]},
        "right": {"dtype": "float32", "shape": [3, 5]},
    }
    removed = entries["optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"]
    assert (removed["change"], removed["right"]) == ("removed", None)
    graph = entries["_CHECKPOINTABLE_OBJECT_GRAPH"]
    assert (graph["change"], graph["differing"], graph["max_abs"]) == ("value", 1, None)


def test_differences_are_those_of_the_values(ckpt: Callable) -> None:
    left, right = (
        np.array(ckpt("show", "--json", pair(name), "enc/kernel").json["values"], np.float32).astype(float)
        for name in ("step1.h5", "step2.h5")
    )
    document = ckpt("diff", "--json", pair("step1.h5"), pair("step2.h5"), "enc/kernel").json
    (entry,) = document["entries"]
    delta = np.abs(left - right)
    assert entry["max_abs"] == delta.max()
    assert entry["max_rel"] == (delta / np.abs(right)).max()
    assert entry["differing"] == np.count_nonzero(delta)


def test_a_nan_is_spelled_out_in_json(ckpt: Callable) -> None:
    document = ckpt("diff", "--json", pair("name_based"), pair("name_based_nan")).json
    (entry,) = document["entries"]
    assert (entry["key"], entry["max_abs"], entry["max_rel"]) == ("enc/bias", "nan", "nan")


def test_shape_wins_over_dtype(tmp_path: Path, ckpt: Callable) -> None:
    write_bundle(str(tmp_path / "a"), {"x": np.zeros(2, np.float32), "y": np.zeros(2, np.float32)})
    write_bundle(str(tmp_path / "b"), {"x": np.zeros(3, np.float64), "y": np.zeros(2, np.float64)})
    assert changes(ckpt("diff", "--json", tmp_path / "a", tmp_path / "b").json) == {
        "x": "shape",
        "y": "dtype",
    }


def test_shapes_that_a_saver_would_restore_silently_fail_here(ckpt: Callable) -> None:
    """Trap 17: TF1's Saver takes a value of another shape into a resource variable in silence."""
    small, large = (data_path("estimator_iris", "models", name) for name in ("iris", "iris_20_20"))
    result = ckpt("diff", small, large, "--json", "--no-values", "--fail-on", "shape")
    assert result.code == 1
    entries = {entry["key"]: entry for entry in result.json["entries"] if entry["change"] == "shape"}
    assert entries["dnn/hiddenlayer_0/kernel"]["left"]["shape"] == [4, 10]
    assert entries["dnn/hiddenlayer_0/kernel"]["right"]["shape"] == [4, 20]
    assert ckpt("match", small, large).code == 1


def test_renamed_tensors_name_their_old_key(ckpt: Callable) -> None:
    document = ckpt("diff", "-M", "--json", pair("name_based"), pair("name_based_renamed")).json
    assert [(entry["from"], entry["key"], entry["change"]) for entry in document["entries"]] == [
        ("enc/bias", "encoder/bias", "renamed"),
        ("enc/kernel", "encoder/kernel", "renamed"),
    ]


def test_equal_biases_are_found_again_by_the_end_of_their_keys(tmp_path: Path, ckpt: Callable) -> None:
    zeros, ones = np.zeros(4), np.ones(4)
    old = {f"enc/{layer}/{name}": zeros for layer in "ab" for name in ("beta", "bias")}
    new = {key.replace("enc", "encoder"): value for key, value in old.items()}
    write_bundle(str(tmp_path / "old"), {**old, "gone": ones})
    write_bundle(str(tmp_path / "new"), {**new, "other": ones * 2})
    document = ckpt("diff", "-M", "--json", tmp_path / "old", tmp_path / "new").json
    assert {entry["from"]: entry["key"] for entry in document["entries"] if entry["change"] == "renamed"} == {
        key: key.replace("enc", "encoder") for key in old
    }
    assert document["summary"] == {"same": 0, "changed": 0, "added": 1, "removed": 1, "renamed": 4}


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [("added", 1), ("removed", 1), ("dtype", 0), ("shape", 0), ("value", 0), ("dtype,removed", 1)],
)
def test_fail_on_chooses_what_exits_1(fail_on: str, code: int, ckpt: Callable) -> None:
    for how in ((), ("-q",), ("-M",)):
        result = ckpt("diff", "--fail-on", fail_on, *how, pair("name_based"), pair("name_based_renamed"))
        assert result.code == code, how


def test_quiet_prints_nothing_and_shows_by_its_code(ckpt: Callable) -> None:
    for left, right, code in (
        ("step1", "step2", 1),
        ("step1", "copy_of_step1", 0),
        ("name_based", "object_based", 1),
    ):
        assert ckpt("diff", "-q", pair(left), pair(right)) == (code, "", "")


def test_what_is_not_failed_on_does_not_end_a_quiet_comparison(tmp_path: Path, ckpt: Callable) -> None:
    write_bundle(str(tmp_path / "a"), {"a": np.zeros(2), "b": np.zeros(2)})
    write_bundle(str(tmp_path / "b"), {"a": np.ones(2), "b": np.zeros(3)})
    assert ckpt("diff", "-q", "--fail-on", "shape", tmp_path / "a", tmp_path / "b").code == 1


def test_tsv_has_change_key_specs_and_numbers(ckpt: Callable) -> None:
    result = ckpt("diff", pair("name_based"), pair("name_based_nan"))
    assert result.out == "value\tenc/bias\t\tfloat32\t4\tfloat32\t4\tnan\tnan\t4\tnan\tnan\n"
    renamed = ckpt("diff", "-M", pair("name_based"), pair("name_based_renamed")).rows
    assert renamed[1] == [
        "renamed",
        "encoder/kernel",
        "enc/kernel",
        "float32",
        "3,4",
        "float32",
        "3,4",
        *[""] * 5,
    ]
    assert ckpt("diff", pair("step1"), pair("copy_of_step1")).out == ""


def test_stat_counts_elements(ckpt: Callable) -> None:
    rows = ckpt("diff", "--stat", pair("name_based"), pair("name_based_renamed")).rows
    assert rows == [
        ["4", "4", "removed", "enc/bias"],
        ["12", "12", "removed", "enc/kernel"],
        ["4", "4", "added", "encoder/bias"],
        ["12", "12", "added", "encoder/kernel"],
    ]


def test_no_pairs_at_all_suggest_another_way_to_pair(ckpt: Callable) -> None:
    result = ckpt("diff", pair("name_based"), pair("object_based"))
    assert (
        result.err
        == "note: the two sides have no key in common; to pair some tensors, pass --by object-path\n"
    )
    assert ckpt("diff", pair("name_based"), pair("object_based"), "--by", "object-path").err == ""


def test_full_names_pair_where_they_are_unique(tmp_path: Path, ckpt: Callable) -> None:
    names = {t["full_name"] for t in ckpt("ls", "-l", "--json", f"{GUIDE}/ckpt-10").json["tensors"]}
    assert "net/dense/kernel" in names
    kernel = np.array(ckpt("show", "--json", f"{GUIDE}/ckpt-10", "net/l1/kernel").json["values"], np.float32)
    write_bundle(str(tmp_path / "named"), {"net/dense/kernel": kernel})
    result = ckpt(
        "diff",
        "--json",
        "--all",
        "--by",
        "full-name",
        tmp_path / "named",
        f"{GUIDE}/ckpt-10",
        "net/l1/kernel",
    )
    (entry,) = result.json["entries"]
    assert (entry["change"], entry["from"]) == ("same", "net/dense/kernel")
    assert entry["key"] == "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"


def test_what_one_side_chooses_brings_its_partner_and_what_one_side_drops_takes_it_along(
    tmp_path: Path, ckpt: Callable
) -> None:
    write_bundle(str(tmp_path / "a"), {"w": np.zeros(2, np.float32), "x": np.zeros(1)})
    write_bundle(str(tmp_path / "b"), {"w": np.zeros(2, np.float16), "x": np.zeros(1)})
    sides = (tmp_path / "a", tmp_path / "b")
    assert changes(ckpt("diff", "--json", "--dtype", "float16", *sides).json) == {"w": "dtype"}
    assert ckpt("diff", "--json", "--exclude", "w", *sides).json["summary"]["same"] == 1
    missing = ckpt("diff", *sides, "y")
    assert (missing.code, missing.out) == (1, "")
    assert "no tensor matches 'y'" in missing.err


# Changed keys ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        ("--sub", "^enc/=>encoder/"),
        ("--sub", "^enc=>x", "--sub", "^x/=>encoder/"),
        ("--match", "enc*", "--strip-prefix", "enc", "--add-prefix", "encoder/", "--exclude", "dec/*"),
    ],
)
def test_changes_of_keys_apply_to_the_left_side(changes: tuple[str, ...], ckpt: Callable) -> None:
    result = ckpt("diff", "--all", "--json", *changes, pair("name_based"), pair("name_based_renamed"))
    found = {entry["key"]: entry for entry in result.json["entries"]}
    assert found["encoder/kernel"]["from"] == "enc/kernel"
    assert found["encoder/kernel"]["change"] == "same"


def test_a_map_pairs_checkpoints_of_other_names(tmp_path: Path, ckpt: Callable) -> None:
    keys = {t["key"] for t in recorded_at("pairs/name_based")["tensors"]}
    (tmp_path / "map.json").write_text(json.dumps({key: key.replace("enc/", "encoder/") for key in keys}))
    sides = (pair("name_based"), pair("name_based_renamed"))
    assert ckpt("diff", "--map", tmp_path / "map.json", *sides) == (0, "", "")


def test_rules_see_object_paths_and_by_goes_by_the_new_ones(ckpt: Callable) -> None:
    sides = (pair("object_based"), pair("name_based_renamed"))
    result = ckpt("diff", "--json", "--by", "object-path", "--sub", "^enc=>encoder", *sides)
    assert result.json["summary"] == {"same": 4, "changed": 0, "added": 0, "removed": 1, "renamed": 0}
    (graph,) = result.json["entries"]
    assert graph["key"] == "_CHECKPOINTABLE_OBJECT_GRAPH"


def test_what_a_rule_changed_and_the_right_has_not_is_removed_under_its_new_key(ckpt: Callable) -> None:
    result = ckpt("diff", "--json", "--sub", "^enc/=>other/", pair("name_based"), pair("name_based"))
    assert [(entry["key"], entry["change"], entry["from"]) for entry in result.json["entries"]] == [
        ("enc/bias", "added", None),
        ("enc/kernel", "added", None),
        ("other/bias", "removed", "enc/bias"),
        ("other/kernel", "removed", "enc/kernel"),
    ]


def test_keys_that_become_one_are_rejected(ckpt: Callable) -> None:
    result = ckpt("diff", "--sub", "^(enc|dec)/=>x/", pair("name_based"), pair("step1.h5"))
    assert (result.code, result.out) == (3, "")
    assert "both become this key" in result.err
    assert ckpt("diff", "--sub", "no arrow", pair("name_based"), pair("step1.h5")).code == 2


# Listings -------------------------------------------------------------------------


def listing(ckpt: Callable, path: str, directory: Path, *options: str) -> Path:
    saved = directory / "listing.json"
    saved.write_text(ckpt("ls", "--json", *options, path).out)
    return saved


def test_a_listing_takes_part_with_its_checksums(tmp_path: Path, ckpt: Callable) -> None:
    saved = listing(ckpt, pair("step1"), tmp_path, "-l")
    same = ckpt("diff", "--json", saved, pair("copy_of_step1"))
    assert (same.code, same.json["summary"]["same"]) == (0, 11)
    differs = ckpt("diff", "--json", saved, pair("step2"))
    assert differs.json["summary"] == {"same": 2, "changed": 9, "added": 0, "removed": 0, "renamed": 0}
    assert all(entry["differing"] is entry["max_abs"] is None for entry in differs.json["entries"])


def test_a_listing_is_compared_with_values_without_checksums(tmp_path: Path, ckpt: Callable) -> None:
    saved = listing(ckpt, pair("name_based"), tmp_path, "-l")
    assert ckpt("diff", saved, pair("same_weights.npz")).code == 0
    assert ckpt("diff", pair("step1.h5"), saved).code == 0
    assert ckpt("diff", pair("step2.h5"), saved, "--json").json["summary"]["changed"] == 4
    assert ckpt("diff", "-M", "--json", saved, pair("name_based_renamed")).json["summary"]["renamed"] == 2


def test_a_listing_without_checksums_compares_specs_alone(tmp_path: Path, ckpt: Callable) -> None:
    saved = listing(ckpt, pair("name_based"), tmp_path)
    result = ckpt("diff", saved, pair("name_based"))
    assert (result.code, result.out) == (3, "")
    assert "the listing has no checksum for this tensor" in result.err
    assert "--no-values" in result.err
    assert ckpt("diff", "--no-values", saved, pair("name_based")).code == 0


# Directories ----------------------------------------------------------------------


def test_directories_stand_for_their_latest(ckpt: Callable) -> None:
    result = ckpt("diff", "--json", GUIDE, f"{GUIDE}/ckpt-10")
    assert (result.code, result.json["left"]) == (0, f"{GUIDE}/ckpt-10")
    assert result.err == ""
    told = ckpt("diff", "-v", GUIDE, f"{GUIDE}/ckpt-10").err
    assert told.startswith(f"{GUIDE}/ckpt-10 was chosen, because the state file names it\n")


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    left, right = str(tmp_path / "left"), str(tmp_path / "right")
    shutil.copytree(GUIDE, left)
    shutil.copytree(GUIDE, right)
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copyfile(f"{left}/ckpt-8{suffix}", f"{right}/ckpt-9{suffix}")
        os.rename(f"{right}/ckpt-8{suffix}", f"{right}/other{suffix}")
    return left, right


def test_each_compares_checkpoints_of_one_name(runs: tuple[str, str], ckpt: Callable) -> None:
    result = ckpt("diff", "--each", "--json", *runs)
    found = result.json
    assert result.code == 1
    assert list(found) == ["schema", "pairs", "only_left", "only_right"]
    assert (found["only_left"], found["only_right"]) == (["ckpt-8"], ["other"])
    assert [os.path.basename(document["left"]) for document in found["pairs"]] == ["ckpt-9", "ckpt-10"]
    assert [document["summary"]["changed"] for document in found["pairs"]] == [10, 0]
    assert ckpt("diff", "--each", "-q", *runs) == (1, "", "")
    rows = ckpt("diff", "--each", *runs).rows
    assert {row[0] for row in rows} == {"ckpt-9", "ckpt-8", "other"}
    assert ["ckpt-8", "removed"] in rows


def test_each_of_a_run_and_itself_is_the_same(ckpt: Callable) -> None:
    assert ckpt("diff", "--each", GUIDE, GUIDE) == (0, "", "")


def test_each_wants_directories_with_something_in_common(
    runs: tuple[str, str], tmp_path: Path, ckpt: Callable
) -> None:
    assert ckpt("diff", "--each", GUIDE, f"{GUIDE}/ckpt-10").code == 2
    (tmp_path / "empty").mkdir()
    result = ckpt("diff", "--each", GUIDE, tmp_path / "empty")
    assert result.code == 1
    assert "no checkpoint name occurs in both" in result.err


# Errors, terminals ------------------------------------------------------------------


def test_a_missing_side_exits_3(ckpt: Callable) -> None:
    result = ckpt("diff", pair("step1"), pair("step3"))
    assert (result.code, result.out) == (3, "")
    assert "did you mean" in result.err


def test_damage_found_while_reading_exits_3(tmp_path: Path, ckpt: Callable) -> None:
    write_bundle(str(tmp_path / "a"), {"x": np.zeros(4)})
    write_bundle(str(tmp_path / "b"), {"x": np.ones(4)})
    (tmp_path / "b.data-00000-of-00001").write_bytes(bytes(32))
    result = ckpt("diff", tmp_path / "a", tmp_path / "b")
    assert (result.code, result.out) == (3, "")
    assert "tensor 'x'" in result.err


@pytest.mark.parametrize(
    "options",
    [
        ("--fail-on", "colour"),
        ("--rtol", "-1"),
        ("--atol", "nan"),
        ("--by", "shape"),
        ("-q", "--json"),
        ("--kind", "x"),
    ],
)
def test_options_without_sense_are_usage(options: tuple[str, ...], ckpt: Callable) -> None:
    assert ckpt("diff", pair("step1"), pair("step2"), *options).code == 2


def test_a_terminal_groups_by_layer_the_largest_change_first(tmp_path: Path, terminal: Callable) -> None:
    small = {"near/w": np.zeros(4), "near/v": np.zeros(4), "far/w": np.zeros(4), "count": np.int64(1)}
    large = {
        "near/w": np.full(4, 0.1),
        "near/v": np.full(4, 0.2),
        "far/w": np.full(4, 9.0),
        "count": np.int64(999),
    }
    write_bundle(str(tmp_path / "a"), {**small, "s": strings([b"x"]), "old\x1b[2J": numbers(np.zeros(1))})
    write_bundle(str(tmp_path / "b"), {**large, "s": strings([b"y"]), "new/w": numbers(np.zeros(2))})
    result = terminal("diff", tmp_path / "a", tmp_path / "b", NO_COLOR="1")
    summary, lines = result.out.splitlines()[1:4], result.out.splitlines()[6:-1]
    assert [line.split()[:2] for line in summary] == [
        ["LAYER", "REL"],
        ["far", "100%"],
        ["near", "100%"],
    ]
    assert [line for line in lines if not line.startswith(" ")] == [
        "(top level)",
        "new",
        "far",
        "near",
        "(state)",
    ]
    assert [line.split()[1] for line in lines if line.startswith("  ~")] == ["w", "v", "w", "count", "s"]
    assert "\x1b[2J" not in result.out
    assert "old\\x1b[2J" in result.out
    assert result.out.splitlines()[-1] == "5 changed, 1 added, 1 removed, 0 same"
    assert result.code == 1


SLOTS = [
    # format, a weight's key, its slot's key
    ("tf-name", "{}", "{}/Adam"),
    ("tf-name", "{}", "{}/adam_v"),
    ("tf-v1", "{}", "{}/Momentum"),
    ("npz", "{}", "{}/.OPTIMIZER_SLOT/optimizer/m"),
    ("safetensors", "{}", "{}/.OPTIMIZER_SLOT/optimizer/m"),
    ("pytorch", "model/{}", "optimizer/state/{at}/exp_avg"),
    ("orbax", "params/{}", "opt_state/0/mu/{}"),
    ("flax", "params/{}", "opt_state/0/nu/{}"),
]


@pytest.mark.parametrize(("form", "variable", "slot"), SLOTS)
def test_slots_do_not_rank_layers(
    form: str, variable: str, slot: str, tmp_path: Path, ckpt: Callable, terminal: Callable
) -> None:
    """The layer that moved less was first, because its slots had moved more."""
    random = np.random.default_rng(0)
    start = {key: random.normal(size=(4, 3)).astype(np.float32) for key in ("net/near/w", "net/far/w")}
    factors = {"net/near/w": (1.01, 9), "net/far/w": (1.1, 2)}
    sides, weights = [tmp_path / "a", tmp_path / "b"], []
    for side, is_after in zip(sides, (False, True), strict=True):
        tensors = {}
        for at, (key, values) in enumerate(start.items()):
            for name, factor in zip((variable, slot), factors[key], strict=True):
                tensors[name.format(key, at=at)] = values * np.float32(factor if is_after else 1)
        save(side, tensors, form)
        weights.append(np.concatenate([tensors[variable.format(key)].astype(float) for key in start]))
    lines = terminal("diff", *sides, NO_COLOR="1").out.splitlines()
    table = [line.split()[:2] for line in lines[1:5]]
    layers = [variable.format(key).rpartition("/")[0] for key in ("net/far/w", "net/near/w")]
    assert table == [["LAYER", "REL"], [layers[0], "9.09%"], [layers[1], "0.99%"], ["(slot)", table[3][1]]]
    assert "names in parentheses are kinds of other tensors" in " ".join(lines)
    assert [line for line in lines if line in (*layers, "(slot)")] == [*layers, "(slot)"]
    markdown = ckpt("diff", *sides, "--format", "markdown").out
    rows = [line.split("`")[1] for line in markdown.splitlines() if line.startswith("| `")]
    assert rows[:3] == [*layers, "(slot)"]
    assert [row.split("/w")[0] for row in rows[3:5]] == layers
    target = tmp_path / "page.html"
    assert ckpt("report", *sides, "-o", target).code == 0
    page = PageSource(target).document
    assert [layer["name"] for layer in page["layers"]] == [*layers, "(slot)"]
    far = np.linalg.norm(weights[0] - weights[1]) / np.linalg.norm(weights[1])
    assert page["apart"]["rel_l2"] == pytest.approx(far, rel=1e-6)
    matrix = ckpt("diff", "--matrix", *sides, "--json").json
    assert matrix["rel_l2"][0][1] == pytest.approx(far, rel=1e-6)
    assert {group["prefix"] for group in matrix["groups"]} == {*layers, "(slot)"}


def test_layers_of_objects_are_as_far_apart_as_in_a_file_of_weights(terminal: Callable) -> None:
    """Keras wrote both: with optimizer slots as objects, and only the weights as .h5."""
    tables = []
    for suffix in ("", ".h5"):
        lines = terminal(
            "diff", pair(f"step1{suffix}"), pair(f"step2{suffix}"), NO_COLOR="1"
        ).out.splitlines()
        tables.append([line.split()[1:4] for line in lines[2:4]])
    assert tables[0] == tables[1] == [["13.4%", "0.9911", "2"], ["9.03%", "0.9961", "2"]]


def test_only_slots_meet_a_bound(tmp_path: Path, ckpt: Callable) -> None:
    sides = pair("step1"), pair("step2")
    done = ckpt("diff", *sides, "--fail-on", "rel_l2>40%", "--json")
    assert done.code == 1
    note, command = done.err.splitlines()
    assert note == "note: only optimizer slots or other state meet --fail-on, and no weight does"
    words = shlex.split(command.removeprefix("note: to compare only weights: "))
    assert words == ["ckpt", "diff", *sides, "--fail-on", "rel_l2>40%", "--json", "--kind", "variable"]
    assert ckpt(*words[1:]).code == 0
    assert ckpt("diff", *sides, "--fail-on", "rel_l2>30%").err == ""  # a bias, too


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_names_keep_their_line_before_bars_and_maxima_do(
    columns: int, tmp_path: Path, terminal: Callable
) -> None:
    names = [f"bert/encoder/layer_{at}/attention/self/{part}" for at in range(4) for part in ("key", "value")]
    for name, more in (("a", 0), ("b", 1)):
        tensors = {f"{each}/kernel": np.full((32, 128), 100 + more, np.float32) for each in names}
        write_bundle(str(tmp_path / name), tensors)
    for options in ((), ("--sort", "rel")):
        found = terminal("diff", tmp_path / "a", tmp_path / "b", *options, columns=columns, NO_COLOR="1")
        rows = [line for line in found.out.splitlines()[1:] if "%" in line]
        assert len(rows) == 8 + 8 * (not options)
        assert all(re.match(r"(  )?(~ )?\S*(kernel|key|value) .*0\.99% +(cos )?1", row) for row in rows)
        assert all(len(line) <= columns for line in found.out.splitlines()[1:])


def test_a_terminal_shows_nan_in_red_and_stat_as_bars(terminal: Callable) -> None:
    result = terminal("diff", pair("name_based"), pair("name_based_nan"))
    assert "\x1b[31m\x1b[1m  ~ bias" in result.out
    bars = terminal("diff", "--stat", pair("name_based"), pair("name_based_renamed"), NO_COLOR="1").out
    assert " enc/bias       |  4 -" in bars
    assert " encoder/kernel | 12 +" in bars


def trained(tmp_path: Path) -> tuple[Path, Path]:
    """Return two checkpoints whose layers are 1 %, 50 % and infinitely far apart, and one that is not."""
    ones = np.ones(100, np.float32)
    left = {"a/w": ones * 1.01, "b/w": ones * 1.5, "c/w": ones, "d/w": ones, "e/w": -ones}
    right = {"a/w": ones, "b/w": ones, "c/w": ones * 0, "d/w": ones, "e/w": ones}
    for name, arrays in (("l", left), ("r", right)):
        write_bundle(str(tmp_path / name), {key: array.astype(np.float32) for key, array in arrays.items()})
    return tmp_path / "l", tmp_path / "r"


def test_how_far_values_are_apart(tmp_path: Path, ckpt: Callable, terminal: Callable) -> None:
    sides = trained(tmp_path)
    entries = {entry["key"]: entry for entry in ckpt("diff", *sides, "--json").json["entries"]}
    found = {key: (entry["rel_l2"], entry["cosine"]) for key, entry in entries.items()}
    assert found["a/w"] == pytest.approx((0.01, 1), rel=1e-6)
    assert found["b/w"] == pytest.approx((0.5, 1), rel=1e-6)
    assert found["c/w"] == ("inf", "nan")
    assert found["e/w"] == (2.0, -1.0)
    # Changes of one size are bars of one length, however many elements there are.
    bars = terminal("diff", *sides, "--stat", NO_COLOR="1").out.splitlines()
    assert [line.count("~") for line in bars[1:4]] == [1, 13, 50]
    narrow = terminal("diff", *sides, NO_COLOR="1", COLUMNS="60").out
    assert "rel 50%" in narrow
    assert "columns that do not fit: " in narrow
    assert "differing" in narrow.split("columns that do not fit: ")[1]
    assert "of 100" not in narrow


@pytest.mark.parametrize(
    ("order", "keys"),
    [
        ("rel", "cebad"),
        ("cosine", "ceabd"),
        ("abs", "ecbad"),
        ("size", "abcde"),
        ("key", "abcde"),
        ("change", "dabce"),
    ],
)
def test_entries_are_sorted(order: str, keys: str, tmp_path: Path, ckpt: Callable) -> None:
    rows = ckpt("diff", *trained(tmp_path), "--all", "--sort", order).rows
    assert "".join(row[1][0] for row in rows) == keys


def test_checksums_spare_reading_but_exact_does_not(tmp_path: Path, ckpt: Callable) -> None:
    for name in ("a", "b"):
        for suffix in (".index", ".data-00000-of-00001"):
            shutil.copyfile(pair("name_based") + suffix, tmp_path / (name + suffix))
    os.truncate(tmp_path / "b.data-00000-of-00001", 0)
    assert ckpt("diff", tmp_path / "a", tmp_path / "b").code == 0
    assert ckpt("diff", "--exact", tmp_path / "a", tmp_path / "b").code == 3


def test_values_agree_with_the_manifest(ckpt: Callable) -> None:
    """Tensors are the same exactly where TensorFlow and h5py read the same bytes."""
    hashes = {t["key"]: t["sha256"] for t in recorded_at("pairs/step1")["tensors"]}
    others = {t["key"]: t["sha256"] for t in recorded_at("pairs/step2")["tensors"]}
    document = ckpt("diff", "--all", "--exact", "--json", pair("step1"), pair("step2")).json
    assert {entry["key"]: entry["change"] == "same" for entry in document["entries"]} == {
        key: hashes[key] == others[key] for key in hashes
    }


def test_json_is_one_document_of_finite_numbers(ckpt: Callable) -> None:
    out = ckpt("diff", "--json", pair("step1"), pair("shape_change")).out
    document = json.loads(out, parse_constant=pytest.fail)
    infinite = [entry for entry in document["entries"] if entry["max_rel"] == "inf"]
    assert infinite
    assert all(math.isfinite(entry["max_abs"]) for entry in infinite)


def test_iterators_are_distinguished_by_their_places(
    ckpt: Callable, terminal: Callable, tmp_path: Path
) -> None:
    """Iterators of TensorFlow and of the runtime, without words if values are not compared."""
    old, new = (os.path.join(GUIDE, name) for name in ("ckpt-9", "ckpt-10"))
    (entry,) = ckpt("diff", old, new, "iterator", "--json").json["entries"]
    assert (entry["change"], entry["apart"]) == ("value", "2 passes apart")
    assert "2 passes apart" in terminal("diff", old, new, "iterator", NO_COLOR="1").out
    assert "2 passes apart" in ckpt("diff", old, new, "iterator", "--format", "junit").out
    assert ckpt("diff", old, new, "iterator", "--no-values", "--json").json["entries"] == []

    iterator = iter(tf.data.Dataset.from_tensor_slices(np.arange(40)).batch(2))
    paths = []
    for drawn in (3, 7):
        for _ in range(drawn):
            next(iterator)
        paths.append(tf.train.Checkpoint(iterator=iterator).write(tmp_path / f"after-{drawn}"))
    (entry,) = ckpt("diff", *paths, "iterator", "--json").json["entries"]
    assert entry["apart"] == "14 elements apart"


@pytest.mark.parametrize(
    "options", [[], ["--json"], ["--stat"], ["-q"], ["--no-values", "--json"], ["--all"]]
)
def test_of_large_bundles_it_says_what_it_says_of_small_ones(
    ckpt: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    one, other = str(tmp_path / "left"), str(tmp_path / "right")
    zeros, ones = np.zeros(3, np.float32), np.ones(3, np.float32)
    write_bundle(one, {"a": zeros, "b": ones, "c": strings([b"x"]), "d": zeros})
    write_bundle(other, {"a": zeros, "b": zeros, "c": strings([b"y"]), "e": np.zeros(2)})
    expected = ckpt("diff", *options, one, other)
    monkeypatch.setattr(reader, "_MANY_BLOCKS", 0)
    assert ckpt("diff", *options, one, other) == expected
    assert expected.code == 1


def test_without_values_nothing_is_marked_as_the_same(terminal: Callable, ckpt: Callable) -> None:
    """Shapes and dtypes alone were compared: 31 tensors that all had other values were called the same."""
    paths = (data_path("pairs", "step1"), data_path("pairs", "step2"))
    told = terminal("diff", "--no-values", *paths, NO_COLOR="1")
    assert told.code == 0
    assert told.out.strip().splitlines()[-1] == "11 with the same shape and dtype"
    markdown = ckpt("diff", "--no-values", "--format", "markdown", *paths)
    assert "with the same shape and dtype" in markdown.out
    assert " same," not in markdown.out
    assert " same" in terminal("diff", *paths, NO_COLOR="1").out


def test_a_number_that_is_another_slot_on_each_side_is_shown_as_the_key(terminal: Callable) -> None:
    """Keras 3 numbers its slots from 2, Keras 2.15 from 1: `_variables/3` is bias m here, kernel v there."""
    sides = (data_path(f"guide_adam_{name}", "tf_ckpts", "ckpt-10") for name in ("new", "keras3"))
    shown = terminal("diff", *sides, columns=120, NO_COLOR="1").out
    group = shown.split("(slot)\n")[1]
    assert group.split()[:7] == ["!", "optimizer/_variables/3", "float32", "[5]", "->", "[1,", "5]"]
    assert "net/l1/kernel (m of optimizer)" in group


def test_a_missing_shard_is_noted_where_stored_checksums_decide(ckpt: Callable) -> None:
    lost, good = data_path("corrupt", "data_missing", "ckpt"), data_path("corrupt", "good", "ckpt")
    note = f"note: {lost}.data-00000-of-00001 is missing, so its tensors were compared only by"
    for pair in ((lost, good), (good, lost)):
        found = ckpt("diff", *pair)
        assert (found.code, found.out, found.err.count(note)) == (0, "", 1)
        assert ckpt("diff", *pair, "--no-values").err == ""  # no value is compared
    assert ckpt("diff", good, good).err == ""


def test_ci_that_compares_shapes_alone_is_shown_no_values(ckpt: Callable) -> None:
    """`--fail-on added,removed,dtype,shape` reads values only to ignore them."""
    pair = (data_path("pairs", "step1"), data_path("pairs", "step2"))
    shapes = ckpt("diff", *pair, "--fail-on", "added,removed,dtype,shape", "--kind", "variable")
    assert shapes.code == 0
    line = (
        f"to compare only keys, dtypes and shapes: ckpt diff {pair[0]} {pair[1]} --kind variable --no-values"
    )
    assert line in shapes.err
    alone = ckpt("diff", *pair, "--kind", "variable", "--no-values")
    assert (alone.code, alone.out, alone.err) == (0, "", "")
    for fails_on in ("value", "shape,rel_l2>500%"):
        assert "--no-values" not in ckpt("diff", *pair, "--fail-on", fails_on).err


def test_people_see_numbers_in_names_as_numbers(tmp_path: Path, terminal: Callable, ckpt: Callable) -> None:
    """`--stat` had the layers in the order 0, 1, 10, 11, 2."""
    names = [f"layer.{at}.weight" for at in range(12)]
    for side, more in (("a", 0), ("b", 1)):
        np.savez(tmp_path / f"{side}.npz", **{name: np.full(4, 7.0 + more) for name in names})
    sides = tmp_path / "a.npz", tmp_path / "b.npz"
    lines = terminal("diff", *sides, "--stat", NO_COLOR="1").out.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == names
    for options in (("--sort", "rel"), ("--sort", "key"), ("--all", "--sort", "change"), ("--top", "12")):
        lines = terminal("diff", *sides, *options, NO_COLOR="1").out.splitlines()
        assert [line.split()[1] for line in lines if line.startswith("~")] == names
    assert [row[1] for row in ckpt("diff", *sides).rows] == sorted(names)
    assert [entry["key"] for entry in ckpt("diff", *sides, "--json").json["entries"]] == sorted(names)


def test_the_first_rows_of_stat_are_the_largest_changes(tmp_path: Path, terminal: Callable) -> None:
    for side, more in (("a", 0), ("b", 1)):
        np.savez(tmp_path / f"{side}.npz", **{f"w{at}": np.full(4, 7.0 + at * more) for at in range(4)})
    found = terminal("diff", tmp_path / "a.npz", tmp_path / "b.npz", "--stat", "--top", "2", NO_COLOR="1")
    lines = found.out.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["w3", "w2"]
    assert lines[3] == "and 1 more tensor"
