"""Checkpoints in git: textconv, difftool, `REV:PATH`, with git itself."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ckpt_cli.operations.look.complaints import topics
from tests.repository import Repository
from tests.support import data_path, partitioned, strings, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n"


def tensors(scale: float) -> dict[str, object]:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    return {
        "changed": values * np.float32(scale),
        "graph": strings([b"always the same"], ()),
        "parted": partitioned(values, [((0, 1), (0, -1)), ((1, 1), (0, -1))]),
        "parted_changed": partitioned(values * np.float32(scale), [((0, 1), (0, -1)), ((1, 1), (0, -1))]),
        "text": strings([b"%d" % scale], ()),
        "w": values,
    }


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Two commits of a bundle, an HDF5 file, a pointer of Git LFS and a renamed file, and a change on top."""
    made = Repository(tmp_path_factory.mktemp("git") / "repository")
    # What docs/explanations/git.md and `ckpt explain git` say.
    for line in dict(topics()["git"].entries).values():
        if line.startswith("git config"):
            made.run("sh", "-c", line)
    lines = [line for line in dict(topics()["git"].entries) if line.startswith("*")]
    (made.folder / ".gitattributes").write_text("\n".join(lines) + "\n")
    run = made.folder / "run"
    run.mkdir()
    for number, scale in enumerate((1.0, 2.0, 3.0)):
        write_bundle(str(run / "ckpt-10"), tensors(scale))
        made.run(
            "ckpt", "convert", "run/ckpt-10", "model.h5", "--to", "hdf5", "--overwrite", "--exclude", "text"
        )
        (made.folder / "big.keras").write_text(POINTER.format(f"{number:064x}"))
        if number == 0:
            shutil.copy(data_path("interop", "weights.npz"), made.folder / "old.npz")
            made.commit("one")
        elif number == 1:
            made.git("mv", "old.npz", "new.npz")
            made.commit("two")
    return made


def changed_keys(diff: str) -> set[str]:
    lines = [line for line in diff.splitlines() if line.startswith(("+", "-"))]
    rows = [line for line in lines if line[:3] not in ("+++", "---")]
    return {row[1:].partition("\t")[0] for row in rows}


VALUES = {"changed", "parted_changed", "text"}


@pytest.mark.parametrize("revisions", [("HEAD~1", "HEAD"), ("HEAD",)], ids=" ".join)
def test_git_diff_shows_the_changed_keys_alone(repository: Repository, revisions: tuple[str, ...]) -> None:
    assert changed_keys(repository.git("diff", *revisions, "--", "run/ckpt-10.index")) == VALUES
    assert changed_keys(repository.git("diff", *revisions, "--", "model.h5")) == VALUES - {"text"}
    assert repository.err == ""
    assert "-(Git LFS pointer)\t\t\t12345\tsha256:" in repository.git("diff", *revisions, "--", "big.keras")


def test_git_diff_says_nothing_of_data_and_names_a_renamed_file(repository: Repository) -> None:
    data = repository.git("diff", "HEAD", "--", "run/ckpt-10.data-00000-of-00001")
    assert "Binary files" in data
    renamed = repository.git("diff", "-M", "HEAD~1", "HEAD", "--", "old.npz", "new.npz")
    assert "similarity index 100%" in renamed


