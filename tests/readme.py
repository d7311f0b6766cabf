"""The parts of README.md and docs/ that the program writes: help, tables, a terminal session, a picture.

`python -m tests.readme` puts today's into the files; a test fails when they are stale.
"""

from __future__ import annotations

import ast
import glob
import json
import os
import re
import shutil
import sys
import tempfile

import click
from click.testing import CliRunner

from ckpt_cli.cli.help import left_out
from ckpt_cli.cli.main import cli
from ckpt_cli.operations.look.explain import explain_topic, troubleshooting_markdown
from formats.find.registry import all_formats
from tests.benchmarks.picture import drawn
from tests.drawing import objects_and_keys, terminal
from tests.interop.tensorflow_tests import table
from tests.support import data_path
from tests.terminals import run_on_terminal
from tests.test_architecture import ROOMS

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
README = os.path.join(ROOT, "README.md")
DOCS = os.path.join(ROOT, "docs")
PAGES = (README, *sorted(glob.glob(os.path.join(DOCS, "**", "*.md"), recursive=True)))
SHOWN = """\
$ ckpt ls run
$ ckpt ls run/ckpt-10 'net/*'
$ ckpt diff run/ckpt-9 run/ckpt-10 --kind variable
$ ckpt verify run
"""
"""The commands of the picture of a terminal."""
WHEN = 1795255200  # 2026-11-21 10:00 UTC
_BLOCK = re.compile(
    r"(<!-- (?P<name>[a-z]+)(?:: (?P<of>\S+))? -->\n)(?:(?!<!-- ).)*?(<!-- end -->)", re.DOTALL
)
_SESSION = re.compile(r"(```console\n)(.*?)(```)", re.DOTALL)


def commands() -> list[str]:
    return cli.list_commands(click.Context(cli))


def help_of(command: str) -> str:
    result = CliRunner().invoke(cli, [command, "--help"], prog_name="ckpt", terminal_width=100)
    assert result.exit_code == 0, result.output
    return result.output


def _told(name: str) -> str:
    """Return what a command says of itself: its help, and what that leaves to this place."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    formatter = click.HelpFormatter(width=100)
    for paragraph in left_out(command):
        formatter.write_paragraph()
        formatter.write_text(paragraph)
    return help_of(name).replace(f"More: man ckpt-{name}\n", "") + "\n" + formatter.getvalue()


def _table(head: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [head, ("---", "---"), *rows]
    return "".join(f"| {left} | {right} |\n" for left, right in lines)


def _formats() -> str:
    return _table(("format", "what it is"), [(f"`{found.name}`", found.summary) for found in all_formats()])


def _commands() -> str:
    context = click.Context(cli)
    found = [(name, cli.get_command(context, name)) for name in commands()]
    return _table(
        ("command", "what it does"),
        [(f"`ckpt {name}`", command.get_short_help_str(limit=100)) for name, command in found if command],
    )


def _reference() -> str:
    return "\n".join(
        f"### `ckpt {name}`\n\n```text\n{_told(name)}```\n\n"
        f"What `--json` prints: [{name}.schema.json](schemas/{name}.schema.json)\n"
        for name in commands()
    )


def _topic(name: str) -> str:
    topic = explain_topic(name)
    assert topic is not None, name
    return _table((name.replace("-", " "), "meaning"), [(f"`{word}`", text) for word, text in topic.entries])


def _rooms() -> str:
    rows = ["\n".join(f"{name}: {_purpose(name)}" for name in names.split()) for names in reversed(ROOMS)]
    return "```text\n" + "\n    ↓\n".join(rows) + "\n```\n"


def _purpose(room: str) -> str:
    """Return the first line that a room says of itself."""
    folder = os.path.join(ROOT, "formats", room)
    path = os.path.join(folder, "__init__.py") if os.path.isdir(folder) else f"{folder}.py"
    with open(path, encoding="utf-8") as file:
        told = ast.get_docstring(ast.parse(file.read()))
    assert told, path
    return told.splitlines()[0].rstrip(".")


def recipes() -> list[tuple[str, str, list[str]]]:
    """Return each page of recipes: its path, its title, the questions on it, in the order of the menu."""
    with open(os.path.join(ROOT, "mkdocs.yml"), encoding="utf-8") as file:
        listed = re.findall(r"^      - (recipes/(?!index)\w+\.md)$", file.read(), re.MULTILINE)
    found = []
    for path in listed:
        with open(os.path.join(DOCS, path), encoding="utf-8") as file:
            page = re.sub(r"```.*?```", "", file.read(), flags=re.DOTALL)
        (title,) = re.findall(r"^# (.*)$", page, re.MULTILINE)
        found.append((path, title, re.findall(r"^## (.*)$", page, re.MULTILINE)))
    return found


def _anchor(heading: str) -> str:
    """Return what a heading is called in a link, as Markdown's table of contents makes it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def _recipes() -> str:
    parts = []
    for path, title, questions in recipes():
        name = os.path.basename(path)
        links = "".join(f"- [{question}]({name}#{_anchor(question)})\n" for question in questions)
        parts.append(f"## {title}\n\n{links}")
    return "\n".join(parts)


