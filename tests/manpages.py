"""The manual pages in man/, made of what the commands say of themselves.

`python -m tests.manpages` writes today's; a test fails when they are stale.
"""

from __future__ import annotations

import glob
import inspect
import os
import re

import click

from ckpt_cli.cli.main import cli
from ckpt_cli.operations.look.explain import explain_topic
from formats.core.version import VERSION

DIRECTORY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "man")


def files() -> dict[str, str]:
    """Return the text of each page, by its path."""
    program = click.Context(cli, info_name="ckpt", **cli.context_settings)
    names = cli.list_commands(program)
    pages = {"ckpt": _page(cli, program, [f"ckpt-{name}" for name in names])}
    for name in names:
        command = cli.get_command(program, name)
        assert command is not None
        context = click.Context(command, parent=program, info_name=name, **command.context_settings)
        pages[f"ckpt-{name}"] = _page(command, context, ["ckpt"])
    return {os.path.join(DIRECTORY, f"{name}.1"): text for name, text in pages.items()}


def _page(command: click.Command, context: click.Context, others: list[str]) -> str:
    name = context.command_path.replace(" ", "-")
    first, *paragraphs = re.split(r"\n{2,}", inspect.cleandoc(command.help or "").replace("\f", "\n"))
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{_plain(name.upper())}" 1 "" "ckpt {VERSION}" "ckpt"',
        *(".SH NAME", f"{_plain(name)} \\- {_plain(' '.join(first.split()).rstrip('.'))}"),
        *(".SH SYNOPSIS", f"\\fB{_plain(context.command_path)}\\fR {_plain(usage)}"),
        *(".SH DESCRIPTION", *(line for text in [first, *paragraphs] for line in _paragraph(text))),
        *(".SH OPTIONS", *_listed(_options(command, context))),
        *(_commands(command, context) if isinstance(command, click.Group) else []),
        *(".SH EXIT STATUS", *_topic("exit-codes")),
        *(".SH ENVIRONMENT", *_topic("environment")),
        *(".SH SEE ALSO", " ,\n".join(f".BR {_plain(other)} (1)" for other in others)),
    ]
    return "\n".join(lines) + "\n"


def _paragraph(text: str) -> list[str]:
    """Return a paragraph; one that click leaves alone keeps its lines."""
    if text.startswith("\b\n"):
        return [".PP", ".nf", *(_line(line) for line in text.splitlines()[1:]), ".fi"]
    return [".PP", _line(" ".join(text.split()))]


def _options(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    records = [option.get_help_record(context) for option in options]
    return [record for record in records if record is not None]


def _commands(command: click.Group, context: click.Context) -> list[str]:
    found = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
    rows = [(f"ckpt {name}", each.get_short_help_str(limit=100)) for name, each in found if each]
    return [".SH COMMANDS", *_listed(rows)]


def _topic(name: str) -> list[str]:
    topic = explain_topic(name)
    assert topic is not None, name
    return _listed(topic.entries)


def _listed(rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> list[str]:
    return [
        line
        for term, text in rows
        for line in (".TP", f"\\fB{_plain(term)}\\fR", _line(" ".join(text.split())))
    ]


def _line(text: str) -> str:
    """Return a line of text; at its beginning a dot or an apostrophe would make it a request of roff's."""
    return ("\\&" if text.startswith((".", "'")) else "") + _plain(text)


def _plain(text: str) -> str:
    """Return text that roff shows as it is, with quotes and hyphens that can be pasted."""
    for mark, escape in (
        ("\\", "\\e"),
        ("-", "\\-"),
        ("'", "\\(aq"),
        ("`", "\\(ga"),
        ("^", "\\(ha"),
        ("~", "\\(ti"),
    ):
        text = text.replace(mark, escape)
    return "".join(mark if mark.isascii() else f"\\[u{ord(mark):04X}]" for mark in text)


def _bring_up_to_date() -> None:
    os.makedirs(DIRECTORY, exist_ok=True)
    pages = files()
    for path in set(glob.glob(os.path.join(DIRECTORY, "*.1"))) - set(pages):
        os.remove(path)
    for path, text in pages.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    _bring_up_to_date()
