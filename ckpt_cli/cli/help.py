"""`ckpt COMMAND --help`: one screen, with a line for each option, in groups.

Text after a form feed, in the docstring of a command or the help of an option, is only for the manual page
and docs/reference.md, as in click's docstrings.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

import click

from ..api.rules import OptionError
from .options import GENERAL

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Subcommand", "left_out", "subcommand"]

_OWN = "Options"

_GROUPS = {
    _OWN: (),  # what no other group has
    "Tensor selection": (
        *(
            "--match",
            "--exclude",
            "--regex",
            "--ignore-case",
            "--dtype",
            "--kind",
            "--where",
            "--weights-only",
        ),
    ),
    "Key changes": (
        *("--sub", "--strip-prefix", "--add-prefix", "--map", "--save-map", "--full-names", "key_names"),
    ),
    "Output": (
        *("--output", "--overwrite", "--dry-run", "--verify", "--no-verify", "--update-state"),
        *("--shard-size", "--compress", "--merge-slices", "--link", "--resume", "--in-place"),
    ),
    "General": (
        *("--jobs", "--executor", "--format", "--json", "--color", "--quiet", "--verbose", "--help"),
    ),
}
"""Headings, in their order, and the options below them. `key_names` is --keys, except that of ls."""


_GROUP_OF = {name: group for group, names in _GROUPS.items() for name in names}


class Subcommand(click.Command):
    """A command with the options that all commands have; its help shows options in groups.

    The output of a `paged` command goes through a pager on a terminal.
    """

    def __init__(self, *args: Any, paged: bool = False, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.paged = paged
        own = {name for param in self.params for name in param.opts}
        self.params += [option for option in GENERAL if own.isdisjoint(option.opts)]

    def invoke(self, ctx: click.Context) -> Any:
        # A pager is for terminals alone, and would hold the lines of --follow back.
        if not self.paged or not sys.stdout.isatty() or ctx.params.get("follow"):
            return self._invoke(ctx)
        from ..render.pager import paging

        with paging():
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OptionError as error:
            raise click.UsageError(str(error), ctx) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {group: [] for group in _GROUPS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                term, text = record
                group = next(filter(None, map(_GROUP_OF.get, (param.name or "", *param.opts))), _OWN)
                groups[group].append((term, text.partition("\f")[0]))
        longest = max(len(term) for rows in groups.values() for term, _ in rows)
        formatter.write_paragraph()
        for group, rows in groups.items():
            if rows:
                formatter.write_heading(group)
                with formatter.indentation():
                    # Terms of one width, so that the texts of all groups are aligned.
                    formatter.write_dl([(term.ljust(longest), text) for term, text in rows])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"More: man {ctx.command_path.replace(' ', '-')}\n")


def left_out(command: click.Command) -> list[str]:
    """Return the paragraphs that the help of a command leaves out."""
    rest = inspect.cleandoc(command.help or "").partition("\f")[2].strip("\n")
    options = [param for param in command.params if isinstance(param, click.Option)]
    notes = [(max(option.opts, key=len), (option.help or "").partition("\f")[2]) for option in options]
    return [*filter(None, rest.split("\n\n")), *(f"{name}: {text}" for name, text in notes if text)]


def subcommand(name: str, *, paged: bool = False) -> Callable[[Callable[..., Any]], Subcommand]:
    """Make a function a command of `ckpt`; its docstring is its help."""
    return click.command(name, cls=Subcommand, paged=paged)
