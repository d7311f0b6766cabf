"""`ckpt log`: contract section 5, on runs that TensorFlow wrote and on runs that go wrong."""

from __future__ import annotations

import math
import os
import shutil
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import formats
from ckpt_cli.operations.runs import log
from ckpt_cli.render.log import sparkline
from formats.location import parse_location
from formats.model.orbax_files import orbax_location
from tests.support import data_path, partitioned, write_bundle
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IRIS = data_path("estimator_iris", "models", "iris")
GUIDE = data_path("guide_adam_legacy", "tf_ckpts")
CONTRACT = {"name", "step", "modified", "changed", "unchanged", "l2", "nan", "loss"}

RUNS = [
    ("estimator_iris", "models", "iris"),
    ("estimator_iris", "models", "iris_20_20"),
    ("estimator_iris_v2", "models", "iris"),
    ("estimator_iris_v2", "models", "iris_20_20"),
    ("estimator_keep_max", "run"),
    ("estimator_object_based", "tf_estimator_example"),
    ("estimator_replay", "v1"),
    ("estimator_replay", "v2"),
    ("estimator_replay", "v2_lr_0.05"),
    ("guide_adam_new", "tf_ckpts"),
    ("guide_adam_legacy", "tf_ckpts"),
    ("name_based", "adam"),
]


def norm_of_weights(path: str) -> float:
    with formats.open_checkpoint(path) as reader:
        weights = [
            reader[key].read().astype("f8").ravel()
            for key, kind in reader.kinds.items()
            if kind == "variable" and reader.specs[key].dtype.is_floating
        ]
    return float(np.linalg.norm(np.concatenate(weights)))


def values(path: str) -> dict[str, Any]:
    with formats.open_checkpoint(path) as reader:
        return {
            key: reader[key].read() if spec.dtype.name != "variant" else reader[key].stored.crc32c
            for key, spec in reader.specs.items()
        }


@pytest.mark.parametrize("parts", RUNS, ids="/".join)
def test_every_number_is_what_reading_the_checkpoints_gives(parts: tuple[str, ...], ckpt: Callable) -> None:
    directory = data_path(*parts)
    result = ckpt("log", "--json", directory)
    assert result.code == 0
    found = result.json
    assert (found["schema"], found["directory"]) == (1, directory)
    listed = ckpt("ls", "--json", directory).json
    assert found["latest"] == listed["latest"]
    for name in ("name", "step", "modified"):
        assert [row[name] for row in found["checkpoints"]] == [row[name] for row in listed["checkpoints"]]
    before: dict[str, Any] | None = None
    for row in found["checkpoints"]:
        assert set(row) >= CONTRACT
        path = os.path.join(directory, row["name"])
        now = values(path)
        assert row["l2"] == pytest.approx(norm_of_weights(path), rel=1e-12)
        assert row["nan"] == 0
        if before is None:
            assert (row["changed"], row["unchanged"]) == (None, None)
        else:
            same = sum(np.array_equal(now[key], before[key]) for key in now)
            assert (row["changed"], row["unchanged"]) == (len(now) - same, same)
        before = now


def test_the_loss_is_the_last_one_reported_before_the_checkpoint(ckpt: Callable) -> None:
    rows = ckpt("log", "--json", IRIS).json["checkpoints"]
    assert [(row["step"], row["global_step"], row["loss_step"]) for row in rows] == [
        (1, 1, 1),
        (200, 200, 102),
    ]
    assert rows[0]["loss"] == pytest.approx(33.66405, rel=1e-6)
    assert rows[1]["loss"] == pytest.approx(8.180134, rel=1e-6)


