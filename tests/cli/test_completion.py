"""`ckpt completion`: what the shells are offered, and a real bash that is offered it."""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING

import pytest

from tests.completions import DIRECTORY, files
from tests.shells.driving import Shell, lay_out, surroundings
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to complete in, with one of everything."""
    lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def offered(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Return what is offered for the last of some words, as (type, value), by main()."""
    from ckpt_cli.cli.main import main

    def ask(*words: str, shell: str = "bash") -> list[tuple[str, ...]]:
        monkeypatch.setenv("COMP_WORDS", "\n".join(("ckpt", *words)))
        monkeypatch.setenv("_CKPT_COMPLETE", f"{shell}_complete")
        with pytest.raises(SystemExit) as caught:
            main([])
        assert caught.value.code == 0
        out, err = capfdbinary.readouterr()
        assert err == b""
        return [tuple(line.split("\t")) for line in out.decode().splitlines() if line]

    return ask


def test_files_are_todays() -> None:
    texts = files()
    assert sorted(os.listdir(DIRECTORY)) == sorted(map(os.path.basename, texts))
    for path, text in texts.items():
        with open(path, encoding="utf-8") as file:
            assert file.read() == text, "python -m tests.completions brings it up to date"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_printed(shell: str, ckpt: Callable) -> None:
    result = ckpt("completion", shell)
    assert (result.code, result.err) == (0, "")
    assert f"_CKPT_COMPLETE={shell}_complete" in result.out
    assert "%(" not in result.out


def test_a_script_in_json(ckpt: Callable) -> None:
    document = json.loads(ckpt("completion", "bash", "--json").out)
    script = ckpt("completion", "bash").out
    assert document == {"schema": 1, "shell": "bash", "script": script, "installed": None}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, a zsh that looks for functions in one of its folders, and a bash with bash-completion."""
    for name in ("BASH_COMPLETION_USER_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "functions").mkdir()
    (tmp_path / "bin").mkdir()
    answer(tmp_path, "zsh", "1", "/nothing", f"{tmp_path}/functions")
    answer(tmp_path, "bash", "complete -F _comp_complete_load -D")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def answer(home: Path, shell: str, *lines: str) -> None:
    """Have a shell answer with these lines, behind what its start-up files say."""
    program = home / "bin" / shell
    program.write_text(
        f"#!/bin/sh\necho welcome\nprintf '%s\\n' __ckpt__ {' '.join(map(shlex.quote, lines))}\n"
    )
    program.chmod(0o755)


PLACES = {
    "bash": ".local/share/bash-completion/completions/ckpt",
    "zsh": "functions/_ckpt",
    "fish": ".config/fish/completions/ckpt.fish",
}


@pytest.mark.parametrize("shell", PLACES)
def test_a_script_is_installed_where_the_shell_looks(shell: str, home: Path, ckpt: Callable) -> None:
    path = home / PLACES[shell]
    for text in (None, None, f"# made by `ckpt completion {shell}`, long ago"):  # new, the same, an older one
        if text is not None:
            path.write_text(text)
        done = ckpt("completion", shell, "--install")
        assert (done.code, done.out) == (0, f"{path}\n")
        assert done.err.startswith("note: new shells complete ckpt")
        assert path.read_text() == ckpt("completion", shell).out
    assert ckpt("completion", shell, "--install", "--json").json["installed"] == str(path)


@pytest.mark.parametrize("shell", PLACES)
def test_what_is_not_ours_is_never_overwritten(shell: str, home: Path, ckpt: Callable) -> None:
    path = home / PLACES[shell]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# mine, better than `ckpt completion`")
    done = ckpt("completion", shell, "--install")
    assert (done.code, done.out) == (3, "")
    assert f"ckpt: error: {path}: this file already exists, and ckpt did not write it" in done.err
    assert path.read_text() == "# mine, better than `ckpt completion`"
    path.unlink()
    path.symlink_to(home / "nothing")
    assert ckpt("completion", shell, "--install").code == 3
    assert not (home / "nothing").exists()


def test_nothing_is_installed_in_a_dry_run(home: Path, ckpt: Callable) -> None:
    done = ckpt("completion", "fish", "--install", "-n")
    assert (done.code, done.out) == (0, f"{home}/{PLACES['fish']}\n")
    assert not (home / ".config").exists()
    assert ckpt("completion", "fish", "-n").code == 2


COMPINIT = "autoload -Uz compinit && compinit"


@pytest.mark.parametrize(
    ("has_compinit", "left"),
    [
        ("1", "~/.zshrc, before compinit: fpath+=({home}/data/zsh/site-functions)"),
        ("0", "~/.zshrc: fpath+=({home}/data/zsh/site-functions); " + COMPINIT),
        ("", "~/.zshrc: fpath+=({home}/data/zsh/site-functions); " + COMPINIT),  # no zsh answers
    ],
)
def test_what_to_add_is_reported_where_zsh_looks_nowhere_of_the_users(
    has_compinit: str,
    left: str,
    home: Path,
    ckpt: Callable,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Root may write to the folders of all users, and puts a file of its own below HOME all the same."""
    everybody = tmp_path_factory.mktemp("site-functions")
    answer(home, "zsh", *([has_compinit, str(everybody), "."] if has_compinit else []))
    monkeypatch.chdir(home)
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    done = ckpt("completion", "zsh", "--install")
    assert done.out == f"{home}/data/zsh/site-functions/_ckpt\n"
    assert done.err == f"note: zsh will not load this file until you add to {left.format(home=home)}\n"
    assert list(everybody.iterdir()) == []


