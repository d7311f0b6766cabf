"""`ckpt explain`: error messages from files and pipes, topics, and ckpt's own messages."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ckpt_cli.cli import main
from ckpt_cli.operations.look.complaints import complaints, topics
from ckpt_cli.operations.look.explain import explain
from formats.errors import CheckpointError
from tests.cli.conftest import ROOT
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = """Traceback (most recent call last):
  File "train.py", line 3
    model.load_weights('my weights.h5')
OSError: Unable to synchronously open file (file signature not found)
"""
COMMANDS = ["ckpt show 'my weights.h5'", "ckpt convert 'my weights.h5' OUT.h5"]


def piped(content: bytes, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "ckpt_cli", "explain", *arguments],
        input=content,
        capture_output=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": ROOT},
    )


def test_a_file_is_explained(tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "error.txt").write_text(TEXT)
    result = ckpt("explain", tmp_path / "error.txt")
    assert result.code == 0
    title = complaints()[0].title
    assert result.rows[:2] == [["title", title], ["meaning", complaints()[0].meaning]]
    assert result.rows[2:] == [["command", command] for command in COMMANDS]
    assert result.err == "note: OUT is the output path\n"


def test_the_document(tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "error.txt").write_text(TEXT)
    document = ckpt("explain", tmp_path / "error.txt", "--json").json
    row = complaints()[0]
    expected = {"title": row.title, "meaning": row.meaning, "commands": COMMANDS}
    assert document == {"schema": 1, "matches": [expected]}


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_a_pipe_is_explained(arguments: list[str]) -> None:
    done = piped(TEXT.encode(), *arguments, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["matches"][0]["commands"] == COMMANDS


TWICE = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    model.load_weights("a.h5")
OSError: Unable to synchronously open file (file signature not found)

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 5, in <module>
    model.load_state_dict(torch.load("b.pt"))
RuntimeError: Error(s) in loading state_dict for Net:
\tMissing key(s) in state_dict: "fc.weight".
\tUnexpected key(s) in state_dict: "module.fc.weight".

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "train.py", line 7, in <module>
    model.load_weights("c.h5")
OSError: Unable to synchronously open file (file signature not found)
"""


def test_a_pipe_gets_each_title_once() -> None:
    done = piped(TWICE.encode())
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    titles = [text for kind, text in rows if kind == "title"]
    assert titles == [match.title for match in explain(TWICE)]
    assert len(titles) == 2
    assert all(done.stdout.decode().count(title) == 1 for title in titles)
    first, second = ["title", "meaning", *2 * ["command"]], ["title", "meaning", *3 * ["command"]]
    assert [kind for kind, _ in rows] == first + second
    assert ["command", "ckpt show a.h5"] in rows
    assert ["command", "ckpt ls b.pt"] in rows


def test_on_a_terminal_lines_fit_and_commands_can_be_pasted(tmp_path: Path, terminal: Callable) -> None:
    (tmp_path / "error.txt").write_text(TEXT)
    result = terminal("explain", tmp_path / "error.txt", columns=60, NO_COLOR="1")
    assert result.code == 0
    assert max(len(line) for line in result.out.splitlines()[1:]) <= 60
    assert [line.strip() for line in result.out.splitlines() if line.startswith("    ckpt")] == COMMANDS


@pytest.mark.parametrize(
    "content",
    [b"", b"all is well\n", bytes(range(256)) * 10, b"x" * 3_000_000],
    ids=["nothing", "words", "every byte", "large"],
)
def test_nothing_known_is_exit_1(content: bytes, tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "text").write_bytes(content)
    result = ckpt("explain", tmp_path / "text")
    assert (result.code, result.out) == (1, "")
    assert f"ckpt: error: {tmp_path}/text: found no known error message\n" in result.err
    assert result.err.endswith("hint: to list the topics: ckpt explain\n")
    document = ckpt("explain", tmp_path / "text", "--json")
    assert (document.code, document.json) == (1, {"schema": 1, "matches": []})
    done = piped(content, "-")
    assert (done.returncode, done.stdout) == (1, b"")


def test_a_checkpoint_is_sent_to_where_it_belongs(ckpt: Callable) -> None:
    path = data_path("keras_mlp", "mlp.full.h5")
    result = ckpt("explain", path)
    assert result.code == 1
    assert f"hint: to show a checkpoint instead: ckpt show {path}\n" in result.err


