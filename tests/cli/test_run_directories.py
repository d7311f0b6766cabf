"""`ckpt ls` on run directories: kept checkpoints, other files, trained variables; also during a save."""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from ckpt_cli.operations.runs import listing
from formats.find.directory import Directory
from formats.tf.run.state_file import StateFile
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IRIS = data_path("estimator_iris", "models", "iris")
OBJECTS = data_path("estimator_object_based", "tf_estimator_example")


def copy_of(source: str, tmp_path: Path) -> Path:
    target = tmp_path / "run"
    shutil.copytree(source, target)
    return target


# What is in the directory -------------------------------------------------------


def test_kept_checkpoints_and_other_files(tmp_path: Path, ckpt: Callable) -> None:
    run = copy_of(IRIS, tmp_path)
    write_bundle(str(run / "model.ckpt-50"), {"w": np.ones(2, "f4")})  # a copy that the saver does not know
    (run / "graph.pbtxt").write_text("node {}")
    (run / "eval").mkdir()
    (run / "eval" / "events.out.tfevents.2.host").write_bytes(b"")
    found = ckpt("ls", "--json", run).json
    assert [(row["name"], row["kept"]) for row in found["checkpoints"]] == [
        ("model.ckpt-1", True),
        ("model.ckpt-50", False),
        ("model.ckpt-200", True),
    ]
    assert [file["name"] for file in found["events"]] == [
        "eval/events.out.tfevents.2.host",
        "events.out.tfevents.1700000001.host",
    ]
    assert [(file["name"], file["nbytes"]) for file in found["graphs"]] == [
        ("graph.pbtxt", 7),
        ("model.ckpt-200.meta", 190981),
    ]
    (run / "checkpoint").unlink()
    assert {row["kept"] for row in ckpt("ls", "--json", run).json["checkpoints"]} == {None}


@pytest.mark.parametrize(
    ("names", "latest"),
    [
        (("model", "other"), None),
        (("model-1", "other-2"), None),
        (("model-1", "other"), None),
        (("model-1", "model-2"), "model-2"),
        (("model-1", "model-2", "other"), "model-2"),
    ],
)
def test_files_that_do_not_belong_together_have_no_latest(
    names: tuple[str, ...], latest: str | None, tmp_path: Path, ckpt: Callable, terminal: Callable
) -> None:
    (tmp_path / "below").mkdir()
    for name in (*names, "below/ckpt-1"):
        write_bundle(str(tmp_path / name), {"w": np.ones(2)})
    assert ckpt("ls", tmp_path, "--json").json["latest"] is not None
    lines = terminal("ls", tmp_path, NO_COLOR="1").out.splitlines()
    assert [line.split()[0] for line in lines if line.endswith("latest")] == [latest] * (latest is not None)
    below = f"note: {tmp_path}: 1 checkpoint in 1 subdirectory: ckpt ls -R {tmp_path}\n"
    assert ckpt("ls", tmp_path).err == ("" if latest else below)


