"""Output of libraries in C, cut off by a limit on the size of files, at every byte."""

from __future__ import annotations

import os
import resource
import signal
import sys
import traceback
from typing import TYPE_CHECKING

import h5py  # noqa: F401  before a process is forked, rather than in each
import pytest

from ckpt_cli.cli.main import main
from tests.counts import count
from tests.faults.operations import SOURCE, debris, look, prepare
from tests.support import data_path
from tests.writing import files

if TYPE_CHECKING:
    from pathlib import Path

POINTS = 8
"""Sizes at which each file is cut off."""

FULL = data_path("keras_mlp", "mlp.full.h5")
TARGETS = {
    "old.npz": SOURCE,
    "old.hdf5": SOURCE,
    "old.h5": FULL,
    "old.weights.h5": FULL,
    "old.keras": data_path("keras3_mlp", "mlp.keras"),
}


def convert_within(limit: int, source: str, target: str) -> tuple[int, str]:
    """Return exit code and errors of a conversion in a process whose files may have `limit` bytes."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        sys.stdout, sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"), os.fdopen(sender, "w")
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing fails with EFBIG instead
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        kind = ["--to", "hdf5"] if target.endswith(".hdf5") else []
        code = 70
        try:
            main(["convert", source, target, "--overwrite", "--weights-only", *kind])
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(sender)
    with os.fdopen(receiver) as pipe:
        errors = pipe.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), errors


@pytest.mark.parametrize("name", TARGETS)
def test_a_file_that_cannot_grow_leaves_the_old_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    before = files("run")
    assert convert_within(1 << 20, TARGETS[name], "run/whole" + name[3:])[0] == 0
    size = os.path.getsize("run/whole" + name[3:])
    os.unlink("run/whole" + name[3:])
    for limit in range(0, size, max(1, size // POINTS)):
        code, errors = convert_within(limit, TARGETS[name], f"run/{name}")
        assert code == 3, errors
        assert f"ckpt: error: run/{name}: cannot be written: " in errors
        assert files("run") == before
        count("points at which a write of a library failed")
    assert debris("run") == []
    code, errors = convert_within(size, TARGETS[name], f"run/{name}")
    assert (code, errors.startswith(f"wrote run/{name} (")) == (0, True)
    assert look("run").checkpoints[name]