def test_the_end_of_a_long_log_is_searched_and_said_to_be(tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "log").write_bytes(b"step\n" * 400_000 + TEXT.encode())
    result = ckpt("explain", tmp_path / "log")
    assert result.code == 0
    assert "note: searched the last 1,000,000 bytes and skipped 1,000,1" in result.err


def test_hostile_names_reach_no_terminal(tmp_path: Path, ckpt: Callable) -> None:
    hostile = "\x1b]0;x\x07.h5"
    (tmp_path / "e").write_text(f"load_weights('{hostile}')\nfile signature not found\n")
    result = ckpt("explain", tmp_path / "e")
    assert result.code == 0
    assert "\x1b" not in result.out + result.err
    assert result.rows[2] == ["command", "ckpt show CHECKPOINT"]
    (tmp_path / "e").write_text("load_weights('$(touch x); `y`.h5')\nfile signature not found\n")
    assert shlex.split(ckpt("explain", tmp_path / "e").rows[2][1])[2] == "$(touch x); `y`.h5"


# Topics -------------------------------------------------------------------------------


def test_alone_it_lists_its_topics(ckpt: Callable) -> None:
    result = ckpt("explain")
    assert result.code == 0
    assert [row[0] for row in result.rows] == list(topics())
    assert {"exit-codes", "formats", "environment"} <= set(topics())
    document = ckpt("explain", "--json").json
    assert (document["schema"], document["matches"]) == (1, [])
    assert [topic["name"] for topic in document["topics"]] == list(topics())


@pytest.mark.parametrize("name", list(topics()))
def test_a_topic_is_one_match(name: str, ckpt: Callable) -> None:
    result = ckpt("explain", name)
    assert result.code == 0
    assert result.rows[:2] == [["title", topics()[name].title], ["meaning", topics()[name].meaning]]
    (match,) = ckpt("explain", name, "--json").json["matches"]
    assert set(match) == {"title", "meaning", "commands"}
    assert match["commands"] == list(topics()[name].commands)


def test_a_file_wins_over_a_topic_and_a_note_says_so(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "formats").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    result = ckpt("explain", "formats")
    assert result.code == 0
    assert result.rows[0] == ["title", complaints()[0].title]
    assert result.err.startswith(
        "note: formats is also the name of a topic, but the file of that name is explained\n"
    )


def test_an_empty_pipe_lists_the_topics_too() -> None:
    done = piped(b"")
    assert (done.returncode, done.stdout.split()[0]) == (0, b"exit-codes")


def test_a_message_as_an_argument(ckpt: Callable) -> None:
    message = "NotFoundError: Key global_step not found in checkpoint"
    result = ckpt("explain", message)
    assert (result.code, result.err.count("error")) == (0, 0)
    assert "not found in checkpoint" in result.rows[0][1]
    unknown = ckpt("explain", "what is this")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err.startswith("ckpt: error: this message is not known\n")


def test_a_file_with_a_space_in_its_name_is_a_file(tmp_path: Path, ckpt: Callable) -> None:
    path = tmp_path / "my error.txt"
    path.write_text("NotFoundError: Key global_step not found in checkpoint")
    assert ckpt("explain", path).code == 0


def test_a_url_is_not_a_file(ckpt: Callable) -> None:
    result = ckpt("explain", "s3://bucket/error.txt")
    assert result.code == 3
    assert result.err.startswith(
        "ckpt: error: s3://bucket/error.txt: explain reads local files, not s3:// URLs"
    )


def test_a_directory_of_a_topics_name_is_not_a_file(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "formats").mkdir()
    monkeypatch.chdir(tmp_path)
    assert ckpt("explain", "formats").rows[0] == ["title", topics()["formats"].title]


def test_neither_a_file_nor_a_topic(ckpt: Callable) -> None:
    result = ckpt("explain", "exit-code")
    assert (result.code, result.out) == (3, "")
    assert result.err == (
        "ckpt: error: exit-code: no such file or topic; did you mean exit-codes?\n"
        f"hint: name a topic: {', '.join(topics())}\n"
        "hint: put an error message in quotes, or pipe it into ckpt explain -\n"
    )


def test_what_cannot_be_read_is_reported(tmp_path: Path, ckpt: Callable) -> None:
    assert ckpt("explain", tmp_path).err == f"ckpt: error: {tmp_path}: is a directory\n"
    (tmp_path / "link").symlink_to("nowhere")
    assert ckpt("explain", tmp_path / "link").code == 3
    result = ckpt("explain", "/dev/zero")
    assert (result.code, result.out) == (3, "")
    assert "this is a device; expected a file" in result.err