_WRITTEN = {
    "formats": _formats,
    "commands": _commands,
    "recipes": _recipes,
    "reference": _reference,
    "rooms": _rooms,
    "topic": _topic,
    "troubleshooting": troubleshooting_markdown,
    "cases": table.markdown,
}
"""The functions that make the text between `<!-- NAME -->` or `<!-- NAME: OF -->` and `<!-- end -->`."""


def on_terminal(arguments: list[str], directory: str) -> str:
    """Return what `ckpt` prints on a terminal 100 columns wide, without colour.

    A dumb one, on which a slow machine shows no bars, either.
    """
    environment = {**os.environ, "COLUMNS": "100", "TERM": "dumb", "PYTHONPATH": ROOT}
    out = run_on_terminal([sys.executable, "-m", "ckpt_cli", *arguments], environment, cwd=directory)[1]
    return "".join(line.rstrip() + "\n" for line in out.splitlines())


def session(text: str, *options: str) -> str:
    """Return a console session with today's output below each of its commands."""
    import shlex

    with tempfile.TemporaryDirectory() as directory:
        run = os.path.join(directory, "run")
        shutil.copytree(data_path("guide_adam_legacy", "tf_ckpts"), run)
        if "playground/" in text:
            on_terminal(["demo", "playground"], directory)
        for path in glob.glob(os.path.join(directory, "**"), recursive=True):
            os.utime(path, (WHEN, WHEN))
        out = []
        for line in text.splitlines():
            if line.startswith("$ ckpt "):
                out += [line + "\n", on_terminal([*shlex.split(line)[2:], *options], directory)]
    return "".join(out)


def rendered(text: str) -> str:
    """Return a page's text with the program's parts as they are today."""

    def block(match: re.Match[str]) -> str:
        write = _WRITTEN.get(match["name"])
        if write is None:  # the benchmarks, which are measured
            return match[0]
        return match[1] + "\n" + (write(match["of"]) if match["of"] else write()) + "\n" + match[4]

    text = _BLOCK.sub(block, text)
    return _SESSION.sub(lambda match: match[1] + session(match[2]) + match[3], text)


def picture() -> bytes:
    """Return the object graph of TensorFlow's checkpoint guide, drawn by `ckpt graph`."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "guide.svg")
        _graph("-o", path, "--slots")
        with open(path, "rb") as file:
            return file.read()


def _graph(*options: str) -> str:
    checkpoint = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
    result = CliRunner().invoke(cli, ["graph", checkpoint, *options], standalone_mode=False)
    assert not result.exception, result.output
    return result.stdout


def pictures() -> dict[str, bytes]:
    """Return the pictures of docs/ by name."""
    keys = objects_and_keys(json.loads(_graph("--json")))
    shown = terminal(session(SHOWN, "--color", "always").splitlines())
    return {"guide.svg": picture(), "keys.svg": keys, "performance.svg": drawn(), "terminal.svg": shown}


def _bring_up_to_date() -> None:
    for page in PAGES:
        with open(page, encoding="utf-8") as file:
            today = rendered(file.read())
        with open(page, "w", encoding="utf-8") as file:
            file.write(today)
    for name, content in pictures().items():
        with open(os.path.join(DOCS, name), "wb") as file:
            file.write(content)


if __name__ == "__main__":
    _bring_up_to_date()
