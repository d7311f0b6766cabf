"""Permissions of written files: at every instant only readers of the replaced file can read them."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formats.location import parse_location
from formats.store.local.ownership import Ownership, give, ownership_of, strictest
from formats.store.local.staging import Staging, replace_file
from tests.cli.running import run_ckpt
from tests.faults.operations import OPERATIONS, prepare
from tests.faults.steps import steps
from tests.support import data_path
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OLD = {"a": np.arange(5), "b": np.ones((3, 2), np.float32)}
NEW = {"a": np.arange(7), "c": np.zeros((3, 2), np.float32)}
GUIDE = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-8")
KERAS3 = data_path("keras3_mlp", "mlp.keras")


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[str, int]:
    return {name: stat.S_IMODE(os.stat(directory / name).st_mode) for name in os.listdir(directory)}


def protect(directory: Path, mode: int = 0o600) -> None:
    for name in os.listdir(directory):
        os.chmod(directory / name, mode)


FORMATS = ["tf-name", "tf-v1", "npz", "safetensors", "hdf5", "listing"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_replaced_checkpoint_keeps_its_mode(form: str, mode: int, tmp_path: Path) -> None:
    save(tmp_path / "c", OLD, form)
    assert set(modes(tmp_path).values()) == {0o644}
    protect(tmp_path, mode)
    save(tmp_path / "c", NEW, form, overwrite=True)
    assert set(modes(tmp_path).values()) == {mode}


def test_other_shards_than_before_get_what_all_had(tmp_path: Path) -> None:
    save(tmp_path / "c", OLD, shard_size=1)
    protect(tmp_path)
    os.chmod(tmp_path / "c.index", 0o644)
    save(tmp_path / "c", {"a": np.arange(3)}, overwrite=True)
    assert modes(tmp_path) == {"c.index": 0o644, "c.data-00000-of-00001": 0o600}


def test_a_shared_shard_gives_the_new_index_its_mode(tmp_path: Path) -> None:
    save(tmp_path / "c", OLD)
    protect(tmp_path)
    assert run_ckpt("rename", tmp_path / "c", tmp_path / "d", "--sub", "^a=>z", "--link").code == 0
    assert set(modes(tmp_path).values()) == {0o600}


COMMANDS: dict[str, list[str]] = {
    "convert": ["convert", GUIDE, "run/ckpt-10", "--overwrite"],
    "convert to a file": ["convert", GUIDE, "run/old.npz", "--overwrite", "--weights-only"],
    "convert to an archive": ["convert", KERAS3, "run/old.keras", "--overwrite"],
    "rename": ["rename", "--in-place", "run/ckpt-10", "--sub", "^net/=>model/"],
    "rename a file": ["rename", "--in-place", "run/old.npz", "--add-prefix", "p/"],
    "state": ["state", "run", "--set", "ckpt-9"],
    "extract": ["extract", GUIDE, "net/l1/kernel", "-o", "run/old.json", "--overwrite"],
    "update": ["convert", GUIDE, "run/ckpt-11", "--update-state", "--overwrite"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_private_weights_stay_private(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(str(tmp_path))
    protect(tmp_path / "run")
    before = os.listdir(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    done = run_ckpt(*COMMANDS[name])
    assert done.code == 0, done.err
    after = modes(tmp_path / "run")
    assert {path: mode for path, mode in after.items() if mode != 0o600 and path in before} == {}
    new = after.keys() - set(before)
    # Of ckpt-10 the new name is that of the shard with the object graph.
    assert {after[path] for path in new} <= ({0o644} if name == "update" else {0o600})


def test_files_extracted_over_others_keep_their_modes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run_ckpt("extract", GUIDE, "net/l1/kernel", "-o", f"{out}/").code == 0
    assert stat.S_IMODE(os.stat(out).st_mode) == 0o755
    files = [os.path.join(parent, name) for parent, _, names in os.walk(out) for name in names]
    assert [stat.S_IMODE(os.stat(path).st_mode) for path in files] == [0o644]
    os.chmod(files[0], 0o600)
    assert run_ckpt("extract", GUIDE, "net/l1/kernel", "-o", f"{out}/", "--overwrite").code == 0
    assert stat.S_IMODE(os.stat(files[0]).st_mode) == 0o600


def test_an_empty_directory_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o700)
    assert run_ckpt("extract", GUIDE, "net/l1/kernel", "-o", tmp_path / "out").code == 0
    assert stat.S_IMODE(os.stat(tmp_path / "out").st_mode) == 0o700


def test_a_new_checkpoint_goes_by_the_umask(tmp_path: Path) -> None:
    for umask, mode in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        os.umask(umask)
        for form in FORMATS:
            directory = tmp_path / f"{umask}-{form}"
            save(directory / "c", OLD, form)
            assert set(modes(directory).values()) == {mode}, form


@pytest.mark.parametrize(
    "name", ["bundle over a bundle", "npz", "Keras archive", "rename in place", "state: fewer"]
)
def test_at_no_instant_may_others_read_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are closed to other users, or in a directory that is."""
    prepare(str(tmp_path))
    protect(tmp_path / "run")
    monkeypatch.chdir(tmp_path)

    def look(call: Callable[[], Any]) -> Any:
        found = call()
        for entry in os.scandir("run"):
            assert not stat.S_IMODE(os.lstat(entry.path).st_mode) & 0o077, entry.path
        return found

    with steps(1, look, forever=True) as made:
        OPERATIONS[name]()
    assert made


