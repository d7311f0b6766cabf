"""Symbolic links as targets: what they lead to is written, and they stay."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats import CheckpointError
from formats.location import parse_location
from formats.store.local.staging import replace_file
from formats.tf.bundle.links import Mirror
from tests.faults.steps import Killed, die, full, steps
from tests.hostile.commands import Ended, run_command
from tests.support import data_path, shard_path
from tests.writing import files, read_all, save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OLD = {"a": np.arange(5), "b": np.ones((3, 2), np.float32)}
NEW = {"a": np.arange(7), "c": np.zeros((3, 2), np.float32)}
OBJECTS = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-8")


def run_ckpt(*arguments: object) -> Ended:
    return run_command([str(argument) for argument in arguments])


def linked(tmp_path: Path, *, relative: bool = True, **layout: int) -> tuple[str, str]:
    """Return the prefix of a bundle in `store`, and that of links to it in `run`."""
    (tmp_path / "run").mkdir(parents=True)
    save(tmp_path / "store" / "c-1", OLD, **layout)
    for name in os.listdir(tmp_path / "store"):
        target = os.path.join("..", "store", name) if relative else str(tmp_path / "store" / name)
        os.symlink(target, tmp_path / "run" / name)
    return str(tmp_path / "store" / "c-1"), str(tmp_path / "run" / "c-1")


def check_mirrored(tmp_path: Path) -> None:
    """Check that there is a link for each file of the store, and nothing else."""
    names = sorted(os.listdir(tmp_path / "store"))
    assert sorted(os.listdir(tmp_path / "run")) == names
    for name in names:
        assert os.path.islink(tmp_path / "run" / name)
        assert os.path.samefile(tmp_path / "run" / name, tmp_path / "store" / name)


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("shard_size", [None, 1, 30])
@pytest.mark.parametrize("old_size", [None, 1])
def test_a_bundle_is_written_where_its_links_lead(
    old_size: int | None, shard_size: int | None, relative: bool, tmp_path: Path
) -> None:
    layout = {} if old_size is None else {"shard_size": old_size}
    store, run = linked(tmp_path, relative=relative, **layout)
    save(run, NEW, overwrite=True, shard_size=shard_size)
    check_mirrored(tmp_path)
    assert os.path.isabs(os.readlink(run + ".index")) is not relative
    assert {os.path.isabs(os.readlink(tmp_path / "run" / name)) for name in os.listdir(tmp_path / "run")} == {
        not relative
    }
    for prefix in (store, run):
        assert list(read_all(prefix)) == ["a", "c"]


@pytest.mark.parametrize("act", [die, full])
def test_at_any_step_both_names_are_the_old_or_the_new(act: Callable[..., None], tmp_path: Path) -> None:
    def write(run: str) -> None:
        save(run, NEW, overwrite=True, shard_size=30)

    with steps(0, act) as made:
        write(linked(tmp_path / "whole", shard_size=30)[1])
    assert "symlink" in made
    for at in range(1, len(made) + 1):
        directory = tmp_path / str(at)
        prefixes = linked(directory, shard_size=30)
        before = files(directory / "store")
        with steps(at, act, forever=act is die), contextlib.suppress(Killed, CheckpointError):
            write(prefixes[1])
        found = [list(read_all(prefix)) for prefix in prefixes]
        assert found in ([["a", "b"]] * 2, [["a", "c"]] * 2)
        if act is full and found[0] == ["a", "b"]:
            assert files(directory / "store") == before
            check_mirrored(directory)


def beside(tmp_path: Path, **layout: int) -> tuple[str, str]:
    """Return the prefix of a bundle, and that of links to it in the same directory."""
    save(tmp_path / "c-1", OLD, **layout)
    for name in os.listdir(tmp_path):
        os.symlink(name, tmp_path / name.replace("c-1", "best"))
    return str(tmp_path / "c-1"), str(tmp_path / "best")


@pytest.mark.parametrize(("old_size", "new_size"), [(None, 30), (30, None), (30, 30), (None, None)])
def test_links_next_to_a_bundle_go_along_with_it(
    old_size: int | None, new_size: int | None, tmp_path: Path
) -> None:
    """`best` still is what `c-1` is when that has another number of shards; its shards were gone."""
    real, best = beside(tmp_path, **({} if old_size is None else {"shard_size": old_size}))
    save(tmp_path / "other", OLD)
    os.symlink("other.index", tmp_path / "half.index")  # a link, but none to all of a bundle
    os.symlink("c-1.index", tmp_path / "alone.index.txt")
    save(real, NEW, overwrite=True, shard_size=new_size)
    assert list(read_all(best)) == list(read_all(real)) == ["a", "c"]
    assert run_ckpt("verify", best).code == 0
    links = {name: os.readlink(tmp_path / name) for name in os.listdir(tmp_path) if name.startswith("best")}
    made = [name for name in os.listdir(tmp_path) if name.startswith("c-1")]
    assert links == {name.replace("c-1", "best"): name for name in made}


def test_at_any_step_links_next_to_a_bundle_lead_to_what_it_is(tmp_path: Path) -> None:
    with steps(0, die) as made:
        save(beside(tmp_path / "whole")[0], NEW, overwrite=True, shard_size=30)
    assert "symlink" in made
    for at in range(1, len(made) + 1):
        prefixes = beside(tmp_path / str(at))
        with steps(at, die, forever=True), contextlib.suppress(Killed):
            save(prefixes[0], NEW, overwrite=True, shard_size=30)
        assert [list(read_all(prefix)) for prefix in prefixes] in ([["a", "b"]] * 2, [["a", "c"]] * 2)


@pytest.mark.parametrize("options", [["--in-place"], ["--in-place", "--link"]])
def test_renaming_in_place_goes_through_links(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "store").mkdir()
    for suffix in (".index", ".data-00000-of-00001"):
        with open(OBJECTS + suffix, "rb") as file:
            (tmp_path / "store" / f"c-1{suffix}").write_bytes(file.read())
        os.symlink(f"../store/c-1{suffix}", tmp_path / "run" / f"c-1{suffix}")
    done = run_ckpt("rename", *options, tmp_path / "run" / "c-1", "--sub", "^net/=>model/")
    assert done.code == 0, done.err
    check_mirrored(tmp_path)
    keys = [run_ckpt("ls", "-1", tmp_path / where / "c-1").out for where in ("run", "store")]
    assert keys[0] == keys[1]
    assert "model/l1/kernel" in keys[0]


def test_an_index_alone_is_replaced_where_it_is(tmp_path: Path) -> None:
    """Only its keys change, so the location of a name-based bundle's shards does not matter."""
    save(tmp_path / "run" / "c-1", OLD)
    (tmp_path / "big").mkdir()
    shard = shard_path(str(tmp_path / "run" / "c-1"))
    os.rename(shard, tmp_path / "big" / "blob")
    os.symlink("../big/blob", shard)
    assert run_ckpt("rename", "--in-place", tmp_path / "run" / "c-1", "--sub", "^a=>z").code == 0
    assert os.readlink(shard) == "../big/blob"
    assert list(read_all(tmp_path / "run" / "c-1")) == ["b", "z"]


