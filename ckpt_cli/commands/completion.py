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
@click.option("--install", "to_install", is_flag=True, help="Put it where the shell looks, and say where.")
@dry_run_option("Say where it would be put, and write nothing.")
@json_option
@color_option
@option_rules(needs("--dry-run", "--install"))
def command(shell: str, *, to_install: bool, dry_run: bool, as_json: bool) -> None:
    """Print the script that completes ckpt in a shell.

    Completes commands, options and their values, checkpoints by their prefixes, and the keys
    and object paths of the checkpoint named before.

    \b
      ckpt completion bash --install
      eval "$(ckpt completion bash)"       in ~/.bashrc
      eval "$(ckpt completion zsh)"        in ~/.zshrc, after compinit
    \f

    With --install the script is a file of the user's, root's too: for bash as the package
    bash-completion loads it, for fish in its folder of completions, for zsh in the first folder of
    fpath that is below HOME and can be written. Where bash does not load bash-completion, zsh has
    no such folder or does not run compinit, a note says which line ~/.bashrc or ~/.zshrc needs. A
    file that is there and was not made by this command stays, with exit 3.
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
