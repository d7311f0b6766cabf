"""Bundles under other keys: which files are shared, what is written, and what a kill leaves."""

from __future__ import annotations

import errno
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

from ckpt_cli.operations.convert.rename import plan_rename
from ckpt_cli.operations.select.keys import Rules
from formats import (
    CheckpointError,
    CheckpointNotFoundError,
    ConversionError,
    CorruptCheckpointError,
    UnsupportedFeatureError,
    open_checkpoint,
)
from formats.find.directory import Directory
from formats.location import parse_location
from formats.model.checkpoint_files import data_shards
from formats.store.local.staged_file import StagedFile
from formats.tf.bundle import shards
from formats.wire.messages import BundleHeaderProto, VersionDef
from tests.faults.each_step import failures, kills
from tests.faults.steps import full, interrupt_after, interrupt_before, no_links
from tests.support import data_path, partitioned, same, shard_path, strings, write_bundle
from tests.writing import files, read_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OBJECTS = ("guide_adam_legacy", "tf_ckpts", "ckpt-10")
NAMES = ("name_based", "adam", "model.ckpt-5")
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
RULES = Rules.make([r"^(\w+)=>new_\1"])


def copy_of(parts: tuple[str, ...], directory: Path, name: str = "ckpt-1") -> str:
    source, target = data_path(*parts), str(directory / name)
    shutil.copy(source + ".index", target + ".index")
    for path in data_shards(parse_location(source)):
        shutil.copy(path, target + path.removeprefix(source))
    return target


def rename(path: str, target: str | None = None, *, rules: Rules = RULES, **options: Any) -> list[str]:
    with open_checkpoint(path) as opened:
        overwrite = options.get("overwrite", False)
        plan = plan_rename(opened, None if target is None else parse_location(target), rules, **options)
        return plan.run(overwrite=overwrite or target is None).notes


def values(path: str) -> dict[str, np.ndarray[Any, Any]]:
    return {key: value for key, value in read_all(path).items() if key != GRAPH}


def new_key(key: str) -> str:
    """Return what RULES make of a key."""
    before, slot, after = key.partition("/.OPTIMIZER_SLOT/")
    return f"new_{before}{slot}{'new_' if slot else ''}{after}"


def is_renamed(path: str, source: dict[str, np.ndarray[Any, Any]]) -> bool:
    found = values(path)
    expected = {new_key(key): value for key, value in source.items()}
    return set(found) == set(expected) and all(same(found[key], expected[key]) for key in found)


# What is shared -------------------------------------------------------------------


def test_of_a_name_based_checkpoint_in_place_the_index_alone_changes(tmp_path: Path) -> None:
    path = copy_of(NAMES, tmp_path)
    before, source = files(tmp_path), values(path)
    inode = os.stat(shard_path(path)).st_ino
    rename(path)
    after = files(tmp_path)
    assert {name for name in after if after[name] != before.get(name)} == {"ckpt-1.index"}
    assert set(after) == set(before)
    assert os.stat(shard_path(path)).st_ino == inode
    assert is_renamed(path, source)


def test_of_an_object_based_checkpoint_in_place_the_shard_is_the_same_file(tmp_path: Path) -> None:
    path = copy_of(OBJECTS, tmp_path)
    source, inode = values(path), os.stat(shard_path(path)).st_ino
    rename(path)
    assert sorted(files(tmp_path)) == [
        "ckpt-1.data-00000-of-00002",
        "ckpt-1.data-00001-of-00002",
        "ckpt-1.index",
    ]
    assert os.stat(shard_path(path, 0, 2)).st_ino == inode
    assert is_renamed(path, source)
    with open_checkpoint(path) as reader:
        assert list(reader.verify())[-1].findings == ()


def test_renaming_again_and_again_adds_no_shards(tmp_path: Path) -> None:
    path = copy_of(OBJECTS, tmp_path)
    source, inode = values(path), os.stat(shard_path(path)).st_ino
    for _ in range(4):
        rename(path)
        rename(path, rules=Rules.make([r"(^|of )new_=>\1"]))
        assert os.stat(shard_path(path, 0, 2)).st_ino == inode
        assert len(files(tmp_path)) == 3
    found = values(path)
    assert set(found) == set(source)
    assert all(same(found[key], source[key]) for key in found)


def test_elsewhere_shards_are_copied(tmp_path: Path) -> None:
    path, target = copy_of(OBJECTS, tmp_path), str(tmp_path / "out" / "ckpt-2")
    before = {name: content for name, content in files(tmp_path).items() if not name.startswith("out")}
    rename(path, target)
    assert os.stat(shard_path(target, 0, 2)).st_nlink == 1
    assert is_renamed(target, values(path))
    assert {name: content for name, content in files(tmp_path).items() if name in before} == before