@pytest.mark.parametrize("name", ["index", "shard"])
def test_links_to_files_of_other_names_are_rejected(name: str, tmp_path: Path) -> None:
    prefix = str(tmp_path / "c-1")
    save(prefix, OLD)
    path = prefix + ".index" if name == "index" else shard_path(prefix)
    os.rename(path, tmp_path / "blob")
    os.symlink("blob", path)
    before = files(tmp_path)
    with pytest.raises(CheckpointError, match="lead to files of one checkpoint") as caught:
        save(prefix, NEW, overwrite=True)
    assert caught.value.path == path
    assert "cp -L" in caught.value.hints[0]
    assert files(tmp_path) == before


@pytest.mark.parametrize("form", ["npz", "safetensors", "hdf5", "tf-v1", "listing"])
def test_a_file_is_written_where_its_link_leads(form: str, tmp_path: Path) -> None:
    save(tmp_path / "store" / "blob", OLD, form)
    os.symlink("store/blob", tmp_path / "middle")
    os.symlink("middle", tmp_path / "link")
    save(tmp_path / "link", NEW, form, overwrite=True)
    assert os.readlink(tmp_path / "link") == "middle"
    assert os.readlink(tmp_path / "middle") == "store/blob"
    assert sorted(os.listdir(tmp_path / "store")) == ["blob"]
    assert run_ckpt("ls", "-1", tmp_path / "store" / "blob").out == "a\nc\n"