def test_the_step_that_counts_for_the_loss_is_the_one_the_checkpoint_holds(
    tmp_path: Path, ckpt: Callable
) -> None:
    from formats.tf.run.events import EventWriter

    shutil.copytree(GUIDE, tmp_path / "run")  # ckpt-10 is the tenth save, of step 100
    held = [row["global_step"] for row in ckpt("log", "--json", tmp_path / "run").json["checkpoints"]]
    assert held[-1] - held[-2] == 10
    with EventWriter(str(tmp_path / "run")) as writer:
        for step in range(1, 200):
            writer.scalars(step, {"loss": 1.0 / step})
    rows = ckpt("log", "--json", tmp_path / "run").json["checkpoints"]
    assert [row["loss_step"] for row in rows] == held
    rows = ckpt("log", "--json", "--no-values", tmp_path / "run").json["checkpoints"]
    assert [row["loss_step"] for row in rows] == [8, 9, 10]


def test_without_values_only_indexes_are_read(tmp_path: Path, ckpt: Callable) -> None:
    shutil.copytree(IRIS, tmp_path / "run")
    for path in (tmp_path / "run").glob("*.data-*"):
        path.write_bytes(b"")
    result = ckpt("log", "--json", "--no-values", tmp_path / "run")
    assert (result.code, result.err) == (0, "")
    rows = result.json["checkpoints"]
    assert [(row["changed"], row["unchanged"]) for row in rows] == [(None, None), (13, 0)]
    assert [(row["l2"], row["nan"], row["global_step"]) for row in rows] == [(None, None, None)] * 2
    assert rows[1]["loss"] is not None


def test_tsv_has_the_fields_of_the_contract(ckpt: Callable) -> None:
    rows = ckpt("log", GUIDE).rows
    assert [row[0] for row in rows] == ["ckpt-8", "ckpt-9", "ckpt-10"]
    assert [row[1] for row in rows] == ["8", "9", "10"]
    assert [row[3:5] for row in rows] == [["", ""], ["10", "5"], ["10", "5"]]
    assert all(len(row) == 8 and float(row[5]) > 0 and row[6] == "0" and row[7] == "" for row in rows)


def test_choosing_tensors(ckpt: Callable) -> None:
    rows = ckpt("log", GUIDE, "net/l1/*", "--kind", "variable", "--json").json["checkpoints"]
    assert [row["tensors"] for row in rows] == [2, 2, 2]
    assert rows[2]["changed"] == 2
    result = ckpt("log", GUIDE, "nowhere/*")
    assert result.code == 1
    assert "no tensor matches 'nowhere/*'" in result.err


def run_of(directory: Path, *steps: dict[str, Any]) -> str:
    for number, tensors in enumerate(steps):
        write_bundle(str(directory / f"model.ckpt-{number}"), tensors)
    return str(directory)


def test_frozen_variables_and_the_first_nan(tmp_path: Path, ckpt: Callable) -> None:
    frozen, bad = np.arange(4, dtype="f4"), np.array([np.inf, np.nan, np.nan], "f4")
    directory = run_of(
        tmp_path,
        {"embedding": frozen, "w": np.ones(3, "f4"), "w/Adam": np.zeros(3, "f4")},
        {"embedding": frozen, "w": np.full(3, 2, "f4"), "w/Adam": np.zeros(3, "f4")},
        {"embedding": frozen, "w": bad, "w/Adam": np.zeros(3, "f4")},
    )
    found = ckpt("log", "--json", directory).json
    assert found["frozen"] == ["embedding"]
    rows = found["checkpoints"]
    assert [(row["changed"], row["unchanged"]) for row in rows] == [(None, None), (1, 2), (1, 2)]
    assert [(row["nan"], row["inf"], row["first_nan"]) for row in rows] == [
        (0, 0, None),
        (0, 0, None),
        (2, 1, "w"),
    ]
    assert rows[2]["l2"] == "inf"
    assert [row["added"] for row in rows] == [None, 0, 0]


def test_tensors_that_come_and_go_and_change_their_shape(tmp_path: Path, ckpt: Callable) -> None:
    one, two = np.ones(2, "f4"), np.ones(3, "f4")
    directory = run_of(tmp_path, {"a": one, "b": one, "c": one}, {"b": two, "c": one, "d": one, "e": one})
    row = ckpt("log", "--json", directory).json["checkpoints"][1]
    names = ("changed", "unchanged", "added", "removed", "uncompared")
    assert [row[name] for name in names] == [1, 1, 2, 1, 0]


