"""`REV:PATH`: files of commits, as git keeps them."""

from __future__ import annotations

import os
import pickle
import subprocess
from typing import TYPE_CHECKING

import pytest

import formats
from formats.errors import CheckpointNotFoundError, InaccessibleError, UnsupportedFeatureError
from formats.location import parse_location
from formats.store.git import GitStore, find, split_revision
from tests.repository import ENVIRONMENT, Repository

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    made = Repository(tmp_path / "repository")
    (made.folder / "sub").mkdir()
    (made.folder / "sub" / "a").write_bytes(b"0123456789")
    (made.folder / "b\nwith: odd").write_bytes(b"odd")
    (made.folder / "link").symlink_to("sub/a")
    (made.folder / "sub" / "up").symlink_to("../link")
    (made.folder / "out").symlink_to("../../etc/passwd")
    (made.folder / "loop").symlink_to("loop")
    made.commit("one")
    monkeypatch.chdir(made.folder)
    return made


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("HEAD~1:run/x", ("HEAD~1", "run/x")),
        ("HEAD:", ("HEAD", "")),
        ("HEAD^{/fix: it}:a:b", ("HEAD^{/fix: it}", "a:b")),
        ("main@{10:30}:x", ("main@{10:30}", "x")),
        (":x", ("", "")),
        ("run/x", ("", "")),
    ],
)
def test_a_revision_ends_where_git_says(path: str, parts: tuple[str, str]) -> None:
    assert split_revision(path) == parts


def test_files_are_read_at_places(repository: Repository) -> None:
    (repository.folder / "sub" / "a").write_bytes(b"changed")
    path = parse_location("HEAD:sub/a")
    assert path == "HEAD:sub/a"
    with parse_location(path).open() as file:
        assert (file.size, file.read(3, 4), file.read(8, 9), file.read(-1, 2)) == (10, b"3456", b"89", b"")
        again = pickle.loads(pickle.dumps(file))
        assert (again.read(0, 2), again.identity) == (b"01", file.identity)
        again.close()
    blob = repository.git("rev-parse", "HEAD:sub/a").strip()
    assert file.identity == (blob,)
    assert (file.closed, parse_location(path).is_file(), parse_location("HEAD:sub").is_folder()) == (
        True,
        True,
        True,
    )


def test_names_may_have_any_characters(repository: Repository) -> None:
    assert parse_location("HEAD:") == "HEAD:"
    names = [each.name for each in parse_location("HEAD:").listing()]
    assert names == sorted(["b\nwith: odd", "link", "loop", "out", "sub"])
    with parse_location(parse_location("HEAD:") / "b\nwith: odd").open() as file:
        assert file.read(0, 9) == b"odd"
    assert parse_location("HEAD:sub/a").split_name() == ("HEAD:sub", "a")
    assert parse_location("HEAD:sub").split_name() == ("HEAD:", "sub")
    assert (parse_location("HEAD:sub") / "../a") == "HEAD:sub/../a"
    assert parse_location("HEAD:sub/../a").entry() is None
    assert parse_location("HEAD:sub/a").relative_to("HEAD:sub") == "a"


def test_links_are_followed_within_the_tree(repository: Repository) -> None:
    parse_location("HEAD:")
    with parse_location("HEAD:sub/up").open() as file:
        assert file.read(0, 3) == b"012"
    assert parse_location("HEAD:sub/up").is_link()
    assert [parse_location(f"HEAD:{name}").entry() for name in ("out", "loop", "absent", "sub/a/x")] == [
        None
    ] * 4
    with pytest.raises(CheckpointNotFoundError):
        parse_location("HEAD:out").open()
    with pytest.raises(InaccessibleError, match="directory"):
        parse_location("HEAD:sub").open()


def test_a_path_is_from_the_top_or_with_a_dot_from_here(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.folder / "sub")
    assert parse_location("HEAD:./a") == "HEAD:sub/a"
    assert parse_location("HEAD:../link") == "HEAD:link"
    assert parse_location("HEAD:sub/a") == "HEAD:sub/a"


