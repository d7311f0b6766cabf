"""Completions in real shells: one that is opened after the installation completes at a Tab."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from ckpt_cli.api.listing import SORTS
from tests.shells.driving import Shell, lay_out, surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.shells

LOADER = "/usr/share/bash-completion/bash_completion"
STARTS = {
    "bash": (".bashrc", "PS1='ready> '; bind 'set enable-bracketed-paste off'\n"),
    "zsh": (
        ".zshrc",
        "fpath=(~/.zfunc $fpath); autoload compinit; compinit -D; unset zle_bracketed_paste; PS1='ready> '",
    ),
    "fish": (
        ".config/fish/config.fish",
        "set -g fish_greeting; function fish_prompt; echo -n 'ready> '; end\n",
    ),
}
"""The file with which each shell starts, and what is in it."""

INSTALLED = {
    "bash": ".local/share/bash-completion/completions/ckpt",
    "zsh": ".zfunc/_ckpt",
    "fish": ".config/fish/completions/ckpt.fish",
}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory to complete in, with one of everything."""
    lay_out(tmp_path)
    return tmp_path


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which each shell has a file to start with."""
    home = tmp_path_factory.mktemp("home")
    (home / ".zfunc").mkdir()
    for name, text in STARTS.values():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return home


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    missing = [shell for shell in STARTS if shutil.which(shell) is None]
    assert not missing, f"{', '.join(missing)}: not installed"
    return surroundings(home)


@pytest.fixture
def opened(here: Path, environment: dict[str, str]) -> Iterator[Callable[[str], Shell]]:
    """Open a shell as its user does."""
    shells = []

    def open_one(shell: str) -> Shell:
        shells.append(Shell([shell, "-i"], here, environment))
        return shells[-1]

    yield open_one
    for shell in shells:
        shell.close()


def install(shell: str, environment: dict[str, str]) -> tuple[str, str]:
    """Install the script of a shell; return its path and the output."""
    done = subprocess.run(
        ["ckpt", "completion", shell, "--install"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), done.stderr


def completes(shell: Shell, here: Path) -> None:
    """Have a shell complete a command, a checkpoint, a format and a key."""
    shell.type('ckpt conv\trun/ckpt-1\tnew --to saf\t; echo do""ne\n')
    shell.until("done\r\n")
    assert os.path.getsize(here / "new") > 100
    shell.type("ckpt ls run/ckpt-10 ste\t--keys\n")
    shell.until("step/.ATTRIBUTES/VARIABLE_VALUE\r\n")


@pytest.mark.parametrize("name", STARTS)
def test_what_is_installed_completes_at_a_tab(
    name: str, home: Path, here: Path, environment: dict[str, str], opened: Callable[[str], Shell]
) -> None:
    if name == "bash":
        assert os.path.exists(LOADER), "bash-completion: not installed"
        with (home / ".bashrc").open("a") as file:
            file.write(f". {LOADER}\n")
    path, said = install(name, environment)
    assert path == str(home / INSTALLED[name])
    assert said.startswith("note: new shells complete ckpt")
    completes(opened(name), here)


def test_bash_alone_completes_with_the_printed_line(
    home: Path, here: Path, environment: dict[str, str], opened: Callable[[str], Shell]
) -> None:
    """bash-completion is another package, which not everybody has or loads."""
    _, said = install("bash", environment)
    _, _, line = said.partition("or add to ~/.bashrc: ")
    assert line == f". {home / INSTALLED['bash']}\n"
    with (home / ".bashrc").open("a") as file:
        file.write(line)
    completes(opened("bash"), here)


def test_zsh_without_compinit_completes_with_the_printed_line(
    home: Path, here: Path, environment: dict[str, str], opened: Callable[[str], Shell]
) -> None:
    """Also where root may write to a folder of fpath that is all users'."""
    start = home / ".zshrc"
    start.write_text("PS1='ready> '; unset zle_bracketed_paste\n")
    (home / ".zshenv").write_text("skip_global_compinit=1\n")  # for Ubuntu's start-up files
    path, said = install("zsh", environment)
    assert path == str(home / ".local/share/zsh/site-functions/_ckpt")
    told, _, line = said.partition("~/.zshrc: ")
    assert told == "note: zsh will not load this file until you add to "
    with start.open("a") as file:
        file.write(line)
    completes(opened("zsh"), here)


@pytest.fixture
def zsh(here: Path, environment: dict[str, str]) -> Iterator[Shell]:
    found = Shell(["zsh", "-f", "-i"], here, environment)
    setup = 'autoload -Uz compinit; compinit -D; unset zle_bracketed_paste; eval "$(ckpt completion zsh)"'
    found.type(f'{setup}; PS1="o""k> "\n')
    found.until("ok> ")
    yield found
    found.close()


def test_zsh_completes_prefixes_keys_and_quotes_spaces(zsh: Shell) -> None:
    zsh.type("ckpt ls ru\t")
    zsh.until("run/")
    zsh.type("\t")
    zsh.until("ckpt-")
    zsh.type("10\t")
    zsh.until(" ")
    zsh.type("net/l1/b\t")
    zsh.until("ias")
    zsh.type(" --keys\n")
    assert "net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE\r\n" in zsh.until("VALUE\r\n")
    zsh.type("ckpt ls two\t")
    zsh.until("\\ words-1 ")
    zsh.type("\x15ckpt ls --sort \t")
    zsh.until("dtype")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("ckpt veri", ["verify"]),
        ("ckpt ls ru", ["run/"]),
        ("ckpt ls run/ckpt-1", ["run/ckpt-10"]),
        ("ckpt ls two", ["two words-1"]),
        ('ckpt ls "two wo', ["two words-1"]),
        (r"ckpt ls two\ wo", ["two words-1"]),
        (
            "ckpt show run/ckpt-10 net/l1/k",
            [f"net/l1/kernel{slot}" for slot in ("", " (m of optimizer)", " (v of optimizer)")],
        ),
        ("ckpt ls --sort ", sorted(SORTS)),
    ],
)
def test_fish_completes(typed: str, offered: list[str], here: Path, environment: dict[str, str]) -> None:
    asked = subprocess.run(
        ["fish", "--no-config", "-c", "ckpt completion fish | source; complete -C $argv[1]", typed],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(asked.stdout.splitlines()) == offered
    assert asked.stderr == ""
