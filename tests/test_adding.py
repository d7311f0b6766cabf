"""What CONTRIBUTING.md says of adding a format, a command or a store, done in a copy of the checkout.

    a format that is only read   formats/known/NAME.py, a golden, a line of GOLDENS
    a command                    ckpt_cli/commands/NAME.py, a function in ckpt_cli/operations
    a store                      formats/store/NAME.py

Nothing else of the copy is changed, so nothing else has to be.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.cli.running import Starter
from tests.formats.contract import ReaderContract
from tests.support import data_path
from tests.test_architecture import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.running import Finished

TRIALS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "adding")
GOLDEN = data_path("bert_template", "input.ids.npy")


class Copy:
    """A copy of the checkout, and what was put into it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.added: list[str] = []
        self.changed: list[str] = []
        self._starter: Starter | None = None
        for package in ("formats", "ckpt_cli"):
            shutil.copytree(os.path.join(ROOT, package), root / package)

    def add(self, source: str, place: str) -> None:
        path = self.root / place
        assert not path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, path)
        self.added.append(place)

    def add_line(self, place: str, before: str, line: str) -> None:
        """Put a line before the first one that is `before`."""
        text = (self.root / place).read_text()
        assert text.count(f"\n{before}\n") == 1
        (self.root / place).write_text(text.replace(f"\n{before}\n", f"\n{line}\n{before}\n"))
        self.changed.append(place)

    def tests(self, *places: str) -> None:
        """Copy tests; the data are those of the checkout."""
        shutil.copy(os.path.join(ROOT, "pyproject.toml"), self.root)
        for place in places:
            (self.root / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.join(ROOT, place), self.root / place)
        data = self.root / "tests" / "data"
        data.mkdir(exist_ok=True)
        for name in os.listdir(data_path()):
            os.symlink(data_path(name), data / name)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self.root)}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def ckpt(self, *arguments: str) -> Finished:
        """Run `ckpt` as it is in the copy when it is first run."""
        if self._starter is None:
            environment = {**os.environ, "PYTHONPATH": f"{self.root}:{ROOT}"}
            self._starter = Starter(cwd=self.root, env=environment)
        return self._starter.run(*arguments, cwd=self.root)

    def close(self) -> None:
        if self._starter is not None:
            self._starter.close()


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Copy]:
    made = Copy(tmp_path)
    yield made
    made.close()


def test_a_format_that_is_only_read_is_a_file_a_golden_and_a_line(copy: Copy) -> None:
    servers = ("tests/servers/__init__.py", "tests/servers/web.py")
    copy.tests("tests/support.py", *servers, "tests/formats/contract.py", "tests/formats/test_contract.py")
    copy.add(os.path.join(TRIALS, "format_npy.py"), "formats/known/npy.py")
    copy.add(GOLDEN, "tests/data/npy/ids.npy")
    copy.add_line("tests/formats/test_contract.py", "]", '    ("npy", "npy/ids.npy"),')
    assert (len(copy.added), len(copy.changed)) == (2, 1)

    chosen = "npy or has_a_golden"
    done = copy.python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/formats/test_contract.py", "-k", chosen
    )
    assert done.returncode == 0, done.stdout
    contract = sum(name.startswith("test_") for name in dir(ReaderContract))
    assert f"{3 * contract + 1} passed" in done.stdout  # on disk, in memory, and on a server

    golden = "tests/data/npy/ids.npy"
    shape = ",".join(map(str, np.load(GOLDEN).shape))
    assert copy.ckpt("ls", golden).out.split("\t")[:3] == ["array", str(np.load(GOLDEN).dtype), shape]
    assert copy.ckpt("convert", golden, "out.npz").code == 0
    assert np.array_equal(np.load(copy.root / "out.npz")["array"], np.load(GOLDEN))
    assert "array of numpy's; only read" in copy.ckpt("explain", "formats").out


def test_what_is_only_read_is_written_by_no_command(copy: Copy) -> None:
    copy.add(os.path.join(TRIALS, "format_npy.py"), "formats/known/npy.py")
    for name in ("a", "b"):
        np.save(copy.root / f"{name}.npy", np.zeros(3, np.float32))
    np.savez(copy.root / "c.npz", array=np.zeros(3, np.float32))
    before = sorted(os.listdir(copy.root))
    for line in (
        "convert c.npz new.npy",
        "convert c.npz new --to npy",
        "convert c.npz new --to npy --dry-run",
        "average a.npy b.npy -o new",
        "rename a.npy new --sub a=>b",
        "rescue a.npy new",
    ):
        done = copy.ckpt(*line.split())
        assert (done.code, done.out) == (3, ""), done
        assert "npy is only read, not written" in done.err
        assert sorted(os.listdir(copy.root)) == before


def test_a_command_is_a_file_and_an_operation(copy: Copy) -> None:
    copy.add(os.path.join(TRIALS, "command_count.py"), "ckpt_cli/commands/count.py")
    copy.add(os.path.join(TRIALS, "operation_counting.py"), "ckpt_cli/operations/look/counting.py")
    assert (len(copy.added), len(copy.changed)) == (2, 0)

    npz = data_path("interop", "weights.npz")
    tensors = len(np.load(npz).files)
    assert copy.ckpt("count", npz).out == f"{tensors}\n"
    document = json.loads(copy.ckpt("count", "--json", npz).out)
    assert document == {"schema": 1, "path": npz, "tensors": tensors}
    assert copy.ckpt("count", str(copy.root / "nothing")).code == 3
    assert "Count the tensors" in copy.ckpt("--help").out
    assert "Print no notes" in copy.ckpt("count", "--help").out
    assert "did you mean count?" in copy.ckpt("coutn", npz).err


def test_a_store_is_a_file(copy: Copy) -> None:
    copy.add(os.path.join(TRIALS, "store_zipped.py"), "formats/store/archived.py")
    assert (len(copy.added), len(copy.changed)) == (1, 0)
    for folder in ("guide_adam_legacy/tf_ckpts", "keras_mlp"):
        shutil.copytree(data_path(folder), copy.root / "runs" / os.path.basename(folder))
    shutil.make_archive(str(copy.root / "runs"), "zip", copy.root, "runs")

    for line in (
        "ls {}/tf_ckpts",
        "ls -l {}/tf_ckpts/ckpt-10",
        "show {}/tf_ckpts/ckpt-10 net/l1/kernel",
        "diff {}/tf_ckpts/ckpt-9 {}/tf_ckpts/ckpt-10",
        "verify {}/tf_ckpts",
        "verify {}/keras_mlp/mlp.full.h5",
        "stats {}/tf_ckpts --json",
        "convert {}/tf_ckpts/ckpt-10 new.npz --weights-only --overwrite",
    ):
        here, there = (copy.ckpt(*line.format(at, at).split()) for at in ("runs", "zip://runs.zip/runs"))
        assert there.code == here.code, there.err
        assert _without_times(there.out.replace("zip://runs.zip/", "")) == _without_times(here.out)
    assert copy.ckpt("ls", "zip://runs.zip/runs/tf_ckpts/ckpt-7").code == 3
    refused = copy.ckpt("convert", "runs/tf_ckpts", "zip://runs.zip/new")
    assert (refused.code, refused.out) == (3, "")
    assert "zip:// is read here, and not written" in refused.err


def _without_times(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "", text)
