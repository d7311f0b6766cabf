"""Every option of every command does something, and says so where it would do nothing."""

from __future__ import annotations

import ast
import hashlib
import itertools
import os
import shlex
import shutil
from typing import TYPE_CHECKING, NamedTuple

import click
import pytest

import ckpt_cli.commands
from ckpt_cli.cli.main import cli
from ckpt_cli.cli.option_rules import label
from formats.store.work import executors, workers
from tests.cli.examples import VACUOUS, examples, lay_out
from tests.counts import count

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

EXAMPLES = examples()


class Outcome(NamedTuple):
    """All that a command line can come to."""

    code: int
    out: str
    err: str
    files: dict[str, str]
    workers: tuple[int, ...]


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("laid") / "out"
    directory.mkdir()
    lay_out(directory)
    return directory


@pytest.fixture
def outcome(
    laid_out: Path, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Outcome]:
    """Run a line in a fresh copy of the directory, at one and the same moment."""
    asked: list[int] = []
    lend = workers.workers

    def noted(jobs: int) -> AbstractContextManager[workers.Workers]:
        asked.append(jobs)
        return lend(jobs)

    def expecting(pool: workers.Workers, total: int) -> workers.Workers:
        asked.append(total)
        return expect(pool, total)

    expect = workers.Workers.expecting

    def named(text: str) -> workers.Workers:
        asked.append(-1)
        return choose(text)

    choose = executors.workers_named
    monkeypatch.setattr(executors, "workers_named", named)
    monkeypatch.setattr(workers, "workers", noted)
    monkeypatch.setattr(workers.Workers, "expecting", expecting)
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)
    monkeypatch.setattr("webbrowser.open", lambda url: True)
    place = tmp_path / "place"
    monkeypatch.setenv("HOME", str(place))
    for name in ("BASH_COMPLETION_USER_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)

    def run(line: str) -> Outcome:
        shutil.copytree(laid_out, place)
        monkeypatch.chdir(place)
        asked.clear()
        done = ckpt(*shlex.split(line))
        found = Outcome(done.code, done.out, done.err, _digests(place), tuple(asked))
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(place)
        return found

    return run


@pytest.fixture
def base(outcome: Callable[[str], Outcome], known: dict[str, Outcome]) -> Callable[[str], Outcome]:
    """Run a line that several examples begin with, once, and see that it comes to the same again."""

    def run(line: str) -> Outcome:
        if line not in known:
            known[line] = outcome(line)
            assert known[line] == outcome(line), "a line that differs from itself proves nothing"
        return known[line]

    return run


@pytest.fixture(scope="module")
def known() -> dict[str, Outcome]:
    return {}


def _digests(directory: Path) -> dict[str, str]:
    """Return what every file holds, and with which others it is one."""
    found = {}
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        found[os.path.relpath(path, directory)] = f"{digest} {path.stat().st_nlink}"
    return found


def options_of_all_commands() -> list[tuple[str, str]]:
    context = click.Context(cli)
    return [
        (name, label(param))
        for name in cli.list_commands(context)
        if (command := cli.get_command(context, name)) is not None
        for param in command.params
        if isinstance(param, click.Option)
    ]


def test_every_option_has_an_example() -> None:
    options = options_of_all_commands()
    shown = {*EXAMPLES, *VACUOUS}
    assert [option for option in options if option not in shown] == []
    assert [option for option in shown if option not in options] == []
    assert EXAMPLES.keys().isdisjoint(VACUOUS)


@pytest.mark.parametrize(
    ("command", "option"), [pytest.param(*names, id="".join(names)) for names in EXAMPLES]
)
def test_an_option_makes_a_difference(
    command: str, option: str, base: Callable[[str], Outcome], outcome: Callable[[str], Outcome]
) -> None:
    line, added = EXAMPLES[command, option]
    assert shlex.split(line)[0] == command
    without, beside = base(line), outcome(f"{line} {added}")
    assert beside != without
    # A rejected option makes no difference; without it something may be missing.
    assert beside.code != 2 or without.code == 2, beside.err
    if option in ("--jobs", "--executor"):
        assert beside._replace(workers=without.workers) == without
    count("options of commands, of which each makes a difference")


def test_vacuous_wishes_change_nothing(outcome: Callable[[str], Outcome]) -> None:
    lines = {
        line.split()[0]: line
        for line in (
            "completion bash",
            "help ls",
            "demo new",
            "explain error.txt",
            "log nans --follow --fail-on nan",
        )
    }
    for command, option in VACUOUS:
        value = " 0.05" if option == "--interval" else ""
        assert outcome(f"{lines[command]} {option}{value}") == outcome(lines[command])


# What would do nothing ----------------------------------------------------------------

REFUSED = [
    ("convert run/ckpt-10 new/c-1 --save-map map.tsv", "--save-map does nothing without --like or --layout"),
    ("convert run/ckpt-10 new/c-1 --pair-by-shape", "--pair-by-shape does nothing without --like"),
    ("convert run/ckpt-10 new/c-1 --partial", "--partial does nothing without --like"),
    ("convert run/ckpt-10 new/c-1 --keep-optimizer", "--keep-optimizer does nothing without --like"),
    (
        "convert run/ckpt-9 new/c-1 --like run/ckpt-10 --keep-optimizer --iterations 3",
        "--iterations does nothing with --keep-optimizer",
    ),
    ("convert run/ckpt-9 new/c-1 --like run/ckpt-10 --config full.h5", "--config does nothing with --like"),
    ("convert run/ckpt-9 new/c-1 --like run/ckpt-10 --keys stored", "--keys does nothing with --like"),
    ("convert run/ckpt-9 new/c-1 --to name --keys stored", "--keys does nothing for tf-name"),
    ("convert run/ckpt-9 new/c-1 --keys stored", "--keys does nothing for tf-object"),
    ("convert run/ckpt-9 new/c-1 --weights-only --kind slot", "--weights-only does nothing with --kind"),
    ("convert run new --each --update-state", "--update-state does nothing with --each"),
    ("diff run other --json --stat", "--json does nothing with --stat"),
    ("diff run other --json -q", "--json does nothing with --quiet"),
    ("diff run other --stat -q", "--stat does nothing with --quiet"),
    ("diff run other --all -q", "--all does nothing with --quiet"),
    ("diff run other -M -q", "--find-renames does nothing with --quiet"),
    ("diff run other -M --no-values", "--find-renames does nothing with --no-values"),
    ("diff run other --no-values --exact", "--no-values does nothing with --exact"),
    ("diff run other --no-values --rtol 1", "--no-values does nothing with --rtol"),
    ("diff run other --no-values --atol 1", "--no-values does nothing with --atol"),
    ("graph run --overwrite", "--overwrite does nothing without --output"),
    ("graph run -n", "--dry-run does nothing without --output"),
    ("graph run --depth 2 --json", "--depth does nothing with --json unless you also pass --output"),
    ("ls run/ckpt-10 -R --match x", "--recursive does nothing with --match"),
    ("ls run x -R", "--recursive does nothing with KEY"),
    ("ls run -R --tree", "--recursive does nothing with --tree"),
    ("ls run/ckpt-10 --json -1", "--keys does nothing with --json"),
    ("ls run/ckpt-10 --json -0", "--null does nothing with --json"),
    ("ls run/ckpt-10 --json --tree", "--tree does nothing with --json"),
    ("ls run/ckpt-10 --tree --depth 2", "--tree does nothing with --depth"),
    ("ls run/ckpt-10 -1 --depth 2", "--keys does nothing with --depth"),
    ("ls run/ckpt-10 -l -1", "--long does nothing with --keys"),
    ("ls run/ckpt-10 -l --tree", "--long does nothing with --tree"),
    ("ls run/ckpt-10 -l --depth 2", "--long does nothing with --depth unless you also pass --json"),
    ("show run --max-values 3", "--max-values does nothing without KEY"),
    ("state run -n", "--dry-run does nothing without --set or --fix or --keep"),
    ("verify run --input input.npy", "--input does nothing without --outputs-like"),
    *(
        (f"{line} --regex", "--regex does nothing without KEY or --match or --exclude")
        for line in (
            "ls run",
            "stats run",
            "log run",
            "diff run other",
            "extract run -o x.npz",
            "convert run new/c-1",
        )
    ),
]


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_an_option_that_would_do_nothing_is_rejected(
    line: str, message: str, base: Callable[[str], Outcome], outcome: Callable[[str], Outcome]
) -> None:
    found = outcome(line)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"ckpt: error: {message}")
    assert found.files == base("ls run").files, "nothing is written"
    count("command lines refused for an option that would do nothing")


