"""`ckpt completion`: the script by which a shell completes commands, checkpoints and keys."""

from __future__ import annotations

import sys

import click

from ..options import color_option, json_option
from ..render import base as render


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
@color_option
def command(shell: str, *, as_json: bool) -> None:
    """Print the script that completes ckpt in a shell.

    Completes commands, options, checkpoints by their prefixes, and the keys and object
    paths of the checkpoint named before.

    \b
      eval "$(ckpt completion bash)"       in ~/.bashrc
      eval "$(ckpt completion zsh)"        in ~/.zshrc, after compinit
      ckpt completion fish > ~/.config/fish/completions/ckpt.fish
    """
    from ..completing import script

    text = script(shell, click.get_current_context().find_root().command)
    if as_json:
        render.document({"shell": shell, "script": text})
    else:
        sys.stdout.write(text)
