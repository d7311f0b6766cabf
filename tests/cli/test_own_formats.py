"""`ckpt` runs its own `formats`, even if another module on Python's path has that name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support import data_path, shard_path, write_bundle
from tests.test_architecture import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHERS = ("formats.py", "formats/__init__.py", "formats/csv.py")
"""Files of a user in the current directory: a module, a package, a folder without `__init__.py`."""

ENDS = "raise SystemExit('the formats of the user is imported')\n"


def _call_formats(place: Path, other: str, text: str = ENDS) -> str:
    """Create a file that `import formats` finds, and return its path."""
    (place / other).parent.mkdir(exist_ok=True)
    (place / other).write_text(text)
    return str(place / other)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with checkpoints."""
    shutil.copytree(data_path("guide_adam_legacy", "tf_ckpts"), tmp_path / "run")
    shutil.copy(data_path("keras_mlp", "mlp.full.h5"), tmp_path / "model.h5")
    return tmp_path


def _python(
    cwd: Path, *words: str, code: int = 0, path: str = f".{os.pathsep}{ROOT}"
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done


LINES = ("verify run model.h5", "stats model.h5", "rescue model.h5 saved.h5 -n", "--version -v")


@pytest.mark.parametrize(
    ("other", "line"), [*((other, "ls run") for other in OTHERS), *((OTHERS[1], line) for line in LINES)]
)
def test_commands_run_next_to_a_formats_of_the_users(
    place: Path, other: str, line: str, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    _call_formats(place, other)
    monkeypatch.chdir(place)
    expected = ckpt(*line.split()).out
    assert expected
    assert _python(place, "-m", "ckpt_cli", *line.split()).stdout == expected
    installed = place / "ckpt"  # as pip writes it
    installed.write_text("import sys\nfrom ckpt_cli.__main__ import run\nsys.exit(run())\n")
    assert _python(place, str(installed), *line.split()).stdout == expected


@pytest.mark.parametrize("line", ["verify --roundtrip npz model.h5", "rescue model.h5 saved.h5"])
def test_processes_that_read_hdf5_run_it_too(place: Path, line: str) -> None:
    """Those of a store that cannot fork, in a program that they do not import."""
    _call_formats(place, OTHERS[0])
    program = f"""
from ckpt_cli.cli.main import main
from formats.store.base import Store
Store.forks = False
main({line.split()!r})
"""
    assert "\t" in _python(place, "-c", program).stdout


@pytest.mark.parametrize("program", ["main(WORDS)", "verified_by_processes()"])
def test_workers_run_it_too(place: Path, program: str) -> None:
    """Those of the command, and those of an executor of a program's own."""
    _call_formats(place, OTHERS[0])
    write_bundle(str(place / "large-1"), {"large": np.arange(5_000_000, dtype=np.float32)})
    (place / "program.py").write_text(f"""
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

WORDS = ["convert", "large-1", "copy-1", "--executor", "processes:2", "-v"]

def verified_by_processes():
    import formats
    from formats.store.work.executors import lent_by
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with formats.open_checkpoint("large-1") as reader:
            steps = list(reader.verify(lent_by(pool, 1)))
    print(sum(step.nbytes for step in steps), [finding for step in steps for finding in step.findings])

if __name__ == "__main__":
    from ckpt_cli.cli.main import main
    {program}
""")
    done = _python(place, "program.py")
    if "WORDS" in program:
        assert "sent to workers: " in done.stderr
        assert os.path.exists(shard_path(str(place / "copy-1")))
    else:
        assert done.stdout == "20000000 []\n"


@pytest.mark.parametrize("other", OTHERS)
def test_a_program_that_has_imported_another_formats_gets_an_error(place: Path, other: str) -> None:
    file = _call_formats(place, other, "")
    program = f"import formats, sys; sys.path.append({ROOT!r}); import ckpt_cli"
    last = _python(place, "-S", "-c", program, code=1, path=".").stderr.splitlines()[-1]
    folder = os.path.dirname(file) if "csv" in file else file
    assert last == (
        f"ImportError: ckpt_cli needs its own package 'formats' ({ROOT}/formats), but this program has "
        f"already imported another module of that name: {folder}. Rename that module."
    )


@pytest.mark.parametrize("other", OTHERS[:2])
def test_a_formats_that_python_imports_as_it_starts_is_one_line(place: Path, other: str) -> None:
    """It was a traceback.  Python runs usercustomize and .pth files at the same moment."""
    file = _call_formats(place, other, "")
    (place / "sitecustomize.py").write_text("import formats\n")
    installed = place / "ckpt"
    installed.write_text("import sys\nfrom ckpt_cli.__main__ import run\nsys.exit(run())\n")
    expected = (
        f"ckpt: error: {file}: another module named 'formats' was imported before ckpt started, "
        "and ckpt needs its own\n"
        "hint: rename that module; sitecustomize, usercustomize or a .pth file may have imported it\n"
    )
    path = os.pathsep.join((str(place), ROOT))
    for words in (["-m", "ckpt_cli"], ["-mckpt_cli"], [str(installed)]):
        for line in ("ls run", "--version", "ls -m json"):
            done = _python(place, *words, *line.split(), code=3, path=path)
            assert (done.stdout, done.stderr) == ("", expected)
    (place / "program.py").write_text("import ckpt_cli\n")
    for words in (
        ["program.py"],
        ["-m", "program"],
        ["-m", "program", "ckpt_cli"],
        ["-c", "import ckpt_cli"],
    ):
        told = _python(place, *words, code=1, path=path).stderr
        assert told.splitlines()[-1].startswith("ImportError: ckpt_cli needs its own package 'formats'")


def test_a_program_that_has_imported_this_formats_is_not(tmp_path: Path) -> None:
    """By any name of its folder."""
    os.symlink(ROOT, tmp_path / "linked")
    program = (
        "import formats, sys; sys.path.insert(0, sys.argv[1]); import ckpt_cli; from ckpt_cli.cli import main"
    )
    _python(tmp_path, "-c", program, ROOT, path=str(tmp_path / "linked"))


def test_it_costs_no_import(place: Path) -> None:
    """`sys.path` stays as it is, and `formats` is imported by those that use it."""
    program = (
        "import sys; before = set(sys.modules), sys.path[:]; import ckpt_cli; "
        "print(sorted(set(sys.modules) - before[0]), sys.path == before[1])"
    )
    assert (
        _python(place, "-c", program).stdout
        == "['__future__', 'ckpt_cli', 'ckpt_cli.memory', 'ckpt_cli.own_formats'] True\n"
    )