def test_a_group_that_a_directory_passes_on_is_passed_on(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root has groups to choose from")
    os.chown(tmp_path, -1, 12)
    os.chmod(tmp_path, 0o2775)
    save(tmp_path / "run" / "c", OLD)
    found = os.stat(tmp_path / "run" / "c.index")
    assert (found.st_gid, stat.S_IMODE(os.stat(tmp_path / "run").st_mode) & 0o2000) == (12, 0o2000)
    assert run_ckpt("extract", GUIDE, "net/l1/kernel", "-o", f"{tmp_path}/out/").code == 0
    assert os.stat(tmp_path / "out").st_gid == 12
    assert stat.S_IMODE(os.stat(tmp_path / "out").st_mode) & 0o2000


def test_root_gives_files_back_to_their_owner(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives files away")
    save(tmp_path / "c", OLD)
    for name in os.listdir(tmp_path):
        os.chown(tmp_path / name, 1234, 5678)
    save(tmp_path / "c", NEW, overwrite=True)
    replace_file(parse_location(str(tmp_path / "c.index")), b"new")
    owners = {os.stat(tmp_path / name)[4:6] for name in os.listdir(tmp_path)}
    assert owners == {(1234, 5678)}


@pytest.mark.parametrize(("mode", "given"), [(0o640, 0o600), (0o664, 0o644), (0o666, 0o666), (0o604, 0o604)])
def test_where_the_group_cannot_be_kept_another_does_not_get_its_rights(
    mode: int, given: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchown", refused)
    (tmp_path / "file").touch()
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    give(fd, Ownership(mode, os.geteuid() + 1, os.getegid() + 1))
    os.close(fd)
    assert stat.S_IMODE(os.stat(tmp_path / "file").st_mode) == given


def test_other_errors_of_giving_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "file").touch()
    os.chmod(tmp_path / "file", 0o600)
    monkeypatch.setattr(os, "fchmod", broken)
    before = ownership_of(str(tmp_path / "file"))
    assert before is not None
    with open(tmp_path / "file", "rb") as file, pytest.raises(OSError, match="Input/output"):
        give(file.fileno(), before._replace(mode=0o644))


def test_strictest_is_what_all_allow() -> None:
    found = strictest([Ownership(0o664, 1, 2), Ownership(0o600, 3, 4), Ownership(0o744, 5, 6)])
    assert found == Ownership(0o600, 1, 2)
    assert strictest([]) is None


def test_a_staging_directory_is_closed_to_others(tmp_path: Path) -> None:
    staging = Staging(parse_location(str(tmp_path / "c")))
    assert stat.S_IMODE(os.stat(staging.staged).st_mode) == 0o700
    staging.remove()