def test_a_file_of_that_name_is_meant_first(repository: Repository) -> None:
    (repository.folder / "HEAD:sub").mkdir()
    (repository.folder / "HEAD:sub" / "a").write_bytes(b"here")
    assert parse_location(parse_location("HEAD:sub/a")).store.scheme == ""
    for other in ("HEAD~7:sub/a", "--help:x", "--output=x:y", "absent:x", "a\0:b"):
        assert (
            parse_location(parse_location(other)).store.scheme == ""
            if "\0" not in other
            else find(other) is None
        )
    assert not (repository.folder / "x").exists()


def test_nothing_is_written_there(repository: Repository) -> None:
    with pytest.raises(UnsupportedFeatureError, match="can be read, but not written"):
        parse_location(parse_location("HEAD:new")).is_object()


def test_packed_objects_are_read(repository: Repository) -> None:
    repository.git("gc", "-q")
    assert not [name for name in os.listdir(repository.folder / ".git" / "objects") if len(name) == 2]
    with parse_location(parse_location("HEAD:sub/a")).open() as file:
        assert file.read(0, 3) == b"012"


def test_an_object_that_is_missing_is_an_error(repository: Repository) -> None:
    blob = repository.git("rev-parse", "HEAD:sub/a").strip()
    place = repository.folder / ".git" / "objects" / blob[:2] / blob[2:]
    file = parse_location(parse_location("HEAD:sub/a")).open()
    place.chmod(0o644)
    place.unlink()
    with file, pytest.raises(InaccessibleError, match=f"git cannot read the blob {blob}"):
        file.read(0, 1)


def test_a_hostile_repository_starts_nothing(repository: Repository, tmp_path: Path) -> None:
    """Neither hooks nor what its configuration names, nor the transport of a clone that lacks objects."""
    trap = f"touch {tmp_path}/sprung; false"
    for name in (
        "core.fsmonitor",
        "core.pager",
        "pager.cat-file",
        "pager.ls-tree",
        "core.editor",
        "core.sshCommand",
        "diff.external",
        "filter.f.smudge",
        "filter.f.clean",
        "diff.f.textconv",
        "core.alternateRefsCommand",
        "credential.helper",
        "alias.cat-file",
        "alias.ls-tree",
        "uploadpack.packObjectsHook",
    ):
        repository.git("config", name, trap if name[:5] != "alias" else f"!{trap}")
    (repository.folder / ".git" / "info" / "attributes").write_text("* filter=f diff=f\n")
    for hook in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        script = repository.folder / ".git" / "hooks" / hook
        script.write_text(f"#!/bin/sh\n{trap}\n")
        script.chmod(0o755)
    repository.git("config", "remote.origin.url", f"ext::sh -c '{trap}'")
    repository.git("config", "remote.origin.promisor", "true")
    repository.git("config", "protocol.allow", "always")
    repository.git("config", "extensions.partialClone", "origin")
    repository.git("config", "core.repositoryformatversion", "1")
    (tmp_path / "sprung").unlink(missing_ok=True)
    with parse_location(parse_location("HEAD:sub/a")).open() as file:
        assert file.read(0, 3) == b"012"
    blob = repository.run("sh", "-c", f"GIT_CONFIG_COUNT=0 git rev-parse {file.identity[0]}").strip()
    place = repository.folder / ".git" / "objects" / blob[:2] / blob[2:]
    place.chmod(0o644)
    place.unlink()
    with (
        parse_location("HEAD:sub/up").open() as file,
        pytest.raises(InaccessibleError, match="git cannot"),
    ):
        file.read(0, 1)
    assert not (tmp_path / "sprung").exists()


def test_without_git_a_path_is_a_path(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    from formats.store import git

    git._repository.cache_clear()
    assert find("HEAD:sub/a") is None
    with pytest.raises(formats.CheckpointNotFoundError):
        formats.open_checkpoint("HEAD:sub/a")
    git._repository.cache_clear()


def test_no_other_start_asks_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    assert parse_location("run/ckpt-1") == "run/ckpt-1"
    assert isinstance(GitStore("HEAD", "0" * 40, "/nowhere"), GitStore)


def test_a_repository_that_is_made_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook is open for long."""
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert find("HEAD:x") is None
    made = Repository(folder)
    (folder / "x").write_bytes(b"0")
    made.commit("one")
    assert find("HEAD:x") is not None