def test_what_to_add_is_reported_where_zsh_does_not_run_compinit(home: Path, ckpt: Callable) -> None:
    answer(home, "zsh", "0", f"{home}/functions")
    done = ckpt("completion", "zsh", "--install")
    assert done.out == f"{home}/functions/_ckpt\n"
    assert done.err == f"note: zsh will not load this file until you add to ~/.zshrc: {COMPINIT}\n"


def test_what_to_add_is_reported_where_bash_loads_no_completions(home: Path, ckpt: Callable) -> None:
    answer(home, "bash")
    path = home / PLACES["bash"]
    done = ckpt("completion", "bash", "--install")
    assert (done.code, done.out) == (0, f"{path}\n")
    needed = f"load bash-completion, or add to ~/.bashrc: . {path}\n"
    assert done.err.endswith(f"bash-completion is not loaded, so bash will not find this file; {needed}")


def test_the_first_of_several_folders_of_bash_is_taken(
    home: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASH_COMPLETION_USER_DIR", f"{home}/one:{home}/two")
    assert ckpt("completion", "bash", "--install").out == f"{home}/one/completions/ckpt\n"


def test_an_unknown_shell_is_a_usage_error(ckpt: Callable) -> None:
    assert ckpt("completion", "tcsh").code == 2


def test_commands_and_options(offered: Callable) -> None:
    assert {("plain", "ls"), ("plain", "verify"), ("plain", "state")} <= set(offered(""))
    assert offered("ver") == [("plain", "verify")]
    assert offered("ls", "--rec") == [("plain", "--recursive")]
    columns = [("plain", name) for name in ("shape", "shard", "step", "stored_step", "size")]
    assert offered("ls", "--sort", "=", "s") == offered("ls", "--sort", "s") == columns
    assert offered("ls", "--dtype", "bf") == [("plain", "bfloat16")]
    assert offered("extract", "--cast", "float6") == [("plain", "float64")]
    assert offered("convert", "--cast", "float8_e8") == []
    assert offered("ls", "--kind", "slot,st") == [("part", "slot,state")]


def test_values_of_options(offered: Callable) -> None:
    formats = {value for _, value in offered("convert", "a", "b", "--to", "")}
    assert {"tf-object", "keras", "npz", "pytorch", "listing", "object", "h5"} <= formats
    assert "pytorch-dcp" not in formats  # which is only read
    assert {value for _, value in offered("verify", "a", "--roundtrip", "")} == formats - {"listing"}
    assert offered("verify", "a", "--roundtrip", "tf-v") == [("plain", "tf-v1")]
    assert ("plain", "sarif") in offered("verify", "a", "--format", "")
    assert offered("convert", "a", "b", "--layout", "") == [
        ("plain", "pytorch"),
        ("plain", "tensorflow"),
        ("plain", "flax"),
    ]
    assert [value for _, value in offered("verify", "a", "--executor", "d")] == ["dask", "dask://"]
    assert offered("diff", "a", "b", "--fail-on", "added,") == [
        ("part", f"added,{change}") for change in ("removed", "dtype", "shape", "value")
    ]
    assert offered("stats", "a", "--fail-on", "n") == [("part", "nan")]
    assert ("plain", "bert") in offered("convert", "a", "b", "--map", "")


def test_checkpoints_are_offered_by_prefix_and_never_by_shard(here: Path, offered: Callable) -> None:
    assert offered("ls", "run/") == [("path", "run/ckpt-10"), ("path", "run/ckpt-8"), ("path", "run/ckpt-9")]
    assert offered("ls", "ru") == [("dir", "run")]
    assert offered("verify", "run/ckpt-8", "we") == [("path", "weights.h5")]
    assert offered("ls", "notes") == [("path", "notes.txt")]  # nothing else could be meant
    assert ("path", "notes.txt") not in offered("ls", "")
    assert offered("ls", "'two") == [("path", "two words-1")]
    assert offered("ls", "two\\ w") == [("path", "two words-1")]
    assert offered("ls", "nothing/") == []


def test_an_option_that_takes_a_file_is_offered_everything_but_parts(here: Path, offered: Callable) -> None:
    assert offered("convert", "a", "b", "--like", "run/") == [
        ("path", f"run/{name}") for name in ("checkpoint", "ckpt-10", "ckpt-8", "ckpt-9")
    ]
    assert offered("convert", "a", "b", "--map", "no") == [("path", "notes.txt")]


def test_v1_checkpoints_are_offered_by_their_content(here: Path, offered: Callable) -> None:
    values = [value for _, value in offered("ls", "old/")]
    assert values
    assert not any("-of-" in value or value.endswith((".meta", ".index")) for value in values)


def test_bash_gets_what_is_behind_its_word_breaks(here: Path, offered: Callable) -> None:
    assert offered("ls", "a", ":", "b") == [("path", "b-1")]
    assert offered("ls", "a:b", shell="zsh") == [("path", "a:b-1", "")]


def test_keys_and_object_paths_of_the_checkpoint_before(here: Path, offered: Callable) -> None:
    assert ("plain", "net/l1/kernel") in offered("ls", "run/ckpt-10", "net/")
    assert ("plain", "net/l1/kernel (m of optimizer)") in offered("ls", "run/ckpt-10", "net/l1/k")
    stored = "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"
    assert offered("ls", "run/ckpt-10", "net/l1/kernel/.A") == [("plain", stored)]
    assert ("plain", "net/l1/bias") in offered("ls", "run", "--match", "net/l1/b")
    assert ("plain", "net/l1/bias") in offered("show", "run/ckpt-10", "net/l1/b")
    assert offered("ls", "weights.h5", "") == []
    assert ("path", "run/ckpt-9") in offered("ls", "run/ckpt-10", "run/c")  # which takes further paths
    assert offered("show", "run/ckpt-10", "run/c") == []


def test_many_keys_are_offered_by_component(offered: Callable) -> None:
    path = data_path("bert_tiny", "bert_model.ckpt-2")
    assert offered("ls", path, "") == [
        ("part", "bert/"),
        ("plain", "beta1_power"),
        ("plain", "beta2_power"),
        ("part", "cls/"),
        ("plain", "global_step"),
    ]
    assert offered("ls", path, "bert/") == [
        ("part", f"bert/{name}/") for name in ("embeddings", "encoder", "pooler")
    ]


def test_state_is_offered_directories_and_names(here: Path, offered: Callable) -> None:
    assert {kind for kind, _ in offered("state", "")} == {"dir"}
    assert offered("state", "run", "--set", "ckpt-1") == [("plain", "ckpt-10")]


def test_fish_gets_whole_words_and_slashes(here: Path, offered: Callable) -> None:
    assert offered("ls", "ru", shell="fish") == [("run/",)]
    assert offered("ls", "two w", shell="fish") == [("two words-1",)]


def test_an_unknown_command_offers_no_error(offered: Callable) -> None:
    assert ("plain", "ls") in offered("nonsense", "")


# A real bash ----------------------------------------------------------------------


@pytest.fixture
def bash(here: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    found = Shell(
        ["bash", "--norc", "--noprofile", "-i"], here, surroundings(tmp_path_factory.mktemp("home"))
    )
    found.type('bind "set enable-bracketed-paste off"; eval "$(ckpt completion bash)"; echo do""ne\n')
    found.until("done\r\nready> ")
    yield found
    found.close()


def test_bash_completes_a_prefix_and_lists_choices(bash: Shell) -> None:
    bash.type("ckpt ls ru\t")
    bash.until("ckpt ls run/")
    bash.type("\t")  # what they share
    bash.until("ckpt-")
    bash.type("\t\t")
    shown = bash.until("ckpt-9")
    assert "ckpt-10" in shown
    assert "index" not in shown
    assert "data" not in shown
    bash.type("10\tnet/l1/b\t")
    bash.until("10 ")
    bash.until("ias")
    bash.type(" --keys\n")
    shown = bash.until("ready> ")
    assert "net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE\r\n" in shown


def test_bash_quotes_spaces_and_minds_colons(bash: Shell) -> None:
    bash.type("echo [$(true)]; ckpt ls two\t")
    bash.until("two\\ words-1 ")
    bash.type("\x15ckpt ls a:\t")
    bash.until("a:b-1 ")


def test_bash_completes_commands(bash: Shell) -> None:
    bash.type("ckpt veri\t")
    bash.until("ckpt verify ")
