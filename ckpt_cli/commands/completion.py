"""`ckpt completion`: the script by which a shell completes commands, checkpoints and keys."""

from __future__ import annotations

import sys

import click

from formats.location import local_location

from ..cli.help import subcommand
from ..cli.option_rules import needs, option_rules
from ..cli.options import color_option, dry_run_option, json_option
from ..render import base as render


@subcommand("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--install", "to_install", is_flag=True, help="Write the script where the shell looks for it.")
@dry_run_option("Print the path of the script and write nothing.")
@json_option
@color_option
@option_rules(needs("--dry-run", "--install"))
def command(shell: str, *, to_install: bool, dry_run: bool, as_json: bool) -> None:
    """Print or install a shell completion script.

    Completes commands, options, values of options and the prefixes of checkpoints. After a
    checkpoint, completes the keys and object paths in it.

    \b
      ckpt completion bash --install
      eval "$(ckpt completion bash)"       in ~/.bashrc
      eval "$(ckpt completion zsh)"        in ~/.zshrc, after compinit
    \f

    --install writes the script for the current user only, even for root. For bash, the script goes
    to the folder that the package bash-completion reads. For fish, it goes to fish's completions
    folder. For zsh, it goes to the first writable folder of fpath below HOME. If the shell will not
    find the script there, a note shows the line to add to ~/.bashrc or ~/.zshrc. If that file
    exists and ckpt did not write it, it is not replaced and the exit code is 3.
    """
    from ..cli.completion import script

    text = script(shell, click.get_current_context().find_root().command)
    path = _install(shell, text, dry_run=dry_run) if to_install else None
    if as_json:
        render.document({"shell": shell, "script": text, "installed": path})
    elif path is None:
        sys.stdout.write(text)
    elif render.is_terminal():
        render.title(f"{'would write' if dry_run else 'wrote'} {path}")
    else:
        render.lines([path])


def _install(shell: str, text: str, *, dry_run: bool) -> str:
    from ..cli.install import install, place_of

    place = place_of(shell)
    install(shell, text, local_location(place.path), dry_run=dry_run)
    render.note(place.what_is_left)
    return place.path