def test_every_rule_of_every_command_names_its_options() -> None:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        known = {label(param) for param in command.params}
        for rule in _rules(command.callback):
            assert {rule.name, *rule.others, *filter(None, [rule.unless])} <= known, (name, rule)


def _rules(function: object) -> list:
    found = []
    while function is not None:
        found += function.__dict__.get("rules", ())
        function = getattr(function, "__wrapped__", None)
    return found


@pytest.mark.parametrize(
    "line", ["extract bert-2 global_step -o new.npy", "convert bert-2 new.npz global_step"]
)
def test_a_cast_that_finds_nothing_says_so(line: str, outcome: Callable[[str], Outcome]) -> None:
    found = outcome(f"{line} --cast float16")
    assert found.code == 0
    note, wrote = found.err.splitlines()
    assert note == "note: --cast float16 has no effect, because there are no floating-point tensors"
    assert wrote.startswith("wrote new.np")


@pytest.mark.parametrize("option", ["--tree", "--depth 2", "--sort dtype"])
def test_a_directory_says_that_an_option_is_for_tensors(
    option: str, outcome: Callable[[str], Outcome]
) -> None:
    found = outcome(f"ls run {option}")
    assert (
        f"note: {option} applies only to the tensors of one checkpoint, as in ckpt ls {option} run/ckpt-10"
        in found.err
    )


