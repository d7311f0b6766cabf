"""A file that names other files never has them opened: shown by the kernel and by Python's audit hook.

The HDF5 library opens files by itself, and no hook of Python sees that. So inotify watches the files that
hostile ones name, and reports every `open` of them by any process. Commands run in a child, and an audit hook
sees each of its own opens.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

import formats
from tests.support import numbers, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
IN_OPEN = 0x20


class Watch:
    """Reports which of some files were opened since the last report."""

    def __init__(self, *paths: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self._fd >= 0
        for path in paths:
            assert libc.inotify_add_watch(self._fd, os.fsencode(path), IN_OPEN) >= 0

    def opened(self) -> bool:
        try:
            return bool(os.read(self._fd, 65536))
        except BlockingIOError:
            return False

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def secret(tmp_path: Path) -> str:
    """An HDF5 file in another folder, which no command line names."""
    os.mkdir(tmp_path / "elsewhere")
    path = str(tmp_path / "elsewhere" / "secret.h5")
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(4, dtype=np.float32)
    return path


@pytest.fixture
def watch(secret: str) -> Iterator[Watch]:
    found = Watch(secret)
    yield found
    found.close()


def external_link(group: h5py.Group, secret: str) -> None:
    group["1"] = h5py.ExternalLink(secret, "/x")


def external_link_to_a_group(group: h5py.Group, secret: str) -> None:
    group["1"] = h5py.ExternalLink(secret, "/")


def soft_link_through_an_external_one(group: h5py.Group, secret: str) -> None:
    group.file["out"] = h5py.ExternalLink(secret, "/")
    group["1"] = h5py.SoftLink("/out/x")


def external_storage(group: h5py.Group, secret: str) -> None:
    group.create_dataset("1", (4,), "f4", external=[(secret, 0, 16)])


def virtual_dataset(group: h5py.Group, secret: str) -> None:
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource(secret, "x", (4,))
    group.create_virtual_dataset("1", layout)


WAYS_OUT = (
    external_link,
    external_link_to_a_group,
    soft_link_through_an_external_one,
    external_storage,
    virtual_dataset,
)
LAYOUTS = ("plain.h5", "layers.weights.h5", "model.keras")


def with_a_way_out(directory: Path, layout: str, way: Callable[[h5py.Group, str], None], secret: str) -> str:
    """Write a file of a layout, with a sound dataset next to the way out of it."""
    path = str(directory / layout)
    inner = path + ".inner" if layout.endswith(".keras") else path
    with h5py.File(inner, "w") as file:
        group = file.create_group("data" if layout == "plain.h5" else "layers/dense/vars")
        group["0"] = np.zeros((2, 3), np.float32)
        way(group, secret)
    if inner != path:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("metadata.json", "{}")
            archive.writestr("config.json", "{}")
            archive.write(inner, "model.weights.h5")
        os.remove(inner)
    return path


def test_the_watch_sees_what_the_library_opens(tmp_path: Path, secret: str, watch: Watch) -> None:
    """The other tests need this: h5py itself opens the other file, and inotify reports it."""
    for way in WAYS_OUT:
        path = with_a_way_out(tmp_path, "plain.h5", way, secret)
        watch.opened()
        with h5py.File(path) as file:
            assert file["data/1"]
            if isinstance(file["data/1"], h5py.Dataset):
                assert file["data/1"][...].shape == (4,)
        assert watch.opened(), way
        os.remove(path)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", WAYS_OUT)
def test_no_way_out_is_taken(
    tmp_path: Path, secret: str, watch: Watch, layout: str, way: Callable[[h5py.Group, str], None]
) -> None:
    path = with_a_way_out(tmp_path, layout, way, secret)
    watch.opened()
    with pytest.raises(formats.UnsupportedFeatureError, match="not followed"):
        formats.open_checkpoint(path)
    with formats.open_checkpoint(path, lenient=True) as reader:
        for key in reader:
            try:
                reader[key].read()
            except formats.UnsupportedFeatureError:
                continue
        findings = [finding for step in reader.verify() for finding in step.findings]
    assert any("not followed" in finding.message for finding in findings)
    assert not watch.opened()


# Commands ---------------------------------------------------------------------------

CHILD = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from tests.hostile.commands import COMMANDS, arguments, run_command
import tests.hostile.budget_server as server
server.import_all()
run_command(["ls", "--help"])
opened = []
def hook(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes)):
        opened.append(os.path.abspath(os.fsdecode(arguments[0])))
sys.addaudithook(hook)
codes = []
for number, command in enumerate(COMMANDS):
    new = f"{sys.argv[3]}/new{number}"
    codes.append(run_command(arguments(command, sys.argv[2], new)).code)
print(json.dumps({"codes": codes, "opened": sorted(set(opened))}))
"""


def opened_by_all_commands(path: str, out: Path) -> list[str]:
    """Run every command on a checkpoint; return what was opened that is neither it nor an output."""
    out.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, ROOT, path, str(out)],
        capture_output=True,
        text=True,
        check=False,
        cwd=out,  # where temporary folders are removed by names relative to them
        env={**os.environ, "TMPDIR": str(out)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert set(told["codes"]) <= {0, 1, 3}
    from tests.hostile.commands import SOUND

    allowed = (
        os.path.dirname(path),
        str(out),
        os.path.dirname(SOUND),
        "/dev/",
        "/proc/meminfo",  # how much memory and how many threads this process may have
        "/proc/self/cgroup",
        "/sys/fs/cgroup",
        os.path.join(ROOT, "formats"),
        os.path.join(ROOT, "ckpt_cli"),
        *{os.path.dirname(os.__file__), sys.prefix, os.path.dirname(os.path.dirname(h5py.__file__))},
    )
    return [place for place in told["opened"] if not place.startswith(allowed)]


def test_commands_open_nothing_else(tmp_path: Path, secret: str, watch: Watch) -> None:
    """Links, storage and virtual datasets at once, in each layout."""
    for layout in LAYOUTS:
        (tmp_path / layout.replace(".", "_")).mkdir()
        where = tmp_path / layout.replace(".", "_")

        def all_of_them(group: h5py.Group, secret: str) -> None:
            for number, way in enumerate(WAYS_OUT):
                way(group.create_group(f"way{number}"), secret)

        path = with_a_way_out(where, layout, all_of_them, secret)
        watch.opened()
        assert opened_by_all_commands(path, where / "out") == []
        assert not watch.opened(), layout


def test_keys_members_and_maps_lead_nowhere(tmp_path: Path, secret: str, watch: Watch) -> None:
    """Keys, members of archives and shards of Keras weights that are paths elsewhere."""
    where = tmp_path / "run"
    where.mkdir()
    keys = [secret, "../elsewhere/secret.h5", "../../etc/passwd", "/etc/passwd", "a/../../b", "..", "C:\\x"]
    write_bundle(str(where / "b-1"), {key: numbers(np.float32(1)) for key in keys})
    assert opened_by_all_commands(str(where / "b-1"), tmp_path / "out") == []
    with zipfile.ZipFile(where / "evil.npz", "w") as archive:
        for key in keys:
            archive.writestr(zipfile.ZipInfo(key), b"")
    assert opened_by_all_commands(str(where / "evil.npz"), tmp_path / "out2") == []
    (where / "w.weights.json").write_text(
        json.dumps({"weight_map": {"/layers/d/vars": secret, "/x/vars": keys}})
    )
    assert opened_by_all_commands(str(where / "w.weights.json"), tmp_path / "out3") == []
    assert not watch.opened()
