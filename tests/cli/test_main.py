"""The program as a whole: help, usage, pipes, interruption, and errors without tracebacks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import numpy as np
import pytest

from ckpt_cli.cli import guesses, main
from formats.core.version import VERSION
from tests.cli.running import ROOT
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BERT = data_path("bert_tiny", "bert_model.ckpt-2")


def shell(line: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    ckpt = f"{sys.executable} -m ckpt_cli"
    return subprocess.run(
        ["bash", "-c", line.replace("ckpt ", f"{ckpt} ", 1)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": ROOT, **environment},
    )


def test_without_arguments_the_help_is_shown(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = ckpt()
    assert (done.code, done.out) == (2, "")
    assert "Usage: ckpt" in done.err
    assert "verify" in done.err
    assert "error:" not in done.err


def test_without_arguments_checkpoints_of_the_directory_are_listed(
    ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data_path("guide_adam_legacy", "tf_ckpts"))
    done = ckpt()
    assert (done.code, done.out) == (0, ckpt("ls").out)
    assert done.err.splitlines() == [
        "note: to list its tensors: ckpt ls ckpt-10",
        "note: to see what training changed: ckpt diff ckpt-9 ckpt-10",
        "note: to check every byte: ckpt verify .",
    ]
    for line in done.err.splitlines():
        words = line.partition(": ckpt ")[2].split()
        assert ckpt(*words).code == (words[0] == "diff")


def test_without_arguments_one_checkpoint_is_enough(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "two words.npz", x=np.zeros(3))
    monkeypatch.chdir(tmp_path)
    done = ckpt()
    assert done.code == 0
    assert "to see statistics of its tensors: ckpt stats 'two words.npz'" in done.err


def test_help_and_version_of_everything(ckpt: Callable) -> None:
    listed = ckpt("--help").out
    for name in sorted(name[:-3] for name in os.listdir(os.path.join(ROOT, "ckpt_cli", "commands"))):
        if not name.startswith("_"):
            assert f"  {name} " in listed
            result = ckpt(name, "--help")
            assert (result.code, result.err) == (0, "")
            assert "\\b" not in result.out
    assert ckpt("--version").out == f"ckpt {VERSION}\n"


def test_a_mistyped_command_or_option_is_usage(ckpt: Callable) -> None:
    result = ckpt("lss")
    assert (result.code, result.out) == (2, "")
    assert "ckpt: error: no command 'lss'; did you mean ls?" in result.err
    assert ckpt("ls", "--jsn").code == 2


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *((BERT, f"ckpt ls {BERT}"), (os.path.dirname(BERT), f"ckpt ls {os.path.dirname(BERT)}")),
        *(("s3://bucket/run", "ckpt ls s3://bucket/run"), ("compare", "diff"), ("inspct", "show")),
        *(
            ("export", "convert or extract"),
            ("check", "verify"),
            ("repair", "rescue"),
            ("version", "--version"),
        ),
    ],
)
def test_what_is_typed_in_place_of_a_command_is_understood(word: str, meant: str, ckpt: Callable) -> None:
    for line in ((word,), ("help", word)):
        result = ckpt(*line)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith(f"ckpt: error: no command {word!r}; did you mean {meant}?\n")
    assert "did you mean" not in ckpt("qqqqqq").err


def test_the_words_of_other_programs_are_of_commands_that_there_are() -> None:
    names = main.cli.list_commands(click.Context(main.cli))
    words = [word for group in guesses._COMMANDS for word in group.split()]
    lines = [line.split()[0] for hints in guesses._COMMANDS.values() for _, line in hints]
    assert set(lines) <= {*names, "--version"}
    assert not {*names} & {*words}
    assert len(set(words)) == len(words)


def test_a_closed_pipe_ends_quietly() -> None:
    done = shell(f"ckpt ls {BERT} | head -1; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


def test_a_pipe_that_closes_early_is_not_an_answer(tmp_path: Path) -> None:
    """Cut off is neither yes nor no, and what was answered before the reader went stays the answer."""
    many = {f"a_long_name_of_a_layer/{number:06}": np.zeros(0) for number in range(5000)}
    write_bundle(str(tmp_path / "many-1"), many)
    for command in ("stats --json", "ls --json -l"):
        done = shell(f"ckpt {command} {tmp_path}/many-1 | head -c 1; exit ${{PIPESTATUS[0]}}")
        assert (done.returncode, done.stderr) == (141, ""), command
    done = shell(f"ckpt diff --no-values {BERT} {tmp_path}/many-1 | head -c 1; exit ${{PIPESTATUS[0]}}")
    assert done.returncode == 1


def test_names_that_are_not_utf_8_are_printed_as_they_are_behind_nul(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9\n-1"
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(BERT + suffix, name + os.fsencode(suffix))
    done = shell(f"ckpt ls -0 {tmp_path} | od -An -c")
    assert done.stdout.split() == ["c", "a", "f", "351", "\\n", "-", "1", "\\0"]
    assert shell(f"ckpt ls -1 {tmp_path}").stdout == "caf\\xe9\\x0a-1\n"


def test_a_closed_stream_is_not_a_traceback() -> None:
    done = shell(f"ckpt ls {BERT} >&-")
    assert (done.returncode, done.stderr) == (3, "ckpt: error: standard output is closed\n")
    assert shell("ckpt ls nowhere 2>&-").returncode == 3


needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")

GUIDE = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-8")
RUN = os.path.dirname(GUIDE)
STATELESS = data_path("state_files", "no_state_file")


@needs_full
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (f"show {STATELESS}", 0),  # a note says which was chosen
        (f"convert {RUN} {{out}} --overwrite", 0),
        ("", 2),
        ("ls {empty}", 1),
        ("lss", 2),
        ("ls nowhere", 3),
    ],
)
def test_what_cannot_be_said_on_stderr_is_exit_code_3(command: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    command = f"ckpt {command.format(out=tmp_path / 'out-1', empty=tmp_path / 'empty')}"
    lost = ["2>/dev/full", "2>&-", *(["<&- 2>&-", ">&- 2>&-", ">/dev/full 2>/dev/full"] if code == 2 else [])]
    for redirected, expected in {"": code, **dict.fromkeys(lost, 3)}.items():
        done = shell(f"{command} {redirected}", cwd=tmp_path / "empty")
        assert done.returncode == expected, redirected
        assert redirected or done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        assert "Exception ignored" not in done.stdout + done.stderr


@needs_full
@pytest.mark.parametrize("lost", ["2>/dev/full", "2>&-"])
def test_an_answer_silently_on_stderr_needs_none(lost: str) -> None:
    assert shell(f"ckpt ls {BERT} {lost}").returncode == 0
    assert shell(f"ckpt show -q {RUN} {lost}").returncode == 0
    assert shell(f"ckpt diff --no-values {BERT} {GUIDE} {lost}").returncode == 1


def test_an_unread_error_keeps_its_exit_code() -> None:
    receiver, sender = os.pipe()
    os.close(receiver)
    command = [sys.executable, "-m", "ckpt_cli", "ls", "nowhere"]
    done = subprocess.run(command, stderr=sender, check=False, env={**os.environ, "PYTHONPATH": ROOT})
    os.close(sender)
    assert done.returncode == 3


def test_the_number_of_a_closed_stderr_is_no_other_files(tmp_path: Path) -> None:
    """Libraries write there what they have to say, which is not to go into a checkpoint."""
    code = (
        "import os, sys\nfrom ckpt_cli.cli.main import main\n"
        "try: main(['ls', sys.argv[1]])\n"
        "finally:\n"
        "    for number in (0, 2): assert os.path.samestat(os.fstat(number), os.stat(os.devnull)), number\n"
        "    os.write(1, b'both')\n"
    )
    (tmp_path / "look.py").write_text(code)
    done = shell(f"{sys.executable} {tmp_path}/look.py {BERT} <&- 2>&-", PYTHONPATH=ROOT)
    assert done.stdout.endswith("both")


@needs_full
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", [f"ls {BERT}", "--help", "explain exit-codes", f"ls --json {BERT}"])
def test_an_output_that_is_full_is_named(command: str, unbuffered: str) -> None:
    done = shell(f"ckpt {command} >/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (3, "ckpt: error: standard output: no space left on device\n")


def test_numpy_starts_no_threads() -> None:
    code = (
        "import os, sys; from ckpt_cli.cli.main import main\n"
        "try: main(['stats', sys.argv[1]])\n"
        "finally: print(len(os.listdir('/proc/self/task')), file=sys.stderr)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code, BERT],
        capture_output=True,
        text=True,
        check=True,
        env={**environment, "PYTHONPATH": ROOT},
    )
    assert done.stderr == "1\n"


def test_color_also_holds_for_errors(ckpt: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" in ckpt("ls", "nowhere", "--color", "always").err
    assert "\x1b" not in ckpt("ls", "nowhere").err
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert "\x1b[31m" in ckpt("ls", "nowhere").err
    assert "\x1b" not in ckpt("ls", "nowhere", "--color", "never").err


@pytest.mark.parametrize("command", ["ls", "show", "stats", "verify", "state", "graph"])
def test_a_directory_without_checkpoints_is_a_no(command: str, tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt(command, tmp_path)
    assert result.code == 1
    assert f"ckpt: error: {tmp_path}: this directory contains no checkpoints" in result.err


def test_an_interrupt_exits_130() -> None:
    code = (
        "import os, signal\n"
        "from ckpt_cli.api import listing\n"
        "def stop(*_, **__): os.kill(os.getpid(), signal.SIGINT)\n"
        "listing.sorted_by = stop\n"
        f"from ckpt_cli.cli.main import main\nmain(['ls', '-r', {BERT!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ},
    )
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert signal.SIGINT == 2


def test_the_traceback_is_shown_when_requested() -> None:
    assert "Traceback" in shell("ckpt ls nowhere", CKPT_DEBUG="1").stderr
    assert "Traceback" not in shell("ckpt ls nowhere").stderr


def test_a_locale_without_letters_is_not_an_error(tmp_path: Path) -> None:
    done = shell(f"ckpt ls -1 {data_path('containers', 'odd_names')}", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 0
    assert "\\u" in done.stdout or "\\x" in done.stdout


@pytest.mark.parametrize("command", ["ls", "show", "stats", "verify"])
def test_a_file_that_is_not_a_checkpoint_is_one_line_and_a_hint(
    command: str, tmp_path: Path, ckpt: Callable
) -> None:
    (tmp_path / "notes.bin").write_bytes(bytes(range(200)))
    result = ckpt(command, tmp_path / "notes.bin")
    assert result.code == 3
    lines = result.err.splitlines()
    assert lines[0] == f"ckpt: error: {tmp_path}/notes.bin: this is not a known checkpoint format"
    assert lines[1].startswith("hint: known formats: tf-object, ")


def test_a_directory_that_may_not_be_read(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.scandir", refuse)
    result = ckpt("ls", tmp_path)
    assert result.code == 3
    hint = f"hint: to see the owner and the permissions: ls -ld {tmp_path}\n"
    assert result.err == f"ckpt: error: {tmp_path}: permission denied\n{hint}"


def test_help_says_of_each_command_what_it_does_in_a_line(
    ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = ckpt("--help").out.partition("Commands:\n")[2].splitlines()
    assert len(lines) >= 16
    assert all(line.endswith(".") and "..." not in line for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        ["ls", ""],
        ["verify", ""],
        ["state", ""],
        ["match", ".", ""],
        ["convert", "", "x"],
        ["average", "", "-o", "x"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_empty_path_is_usage(arguments: list[str], ckpt: Callable) -> None:
    result = ckpt(*arguments)
    assert (result.code, result.out) == (2, "")
    assert "the path is empty\n" in result.err