def test_linked_elsewhere_shards_are_shared(tmp_path: Path) -> None:
    path, target = copy_of(NAMES, tmp_path), str(tmp_path / "ckpt-2")
    written = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StagedFile, "write", lambda file, data: written.append(len(data)) or _write(file, data))
        rename(path, target, link=True)
    assert sum(written) == os.path.getsize(target + ".index")
    assert is_renamed(target, values(path))


_write = StagedFile.write


def test_clones_are_made_where_the_file_system_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FICLONE is the file system's; here it is in for itself, and what goes around it is ours."""
    import fcntl

    def clone(target: int, request: int, source: int) -> int:
        assert request == 0x40049409
        return os.pwrite(target, os.pread(source, os.fstat(source).st_size, 0), 0)

    monkeypatch.setattr(fcntl, "ioctl", clone)
    path, target = copy_of(NAMES, tmp_path), str(tmp_path / "ckpt-2")
    assert rename(path, target, link=True) == []
    assert os.stat(shard_path(target)).st_nlink == 1
    assert is_renamed(target, values(path))


def test_what_cannot_be_shared_is_copied_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(shards, "_clone", no_links)
    path, target = copy_of(OBJECTS, tmp_path), str(tmp_path / "ckpt-2")
    (note,) = rename(path, target, link=True)
    assert "cannot be shared: the system forbids hard links" in note
    assert is_renamed(target, values(path))