def test_reverse_also_holds_for_the_document_of_a_directory(ckpt: Callable, laid_out: Path) -> None:
    names = [
        [row["name"] for row in ckpt("ls", laid_out / "run", "--json", *more).json["checkpoints"]]
        for more in ([], ["-r"])
    ]
    assert names[0] == names[1][::-1] == ["ckpt-8", "ckpt-9", "ckpt-10"]


def test_the_depth_of_a_graph_holds_in_a_pipe(ckpt: Callable, laid_out: Path) -> None:
    every, some = (ckpt("graph", laid_out / "run", *more).rows for more in ([], ["--depth", "1"]))
    assert {row[0] for row in some} == {"0"}
    assert some == [row for row in every if row[0] == "0"]


def test_an_option_given_as_its_default_is_given(ckpt: Callable) -> None:
    assert ckpt("diff", "a", "b", "--no-values", "--rtol", "0").code == 2


# What is written --------------------------------------------------------------------

WRITING = [lines[0] for (_, option), lines in EXAMPLES.items() if option == "--dry-run"]
REFUSING = [lines[0] for (_, option), lines in EXAMPLES.items() if option == "--overwrite"]


def test_every_command_that_writes_a_new_output_has_both_options() -> None:
    options = set(options_of_all_commands())
    for command in {name for name, option in options if option in ("--output", "--overwrite")}:
        assert {(command, "--dry-run"), (command, "--overwrite")} <= options


@pytest.mark.parametrize("line", WRITING)
def test_a_dry_run_writes_nothing(
    line: str, base: Callable[[str], Outcome], outcome: Callable[[str], Outcome]
) -> None:
    before = base("ls run").files
    planned, done = outcome(f"{line} -n"), base(line)
    assert planned.code == done.code
    assert planned.files == before
    assert done.files != before


@pytest.mark.parametrize("line", REFUSING)
def test_what_is_there_is_not_replaced_unless_asked(
    line: str, base: Callable[[str], Outcome], outcome: Callable[[str], Outcome]
) -> None:
    before = base("ls run").files
    for text, dry in itertools.product([line], ["", " -n"]):
        refused = outcome(text + dry)
        assert refused.code == 3
        assert "--overwrite" in refused.err
        assert refused.files == before


def test_an_option_of_two_commands_is_made_in_one_place() -> None:
    """So that it has one name, one type and one meaning."""
    own: dict[str, set[str]] = {}
    (folder,) = ckpt_cli.commands.__path__
    for name in os.listdir(folder):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                tree = ast.parse(file.read())
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
            for call in calls:
                if ast.unparse(call.func) == "click.option":
                    long = [ast.literal_eval(each) for each in call.args if ast.unparse(each)[1:3] == "--"]
                    own.setdefault(long[0], set()).add(name)
    several = {option: commands for option, commands in own.items() if len(commands) > 1}
    # `ls` takes which digest of each tensor, `show` has one of the checkpoint: the contract calls both so.
    assert several == {"--digest": {"ls.py", "show.py"}}
    assert own
