"""Where the shells look for completions that a user has of his own.

bash    bash-completion(8): $BASH_COMPLETION_USER_DIR, or bash-completion in $XDG_DATA_HOME,
        completions/ckpt there, loaded when the command is first completed; bash alone looks
        nowhere, so bash is run to see whether the user's start-up files load bash-completion
zsh     zshcompsys(1): _ckpt in one of $fpath, looked for by compinit; start-up files set
        $fpath and call compinit, so zsh is run to see both; only folders below the user's home are used
fish    completions(fish): fish/completions/ckpt.fish in $XDG_CONFIG_HOME
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import CheckpointExistsError
from formats.store.local.staging import replace_file

if TYPE_CHECKING:
    from formats.location import Location

__all__ = ["CompletionFile", "install", "place_of"]

_PATIENCE = 10
"""Seconds that a shell has for the start-up files of its user."""

_MARK = "__ckpt__"
"""A line before a shell's answer: start-up files may print."""

_HEAD = 256
"""Bytes at the beginning of a script in which it says who made it."""


class CompletionFile(NamedTuple):
    """A file that a shell completes from, and what is left for its user to do."""

    path: str
    what_is_left: str


def place_of(shell: str) -> CompletionFile:
    """Return where a shell looks for a completion of `ckpt`."""
    return _PLACES[shell]()


def _bash() -> CompletionFile:
    own, _, _ = os.environ.get("BASH_COMPLETION_USER_DIR", "").partition(":")
    data = own or os.path.join(_folder("XDG_DATA_HOME", "~/.local/share"), "bash-completion")
    path = os.path.join(data, "completions", "ckpt")
    if "-D" in _answer("bash", "complete -p -D").split():  # the loader of completions, which runs on demand
        return CompletionFile(path, "new shells complete ckpt through bash-completion")
    needed = f"load bash-completion, or add to ~/.bashrc: . {shlex.quote(path)}"
    return CompletionFile(path, f"bash-completion is not loaded, so bash will not find this file; {needed}")


def _fish() -> CompletionFile:
    folder = os.path.join(_folder("XDG_CONFIG_HOME", "~/.config"), "fish", "completions")
    return CompletionFile(os.path.join(folder, "ckpt.fish"), "new shells complete ckpt")


def _zsh() -> CompletionFile:
    home = os.path.join(os.path.realpath(os.path.expanduser("~")), "")
    has_compinit, fpath = _zsh_settings()
    for folder in fpath:
        # Root may write to the folders of all users, too, which is not what a file of its own is for.
        is_own = os.path.isabs(folder) and os.path.realpath(folder).startswith(home)
        if is_own and os.access(folder, os.W_OK):
            return CompletionFile(
                os.path.join(folder, "_ckpt"), _left_for_zsh(None, has_compinit=has_compinit)
            )
    folder = os.path.join(_folder("XDG_DATA_HOME", "~/.local/share"), "zsh", "site-functions")
    return CompletionFile(os.path.join(folder, "_ckpt"), _left_for_zsh(folder, has_compinit=has_compinit))


def _left_for_zsh(folder: str | None, *, has_compinit: bool) -> str:
    """Return what to say of a zsh that does not look in `folder`, or does not load completions at all."""
    lines = [] if folder is None else [f"fpath+=({shlex.quote(folder)})"]
    if not has_compinit:
        lines.append("autoload -Uz compinit && compinit")
    if not lines:
        return "new shells complete ckpt through compinit"
    where = ", before compinit" if has_compinit else ""
    return f"zsh will not load this file until you add to ~/.zshrc{where}: {'; '.join(lines)}"


_PLACES = {"bash": _bash, "zsh": _zsh, "fish": _fish}


def _zsh_settings() -> tuple[bool, list[str]]:
    """Return whether a zsh, if there is one, has run compinit for its user, and where it finds functions."""
    has_compinit, *fpath = _answer("zsh", "print -rl -- $+functions[compdef] $fpath").splitlines() or ["0"]
    return has_compinit == "1", fpath


def _answer(shell: str, question: str) -> str:
    """Return what a shell, if it is there, prints when its user opens it and asks."""
    program = shutil.which(shell)
    if program is None:
        return ""
    try:
        done = subprocess.run(  # noqa: S603  the shell that the user has
            [program, "-ic", f"echo {_MARK}; {question}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=_PATIENCE,
            check=False,
            start_new_session=True,  # an interactive shell would take the terminal
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.partition(f"{_MARK}\n")[2]


def _folder(variable: str, otherwise: str) -> str:
    """Return a folder of the XDG Base Directory Specification, which ignores those that are relative."""
    named = os.environ.get(variable, "")
    return named if os.path.isabs(named) else os.path.expanduser(otherwise)


def install(shell: str, text: str, path: Location, *, dry_run: bool) -> None:
    """Write a script where its shell looks; CheckpointExistsError where something else has that name."""
    if os.path.lexists(path) and not _is_ours(path, shell):
        hints = (f"to see the script: ckpt completion {shell}",)
        message = "this file already exists, and ckpt did not write it"
        raise CheckpointExistsError(message, path=path, hints=hints)
    if not dry_run:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace_file(path, text.encode())


def _is_ours(path: Location, shell: str) -> bool:
    """Whether a file says of itself, at its beginning, that it is our script for a shell."""
    if not path.is_file():
        return False
    with path.open() as file:
        return f"made by `ckpt completion {shell}`".encode() in file.read(0, min(file.size, _HEAD))