def test_partitioned_variables_compare_by_the_checksums_of_their_slices(
    tmp_path: Path, ckpt: Callable
) -> None:
    array = np.arange(12, dtype="f4").reshape(6, 2)
    halves = [((0, 3), (0, -1)), ((3, 3), (0, -1))]
    other = array.copy()
    other[5, 1] = 99
    directory = run_of(
        tmp_path,
        {"w": partitioned(array, halves)},
        {"w": partitioned(array, halves)},
        {"w": partitioned(other, halves)},
    )
    rows = ckpt("log", "--json", directory).json["checkpoints"]
    assert [(row["changed"], row["unchanged"]) for row in rows] == [(None, None), (0, 1), (1, 0)]
    assert rows[2]["l2"] == pytest.approx(float(np.linalg.norm(other)))


def test_a_tensor_that_has_not_changed_is_not_read_again(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    same, changing = np.ones(5, "f4"), [np.full(5, number, "f4") for number in range(3)]
    directory = run_of(tmp_path, *({"same": same, "w": array} for array in changing))
    read = []
    file_task = log.file_task
    monkeypatch.setattr(log, "file_task", lambda reader, key: read.append(key) or file_task(reader, key))
    ckpt("log", directory)
    assert read == ["same", "w", "w", "w"]


def test_a_tensor_that_could_not_be_read_is_read_in_the_next_checkpoint(
    tmp_path: Path, ckpt: Callable
) -> None:
    same = {"w": np.ones(4, "f4")}
    directory = run_of(tmp_path, same, same)
    (tmp_path / "model.ckpt-0.data-00000-of-00001").write_bytes(b"\0" * 16)
    result = ckpt("log", "--json", directory)
    rows = result.json["checkpoints"]
    assert [(row["l2"], row["nan"], row["unchanged"]) for row in rows] == [(None, None, None), (2.0, 0, 1)]
    assert "model.ckpt-0.data-00000-of-00001: tensor 'w': offset 0: the data has checksum" in result.err


@pytest.mark.parametrize("suffix", ["", ".h5", ".npz", ".safetensors"])
def test_formats_without_checksums_are_compared_by_what_is_read(
    suffix: str, tmp_path: Path, ckpt: Callable
) -> None:
    for number, source in enumerate(("step1", "copy_of_step1", "step2")):
        target = tmp_path / f"model-{number}{suffix}"
        form = {"": ("--to", "v1"), ".h5": ("--to", "hdf5")}.get(suffix, ())
        assert ckpt("convert", data_path("pairs", source), target, "--kind", "variable", *form).code == 0
    rows = ckpt("log", "--json", tmp_path).json["checkpoints"]
    count = rows[0]["tensors"]
    assert [(row["changed"], row["unchanged"]) for row in rows] == [(None, None), (0, count), (count, 0)]
    if suffix:
        rows = ckpt("log", "--json", "--no-values", tmp_path).json["checkpoints"]
        assert [(row["changed"], row["unchanged"]) for row in rows[1:]] == [(0, 0), (0, 0)]
        assert rows[1]["uncompared"] == count


def test_each_prefix_of_a_directory_is_a_series_of_its_own(ckpt: Callable) -> None:
    rows = ckpt("log", "--json", data_path("state_files", "two_prefixes")).json["checkpoints"]
    assert [(row["name"], row["changed"]) for row in rows] == [
        ("alpha-1", None),
        ("beta-1", None),
        ("alpha-2", 2),
        ("beta-2", 2),
    ]


# On a terminal --------------------------------------------------------------------


def test_a_terminal_shows_a_table_curves_and_what_is_out(tmp_path: Path, terminal: Callable) -> None:
    found = terminal("log", IRIS, NO_COLOR="1", columns=100)
    lines = found.out.splitlines()
    assert lines[0].split() == ["NAME", "STEP", "MODIFIED", "CHANGED", "L2", "NAN", "LOSS"]
    assert "100%  13/13  5.8187    0  8.1801  latest" in lines[2]
    assert lines[3:] == ["l2    ▁█  4.3021 to 5.8187", "loss  █▇▁  33.664 to 8.1801  steps 1 to 102"]
    frozen = np.ones(2, "f4")
    run_of(
        tmp_path, {"a\x1b[31m": frozen, "w": frozen}, {"a\x1b[31m": frozen, "w": np.array([1, np.nan], "f4")}
    )
    found = terminal("log", tmp_path, NO_COLOR="1")
    assert found.out.splitlines()[-2:] == ["first NaN: model.ckpt-1: w", "frozen: a\\x1b[31m"]
    found = terminal("log", IRIS, "--tag", "global_step/sec", NO_COLOR="1")
    assert found.out.splitlines()[0].split()[-1] == "GLOBAL_STEP/SEC"
    assert "▁" not in terminal("log", IRIS, NO_COLOR="1", PYTHONIOENCODING="ascii").out


def test_sparklines() -> None:
    assert sparkline([]) == ""
    assert sparkline([3.0]) == "▅"
    assert sparkline([2.0, 2.0]) == "▅▅"
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([1.0, math.nan, 0.0, math.inf]) == "█·▁·"
    assert sparkline([math.nan]) == "·"
    assert sparkline([1e308, 1e308, -1e308, -1e308], 2) == "█▁"
    assert len(sparkline([float(n) for n in range(1001)])) == 60


# What goes wrong ------------------------------------------------------------------


def test_a_directory_without_a_state_file(tmp_path: Path, ckpt: Callable) -> None:
    shutil.copytree(IRIS, tmp_path / "run")
    (tmp_path / "run" / "checkpoint").unlink()
    found = ckpt("log", "--json", tmp_path / "run")
    assert (found.code, found.err) == (0, "")
    assert found.json["latest"] == "model.ckpt-200"
    assert len(found.json["checkpoints"]) == 2


def test_a_directory_without_checkpoints_exits_1(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("log", tmp_path)
    assert (result.code, result.out) == (1, "")
    assert result.err == f"ckpt: error: {tmp_path}: this directory contains no checkpoints\n"
    assert ckpt("log", "--json", tmp_path).json["checkpoints"] == []


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_what_is_not_a_directory_exits_3(name: str, tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "file").write_bytes(b"text")
    result = ckpt("log", tmp_path / name)
    assert (result.code, result.out) == (3, "")


def test_events_cut_in_the_middle_give_what_is_whole_and_a_note(tmp_path: Path, ckpt: Callable) -> None:
    shutil.copytree(IRIS, tmp_path / "run")
    (events,) = (tmp_path / "run").glob("*tfevents*")
    data = events.read_bytes()
    for size in (len(data) - 10, 5000, 70, 30, 5, 0):
        events.write_bytes(data[:size])
        result = ckpt("log", "--json", tmp_path / "run")
        assert result.code == 0
        assert ("bytes into a record" in result.err) == (size > 0)
        assert (result.json["checkpoints"][0]["loss"] is not None) == (size >= 5000)
    events.write_bytes(b"\xff" * 400)
    result = ckpt("log", "--json", tmp_path / "run")
    assert "a record's length has checksum" in result.err
    assert result.json["checkpoints"][1]["l2"] is not None


def test_a_damaged_checkpoint_is_a_row_of_unknowns_and_a_warning(tmp_path: Path, ckpt: Callable) -> None:
    shutil.copytree(GUIDE, tmp_path / "run")
    (tmp_path / "run" / "ckpt-9.index").write_bytes(b"cut")
    result = ckpt("log", "--json", tmp_path / "run")
    rows = {row["name"]: row for row in result.json["checkpoints"]}
    assert [rows["ckpt-9"][name] for name in ("step", "changed", "l2", "nan")] == [9, None, None, None]
    assert rows["ckpt-10"]["changed"] == 10  # since ckpt-8
    assert "ckpt-9.index" in result.err
    (tmp_path / "run" / "ckpt-8.data-00000-of-00001").unlink()
    result = ckpt("log", "--json", tmp_path / "run")
    rows = {row["name"]: row for row in result.json["checkpoints"]}
    assert (rows["ckpt-8"]["l2"], rows["ckpt-8"]["format"]) == (None, "tf-object")
    assert rows["ckpt-10"]["changed"] == 10
    assert "ckpt-8.data-00000-of-00001: tensor" in result.err
    assert "more tensors cannot be read" in result.err


def test_a_checkpoint_that_goes_away_between_listing_and_opening(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(GUIDE, tmp_path / "run")
    opening = log.open_location

    def vanishing(location: Any) -> Any:
        if location.name == "ckpt-8":
            for path in location.files():
                os.unlink(path)
        return opening(location)

    monkeypatch.setattr(log, "open_location", vanishing)
    result = ckpt("log", "--json", tmp_path / "run")
    assert result.code == 0
    assert [row["name"] for row in result.json["checkpoints"]] == ["ckpt-9", "ckpt-10"]
    assert result.err == f"note: left out {tmp_path}/run/ckpt-8, which was deleted during this command\n"


def test_a_checkpoint_that_goes_away_or_is_replaced_while_it_is_read(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = run_of(tmp_path, {"w": np.ones(2, "f4")}, {"w": np.full(2, 3, "f4")})
    opening = log.open_location
    opened: list[str] = []

    def changing(location: Any) -> Any:
        reader = opening(location)
        opened.append(location.name)
        if location.name == "model.ckpt-0":
            for path in location.files():
                os.unlink(path)
        elif len(opened) == 2:  # only once: another program saves under the same name
            write_bundle(location.path + "new", {"w": np.full(2, 4, "f4")})
            for end in (".data-00000-of-00001", ".index"):
                os.replace(f"{location.path}new{end}", location.path + end)
        return reader

    monkeypatch.setattr(log, "open_location", changing)
    result = ckpt("log", "--json", directory)
    assert result.code == 0
    assert opened == ["model.ckpt-0", "model.ckpt-1", "model.ckpt-1"]
    (row,) = result.json["checkpoints"]
    assert (row["name"], row["l2"]) == ("model.ckpt-1", pytest.approx(4 * math.sqrt(2)))
    assert result.err == f"note: left out {directory}/model.ckpt-0, which was deleted during this command\n"


def test_a_directory_whose_checkpoints_all_went_away_is_looked_at_again(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = run_of(tmp_path, {"w": np.ones(2, "f4")})
    opening = log.open_location

    def moving(location: Any) -> Any:
        if location.name == "model.ckpt-0":
            for path in location.files():
                os.rename(path, path.replace("ckpt-0", "ckpt-7"))
        return opening(location)

    monkeypatch.setattr(log, "open_location", moving)
    result = ckpt("log", "--json", directory)
    assert (result.code, result.err) == (0, "")
    assert [row["name"] for row in result.json["checkpoints"]] == ["model.ckpt-7"]


def test_another_number_and_event_files_elsewhere(tmp_path: Path, ckpt: Callable) -> None:
    from formats.tf.run.events import EventWriter

    with EventWriter(str(tmp_path / "eval")) as writer:
        writer.scalars(200, {"accuracy": 0.75})
    found = ckpt("log", "--json", IRIS, "--tag", "accuracy", "--events", tmp_path / "eval").json
    assert [row["loss"] for row in found["checkpoints"]] == [None, 0.75]
    assert found["events"]["tag"] == "accuracy"
    result = ckpt("log", IRIS, "--tag", "accuracy")
    assert result.code == 0
    assert "note: 1 event file has no scalar 'accuracy'; found dnn/" in result.err
    result = ckpt("log", IRIS, "--events", tmp_path / "nowhere")
    assert (result.code, result.err) == (3, f"ckpt: error: {tmp_path}/nowhere: no such directory\n")


def test_every_directory_there_is_gives_rows_or_says_why_not(ckpt: Callable) -> None:
    """The damaged ones too: what is shown for a checkpoint is what `ls` shows, and nothing is a crash."""
    seen = 0
    for directory, names, _ in os.walk(data_path()):
        names.sort()
        listed = ckpt("ls", "--json", directory)
        found = ckpt("log", "--json", directory)
        if found.code == 3:  # a SavedModel and Orbax' folder are one checkpoint
            is_one = "variables" in names or orbax_location(parse_location(directory)) is not None
            assert is_one or listed.code == 3, directory
            assert found.err.count("ckpt: error:") == 1
            continue
        assert found.code == listed.code, directory
        if "tensors" in listed.json:  # a sharded model's folder is one checkpoint, and so is one of DCP
            assert any(name.endswith((".index.json", ".metadata")) for name in os.listdir(directory))
            continue
        rows = found.json["checkpoints"]
        assert [row["name"] for row in rows] == [row["name"] for row in listed.json["checkpoints"]]
        damaged = [row["name"] for row in rows if row["format"] is None]
        assert set(damaged) >= {row["name"] for row in listed.json["checkpoints"] if row["format"] is None}
        assert "warning:" in found.err if damaged else True
        seen += len(rows)
    assert seen > 200


def test_a_checkpoint_that_has_gone_names_its_run(tmp_path: Path, ckpt: Callable) -> None:
    directory = run_of(tmp_path, {"w": np.ones(1)})
    result = ckpt("log", f"{directory}/ckpt-99")
    assert result.code == 3
    assert result.err == (
        f"ckpt: error: {directory}/ckpt-99: no such directory\n"
        f"hint: pass the directory of this checkpoint: {directory}\n"
    )


def test_the_norm_of_the_weights_is_of_what_is_trained(tmp_path: Path, ckpt: Callable) -> None:
    for step in (1, 2):
        tensors = {"bn/gamma": np.full(4, 1.0), "bn/moving_mean": np.full(4, 10.0 * step)}
        tensors |= {"w": np.zeros(4), "w/ExponentialMovingAverage": np.zeros(4)}
        write_bundle(str(tmp_path / f"ckpt-{step}"), tensors)
    rows = ckpt("log", tmp_path, "--json").json["checkpoints"]
    assert [(row["l2"], row["untrained_l2"]) for row in rows] == [(2, 20), (2, 40)]


def test_moving_statistics_of_keras_3_are_identified_by_their_layer(tmp_path: Path, ckpt: Callable) -> None:
    with h5py.File(tmp_path / "m-1.weights.h5", "w") as file:
        for number in range(4):
            file[f"layers/batch_normalization_1/vars/{number}"] = np.full(4, number + 1, np.float32)
        file["layers/dense/vars/0"] = np.zeros(2, np.float32)
    (row,) = ckpt("log", tmp_path, "--json").json["checkpoints"]
    assert (row["l2"], row["untrained_l2"]) == (np.hypot(2, 4), 10)


@pytest.mark.parametrize(
    ("columns", "heading"), [(60, "CHANGED  L2  NAN"), (80, "MODIFIED  CHANGED  L2  NAN")]
)
def test_a_narrow_terminal_drops_an_empty_column_first(
    columns: int, heading: str, tmp_path: Path, terminal: Callable
) -> None:
    """The column of a loss that no file had stayed, and the steps went."""
    for step in range(0, 300, 100):
        weights = {f"layer_{at}/w": np.full((9, 9), step + at, np.float32) for at in range(100)}
        save(tmp_path / f"ckpt-1000{step:03}", weights, "tf-name")
    lines = terminal("log", tmp_path, columns=columns, NO_COLOR="1").out.splitlines()
    assert lines[0].split() == ["NAME", "STEP", *heading.split()]
    assert [line.split()[1] for line in lines[1:4]] == ["1000000", "1000100", "1000200"]
    left_out = [line for line in lines if line.startswith("columns that do not fit")]
    assert left_out == (["columns that do not fit: MODIFIED"] if columns == 60 else [])
