"""The functions of `import ckpt_cli` find what the commands print with --json."""

from __future__ import annotations

import inspect
import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import click
import pytest

import ckpt_cli as ckpt
from ckpt_cli.api.tables import Several
from ckpt_cli.cli.main import cli
from ckpt_cli.render.base import _finite
from tests.cli.conftest import ckpt as run_ckpt  # noqa: F401  a fixture
from tests.cli.conftest import laid_out  # noqa: F401  a fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = {
    "as_json": None,
    "dry_run": "dry_run",
    "each": "each",
    "excludes": "exclude",
    "form": None,
    "input_file": "input",
    "like": "outputs_like",
    "map_file": "map",
    "matches": "match",
    "subs": "sub",
    "target": "output",
    "to": "roundtrip",
    "workers": "jobs",
}
"""The keywords of parameters whose name in a command is another."""

ONLY_PRINTED = {
    "diff": {"json", "stat", "format", "quiet", "top", "csv"},
    "ls": {"tree", "depth", "keys", "null", "json", "top", "csv"},
    "log": {"json", "fail-on"},
    "match": {"json", "allow-unused"},
    "sign": {"json"},
    "stats": {"json", "fail-on", "files", "format", "top", "csv"},
    "verify": {"json", "format"},
}
"""Options that change what is printed, or the exit code, and nothing that is found."""

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("ls", ("run",), {}),
    ("ls", ("run",), {"reverse": True}),
    ("ls", ("run",), {"digest": "sha256", "jobs": 2}),
    ("ls", ("run/ckpt-10",), {}),
    ("ls", ("run/ckpt-10", "net/l1/kernel", "*iter*"), {"sort": "size"}),
    ("ls", ("run/ckpt-10",), {"long": True, "kind": ["variable", "slot"], "exclude": "*bias*"}),
    ("ls", ("run/ckpt-10",), {"match": ["kern.l", "step"], "regex": True, "dtype": "float32"}),
    ("ls", ("full.h5",), {"digest": "sha256", "jobs": 2}),
    ("ls", ("run/ckpt-10",), {"digest": "crc32c", "exact": True}),
    ("ls", (".",), {"recursive": True}),
    ("ls", ("run/ckpt-10",), {"where": "size>10 and kind=variable", "sort": "object_path"}),
    ("ls", ("run",), {"where": "step>8", "sort": "name"}),
    ("ls", (".",), {"where": "step>8", "recursive": True}),
    ("diff", ("run/ckpt-9", "run/ckpt-10"), {}),
    ("diff", ("run/ckpt-10", "run"), {"all": True}),
    ("diff", ("run/ckpt-9", "run/ckpt-10"), {"no_values": True, "kind": "slot"}),
    ("diff", ("run/ckpt-9", "run/ckpt-10", "net/*"), {"exclude": "*bias*", "rtol": 0.5, "atol": 0.01}),
    ("diff", ("run/ckpt-9", "run/ckpt-10"), {"exact": True, "all": True, "jobs": 2}),
    ("diff", ("run/ckpt-9", "run/ckpt-10"), {"sub": "^net/=>model/", "by": "object-path"}),
    ("diff", ("run/ckpt-9", "run/ckpt-9"), {"add_prefix": "new/", "find_renames": True}),
    ("diff", ("run/ckpt-9", "run/ckpt-10"), {"strip_prefix": "net/", "executor": "threads:2"}),
    ("diff", ("run/ckpt-9", "run/ckpt-10"), {"fail_on": "added,l2>5%"}),
    ("diff", ("run", "run"), {"each": True, "recursive": True}),
    ("diff", ("run", "other"), {"each": True, "no_values": True}),
    ("diff", ("run/ckpt-8", "run/ckpt-9", "run/ckpt-10"), {"matrix": True, "kind": "variable"}),
    ("stats", ("run/ckpt-10",), {}),
    ("stats", ("run/ckpt-10",), {"where": "std>0.01 and kind=variable", "sort": "size"}),
    ("diff", ("run/ckpt-9", "run/ckpt-10"), {"where": "rel_l2>1% or kind=state", "sort": "max_abs"}),
    ("stats", ("run/ckpt-10", "net/l1/kernel"), {"jobs": 2}),
    ("stats", ("run",), {"recursive": True, "kind": "variable", "executor": "threads:2"}),
    ("stats", ("full.h5",), {"exclude": ["*bias*"]}),
    ("log", ("run",), {}),
    ("log", ("run",), {"no_values": True, "kind": "variable"}),
    ("log", ("run",), {"tag": "nothing", "events": "run"}),
    ("log", (".",), {"recursive": True, "jobs": 2, "no_values": True}),
    ("match", ("run/ckpt-10", "run/ckpt-9"), {}),
    ("match", ("run/ckpt-10", "other"), {"read": True}),
    ("verify", ("run",), {}),
    ("verify", ("run/ckpt-10", "full.h5"), {"jobs": 2}),
    ("verify", ("run",), {"recursive": True, "executor": "threads:2"}),
    ("verify", ("run/ckpt-10",), {"roundtrip": "npz"}),
    ("verify", ("run/ckpt-10",), {"trains_like": "run/ckpt-10"}),
]


