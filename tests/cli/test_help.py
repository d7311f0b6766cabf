"""Help fits a terminal of 100 columns and 64 lines, and nothing is lost by that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from ckpt_cli.cli.help import Subcommand, left_out
from ckpt_cli.cli.main import cli
from tests.readme import commands, rendered

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS, LINES = 100, 64


def command(name: str) -> Subcommand:
    found = cli.get_command(click.Context(cli), name)
    assert isinstance(found, Subcommand), "made by helping.subcommand, as all are"
    return found


def help_on_a_terminal(*words: str) -> list[str]:
    # click leaves two columns of a terminal empty.
    result = CliRunner().invoke(cli, [*words, "--help"], prog_name="ckpt", terminal_width=COLUMNS - 2)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


@pytest.mark.parametrize("name", ["", *commands()])
def test_help_fits_a_screen(name: str) -> None:
    lines = help_on_a_terminal(*filter(None, [name]))
    assert len(lines) < LINES  # the last line is the shell's, for what is typed next
    assert max(map(len, lines)) <= COLUMNS - 2


@pytest.mark.parametrize("name", commands())
def test_each_option_is_a_line_in_a_group(name: str) -> None:
    lines = help_on_a_terminal(name)
    first = next(at for at, line in enumerate(lines) if line.endswith(":") and not line.startswith(" "))
    below = lines[first:-1]
    options = [param for param in command(name).params if isinstance(param, click.Option)]
    shown = [line.split("  ")[1].split()[0].strip(",") for line in below if line.startswith("  ")]
    assert sorted([*(option.opts[0] for option in options), "-h"]) == sorted(shown)
    assert all(line.startswith("  -") or line.endswith(":") for line in below)
    assert lines[-1] == f"More: man ckpt-{name}"


def test_what_help_leaves_out_is_in_the_reference() -> None:
    reference = " ".join(rendered("<!-- reference -->\n<!-- end -->").split())
    paragraphs = [text for name in commands() for text in left_out(command(name))]
    assert len(paragraphs) > 50
    # Hyphenated words are broken where a line ends.
    plain = reference.replace("- ", "-")
    assert [
        text for text in paragraphs if " ".join(text.strip("\b").split()).replace("- ", "-") not in plain
    ] == []


def test_options_are_in_the_group_of_their_purpose(ckpt: Callable) -> None:
    """`ls --keys` prints keys, and `convert --keys` says which ones are written."""
    listing = ckpt("ls", "--help").out
    assert "Key changes" not in listing
    assert listing.index("--keys") < listing.index("Tensor selection:") < listing.index("--ignore-case")
    converting = ckpt("convert", "--help").out
    assert converting.index("Key changes:") < converting.index("--keys") < converting.index("Output:")