@pytest.mark.parametrize("answer", ["refuses", "copies_nothing", "copies_little"])
def test_copies_do_without_copy_file_range(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.copy_file_range

    def copy(source: int, target: int, count: int, at: int, to: int) -> int:
        if answer == "refuses":
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return 0 if answer == "copies_nothing" else real(source, target, min(count, 7), at, to)

    monkeypatch.setattr(os, "copy_file_range", copy)
    path, target = copy_of(NAMES, tmp_path), str(tmp_path / "ckpt-2")
    rename(path, target)
    assert is_renamed(target, values(path))


def test_a_bundle_behind_symbolic_links_is_renamed_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    path = copy_of(OBJECTS, tmp_path / "blobs")
    here = str(tmp_path / "ckpt-1")
    os.symlink(path + ".index", here + ".index")
    os.symlink(shard_path(path), shard_path(here))
    source = values(here)
    rename(here)
    assert is_renamed(here, source)
    assert is_renamed(path, source)
    assert os.path.samefile(here + ".index", path + ".index")


def test_two_gigabytes_are_renamed_in_place_at_once(tmp_path: Path) -> None:
    """The shard is a hole of 2 GB: reading or copying it takes seconds."""
    size = 1 << 31
    path = copy_of(OBJECTS, tmp_path)
    os.truncate(shard_path(path), size)
    start = time.process_time()
    rename(path)
    assert time.process_time() - start < 0.5
    assert os.path.getsize(shard_path(path, 0, 2)) == size


# What is written ------------------------------------------------------------------


def test_slices_move_with_their_keys_and_entries_stay(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    tensors = {"v": partitioned(array, [((0, 2), (0, -1)), ((2, 2), (0, 3))], [0, 1]), "w": np.arange(3)}
    write_bundle(str(tmp_path / "ckpt-1"), tensors, num_shards=2)
    rename(str(tmp_path / "ckpt-1"), rules=Rules.make(["^v$=>a/much/longer/v"]))
    with open_checkpoint(tmp_path / "ckpt-1") as reader:
        assert list(reader) == ["a/much/longer/v", "w"]
        assert same(reader["a/much/longer/v"].read(), array)
        assert [extents for extents, _ in reader["a/much/longer/v"].pieces()] == [
            ((0, 2), (0, -1)),
            ((2, 2), (0, 3)),
        ]
        assert list(reader.verify())[-1].findings == ()


def test_unknown_fields_of_entries_and_header_survive(tmp_path: Path) -> None:
    unknown = b"\x98\x06\x07"

    def edit(entries: Any) -> None:
        entries[b"w"].unknown = unknown

    header = BundleHeaderProto(num_shards=1, version=VersionDef(producer=1), unknown=unknown)
    write_bundle(str(tmp_path / "ckpt-1"), {"w": np.arange(3)}, header=header, edit=edit)
    rename(str(tmp_path / "ckpt-1"))
    assert (tmp_path / "ckpt-1.index").read_bytes().count(unknown) == 2


def test_big_endian_bundles_get_a_big_endian_graph(tmp_path: Path) -> None:
    """Section 4.10: the lengths of strings enter their checksum in the bundle's byte order."""
    with open_checkpoint(data_path(*OBJECTS)) as reader:
        graph = reader[GRAPH].read().item()
        key = "net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE"
    header = BundleHeaderProto(num_shards=1, endianness=1, version=VersionDef(producer=1))
    tensors = {GRAPH: strings([graph], ()), key: np.arange(5, dtype=">f4").view("<f4")}
    path = str(tmp_path / "ckpt-1")
    write_bundle(path, tensors, header=header)
    with open_checkpoint(path) as opened:
        # Written by hand, the graph's own checksum is that of a little-endian bundle.
        opened.__dict__["object_graph"] = open_checkpoint(data_path(*OBJECTS)).object_graph
        plan_rename(opened, None, Rules.make(["^net=>model"])).run(overwrite=True)
    with open_checkpoint(path) as reader:
        assert reader.object_graph is not None
        assert reader["model/l1/bias/.ATTRIBUTES/VARIABLE_VALUE"].read().tolist() == [0, 1, 2, 3, 4]


def test_several_shards_keep_their_numbers(tmp_path: Path) -> None:
    source = data_path("max_shard_size", "split")
    rename(source, str(tmp_path / "ckpt-1"), rules=Rules.make(["^w1$=>first"]))
    before, after = values(source), values(str(tmp_path / "ckpt-1"))
    expected = {key.replace("w1/", "first/"): value for key, value in before.items()}
    assert set(after) == set(expected)
    assert all(same(after[key], expected[key]) for key in after)


# Bad input ------------------------------------------------------------------------


def test_a_source_that_changes_meanwhile_is_rejected(tmp_path: Path) -> None:
    path = copy_of(OBJECTS, tmp_path)
    with open_checkpoint(path) as opened:
        plan = plan_rename(opened, parse_location(str(tmp_path / "out-1")), RULES)
        os.utime(shard_path(path), (1, 1))
        before = files(tmp_path)
        with pytest.raises(CheckpointError, match="this file changed while it was read"):
            plan.run()
    assert files(tmp_path) == before


def test_a_copy_that_differs_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copy_of(NAMES, tmp_path)

    def copy(source: str, target: str, advance: Callable[[int], None]) -> None:
        with open(source, "rb") as file, open(target, "wb") as out:
            data = bytearray(file.read())
            data[100] ^= 1
            out.write(data)

    monkeypatch.setattr(shards, "_copy", copy)
    before = files(tmp_path)
    with pytest.raises(CorruptCheckpointError, match="differs"):
        rename(path, str(tmp_path / "out-1"))
    assert files(tmp_path) == before


@pytest.mark.parametrize("parts", [OBJECTS, NAMES])
def test_a_missing_shard_is_named(parts: tuple[str, ...], tmp_path: Path) -> None:
    path = copy_of(parts, tmp_path)
    os.unlink(shard_path(path))
    with pytest.raises(CheckpointError) as caught:
        rename(path, str(tmp_path / "out-1"))
    assert caught.value.path == shard_path(path)
    assert sorted(files(tmp_path)) == ["ckpt-1.index"]


@pytest.mark.parametrize("fixture", ["header_shards_huge", "entry_shard_out_of_range", "entry_garbage"])
def test_damaged_indexes_are_rejected(fixture: str, tmp_path: Path) -> None:
    path = copy_of(("corrupt", fixture, "ckpt"), tmp_path)
    before = files(tmp_path)
    with pytest.raises((UnsupportedFeatureError, CorruptCheckpointError, CheckpointNotFoundError)):
        rename(path, str(tmp_path / "out-1"), rules=Rules.make(["^.=>x"]))
    assert files(tmp_path) == before


def test_variables_of_a_saved_model_are_rejected(tmp_path: Path) -> None:
    """Trap 28: saved_model.pb restores them by their keys."""
    directories = [
        os.path.dirname(os.path.dirname(os.path.join(at, name)))
        for at, _, names in os.walk(data_path("saved_model"))
        for name in names
        if name == "variables.index"
    ]
    assert directories
    for directory in directories:
        for path in (directory, os.path.join(directory, "variables", "variables")):
            with pytest.raises(ConversionError, match="SavedModel"):
                rename(path, str(tmp_path / "out-1"), rules=Rules.make([".=>x"]))
    assert files(tmp_path) == {}


# Every step -----------------------------------------------------------------------


class Scenario:
    """A renaming: which checkpoint, whether in place, what is at the target, whether there are hard links."""

    def __init__(
        self,
        parts: tuple[str, ...],
        *,
        in_place: bool = True,
        times: int = 0,
        links: bool = True,
        **options: Any,
    ) -> None:
        self.parts, self.in_place, self.times, self.links = parts, in_place, times, links
        self.options = options
        self.content: dict[str, bytes] | None = None

    @property
    def before(self) -> str:
        return "old" if self.in_place or self.options.get("overwrite") else "none"

    def prepare(self, directory: Path) -> str:
        """Return the path of the target, with its existing content; the source is next to it, to be
        linked.
        """
        path, source = str(directory / "ckpt-1"), directory.parent / "source"
        if not source.exists():
            source.mkdir()
            copy_of(self.parts, source)
        self.source = str(source / "ckpt-1")
        if self.before == "none":
            return path
        if self.content is None:
            copy_of(self.parts, directory)
            for number in range(self.times * 2):
                rules = ["^net=>net2", "^net2=>net"][number % 2]
                rename(path, rules=Rules.make([rules]))
            self.content = files(directory)
        for name, content in self.content.items():
            (directory / name).write_bytes(content)
        return path

    def write(self, path: str, *, again: bool = False) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if not self.links:
                patch.setattr(os, "link", no_links)
                patch.setattr(shards, "_clone", no_links)
            if self.in_place:
                rename(path)
            else:
                rename(self.source, path, **{**self.options, **({"overwrite": True} if again else {})})

    def found(self, path: str) -> str:
        """Say which checkpoint is at the target; anything but a complete one is a failure."""
        source = values(data_path(*self.parts))
        try:
            found = values(path)
        except CheckpointNotFoundError:
            return "none"
        if is_renamed(path, source):
            return "new"
        assert set(found) == set(source)
        assert all(same(found[key], source[key]) for key in found)
        return "old"


SCENARIOS = {
    "names_in_place": Scenario(NAMES),
    "objects_in_place": Scenario(OBJECTS),
    "objects_in_place_again": Scenario(OBJECTS, times=1),
    "objects_without_links": Scenario(OBJECTS, links=False),
    "objects_again_without_links": Scenario(OBJECTS, times=1, links=False),
    "names_elsewhere": Scenario(NAMES, in_place=False),
    "objects_elsewhere": Scenario(OBJECTS, in_place=False, link=True),
    "names_over_another": Scenario(NAMES, in_place=False, overwrite=True),
    "objects_over_another": Scenario(OBJECTS, in_place=False, overwrite=True, link=True),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_at_any_step_the_target_is_old_or_new(name: str, tmp_path: Path) -> None:
    scenario = SCENARIOS[name]
    for directory, path, found in kills(scenario, tmp_path):
        assert [member.name for member in Directory(parse_location(str(directory))).members] in (
            [],
            ["ckpt-1"],
        )
        # After any interruption, the next run succeeds.
        if found != "new":
            scenario.write(path, again=True)
            assert scenario.found(path) == "new"


@pytest.mark.parametrize("act", [full, interrupt_before, interrupt_after])
@pytest.mark.parametrize("name", SCENARIOS)
def test_failing_at_any_step_leaves_nothing_behind(
    name: str, act: Callable[[Callable[[], Any]], Any], tmp_path: Path
) -> None:
    assert list(failures(SCENARIOS[name], act, tmp_path))


def test_no_hdf5_file_is_written_without_what_is_left_out(tmp_path: Path, ckpt: Callable) -> None:
    """`rename --in-place` silently removed such datasets, and `rescue` reported that everything was saved."""
    path = str(tmp_path / "o.h5")
    with h5py.File(path, "w") as file:
        file["pairs"], file["x"] = np.zeros(3, [("a", "i4"), ("b", "f8")]), [1, 2]
    before = (tmp_path / "o.h5").read_bytes()
    for line in (
        ("rename", "--in-place", path, "--sub", "x=>y"),
        ("convert", path, tmp_path / "c.h5", "--to", "hdf5"),
        ("average", path, path, "-o", tmp_path / "a.h5"),
    ):
        done = ckpt(*line)
        assert (done.code, "left out 'pairs'" in done.err) == (3, True), line
    assert (tmp_path / "o.h5").read_bytes() == before
    done = ckpt("rescue", path, tmp_path / "r.h5")
    assert (done.code, [row[0] for row in done.rows]) == (1, ["unproved", "lost"])
    for line in (("ls", path), ("diff", path, path), ("convert", path, tmp_path / "c.npz"), ("verify", path)):
        done = ckpt(*line)
        assert (done.code, "left out 'pairs'" in done.out + done.err) == (0, True), line