@pytest.fixture
def place(laid_out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    """Go to a copy of the directory that the examples of all options speak of."""
    shutil.copytree(laid_out, tmp_path / "place", symlinks=True)
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def words(command: str, args: tuple[Any, ...], named: dict[str, Any]) -> list[str]:
    """Return the command line that says what a call says."""
    found = [command, *args]
    for name, value in named.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            found.append(option)
        elif isinstance(value, list) and name == "kind":
            found += [option, ",".join(value)]
        else:
            for one in value if isinstance(value, list) else [value]:
                found += [option, str(one)]
    return [*found, "--json"]


def documents(found: Any) -> Any:
    """Return the document of a result, or of several, as JSON has it."""
    if isinstance(found, Several):
        return [documents(one) for one in found]
    return json.loads(json.dumps({"schema": 1, **_finite(found.to_dict())}))


@pytest.mark.parametrize(("command", "args", "named"), CASES)
def test_a_function_finds_what_the_command_prints(
    command: str,
    args: tuple[Any, ...],
    named: dict[str, Any],
    place: Path,
    run_ckpt: Callable,  # noqa: F811
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    printed = run_ckpt(*words(command, args, named))
    expected = printed.json
    found = getattr(ckpt, command)(*args, **named)
    got = documents(found)
    if isinstance(got, list):
        expected = expected.get("results") or [{"schema": 1, **one} for one in expected["directories"]]
    assert got == expected
    assert capfdbinary.readouterr() == (b"", b"")
    said = [one for each in (found if isinstance(found, Several) else [found]) for one in _said(each)]
    told = [line for line in printed.err.splitlines() if line.startswith(("note:", "warning:"))]
    assert [line for line in told if line not in said] == [] or command == "verify"
    assert repr(found)
    assert found._repr_html_() or not found


def _said(found: Any) -> list[str]:
    return [*(f"note: {text}" for text in found.notes), *(f"warning: {text}" for text in found.warnings)]


@pytest.mark.parametrize("command", sorted(ONLY_PRINTED))
def test_keywords_are_the_options_of_the_command(command: str) -> None:
    context = click.Context(cli)
    params = cli.get_command(context, command).params
    options = {max(param.opts, key=len).strip("-") for param in params if isinstance(param, click.Option)}
    expected = {name.replace("-", "_") for name in options - ONLY_PRINTED[command]}
    keywords = {
        name.rstrip("_")
        for name, param in inspect.signature(getattr(ckpt, command)).parameters.items()
        if param.kind is param.KEYWORD_ONLY
    }
    assert keywords == expected - {"color", "quiet", "verbose"}


@pytest.mark.parametrize("command", sorted(ONLY_PRINTED))
def test_an_unknown_keyword_is_a_type_error(command: str, place: Path) -> None:
    named = {"output": "new.sig"} if command == "sign" else {}
    args = ("run", "run") if command in ("match", "diff") else ("run",)
    with pytest.raises(TypeError, match="no_such_option"):
        getattr(ckpt, command)(*args, **named, no_such_option=True)


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("diff", ("run", "run"), {"recursive": True}),
    ("diff", ("run", "full.h5"), {"each": True}),
    ("diff", ("run", "run"), {"no_values": True, "exact": True}),
    ("diff", ("run", "run"), {"sub": "a"}),
    ("diff", ("run", "run"), {"config": "model.json"}),
    ("diff", ("run", "run"), {"fail_on": "nothing"}),
    ("diff", ("run", "run"), {"rtol": float("nan")}),
    ("ls", ("run",), {"exact": True}),
    ("ls", ("run",), {"recursive": True, "kind": "slot"}),
    ("ls", ("run/ckpt-10",), {"regex": True}),
    ("ls", ("run/ckpt-10",), {"kind": "weights"}),
    ("ls", ("run/ckpt-10",), {"dtype": "float33"}),
    ("ls", ("run/ckpt-10", "("), {"regex": True}),
    ("ls", ("full.h5",), {"recursive": True}),
    ("stats", ("full.h5",), {"recursive": True}),
    ("stats", ("run",), {"jobs": 2, "executor": "threads"}),
    ("verify", ("run",), {"input": "a.npy"}),
    ("verify", ("run",), {"locked": True, "against": "a.lock"}),
    ("verify", ("run",), {"roundtrip": "nothing"}),
    ("verify", ("",), {}),
]


@pytest.mark.parametrize(("command", "args", "named"), WRONG)
def test_usage_errors_are_value_errors_in_the_same_words(
    command: str,
    args: tuple[Any, ...],
    named: dict[str, Any],
    place: Path,
    run_ckpt: Callable,  # noqa: F811
) -> None:
    done = run_ckpt(*words(command, args, named))
    assert done.code == 2
    with pytest.raises(ValueError) as caught:
        getattr(ckpt, command)(*args, **named)
    assert " ".join(str(caught.value).split()) in done.err


@pytest.mark.parametrize(
    ("command", "named"),
    [("ls", {"sort": "name"}), ("ls", {"digest": "md5"}), ("stats", {"jobs": 0})],
)
def test_a_value_that_is_not_a_choice_is_a_value_error(
    command: str, named: dict[str, Any], place: Path
) -> None:
    wrong = "is not one of|is not in the range|is less than"
    with pytest.raises(ValueError, match=f"--{next(iter(named))}: .* ({wrong})"):
        getattr(ckpt, command)("run/ckpt-10", **named)


def test_errors_are_those_of_the_command_and_show_hints(place: Path, run_ckpt: Callable) -> None:  # noqa: F811
    for command, args in (
        ("ls", ("nothing",)),
        ("ls", ("run/ckpt-10", "kernle")),
        ("stats", ("run/ckpt-10", "kernle")),
        ("match", ("run", "full.h5")),
    ):
        done = run_ckpt(command, *args)
        with pytest.raises(ckpt.CheckpointError) as caught:
            getattr(ckpt, command)(*args)
        assert f"ckpt: error: {caught.value}\n" in done.err
        assert caught.value.__notes__ == [line for line in done.err.splitlines() if line.startswith("hint:")]


def test_what_cannot_be_read_does_not_hide_the_others(place: Path) -> None:
    os.truncate("run/ckpt-9.index", 20)
    found = ckpt.stats("run", recursive=True)
    assert [os.path.basename(one.path) for one in found if one.path.startswith("run/ckpt")] == [
        "ckpt-8", "ckpt-10"
    ]  # fmt: skip
    assert [error.path for error in found.errors] == ["run/ckpt-9.index"]
    assert "not read: run/ckpt-9.index" in repr(found)
    checked = ckpt.verify("run")
    assert not checked.ok
    assert {finding.file for finding in checked.findings} == {"run/ckpt-9.index"}
    assert ckpt.ls("run").warnings


def test_a_difference_is_reported_as_the_exit_code_shows_it(place: Path, run_ckpt: Callable) -> None:  # noqa: F811
    for args, named in (
        (("run/ckpt-9", "run/ckpt-10"), {}),
        (("run/ckpt-9", "run/ckpt-10"), {"fail_on": "added,removed"}),
        (("run/ckpt-10", "run"), {}),
        (("run", "run"), {"each": True}),
    ):
        found = ckpt.diff(*args, **named)
        assert int(found.fails) == run_ckpt(*words("diff", args, named)).code
        assert found.same is (args != ("run/ckpt-9", "run/ckpt-10"))
    with open("before.json", "w") as file:
        file.write(run_ckpt("diff", "run/ckpt-9", "run/ckpt-10", "--json").out)
    assert not ckpt.diff("run/ckpt-9", "run/ckpt-10", baseline="before.json").fails


def test_a_map_may_be_a_mapping(place: Path) -> None:
    found = ckpt.diff("run/ckpt-9", "run/ckpt-9", map={"net/l1/kernel": "net/l1/weights"})
    assert {(one.change, one.key.partition("/.")[0]) for one in found if "OPTIMIZER" not in one.key} == {
        ("removed", "net/l1/weights"),
        ("added", "net/l1/kernel"),
    }
    (change,) = ckpt.diff("run/ckpt-9", "run/ckpt-10", "net/l1/kernel")
    assert (change.change, change.left_shape, change.right_dtype) == ("value", (1, 5), "float32")
    assert change.max_abs is not None
    assert change.max_abs > 0


def test_what_is_reported_meanwhile_is_in_the_notes(place: Path) -> None:
    """Such as a pattern that drops nothing, which an operation reports to its listener."""
    found = ckpt.ls("run/ckpt-10", exclude="*nothing*")
    assert found.notes == ("run/ckpt-10: no tensor matches --exclude '*nothing*'",)


def test_a_match_proposes_pairs_in_a_file(place: Path, run_ckpt: Callable) -> None:  # noqa: F811
    run_ckpt("match", "run", "other", "--save-map", "theirs.tsv")
    found = ckpt.match("run", "other", save_map="ours.tsv")
    assert any("ours.tsv" in note for note in found.notes)
    with open("theirs.tsv") as theirs, open("ours.tsv") as ours:
        assert ours.read() == theirs.read()
