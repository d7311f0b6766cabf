"""`ckpt help`: what a command does, and its options."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ..cli.help import subcommand
from ..cli.options import color_option, json_option
from ..render import base as render

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _commands(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    from ..cli.completion import commands

    return commands(_program(context).list_commands(context), incomplete)


def _program(context: click.Context) -> click.Group:
    program = context.find_root().command
    assert isinstance(program, click.Group)
    return program


@subcommand("help", paged=True)
@click.argument("command_name", required=False, metavar="[COMMAND]", shell_complete=_commands)
@json_option
@color_option
def command(command_name: str | None, *, as_json: bool) -> None:
    """Show the help of a command, as ckpt COMMAND --help does.

    Without COMMAND, lists the commands.

    \b
      ckpt help convert
    """
    context = click.get_current_context()
    text = _help(context, command_name)
    if as_json:
        render.document({"command": command_name, "help": text})
    else:
        sys.stdout.write(f"{text}\n")


def _help(context: click.Context, name: str | None) -> str:
    root = context.find_root()
    program: Any = _program(context)
    if name is None:
        return str(program.get_help(root))
    _, found, _ = program.resolve_command(root, [name])
    assert found is not None
    made = found.make_context(name, [], parent=root, resilient_parsing=True)
    return str(found.get_help(made))
