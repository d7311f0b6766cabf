"""`ckpt average`: means in float64, everything else from the last, nothing left behind."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

from ckpt_cli.operations.convert import lazy
from formats import open_checkpoint
from formats.core.chunks import PIECE
from formats.location import parse_location
from formats.tf.run.state_file import StateFile
from tests.support import data_path, numbers, partitioned, recorded, same, strings, variants, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GUIDE = data_path("guide_adam_legacy", "tf_ckpts")
STEPS = [os.path.join(GUIDE, f"ckpt-{step}") for step in (8, 9, 10)]


def read(path: object) -> dict[str, np.ndarray]:
    with open_checkpoint(str(path)) as reader:
        return {key: reader[key].read() for key in reader}


def test_weights_are_means_and_the_rest_is_the_last_ones(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("average", "--json", *STEPS, "-o", tmp_path / "mean-1")
    assert result.code == 0
    found, sources = read(tmp_path / "mean-1"), [read(path) for path in STEPS]
    assert list(found) == list(sources[-1])
    averaged = 0
    for key, value in found.items():
        if value.dtype.kind == "f":
            mean = np.mean([source[key].astype(np.float64) for source in sources], axis=0)
            assert same(value, np.asarray(mean).astype(np.float32)), key
            averaged += not same(value, sources[-1][key])
        else:
            assert same(value, sources[-1][key]), key
    assert averaged >= 6
    with open_checkpoint(tmp_path / "mean-1") as reader:
        assert reader.format.name == "tf-object"
        assert reader.object_graph is not None


def test_the_document_is_that_of_conversions(tmp_path: Path, ckpt: Callable) -> None:
    document = ckpt("average", "--json", *STEPS, "-o", tmp_path / "mean").json
    assert list(document) == [
        "schema",
        "source",
        "target",
        "format",
        "tensors",
        "dropped",
        "verified",
        "verification",
    ]
    assert (document["target"], document["format"]) == (str(tmp_path / "mean"), "tf-object")
    assert (document["verified"], document["dropped"], len(document["tensors"])) == (True, [], 15)
    assert all(tensor["from"] == tensor["to"] for tensor in document["tensors"])
    unproven = ckpt("average", "--json", "--no-verify", *STEPS, "-o", tmp_path / "other").json
    assert unproven["verified"] is False


def test_means_are_rounded_once(tmp_path: Path, ckpt: Callable) -> None:
    """Summed in their own dtype these would come to something else, or overflow."""
    values = {
        "f16": [np.float16([60000, 1]), np.float16([60000, 1 + 2**-10]), np.float16([60000, 1 + 2**-9])],
        "bf16": [np.array([x], ml_dtypes.bfloat16) for x in (256, 1, 1)],
        "c64": [np.complex64([1 + 2j]), np.complex64([3 - 2j]), np.complex64([5])],
        "i32": [np.int32([1]), np.int32([2]), np.int32([9])],
        "bool": [np.array([True]), np.array([True]), np.array([False])],
    }
    for number in range(3):
        tensors = {key: numbers(found[number]) for key, found in values.items()}
        write_bundle(str(tmp_path / f"s-{number}"), {**tensors, "text": strings([b"%d" % number])})
    assert ckpt("average", *(tmp_path / f"s-{n}" for n in range(3)), "-o", tmp_path / "mean").code == 0
    found = read(tmp_path / "mean")
    assert found["f16"].tolist() == [60000, 1 + 2**-10]
    assert found["bf16"].tolist() == [86]
    assert found["c64"].tolist() == [3 + 0j]
    assert (found["i32"].tolist(), found["bool"].tolist(), found["text"].tolist()) == ([9], [False], [b"2"])


@pytest.mark.parametrize("in_slices", [False, True], ids=["in ranges", "streamed"])
def test_large_tensors_pass_in_pieces(
    in_slices: bool, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazy, "_MOST_HELD", 1)
    generator = np.random.default_rng(0)
    values = [generator.standard_normal(PIECE // 8 + 5) for _ in range(3)]
    for number, value in enumerate(values):
        stored = partitioned(value, [((0, 7),), ((7, PIECE // 8 - 2),)]) if in_slices else value
        write_bundle(str(tmp_path / f"s-{number}"), {"w": stored, "none": np.zeros((0, 2))})
    ckpt("average", *(tmp_path / f"s-{n}" for n in range(3)), "-o", tmp_path / "mean")
    found = read(tmp_path / "mean")
    assert same(found["w"], (values[0] + values[1] + values[2]) / 3)
    assert found["none"].shape == (0, 2)


def test_slices_and_variants_stay_what_they_are(tmp_path: Path, ckpt: Callable) -> None:
    value = np.arange(6, dtype=np.float32).reshape(3, 2)
    extents = [((0, 1), (0, -1)), ((1, 2), (0, -1))]
    for number in (0, 1):
        tensors = {"p": partitioned(value + number, extents), "v": variants([b"%d" % number])}
        write_bundle(str(tmp_path / f"s-{number}"), tensors)
    ckpt("average", tmp_path / "s-0", tmp_path / "s-1", "-o", tmp_path / "mean")
    with open_checkpoint(tmp_path / "mean") as reader:
        assert same(reader["p"].read(), value + np.float32(0.5))
        assert [extents for extents, _ in reader["p"].pieces()] == extents
        assert reader["v"].read().tolist() == [b"1"]


@pytest.mark.parametrize("format_name", ["tf-v2-object", "tf-v2-name", "tf-v1"])
def test_the_mean_of_a_checkpoint_and_itself_is_that_checkpoint(
    format_name: str, tmp_path: Path, ckpt: Callable
) -> None:
    path = data_path(recorded(format_name)[0]["path"])
    result = ckpt("average", "--json", path, path, "-o", tmp_path / "mean")
    assert result.code == 0, result.err
    left, right = read(path), read(tmp_path / "mean")
    assert list(left) == list(right)
    assert all(same(left[key], right[key]) for key in left)


def test_last_takes_the_newest_of_a_directory(tmp_path: Path, ckpt: Callable) -> None:
    run = tmp_path / "run"
    shutil.copytree(GUIDE, run)
    result = ckpt("average", "--last", "2", run, "-o", run / "mean-99", "--update-state")
    assert result.code == 0
    assert f"note: averaging {run}/ckpt-9\nnote: averaging {run}/ckpt-10\n" in result.err
    kernel = "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"
    nine, ten, mean = (read(path)[kernel] for path in (STEPS[1], STEPS[2], run / "mean-99"))
    assert same(mean, ((nine.astype(float) + ten) / 2).astype(np.float32))
    state = StateFile.read(parse_location(str(run / "checkpoint")))
    assert (state.latest, state.paths[-1]) == ("mean-99", "mean-99")
    again = ckpt("average", "--last", "2", run, "-o", run / "mean-99", "--overwrite")
    assert f"note: averaging {run}/ckpt-9\nnote: averaging {run}/ckpt-10\n" in again.err


def test_too_few_checkpoints_are_an_error(ckpt: Callable, tmp_path: Path) -> None:
    result = ckpt("average", "--last", "4", GUIDE, "-o", tmp_path / "mean")
    assert (result.code, result.out) == (3, "")
    assert "found 3 checkpoints in this directory; expected at least 4" in result.err
    result = ckpt("average", "--last", "4", tmp_path, "-o", tmp_path / "mean")
    assert (result.code, result.err) == (
        1,
        f"ckpt: error: {tmp_path}: this directory contains no checkpoints\n",
    )


@pytest.mark.parametrize(
    "args",
    [(STEPS[0],), (GUIDE,), ("--last", "2", *STEPS), ("--last", "2", STEPS[0]), ("--last", "0", GUIDE)],
)
def test_sources_without_sense_are_usage(args: tuple[str, ...], tmp_path: Path, ckpt: Callable) -> None:
    assert ckpt("average", *args, "-o", tmp_path / "mean").code == 2


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"a": np.zeros(3), "b": np.zeros(2)}, "tensor 'a': this tensor is float64 [3], but float64 [2] in"),
        (
            {"a": np.zeros(2, np.float32), "b": np.zeros(2)},
            "tensor 'a': this tensor is float32 [2], but float64 [2] in",
        ),
        ({"a": np.zeros(2)}, "tensor 'b': {tmp}/last has this tensor, but {tmp}/other does not\n"),
        (
            {"a": np.zeros(2), "b": np.zeros(2), "c": np.zeros(2)},
            "tensor 'c': {tmp}/other has this tensor, but {tmp}/last does not\n",
        ),
    ],
)
def test_sources_that_differ_are_rejected_and_nothing_is_written(
    other: dict, message: str, tmp_path: Path, ckpt: Callable
) -> None:
    write_bundle(str(tmp_path / "other"), other)
    write_bundle(str(tmp_path / "last"), {"a": np.zeros(2), "b": np.zeros(2)})
    before = sorted(os.listdir(tmp_path))
    result = ckpt("average", tmp_path / "other", tmp_path / "last", "-o", tmp_path / "mean")
    assert (result.code, result.out) == (3, "")
    assert message.format(tmp=tmp_path) in result.err
    assert "hint: to see all differences: ckpt diff --no-values" in result.err
    assert sorted(os.listdir(tmp_path)) == before


def test_sources_of_other_formats_are_rejected(tmp_path: Path, ckpt: Callable) -> None:
    named, object_based = data_path("pairs", "name_based"), data_path("pairs", "object_based")
    result = ckpt("average", named, object_based, "-o", tmp_path / "mean")
    assert result.code == 3
    assert "the format is tf-name, but" in result.err


def test_a_target_that_is_there_is_kept_unless_overwrite(tmp_path: Path, ckpt: Callable) -> None:
    target = tmp_path / "mean"
    assert ckpt("average", *STEPS, "-o", target).code == 0
    before = (tmp_path / "mean.index").read_bytes()
    refused = ckpt("average", *STEPS[:2], "-o", target)
    assert refused.code == 3
    assert "hint: pass --overwrite to replace it" in refused.err
    assert (tmp_path / "mean.index").read_bytes() == before
    assert ckpt("average", *STEPS[:2], "-o", target, "--overwrite").code == 0
    assert (tmp_path / "mean.index").read_bytes() != before


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path: Path, ckpt: Callable) -> None:
    planned = ckpt("average", "-n", "--json", *STEPS, "-o", tmp_path / "mean").json
    assert os.listdir(tmp_path) == []
    done = ckpt("average", "--json", *STEPS, "-o", tmp_path / "mean").json
    assert planned == {**done, "verified": False, "verification": "none"}


def test_a_damaged_source_leaves_nothing(tmp_path: Path, ckpt: Callable) -> None:
    for name in ("a", "b"):
        write_bundle(str(tmp_path / name), {"w": np.arange(4.0)})
    (tmp_path / "a.data-00000-of-00001").write_bytes(bytes(32))
    before = sorted(os.listdir(tmp_path))
    result = ckpt("average", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "mean")
    assert result.code == 3
    assert "checksum" in result.err
    assert sorted(os.listdir(tmp_path)) == before


def test_npz_files_are_averaged_too(tmp_path: Path, ckpt: Callable) -> None:
    for number in (1, 2):
        np.savez(tmp_path / f"s-{number}.npz", w=np.float32([number, 0]), n=np.int64(number))
    assert ckpt("average", tmp_path / "s-1.npz", tmp_path / "s-2.npz", "-o", tmp_path / "mean.npz").code == 0
    with np.load(tmp_path / "mean.npz") as found:
        assert (found["w"].tolist(), found["n"].item()) == ([1.5, 0.0], 2)


def test_listings_have_no_values_to_average(tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "l.json").write_text(ckpt("ls", "-l", "--json", STEPS[0]).out)
    result = ckpt("average", tmp_path / "l.json", tmp_path / "l.json", "-o", tmp_path / "mean.json")
    assert (result.code, sorted(os.listdir(tmp_path))) == (3, ["l.json"])
    assert "a listing has no values" in result.err


def test_one_path_given_twice_is_its_own_mean(tmp_path: Path, ckpt: Callable) -> None:
    write_bundle(str(tmp_path / "ckpt-1"), {"w": np.float32([1.5])})
    path = f"{tmp_path}/ckpt-1"
    result = ckpt("average", path, path, "-o", tmp_path / "mean")
    assert result.code == 0
    note = f"note: found only one checkpoint, {path}; all values are copied from it\n"
    assert note in result.err