def test_a_closed_stdin_is_not_a_crash() -> None:
    command = f"{shlex.quote(sys.executable)} -m ckpt_cli explain"
    for line, code in ((f"{command} <&-", 0), (f"{command} - <&-", 3)):
        done = subprocess.run(
            ["sh", "-c", line],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr


# ckpt's own ---------------------------------------------------------------------------


def lay_out(directory: Path) -> None:
    """Put what the table's own command lines speak of into a directory."""
    shutil.copytree(data_path("guide_adam_legacy", "tf_ckpts"), directory / "run")
    for source, name in (
        ("data_flip", "damaged"),
        ("data_missing", "lost"),
        ("index_cut_half", "cut"),
        ("graph_name_twice", "graph"),
        ("data_empty", "short"),
        ("index_flip", "block"),
    ):
        shutil.copytree(data_path("corrupt", source), directory / name)
    for suffix in ("index", "data-00000-of-00001"):
        narrow = data_path("dtypes", f"rare_n_float8_e4m3fn.{suffix}")
        shutil.copy(narrow, directory / f"narrow-1.{suffix}")
    whole = directory / "keras.h5"
    shutil.copy(data_path("keras_mlp", "mlp.full.h5"), whole)
    (directory / "cut.h5").write_bytes(whole.read_bytes()[:-2000])
    shutil.copy(data_path("pytorch", "evil.pt"), directory)
    (directory / "notes.txt").write_text("mine\n")
    (directory / "empty").mkdir()
    shutil.copytree(data_path("name_based", "adam"), directory / "names")
    for generation in ("k3", "legacy"):
        shutil.copytree(data_path("optimizers", generation, "nadam"), directory / "nadam" / generation)
    shutil.copytree(data_path("optimizers", "new", "momentum"), directory / "momentum")
    (directory / "dcp").mkdir()
    shutil.copy(data_path("pytorch", "dcp", "__0_0.distcp"), directory / "dcp")


@pytest.mark.parametrize(("title", "line"), [(row.title, line) for row in complaints() for line in row.own])
def test_what_ckpt_itself_says_is_explained(
    title: str, line: str, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.lock").write_text(ckpt(*shlex.split("ls run/ckpt-10 --json -l --digest crc32c")).out)
    (tmp_path / "plain.lock").write_text(ckpt(*shlex.split("ls run/ckpt-10 --json -l")).out)
    said = ckpt(*shlex.split(line))
    assert said.code in (1, 2, 3)
    # Exit code 1 is an answer, in which nothing has failed.
    assert said.code != 3 or "\nhint: " in said.err, "an error that is known has a hint"
    (tmp_path / "said").write_text(said.out + said.err)
    result = ckpt("explain", "said")
    assert result.code == 0, said
    assert ["title", title] in result.rows, said


def test_what_is_known_of_an_error_is_its_hint(ckpt: Callable) -> None:
    path = data_path("corrupt", "data_flip", "ckpt")
    done = ckpt("stats", path)
    assert done.code == 3
    error, hint = done.err.splitlines()
    data = f"{path}.data-00000-of-00001"
    assert error.startswith(f"ckpt: error: {data}: tensor ")
    assert hint == f"hint: to see what is damaged: ckpt verify {data}"
    assert ckpt("verify", data).code == 1
    told = ckpt("explain", error)
    assert next(row[1] for row in told.rows if row[0] == "command") == f"ckpt verify {data}"


@pytest.mark.parametrize(
    ("title", "text"),
    [(row.title, text) for row in complaints() for _, text in row.quoted if text.startswith("ckpt: error: ")],
)
def test_the_hint_of_an_error_that_servers_and_clusters_make_is_its_entrys_command(
    title: str, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path, _, message = text.removeprefix("ckpt: error: ").partition(": ")
    assert main._report(CheckpointError(message, path=path), []) == 3
    error, hint = capfd.readouterr().err.splitlines()
    assert error == text
    (match,) = (match for match in explain(text) if match.title == title)
    command = hint[hint.index(": ckpt ") + 2 :]
    assert command in match.commands


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("topic", ["maps", "environment", "formats"])
def test_a_topic_fits_the_terminal(topic: str, columns: int, terminal: Callable) -> None:
    lines = terminal("explain", topic, columns=columns, NO_COLOR="1").out.splitlines()
    assert len(lines) > 5
    # Commands stay whole, for they are pasted.
    assert max(len(line) for line in lines if not line.startswith("    ckpt ")) <= columns