def test_what_is_staged_is_shown_as_what_is_committed(repository: Repository, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(repository.folder, copy, symlinks=True)
    other = Repository(copy)
    other.git("add", "-A")
    assert changed_keys(other.git("diff", "--cached", "--", "run/ckpt-10.index")) == VALUES
    other.git("config", "diff.ckpt.cachetextconv", "true")
    for _ in range(2):
        shown = other.git("log", "-p", "-1", "--", "run/ckpt-10.index")
        assert changed_keys(shown) == VALUES, shown


def test_difftool_compares_directories(repository: Repository) -> None:
    """By the tool that is configured; some git, as 2.39, takes `-x` for the name of one program."""
    shown = repository.git("difftool", "-d", "--no-prompt", "-t", "ckpt", "HEAD~1", "HEAD", "--", "run")
    rows = [line.split("\t") for line in shown.splitlines()]
    assert {(row[0], row[1], row[2]) for row in rows} == {("run/ckpt-10", "value", key) for key in VALUES}


def test_difftool_compares_the_rest_next_to_what_was_not_fetched(repository: Repository) -> None:
    """Only the pointer of Git LFS was reported."""
    shown = repository.git("difftool", "-d", "--no-prompt", "-t", "ckpt", "HEAD~1", "HEAD")
    keys = {row.split("\t")[2] for row in shown.splitlines() if row.startswith("run/ckpt-10\t")}
    assert keys == VALUES
    assert "big.keras: this is a Git LFS pointer" in repository.err


@pytest.fixture
def inside(repository: Repository, ckpt: Callable, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable]:
    """Run `ckpt` in the repository, within this process."""
    monkeypatch.chdir(repository.folder)
    return ckpt


def test_commands_read_commits(repository: Repository, inside: Callable, tmp_path: Path) -> None:
    done = inside("diff", "HEAD~1:run/ckpt-10", "run/ckpt-10")
    assert (done.code, {row[1] for row in done.rows}) == (1, VALUES)
    assert inside("diff", "HEAD:run/ckpt-10", "HEAD:run/ckpt-10").code == 0
    assert inside("ls", "--json", "HEAD~1:run/ckpt-10").json["path"] == "HEAD~1:run/ckpt-10"
    assert inside("ls", "HEAD:run").rows[0][:2] == ["ckpt-10", "tf-name"]
    assert "2 checkpoints are intact" in inside("verify", "HEAD:run/ckpt-10", "HEAD:model.h5").err
    assert inside("ls", "HEAD~1:old.npz").out == inside("ls", "HEAD:new.npz").out
    assert inside("stats", "HEAD:run/ckpt-10", "w").code == 0
    assert inside("show", "HEAD:model.h5", "w").code == 0
    assert inside("log", "HEAD:run").code == 0
    assert inside("extract", "HEAD:run/ckpt-10", "w", "-o", tmp_path / "w.npy").code == 0
    old = ("HEAD~1:run/ckpt-10", tmp_path / "old.npz", "--exclude", "text", "--exclude", "graph")
    assert inside("convert", *old).code == 0
    assert inside("diff", *old).code == 0
    several = inside("ls", "HEAD~1:run/ckpt-10", "HEAD:run/ckpt-10", "w")
    assert [row[0] for row in several.rows] == ["HEAD~1:run/ckpt-10", "HEAD:run/ckpt-10"]


def test_what_is_not_in_a_commit_is_reported(repository: Repository, inside: Callable) -> None:
    done = inside("ls", "HEAD:big.keras")
    assert (done.code, "Git LFS pointer" in done.err) == (3, True)
    assert inside("ls", "HEAD:run/ckpt-11").code == 3
    done = inside("ls", "HEAD~7:run/ckpt-10")
    assert (done.code, "hint: git finds no revision 'HEAD~7' here" in done.err) == (3, True)
    done = inside("convert", "run/ckpt-10", "HEAD:new/c-1")
    assert (done.code, "can be read, but not written" in done.err) == (3, True)


def test_a_contract_holds_a_commit(repository: Repository, inside: Callable, tmp_path: Path) -> None:
    lock = tmp_path / "model.lock"
    lock.write_text(inside("ls", "--json", "-l", "--digest", "sha256", "HEAD~1:run/ckpt-10").out)
    assert inside("verify", "HEAD~1:run/ckpt-10", "--against", lock).code == 0
    done = inside("verify", "HEAD:run/ckpt-10", "--against", lock)
    assert (done.code, {row[3] for row in done.rows[1:]}) == (1, VALUES)


def test_a_folder_of_a_commit_is_never_its_lock(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone has one time, and the lock file's name comes last."""
    made = Repository(tmp_path / "repository")
    folder = made.folder / "m"
    folder.mkdir()
    np.savez(folder / "model.npz", w=np.zeros(3))
    (folder / "model.npz.lock").write_text(ckpt("ls", "--json", "-l", folder / "model.npz").out)
    made.commit("one")
    np.savez(folder / "model.npz", w=np.ones(3))
    made.commit("two")
    for path in folder.iterdir():
        os.utime(path, (1000, 1000))
    monkeypatch.chdir(made.folder)
    done = ckpt("diff", "HEAD~1:m", "m")
    assert (done.code, [row[:2] for row in done.rows]) == (1, [["value", "w"]])
    assert ckpt("diff", "HEAD:m", "m").code == 0


def test_no_work_tree_is_touched(repository: Repository, inside: Callable) -> None:
    status = repository.git("status", "--porcelain")
    before = os.stat(repository.folder / ".git" / "index").st_mtime_ns
    inside("ls", "HEAD~1:run/ckpt-10")
    assert os.stat(repository.folder / ".git" / "index").st_mtime_ns == before
    assert repository.git("status", "--porcelain") == status


def test_links_that_lead_out_and_submodules_are_listed(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were reported as missing, with the advice to use the same name."""
    made = Repository(tmp_path / "repository")
    (made.folder / "out.index").symlink_to("/etc/passwd")
    made.commit("one")
    head = made.git("rev-parse", "HEAD").strip()
    made.git("update-index", "--add", "--cacheinfo", f"160000,{head},below")
    made.git("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", "two")
    monkeypatch.chdir(made.folder)
    for path, said in (
        ("HEAD:out.index", "HEAD:out.index: this is a symbolic link whose target is not in this commit"),
        ("HEAD:out", "HEAD:out.index: this is a symbolic link whose target is not in this commit"),
        ("HEAD:below", "HEAD:below: this is a submodule"),
        ("HEAD:below/run/ckpt-1", "HEAD:below is a submodule"),
        ("HEAD:absent", "HEAD:absent: no such file"),
    ):
        done = ckpt("ls", path)
        assert (done.code, said in done.err) == (3, True), done.err
