"""Sharded safetensors: an index and its shards are one checkpoint, and must agree; writing one."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import formats
from formats import CheckpointError, CheckpointNotFoundError, CorruptCheckpointError, UnknownFormatError
from formats.find.directory import Directory
from formats.find.resolve import resolve
from formats.location import parse_location
from formats.model.checkpoint_files import is_leftover, step_of
from formats.tf.run.leftovers import find_leftovers
from tests.faults.each_step import failures, kills
from tests.faults.steps import full, interrupt_after, interrupt_before, no_links
from tests.support import data_path, same
from tests.writing import files, read_all, save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

INDEX = "model.safetensors.index.json"
SHARDS = {
    "model-00001-of-00002.safetensors": {"a": np.arange(3), "b": np.ones((2, 2), np.float32)},
    "model-00002-of-00002.safetensors": {"c": np.float32(1.5)},
}
FIRST, SECOND = SHARDS


def write(folder: Path, weight_map: dict[str, Any] | None = None, **more: Any) -> str:
    """Write two shards and their index, with these places in it besides the right ones."""
    folder.mkdir(exist_ok=True)
    for name, arrays in SHARDS.items():
        save(folder / name, arrays, "safetensors", overwrite=True)
    places = {key: name for name, arrays in SHARDS.items() for key in arrays}
    document = {"metadata": {"total_size": 44}, "weight_map": {**places, **(weight_map or {})}, **more}
    path = folder / INDEX
    path.write_text(json.dumps(document))
    return str(path)


def findings(path: str) -> list[tuple[str, str, str | None, str]]:
    with formats.open_checkpoint(path, lenient=True) as reader:
        found = [finding for step in reader.verify() for finding in step.findings]
    return [(each.severity, each.code, each.key, os.path.basename(each.file or "")) for each in found]


# Reading ------------------------------------------------------------------------------


def test_folder_and_index_are_one_checkpoint(tmp_path: Path) -> None:
    index = write(tmp_path / "hf")
    for path in (str(tmp_path / "hf"), index, str(tmp_path / "hf" / "model.safetensors")):
        with formats.open_checkpoint(path) as reader:
            assert reader.format.name == "safetensors"
            assert reader.location.path == index
            assert list(reader) == ["a", "b", "c"]
            assert reader["b"].read().tolist() == [[1, 1], [1, 1]]
            assert reader["c"].read_slice(...).item() == 1.5
            assert reader.files() == [index, *(str(tmp_path / "hf" / name) for name in SHARDS)]
            assert reader.location.files() == reader.files()
    assert findings(index) == []


def test_a_directory_lists_it_as_one_member_next_to_others(tmp_path: Path) -> None:
    write(tmp_path)
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_text('{"model_type": "x"}')
    (tmp_path / "pytorch_model-00001-of-00002.bin").write_bytes(b"PK\3\4")
    for name in ("pytorch_model.bin.index.json", "model.fp16.safetensors.index.json"):
        document = {"weight_map": {"a": "pytorch_model-00001-of-00002.bin"}}
        (tmp_path / name).write_text(json.dumps(document))
    save(tmp_path / "model.fp16.safetensors", {"a": np.zeros(2, np.float16)}, "safetensors", overwrite=True)
    names = [
        member.name for member in Directory(parse_location(str(tmp_path))).members if member.error is None
    ]
    assert sorted(names) == ["model.fp16.safetensors", INDEX, "pytorch_model.bin.index.json"]
    assert resolve(parse_location(str(tmp_path))).path == str(tmp_path / INDEX)


@pytest.mark.parametrize(
    "shard", ["model.fp16-0000{}-of-00002.safetensors", "model-0000{}-of-00002.fp16.safetensors"]
)
def test_a_variant_is_a_member_of_its_own(shard: str, tmp_path: Path) -> None:
    write(tmp_path)
    places = {}
    for number, key in enumerate("ab", 1):
        places[key] = shard.format(number)
        save(tmp_path / places[key], {key: np.zeros(2, np.float16)}, "safetensors")
    variant = "model.safetensors.index.fp16.json"
    (tmp_path / variant).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    members = Directory(parse_location(str(tmp_path))).members
    assert sorted((member.name, member.error) for member in members) == [(variant, None), (INDEX, None)]
    assert list(read_all(tmp_path / variant)) == ["a", "b"]
    assert resolve(parse_location(str(tmp_path))).path == str(tmp_path / INDEX)


def test_folders_of_diffusers_are_one_checkpoint_too(tmp_path: Path) -> None:
    arrays = {"a": np.arange(9), "b": np.arange(9)}
    save(tmp_path / "diffusion_pytorch_model.safetensors", arrays, "safetensors", shard_size=8)
    assert list(read_all(tmp_path)) == ["a", "b"]


def test_a_folder_with_one_whole_file_stays_a_directory(tmp_path: Path) -> None:
    save(tmp_path / "model.safetensors", {"a": np.arange(3)}, "safetensors")
    assert not formats.find.opening.sharded_folder(parse_location(tmp_path))
    assert [member.name for member in Directory(parse_location(str(tmp_path))).members] == [
        "model.safetensors"
    ]


def test_shards_without_their_index_are_rejected_by_name(tmp_path: Path) -> None:
    os.unlink(write(tmp_path))
    (member,) = Directory(parse_location(str(tmp_path))).members
    assert member.name == "model-?????-of-00002.safetensors"
    assert member.location.files() == [str(tmp_path / name) for name in SHARDS]
    with pytest.raises(CheckpointError, match=f"found 2 of 2 shards, but not {INDEX}"):
        formats.open_checkpoint(tmp_path)


def test_a_shard_by_itself_opens_with_a_note(tmp_path: Path) -> None:
    index = write(tmp_path)
    with formats.open_checkpoint(tmp_path / SECOND) as reader:
        assert list(reader) == ["c"]
        assert (
            reader.location.note == f"{tmp_path}/{SECOND} is one of 2 shards; the whole checkpoint is {index}"
        )


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("model-00003-of-00003.safetensors", None),
        ("model-7-00003-of-00003.safetensors", 7),
        ("model.safetensors.index.json", None),
        ("ckpt-12.safetensors.index.json", 12),
        ("ckpt-12-00001-of-00002", 12),
    ],
)
def test_number_and_count_of_a_shard_are_not_a_step(name: str, step: int | None) -> None:
    assert step_of(name) == step


def test_a_shard_that_is_a_pointer_says_so(tmp_path: Path) -> None:
    index = write(tmp_path)
    (tmp_path / SECOND).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(UnknownFormatError, match="Git LFS pointer") as caught:
        formats.open_checkpoint(index)
    assert caught.value.path == str(tmp_path / SECOND)


def test_an_index_that_is_cut_off_says_so(tmp_path: Path) -> None:
    index = write(tmp_path)
    with open(index, "r+") as file:
        file.truncate(50)
    with pytest.raises(UnknownFormatError, match="not a shard index"):
        formats.open_checkpoint(tmp_path)


# Index and shards that do not agree -----------------------------------------------------


def test_a_missing_shard_is_named_and_the_rest_still_lists(tmp_path: Path) -> None:
    index = write(tmp_path)
    os.unlink(tmp_path / FIRST)
    with pytest.raises(CheckpointNotFoundError) as caught:
        formats.open_checkpoint(index)
    assert caught.value.path == str(tmp_path / FIRST)
    assert findings(index) == [("error", "shard-missing", None, FIRST)]
    with formats.open_checkpoint(index, lenient=True) as reader:
        assert [(key, spec.dtype.name) for key, spec in reader.specs.items()] == [
            ("a", "invalid"),
            ("b", "invalid"),
            ("c", "float32"),
        ]
        with pytest.raises(CheckpointError, match="no such file") as lost:
            reader["a"]
        assert (lost.value.code, lost.value.key) == ("shard-missing", "a")


CONTRADICTIONS = {
    "nowhere": ({"d": FIRST}, "d", "but the tensor is not in that file", [("error", "entry", "d", INDEX)]),
    "elsewhere": ({"a": SECOND}, "a", f"the tensor is in {FIRST}", [("error", "entry", "a", INDEX)]),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_an_index_that_its_shards_contradict_is_rejected(case: str, tmp_path: Path) -> None:
    places, key, message, found = CONTRADICTIONS[case]
    index = write(tmp_path, places)
    with pytest.raises(formats.CorruptCheckpointError, match=message) as caught:
        formats.open_checkpoint(index)
    assert caught.value.key == key
    assert findings(index) == found


def test_a_key_in_two_shards_is_rejected(tmp_path: Path) -> None:
    index = write(tmp_path)
    save(tmp_path / SECOND, {"a": np.arange(3), "c": np.float32(1)}, "safetensors", overwrite=True)
    with pytest.raises(
        formats.CorruptCheckpointError, match=f"in {FIRST}, as weight_map says, but also in {SECOND}"
    ):
        formats.open_checkpoint(index)
    assert findings(index) == [("error", "entry", "a", INDEX)]


def test_what_the_index_does_not_name_is_rejected(tmp_path: Path) -> None:
    index = write(tmp_path)
    save(tmp_path / SECOND, {"c": np.float32(1), "d": np.arange(2)}, "safetensors", overwrite=True)
    with pytest.raises(
        formats.CorruptCheckpointError, match=f"the tensor is in {SECOND}, but weight_map does not name it"
    ) as caught:
        formats.open_checkpoint(index)
    assert caught.value.key == "d"
    assert findings(index) == [("error", "entry", "d", INDEX)]


def test_an_index_that_names_nothing_is_rejected(tmp_path: Path) -> None:
    index = write(tmp_path)
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": {}}))
    for lenient in (False, True):
        with pytest.raises(formats.CorruptCheckpointError, match="weight_map is empty"):
            formats.open_checkpoint(index, lenient=lenient)


def test_a_shard_that_the_index_does_not_name_is_a_warning(tmp_path: Path) -> None:
    index = write(tmp_path)
    stale = "model-00003-of-00003.safetensors"
    save(tmp_path / stale, {"z": np.arange(2)}, "safetensors")
    assert findings(index) == [("warning", "shard-surplus", None, stale)]
    assert "z" not in read_all(index)


def test_a_damaged_shard_hides_its_own_tensors_alone(tmp_path: Path) -> None:
    index = write(tmp_path)
    with open(tmp_path / FIRST, "r+b") as file:
        file.seek(9)
        file.write(b"\xff")
    with pytest.raises(formats.CorruptCheckpointError, match="header"):
        formats.open_checkpoint(index)
    assert findings(index) == [("error", "header", None, FIRST)]
    with formats.open_checkpoint(index, lenient=True) as reader:
        assert reader["c"].read().item() == 1.5


@pytest.mark.parametrize(
    "name", ["../m.safetensors", "/etc/x.safetensors", "..", "a/b.safetensors", "", "x\0y"]
)
def test_an_index_names_files_next_to_it_only(name: str, tmp_path: Path) -> None:
    index = write(tmp_path, {"d": name})
    with pytest.raises(formats.UnsupportedFeatureError, match="not a file in this folder"):
        formats.open_checkpoint(index, lenient=True)


@pytest.mark.parametrize("value", [3, None, {}, [FIRST], [FIRST, SECOND], []])
def test_an_index_names_one_file_for_a_key(value: Any, tmp_path: Path) -> None:
    with pytest.raises(formats.CorruptCheckpointError, match="must name one file, but has") as caught:
        formats.open_checkpoint(write(tmp_path, {"a": value}), lenient=True)
    assert caught.value.key == "a"


def test_links_lead_nowhere_else_but_into_the_cache_of_the_hub(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "hf")
    os.rename(tmp_path / "hf" / FIRST, tmp_path / "elsewhere" / FIRST)
    os.symlink(tmp_path / "elsewhere" / FIRST, tmp_path / "hf" / FIRST)
    with pytest.raises(formats.UnsupportedFeatureError, match="a link to another folder"):
        formats.open_checkpoint(tmp_path / "hf")
    # The hub's cache: every file, the index too, is a link into one folder.
    snapshot, blobs = tmp_path / "snapshots", tmp_path / "blobs"
    write(blobs)
    snapshot.mkdir()
    for number, name in enumerate((INDEX, FIRST, SECOND)):
        os.rename(blobs / name, blobs / f"{number:064x}")
        os.symlink(f"../blobs/{number:064x}", snapshot / name)
    assert list(read_all(snapshot)) == ["a", "b", "c"]


# Writing --------------------------------------------------------------------------------

ARRAYS = {"a": np.arange(4), "b": np.arange(8, dtype=np.float32), "c": np.zeros((3, 3)), "d": np.int8(1)}


def names(folder: Path) -> list[str]:
    return sorted(files(folder))


@pytest.mark.parametrize(
    ("target", "size", "expected"),
    [
        (
            "x.safetensors",
            73,
            [f"x-{k:05}-of-00002.safetensors" for k in (1, 2)] + ["x.safetensors.index.json"],
        ),
        ("x.safetensors", 1000, ["x.safetensors"]),
        (
            "model.safetensors.index.json",
            40,
            [f"model-{k:05}-of-00003.safetensors" for k in (1, 2, 3)] + [INDEX],
        ),
        ("model.safetensors.index.json", None, ["model-00001-of-00001.safetensors", INDEX]),
        ("", 1, [f"model-{k:05}-of-00004.safetensors" for k in (1, 2, 3, 4)] + [INDEX]),
        ("", 1000, ["model.safetensors"]),
        ("", None, ["model.safetensors"]),
    ],
)
def test_names_are_those_of_the_hub(
    target: str, size: int | None, expected: list[str], tmp_path: Path
) -> None:
    path = os.path.join(tmp_path, "out", target)
    save(path, ARRAYS, "safetensors", shard_size=size)
    written = files(tmp_path / "out")
    assert sorted(written) == expected
    found = read_all(path) if target else read_all(tmp_path / "out")
    assert all(same(found[key], array) for key, array in ARRAYS.items())
    index = next((json.loads(text) for name, text in written.items() if name.endswith(".json")), None)
    if index is not None:
        assert index["metadata"] == {"total_size": sum(np.asarray(each).nbytes for each in ARRAYS.values())}
        assert set(index["weight_map"].values()) == set(expected) - {expected[-1]}
    save(path, dict(reversed(ARRAYS.items())), "safetensors", overwrite=True, shard_size=size)
    assert files(tmp_path / "out") == written


def test_no_shard_is_larger_than_requested_but_with_one_tensor(tmp_path: Path) -> None:
    save(tmp_path / "x.safetensors", ARRAYS, "safetensors", shard_size=70)
    for name in names(tmp_path):
        if name.endswith(".safetensors"):
            with formats.open_checkpoint(tmp_path / name) as reader:
                assert len(reader) == 1 or sum(spec.nbytes or 0 for spec in reader.specs.values()) <= 70


def test_shards_need_a_name_that_has_some(tmp_path: Path) -> None:
    with pytest.raises(formats.ConversionError, match="cannot derive names for the shards") as caught:
        save(tmp_path / "weights", ARRAYS, "safetensors", shard_size=8)
    assert "end it in .safetensors" in caught.value.hints[0]


@pytest.mark.parametrize("target", ["model.safetensors", INDEX])
def test_neither_form_replaces_the_other_unasked(target: str, tmp_path: Path) -> None:
    other = INDEX if target == "model.safetensors" else "model.safetensors"
    save(tmp_path / other, ARRAYS, "safetensors")
    before = files(tmp_path)
    with pytest.raises(formats.CheckpointExistsError):
        save(tmp_path / target, {"z": np.arange(2)}, "safetensors")
    assert files(tmp_path) == before
    save(tmp_path / target, {"z": np.arange(2)}, "safetensors", overwrite=True)
    assert list(read_all(tmp_path / target)) == ["z"]
    assert other not in files(tmp_path)


# At every instant -----------------------------------------------------------------------

OLD = {"a": np.arange(5), "b": np.ones((3, 2), np.float32), "c": np.arange(3, dtype=np.int16)}
NEW = {"a": np.arange(7), "b": np.zeros((3, 2), np.float32), "c": np.arange(4, dtype=np.int16)}


class Exchange(NamedTuple):
    """A folder of shards of some size, none (0) or one whole file (None), and what takes its place."""

    old: int | None
    new: int | None
    links: bool = True

    @property
    def before(self) -> str:
        return "none" if self.old == 0 else "old"

    def prepare(self, directory: Path) -> str:
        path = str(directory / "x.safetensors")
        if self.old != 0:
            save(path, OLD, "safetensors", shard_size=self.old)
        return path

    def write(self, path: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if not self.links:
                patch.setattr(os, "link", no_links)
            save(path, NEW, "safetensors", overwrite=True, shard_size=self.new)

    def found(self, path: str) -> str:
        try:
            arrays = read_all(path)
        except CheckpointNotFoundError:
            return "none"
        for name, expected in (("old", OLD), ("new", NEW)):
            if list(arrays) == list(expected) and all(same(arrays[key], expected[key]) for key in arrays):
                return name
        pytest.fail(f"neither the old nor the new checkpoint: {arrays}")


EXCHANGES = {
    "fresh": Exchange(0, 1),
    "same names": Exchange(1, 1),
    "fewer shards": Exchange(1, 60),
    "more shards": Exchange(40, 1),
    "whole over shards": Exchange(1, None),
    "shards over whole": Exchange(None, 1),
    "no hard links": Exchange(1, 1, links=False),
}


@pytest.mark.parametrize("case", EXCHANGES)
def test_killed_at_any_step_the_target_is_old_or_new(case: str, tmp_path: Path) -> None:
    exchange = EXCHANGES[case]
    for folder, path, _ in kills(exchange, tmp_path):
        exchange.write(path)
        assert exchange.found(path) == "new"
        left = [name for name in names(folder) if not is_leftover(name.split("/")[0], directory="/" in name)]
        assert left == names(tmp_path / "step-0")  # where nothing was killed


@pytest.mark.parametrize("act", [full, interrupt_before, interrupt_after])
@pytest.mark.parametrize("case", EXCHANGES)
def test_failing_at_any_step_leaves_nothing_behind(
    case: str, act: Callable[[Callable[[], Any]], Any], tmp_path: Path
) -> None:
    assert list(failures(EXCHANGES[case], act, tmp_path))


def test_what_a_kill_left_is_found_and_what_is_needed_is_not(tmp_path: Path) -> None:
    """Second names of old shards are all there is of the old checkpoint until the new index is there."""
    removed = 0
    for folder, path, before in kills(EXCHANGES["same names"], tmp_path):
        for leftover in find_leftovers(parse_location(str(folder)), (), has_checkpoints=True):
            assert leftover.in_the_way is None
            leftover.clear()
            removed += leftover.path.endswith(".safetensors")
        assert EXCHANGES["same names"].found(path) == before
        assert len(names(folder)) == 4
    assert removed


def test_the_fixture_is_what_torch_wrote() -> None:
    assert len(read_all(data_path("hf"))) == 9


def test_an_index_of_many_tensors_that_no_shard_has_is_rejected(tmp_path: Path) -> None:
    """Each is an error by name, which takes far more memory than its line in the index."""
    keys = {f"k{number}": FIRST for number in range(21_000)}
    index = write(tmp_path, keys)
    with pytest.raises(CorruptCheckpointError, match="but the tensor is not in that file"):
        formats.open_checkpoint(index, lenient=True)


def test_missing_shards_are_counted_in_one_go(tmp_path: Path) -> None:
    index = write(tmp_path, {f"k{number}": f"m{number % 5_000}.safetensors" for number in range(50_000)})
    begun = time.process_time()
    with formats.open_checkpoint(index, lenient=True) as reader:
        assert len(reader.specs) == 50_003
        assert (
            sum(
                "is missing; it should contain 10 tensors, for example 'k" in finding.message
                for finding in reader.findings
            )
            == 5_000
        )
    assert time.process_time() - begun < 5
