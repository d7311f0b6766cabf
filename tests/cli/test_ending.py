"""Commands that are ended: by Ctrl-C, SIGTERM and SIGHUP alike, and by a second one at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ckpt_cli.cli.main import main
from tests.cli.conftest import ROOT
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}

PATIENCE = 120
"""Seconds in which a process has begun and ended, also on a busy machine."""

CHILD = """
    import os, signal, sys, time
    import formats.store.local.staging
    from ckpt_cli.cli.main import main
    from formats.model.writer import FormatWriter, Placement

    def end(number):
        os.kill(os.getpid(), number)

    def write_slowly(place, at, data, write=Placement.write):
        write(place, at, data)
        print("writing", flush=True)
        time.sleep(600)

    {patches}
    main(sys.argv[1:])
"""
SLOWLY = "Placement.write = write_slowly"


def start(patches: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start `ckpt` in a process of its own, with changes to it."""
    code = textwrap.dedent(CHILD).replace("{patches}", patches)
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def converted(patch: str, source: Path, out: Path) -> tuple[int, str]:
    """Return the exit code of a conversion by a changed `ckpt`, and what it says on stderr."""
    environment = {**os.environ, "PATCH": patch}
    with start("exec(os.environ['PATCH'])", "convert", source, out / "ckpt-1", env=environment) as process:
        _, err = process.communicate(timeout=PATIENCE)
    return process.returncode, err.strip()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    arrays = {f"v{number}": np.arange(1 << 14, dtype=np.float32) for number in range(8)}
    save(tmp_path / "in" / "ckpt-1", arrays)
    return tmp_path / "in" / "ckpt-1"


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("jobs", [1, 3])
def test_what_was_begun_is_removed(number: int, jobs: int, source: Path, tmp_path: Path) -> None:
    (out := tmp_path / "out").mkdir()
    quick = "time.sleep = lambda _, sleep=time.sleep: sleep(0.3)"  # the pieces that have begun are ended
    with start(f"{SLOWLY}; {quick}", "convert", source, out / "new" / "ckpt-1", "-j", jobs) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(number)
        assert process.wait(PATIENCE) == CODES[signal.Signals(number)]
        assert "Traceback" not in process.stderr.read()
    assert os.listdir(out) == []


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_ends_at_once(number: int, source: Path, tmp_path: Path) -> None:
    (out := tmp_path / "out").mkdir()
    remove = "lambda _: (print('removing', flush=True), time.sleep(600))"
    patch = f"formats.store.local.staging.Staging.remove = {remove}"
    with start(f"{SLOWLY}; {patch}", "convert", source, out / "ckpt-1", "-j", 1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "removing\n"
        process.send_signal(number)
        assert process.wait(PATIENCE) == -number
    assert len(os.listdir(out)) == 1


@pytest.mark.parametrize("number", SIGNALS)
def test_what_was_ignored_at_the_start_stays_ignored(number: int, source: Path, tmp_path: Path) -> None:
    (out := tmp_path / "out").mkdir()
    patch = f"real = FormatWriter.abandon; FormatWriter.abandon = lambda w: (end({number:d}), real(w))"
    ignored = lambda: signal.signal(number, signal.SIG_IGN)  # noqa: E731
    with start(patch, "convert", source, out / "ckpt-1", preexec_fn=ignored) as process:
        assert process.wait(PATIENCE) == 0
    assert sorted(os.listdir(out)) == ["ckpt-1.data-00000-of-00001", "ckpt-1.index"]


def test_a_signal_between_two_statements_leaves_nothing(source: Path, tmp_path: Path) -> None:
    """Nothing cleans up yet just after a writer was made."""
    (out := tmp_path / "out").mkdir()
    patch = (
        "import ckpt_cli.operations.convert.execute as transfer; make = transfer.create_writer\n"
        "def made(*arguments, **options):\n"
        "    writer = make(*arguments, **options)\n"
        "    end(signal.SIGTERM)\n"
        "    return writer\n"
        "transfer.create_writer = made"
    )
    with start(
        "exec(os.environ['PATCH'])", "convert", source, out / "ckpt-1", env={**os.environ, "PATCH": patch}
    ) as process:
        assert process.wait(PATIENCE) == 143
    assert os.listdir(out) == []


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_an_object_is_deleted_ends_the_command(
    number: int, source: Path, tmp_path: Path
) -> None:
    """Python ignored the exception during a deletion: the command continued, and failed later."""
    (out := tmp_path / "out").mkdir()
    patch = (
        "class Deleted:\n"
        f"    def __del__(self): end({int(number)})\n"
        "def write(place, at, data):\n"
        "    Deleted()\n"
        "    time.sleep(600)\n"
        "Placement.write = write"
    )
    assert converted(patch, source, out) == (CODES[number], "")
    assert os.listdir(out) == []


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_in_the_last_deletion_of_a_command_ends_it(
    number: int, source: Path, tmp_path: Path
) -> None:
    """It was sent again after the command, when nothing handled it: exit 0 with a traceback, or a kill."""
    (out := tmp_path / "out").mkdir()
    patch = (
        "import ckpt_cli.cli.main as module\n"
        "class Deleted:\n"
        f"    def __del__(self): end({int(number)})\n"
        "def last(*arguments, run=module.cli.main, **options):\n"
        "    code = run(*arguments, **options)\n"
        "    Deleted()\n"
        "    return code\n"
        "module.cli.main = last"
    )
    code, err = converted(patch, source, out)
    assert code == CODES[number]
    assert err.startswith("wrote ")
    assert "\n" not in err


@pytest.mark.parametrize("number", SIGNALS)
def test_an_error_while_tidying_up_hides_no_signal(number: int, source: Path, tmp_path: Path) -> None:
    (out := tmp_path / "out").mkdir()
    patch = (
        "from formats.errors import InaccessibleError\n"
        "def write(place, at, data):\n"
        "    try:\n"
        f"        end({int(number)})\n"
        "        time.sleep(600)\n"
        "    except BaseException:\n"
        "        raise InaccessibleError('the server did not answer')\n"
        "Placement.write = write"
    )
    assert converted(patch, source, out) == (CODES[number], "")


def test_a_terminated_child_process_prints_nothing(tmp_path: Path) -> None:
    """HDF5 is read in a process of its own, and Ctrl-C reaches both."""
    save(tmp_path / "w.h5", {"a": np.arange(3)}, "hdf5")
    patch = "import ckpt_cli.operations.look.verify as v; v._verify_here = lambda *_: end(signal.SIGTERM)"
    with start(patch, "verify", tmp_path / "w.h5") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    assert "signal 15" in out
    assert "Traceback" not in err


@pytest.mark.parametrize("number", SIGNALS)
def test_handlers_of_the_caller_come_back(number: int, ckpt: Callable) -> None:
    before = signal.getsignal(number)
    assert ckpt("--version").code == 0
    assert signal.getsignal(number) is before


def test_a_command_may_run_in_any_thread(capfd: object) -> None:
    codes: list[Any] = []

    def run() -> None:
        try:
            main(["--version"])
        except SystemExit as ended:
            codes.append(ended.code)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert codes == [0]


CUT_OFF = """
    import os, signal, sys

    class CutOff:
        def find_spec(self, name, path=None, target=None):
            if name == os.environ["CUT_OFF_AT"]:
                sys.meta_path.remove(self)
                os.kill(os.getpid(), int(os.environ["NUMBER"]))

    sys.meta_path.insert(0, CutOff())
    from ckpt_cli.__main__ import run
    run()
"""


@pytest.mark.parametrize(
    ("at", "number"),
    [
        ("typing", signal.SIGINT),
        ("click", signal.SIGINT),
        ("ckpt_cli.render.base", signal.SIGINT),
        *(("formats.store.local.spool", number) for number in SIGNALS),
        *(("formats.find.opening", number) for number in SIGNALS),
    ],
)
def test_a_signal_while_modules_are_imported_is_not_a_traceback(at: str, number: int, source: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(CUT_OFF), "convert", source, source.parent / "new-1"]
    settings = {**os.environ, "PYTHONPATH": ROOT, "CUT_OFF_AT": at, "NUMBER": str(int(number))}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=settings, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout) == (CODES[signal.Signals(number)], "")
    assert done.stderr.strip() == ""  # an end of line after the ^C that a terminal shows is all


AT_EXIT = """
    import atexit, os, sys, threading, time

    class Watched:
        def __del__(self):
            os.write(1, b"freed\\n")

    watched = Watched()
    atexit.register(print, "registered")
    if sys.argv.pop(1) == "thread":
        threading.Thread(target=lambda: (time.sleep(0.3), print("finished"))).start()
    from ckpt_cli.__main__ import run
    run()
"""


def _at_exit(kind: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(AT_EXIT), kind, *map(str, words)]
    settings = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=settings, timeout=PATIENCE
    )


def test_the_end_frees_nothing_and_runs_what_is_registered() -> None:
    done = _at_exit("alone", "ls", os.path.join(ROOT, "no-such-file"))
    assert (done.returncode, done.stdout) == (3, "registered\n")


def test_the_end_waits_for_threads() -> None:
    done = _at_exit("thread", "--version")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1:] == ["finished", "registered", "freed"]