@pytest.mark.parametrize("command", ["ls", "log", "verify", "report", "state", "stats"])
def test_without_a_path_the_current_directory_is_meant(
    command: str, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(data_path("guide_adam_legacy", "tf_ckpts"), tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    here, named = (
        ckpt(command, "--json"),
        ckpt(command, ".", "--json", *["--overwrite"] * (command == "report")),
    )
    assert (here.code, here.json) == (0, named.json)


def test_in_a_pipe_the_rows_are_what_they_were(ckpt: Callable) -> None:
    assert [row[:5] for row in ckpt("ls", IRIS).rows] == [
        ["model.ckpt-1", "tf-name", "1", "13", "1552"],
        ["model.ckpt-200", "tf-name", "200", "13", "1552"],
    ]


def test_a_terminal_shows_both(terminal: Callable) -> None:
    lines = terminal("ls", IRIS, NO_COLOR="1").out.splitlines()
    assert [line.split()[-1] for line in lines[1:3]] == ["kept", "latest"]
    assert lines[3:] == [
        "events: events.out.tfevents.1700000001.host (9.5 kB)",
        "graphs: model.ckpt-200.meta (191 kB)",
    ]


# What is trained ------------------------------------------------------------------


def trained(ckpt: Callable, path: object) -> tuple[dict[str, bool | None], str]:
    result = ckpt("ls", "-l", "--json", path)
    assert result.code == 0
    return {tensor["key"]: tensor["trainable"] for tensor in result.json["tensors"]}, result.err


def test_the_graph_shows_what_is_trained(ckpt: Callable) -> None:
    marks, err = trained(ckpt, os.path.join(IRIS, "model.ckpt-200"))
    assert err == ""
    with formats.open_checkpoint(os.path.join(IRIS, "model.ckpt-200")) as reader:
        assert marks == {key: kind == "variable" for key, kind in reader.kinds.items()}
    marks, err = trained(ckpt, os.path.join(OBJECTS, "model.ckpt-10"))
    assert err == ""
    assert {key.split("/.")[0] for key, mark in marks.items() if mark} == {"net/l1/kernel", "net/l1/bias"}
    assert [key for key, mark in marks.items() if mark is None] == ["_CHECKPOINTABLE_OBJECT_GRAPH"]


def test_without_a_graph_nothing_is_known_and_nothing_said(ckpt: Callable) -> None:
    marks, err = trained(ckpt, data_path("estimator_replay", "v1", "model.ckpt-100"))
    assert (set(marks.values()), err) == ({None}, "")
    assert "trainable" not in ckpt("ls", "--json", os.path.join(IRIS, "model.ckpt-200")).json["tensors"][0]


def test_the_graph_of_another_step_serves_and_is_named(ckpt: Callable) -> None:
    marks, err = trained(ckpt, os.path.join(IRIS, "model.ckpt-1"))
    assert sum(mark is True for mark in marks.values()) == 6
    assert err == ""  # the document names it
    path = os.path.join(IRIS, "model.ckpt-1")
    assert ckpt("ls", "-l", "--json", path).json["graph"] == f"{IRIS}/model.ckpt-200.meta"
    note = f"note: the graph of another step, {IRIS}/model.ckpt-200.meta, shows which tensors are trainable"
    assert ckpt("ls", "-l", path).err == note + "\n"


def test_the_graph_of_another_model_is_named_and_not_believed(tmp_path: Path, ckpt: Callable) -> None:
    run = copy_of(data_path("estimator_iris", "models", "iris_20_20"), tmp_path)
    shutil.copy(os.path.join(IRIS, "model.ckpt-200.meta"), run / "model.ckpt-1.meta")
    marks, err = trained(ckpt, run / "model.ckpt-1")
    assert set(marks.values()) == {None}
    assert err == (
        f"note: ignored {run}/model.ckpt-1.meta, because this graph belongs to another model: "
        "dnn/hiddenlayer_0/bias is [10] in the graph, "
        "but [20] in the checkpoint; 9 more shapes differ\n"
    )
    shutil.copy(data_path("name_based", "adam", "model.ckpt-5.meta"), run / "model.ckpt-1.meta")
    marks, err = trained(ckpt, run / "model.ckpt-1")
    assert {key for key, mark in marks.items() if mark is not None} == {"global_step"}
    assert "this graph does not list 12 weights and slots, such as dnn/hiddenlayer_0/bias" in err


@pytest.mark.parametrize("data", [b"", b"\x12\xff\xff\x03cut", b"not a graph"])
def test_a_damaged_graph_is_a_note(data: bytes, tmp_path: Path, ckpt: Callable) -> None:
    run = copy_of(IRIS, tmp_path)
    (run / "model.ckpt-200.meta").write_bytes(data)
    marks, err = trained(ckpt, run / "model.ckpt-200")
    assert set(marks.values()) == {None}
    assert err.startswith(f"note: {run}/model.ckpt-200.meta: offset 0: ")
    assert err.endswith("; ckpt cannot tell which tensors are trainable\n")


def test_a_terminal_has_a_column_where_it_is_known(terminal: Callable) -> None:
    known = terminal("ls", "-l", os.path.join(IRIS, "model.ckpt-200"), NO_COLOR="1", columns=200).out
    assert "TRAINABLE" in known.splitlines()[0]
    line = next(line for line in known.splitlines() if line.startswith("dnn/logits/bias/t_0/Adagrad"))
    assert line.split()[:7] == ["dnn/logits/bias/t_0/Adagrad", "float32", "[3]", "12", "B", "slot", "no"]
    path = data_path("estimator_replay", "v1", "model.ckpt-100")
    assert "TRAINABLE" not in terminal("ls", "-l", path, NO_COLOR="1", columns=200).out


def test_a_listing_with_the_mark_is_read_again(tmp_path: Path, ckpt: Callable) -> None:
    path = os.path.join(IRIS, "model.ckpt-200")
    (tmp_path / "listing.json").write_text(ckpt("ls", "-l", "--json", path).out)
    assert ckpt("diff", tmp_path / "listing.json", path).code == 0


def test_a_graph_without_its_checkpoint_says_what_it_is(tmp_path: Path, ckpt: Callable) -> None:
    run = copy_of(IRIS, tmp_path)
    (run / "model.ckpt-200.index").unlink()
    result = ckpt("ls", run / "model.ckpt-200.meta")
    assert (result.code, result.out) == (3, "")
    assert (
        f"{run}/model.ckpt-200: model.ckpt-200.data-00000-of-00001 exists, but model.ckpt-200.index does not"
        in result.err
    )
    (run / "model.ckpt-200.data-00000-of-00001").unlink()
    result = ckpt("ls", run / "model.ckpt-200.meta")
    assert (result.code, result.out) == (3, "")
    assert "a graph, which has no values" in result.err


# While a program saves -------------------------------------------------------------


def test_a_checkpoint_that_goes_away_between_listing_and_opening(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy_of(IRIS, tmp_path)
    opening = listing.open_location

    def vanishing(location: Any) -> Any:
        if location.name == "model.ckpt-1":
            for path in location.files():
                os.unlink(path)
        return opening(location)

    monkeypatch.setattr(listing, "open_location", vanishing)
    result = ckpt("ls", "--json", run)
    assert (result.code, result.err) == (0, "")
    assert [row["name"] for row in result.json["checkpoints"]] == ["model.ckpt-200"]


@pytest.mark.parametrize("command", [("ls", "--json"), ("log", "--json")])
def test_checkpoints_that_were_all_replaced_since_their_names_were_read(
    command: tuple[str, ...], tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command said that the directory had none."""
    write_bundle(str(tmp_path / "c-1"), {"w": np.zeros(2, np.float32)})
    places = Directory.places
    steps = [1]

    def replaced(directory: Directory) -> list:
        found = places(directory)
        if len(steps) < 5:
            steps.append(len(steps) + 1)
            for end in (".index", ".data-00000-of-00001"):
                os.rename(tmp_path / f"c-{steps[-2]}{end}", tmp_path / f"c-{steps[-1]}{end}")
        return found

    monkeypatch.setattr(Directory, "places", replaced)
    result = ckpt(*command, tmp_path)
    assert result.code == 0, result.err
    assert [row["name"] for row in result.json["checkpoints"]] == ["c-5"]


@pytest.mark.parametrize("command", [("ls", "--json"), ("log", "--json")])
def test_while_another_thread_saves_and_deletes(
    command: tuple[str, ...], tmp_path: Path, ckpt: Callable
) -> None:
    """As a Saver does: data, index, state file, then the oldest goes; at each instant something is there."""
    stop = threading.Event()
    saved = threading.Event()

    def save() -> None:
        step = 0
        while not stop.is_set():
            step += 1
            prefix = tmp_path / f"model.ckpt-{step}"
            write_bundle(f"{tmp_path}/part", {"w": np.full(8, step, "f4"), "global_step": np.int64(step)})
            for end in (".data-00000-of-00001", ".index"):
                os.replace(f"{tmp_path}/part{end}", f"{prefix}{end}")
            kept = tuple(f"model.ckpt-{n}" for n in range(max(1, step - 2), step + 1))
            (tmp_path / "checkpoint.new").write_bytes(StateFile(kept[-1], kept).text())
            os.replace(tmp_path / "checkpoint.new", tmp_path / "checkpoint")
            for end in (".index", ".data-00000-of-00001"):
                if step > 3:
                    os.unlink(f"{tmp_path}/model.ckpt-{step - 3}{end}")
            saved.set()
            stop.wait(0.005)

    thread = threading.Thread(target=save)
    thread.start()
    try:
        assert saved.wait(10)
        for _ in range(25):
            result = ckpt(*command, tmp_path)
            assert result.code == 0, result.err
            rows = result.json["checkpoints"]
            assert all(row["format"] in ("tf-name", None) for row in rows)
            # A checkpoint that is still being written is listed as `part`, which has no step.
            sound = [row for row in rows if row["format"] and row["name"] != "part"]
            assert sound
            for row in sound:
                if row.get("l2") is not None:
                    assert row["l2"] == pytest.approx(row["step"] * 8**0.5)
                    assert row["global_step"] == row["step"]
    finally:
        stop.set()
        thread.join()