def test_small_files_are_written_where_their_links_lead(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    os.symlink("real", tmp_path / "link")
    replace_file(parse_location(str(tmp_path / "link")), b"new")
    assert os.readlink(tmp_path / "link") == "real"
    assert (tmp_path / "real").read_bytes() == b"new"


NOWHERE = {
    "convert": ["convert", OBJECTS, "LINK.npz", "--weights-only"],
    "convert over": ["convert", OBJECTS, "LINK.npz", "--weights-only", "--overwrite"],
    "convert to a bundle": ["convert", OBJECTS, "LINK", "--overwrite"],
    "rename": ["rename", OBJECTS, "LINK", "--sub", "^net/=>model/", "--link", "--overwrite"],
    "extract": ["extract", OBJECTS, "net/l1/kernel", "-o", "LINK.npy", "--overwrite"],
    "extract to a directory": ["extract", OBJECTS, "net/l1/kernel", "-o", "LINK/"],
    "graph": ["graph", OBJECTS, "-o", "LINK.svg", "--overwrite"],
    "below": ["convert", OBJECTS, "LINK/new/ckpt-1"],
}


@pytest.mark.parametrize("name", NOWHERE)
@pytest.mark.parametrize("target", ["nowhere", "loop"])
def test_a_link_that_leads_nowhere_is_an_error(name: str, target: str, tmp_path: Path) -> None:
    for suffix in ("", ".index", ".npz", ".npy", ".svg"):
        link = tmp_path / f"link{suffix}"
        os.symlink(f"nowhere{suffix}" if target == "nowhere" else link.name, link)
    before = sorted(os.listdir(tmp_path))
    words = [word.replace("LINK", str(tmp_path / "link")) for word in NOWHERE[name]]
    done = run_ckpt(*words)
    assert done.code == 3, done.err
    assert f"ckpt: error: {tmp_path}/link" in done.err
    assert "this is a broken symbolic link to " in done.err
    assert sorted(os.listdir(tmp_path)) == before


def test_a_directory_behind_a_link_is_filled(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    os.symlink("store", tmp_path / "out")
    assert run_ckpt("extract", OBJECTS, "net/l1/kernel", "-o", f"{tmp_path}/out/").code == 0
    assert os.readlink(tmp_path / "out") == "store"
    assert len(os.listdir(tmp_path / "store")) == 1
    assert run_ckpt("convert", OBJECTS, tmp_path / "out" / "c-1").code == 0
    assert os.path.isfile(tmp_path / "store" / "c-1.index")


def test_a_link_in_a_directory_of_tensors_is_no_way_out(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run_ckpt("extract", OBJECTS, "net/l1/kernel", "-o", f"{out}/").code == 0
    ((parent, _, (name,)),) = [found for found in os.walk(out) if found[2]]
    os.rename(os.path.join(parent, name), tmp_path / "mine.npy")
    os.symlink(tmp_path / "mine.npy", os.path.join(parent, name))
    (tmp_path / "mine.npy").write_bytes(b"mine")
    done = run_ckpt("extract", OBJECTS, "net/l1/kernel", "-o", f"{out}/", "--overwrite")
    assert done.code == 3
    assert "is a symbolic link, which could point outside the target directory" in done.err
    assert (tmp_path / "mine.npy").read_bytes() == b"mine"


def test_a_state_file_behind_a_link_is_written_there(tmp_path: Path) -> None:
    for name in ("ckpt-1", "ckpt-2"):
        save(tmp_path / "run" / name, OLD)
    assert run_ckpt("state", "--fix", tmp_path / "run").code == 0
    os.rename(tmp_path / "run" / "checkpoint", tmp_path / "kept")
    os.symlink("../kept", tmp_path / "run" / "checkpoint")
    assert run_ckpt("state", "--set", "ckpt-1", tmp_path / "run").code == 0
    assert os.readlink(tmp_path / "run" / "checkpoint") == "../kept"
    assert (tmp_path / "kept").read_bytes().startswith(b'model_checkpoint_path: "ckpt-1"')


def test_without_links_there_is_no_mirror(tmp_path: Path) -> None:
    mirror = Mirror((), parse_location(str(tmp_path / "c")))
    mirror.add(shard_path(str(tmp_path / "c")))
    mirror.tidy()
    assert os.listdir(tmp_path) == []
