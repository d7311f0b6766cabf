"""External automation uses existing targets of make and supported Pythons."""

from __future__ import annotations

import ast
import glob
import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from formats.core.version import VERSION
from tests.readme import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def _text(*path: str) -> str:
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(_text("pyproject.toml"))["project"]
    return project


def _targets_asked_for(text: str) -> set[str]:
    return set(re.findall(r"^\s*(?:- run: )?make ([a-z-]+)", text, re.MULTILINE))


def test_the_workflow_and_the_checks_of_a_change_ask_for_targets_that_there_are() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", _text("Makefile"), re.MULTILINE)
    assert phony
    workflow = _targets_asked_for(_text(".github", "workflows", "ci.yml"))
    local = _targets_asked_for(_text(".ci", "run"))
    assert workflow | local <= set(phony[1].split())
    # Shared machines are too uneven for benchmarks.
    assert local - workflow == {"bench-quick"}


def test_the_workflow_runs_every_python_from_the_lowest() -> None:
    matrices = re.findall(r"^ +python: (\[.*\])$", _text(".github", "workflows", "ci.yml"), re.MULTILINE)
    assert matrices == ['["3.11", "3.12", "3.13"]'] * 2
    assert _project()["requires-python"] == ">=3.11"


def test_a_change_meets_the_newest_and_the_lowest_versions() -> None:
    asked = re.findall(r"^make (\S+)$", _text(".ci", "run"), re.MULTILINE)
    assert asked[asked.index("test") :][:2] == ["test", "test-lowest"]
    installs = _text("Makefile").partition("\n$(LOWEST)/installed:")[2].partition("\n\n")[0]
    assert "--resolution lowest-direct" in installs
    assert "--only-binary :all:" in installs


def test_hooks_before_a_commit_are_those_of_lint() -> None:
    hooks = re.findall(r"entry: \.venv/bin/(.*)$", _text(".pre-commit-config.yaml"), re.MULTILINE)
    target = _text("Makefile").partition("\nlint:")[2].partition("\n\n")[0]
    lint = re.findall(r"^\t\$\(VENV\)/bin/(.*)$", target, re.MULTILINE)
    assert {"mypy", "codespell", "python -m tests.prose"} < set(lint)
    assert [hook.replace(" --force-exclude", " .") for hook in hooks] == lint


RUNS = f"""#!{sys.executable}
import json, os, sys
with open(os.environ["SAID"], "a") as said:
    said.write(json.dumps(sys.argv[1:]) + "\\n")
sys.stdout.write(os.environ["PRINTS"])
sys.exit(int(os.environ["ENDS"]))
"""


class Step(NamedTuple):
    """The result of the action's step that runs `ckpt`."""

    code: int
    shown: str
    output: str
    ran: list[list[str]]


def _act(tmp_path: Path, arguments: str, prints: str = "{}", ends: int = 0, **inputs: str) -> Step:
    """Run that step as the service does, with a `ckpt` that says what it was called with."""
    script = textwrap.dedent(re.split(r"\n    - ", _text("action.yml").split("      run: |\n")[2])[0])
    programs = tmp_path / "ckpt" / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    (programs / "ckpt").write_text(RUNS)
    (programs / "ckpt").chmod(0o755)
    (programs / "python").unlink(missing_ok=True)
    (programs / "python").symlink_to(sys.executable)
    output, said = tmp_path / "output", tmp_path / "said"
    output.write_text("")
    said.write_text("")
    variables = {"RUNNER_TEMP": tmp_path, "GITHUB_OUTPUT": output, "ARGUMENTS": arguments, "ACTION": ROOT}
    variables |= {"SAID": said, "PRINTS": prints, "ENDS": ends, **inputs}
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    ran = [json.loads(line) for line in said.read_text().splitlines()]
    return Step(done.returncode, done.stdout, output.read_text(), ran)


@pytest.mark.parametrize(("code", "sarif"), [(0, "{}"), (1, "{}"), (3, "")])
def test_the_action_hands_on_the_exit_code_and_what_there_is_to_upload(
    tmp_path: Path, code: int, sarif: str
) -> None:
    """`hashFiles` sees nothing outside the work tree: the action asked it, and uploaded nothing."""
    text = _text("action.yml")
    assert "hashFiles" not in text
    assert "sarif_file: ${{ steps.run.outputs.sarif }}" in text
    done = _act(tmp_path, "verify models/", sarif, code)
    assert done.code == code
    assert done.output == (f"sarif={tmp_path}/ckpt.sarif\n" if sarif else "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("verify models/", ["verify", "models/"]),
        ("verify a\nb\n", ["verify", "a", "b"]),
        ("\n  verify\n\n\ta.h5 \r\n  'b c.h5'\n", ["verify", "a.h5", "b c.h5"]),
        ("verify a \\\n  b", ["verify", "a", "b"]),
        ("verify \"it's a\"\\ b 'c\\' \\\nd", ["verify", "it's a b", "c\\", "d"]),
        ("verify a\\\\\nb", ["verify", "a\\", "b"]),
        ("verify 'a\\\nb'", ["verify", "a\\\nb"]),
        (
            "diff a b --include '*/kernel' $HOME; # x",
            ["diff", "a", "b", "--include", "*/kernel", "$HOME;", "#", "x"],
        ),
        ("stats --fail-on nan -- --json", ["stats", "--fail-on", "nan", "--", "--json"]),
    ],
)
def test_the_action_takes_the_words_of_all_lines(tmp_path: Path, arguments: str, words: list[str]) -> None:
    command, *rest = words
    done = _act(tmp_path, arguments)
    assert done.ran == [[command, "--format", form, *rest] for form in ("sarif", "github")]
    assert done.code == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("verify 'a\nb", "no closing quotation: verify 'a b"),
        ("verify 100%\\", "no escaped character: verify 100%25\\"),
        ("", "expected verify, diff or stats as the first word, found nothing"),
        (" \n", "expected verify, diff or stats as the first word, found nothing"),
        ("ckpt verify a", "expected verify, diff or stats as the first word, found 'ckpt'"),
        ("verify a\n--format=text", "the action chooses the output format itself; remove --format=text"),
        ("diff a b --json", "the action chooses the output format itself; remove --json"),
    ],
)
def test_the_action_rejects_what_it_cannot_split(tmp_path: Path, arguments: str, reason: str) -> None:
    done = _act(tmp_path, arguments)
    shown = f"::error title=ckpt::the action's input arguments: {reason}\n"
    assert done == Step(code=2, shown=shown, output="", ran=[])


def test_the_action_verifies_a_signature(tmp_path: Path) -> None:
    text = _text("action.yml")
    for name in ("signature", "public-key"):
        assert f"{name.upper().replace('-', '_')}: ${{{{ inputs.{name} }}}}\n" in text
    inputs = {"SIGNATURE": "a model.sig", "PUBLIC_KEY": "-key.pem"}
    done = _act(tmp_path, "verify models/", **inputs)
    options = ["--signature=a model.sig", "--public-key=-key.pem"]
    assert done.ran == [["verify", "--format", form, *options, "models/"] for form in ("sarif", "github")]
    alone = _act(tmp_path, "verify models/", SIGNATURE="model.sig")
    assert (alone.code, alone.ran, "signature and public-key go together" in alone.shown) == (2, [], True)
    other = _act(tmp_path, "stats models/", **inputs)
    assert (other.code, other.ran, "signature needs verify" in other.shown) == (2, [], True)


def test_the_version_is_the_same_everywhere() -> None:
    """Pages name the release that the version leads to."""
    assert _project()["version"] == VERSION
    release = Version(VERSION).base_version
    assert re.findall(r"^## (\S+)", _text("CHANGELOG.md"), re.MULTILINE)[0] == release
    assert set(
        re.findall(r"(?:    rev: |ckpt-tools/ckpt@)v(.*)", _text("docs", "recipes", "automation.md"))
    ) == {release}


def test_actions_are_pinned_by_commit() -> None:
    """A tag can be moved.  The project's own is one until the release has a commit."""
    named = []
    for path in ("action.yml", ".github/workflows/ci.yml", "docs/recipes/automation.md"):
        named += re.findall(r"uses: (.*)", _text(*path.split("/")))
    assert len(named) > 20
    release = Version(VERSION).base_version
    for name in set(named) - {f"ckpt-tools/ckpt@v{release}"}:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", name)


def test_the_action_installs_known_releases() -> None:
    """All that it needs, and what builds it; `pip` takes these variables for options."""
    text = _text("action.yml")
    assert "PIP_CONSTRAINT: constraints.txt\n" in text
    assert "PIP_BUILD_CONSTRAINT: constraints.txt\n" in text
    pinned: dict[str, list[Requirement]] = {}
    for line in re.sub(r"#.*", "", _text("constraints.txt")).splitlines():
        if line.strip():
            found = Requirement(line)
            pinned.setdefault(canonicalize_name(found.name), []).append(found)
            assert re.fullmatch(r"==[\w.]+", str(found.specifier)), line
    project = tomllib.loads(_text("pyproject.toml"))
    needed = [*_project()["dependencies"], *_project()["optional-dependencies"]["remote"]]
    needed += _project()["optional-dependencies"]["sign"]
    for text in [*needed, *project["build-system"]["requires"]]:
        asked = Requirement(text)
        for python in ("3.11", "3.12", "3.13", "3.14"):
            versions = [
                str(each.specifier)[2:]
                for each in pinned[canonicalize_name(asked.name)]
                if each.marker is None or each.marker.evaluate({"python_full_version": f"{python}.0"})
            ]
            assert len(versions) == 1, (text, python)
            assert asked.specifier.contains(versions[0]), text


def test_make_test_collects_what_has_environments_of_its_own() -> None:
    """It leaves these tests out once it has read their modules, whose imports fail where they ask more."""
    needed = [*_project()["dependencies"], *_project()["optional-dependencies"]["dev"]]
    known = {re.split(r"[^\w-]", name)[0].replace("-", "_") for name in needed}
    known |= {*sys.stdlib_module_names, "tests", "formats", "ckpt_cli"}
    for folder in ("browser", "cluster", "interop", "recipes", "servers", "shells"):
        for path in glob.glob(os.path.join(ROOT, "tests", folder, "test_*.py")):
            with open(path, encoding="utf-8") as file:
                nodes = ast.parse(file.read()).body
            modules = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
            modules += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
            assert {name.partition(".")[0] for name in modules} <= known, path


def test_the_distribution_is_not_called_as_other_peoples_are() -> None:
    assert _project()["name"] == "ckpt-tools"
    assert _project()["scripts"] == {"ckpt": "ckpt_cli.__main__:run"}


def test_the_source_archive_has_every_document_and_no_data() -> None:
    manifest = _text("MANIFEST.in").split()
    # setuptools takes README.md, LICENSE and what is installed by itself.
    documents = {name for name in os.listdir(ROOT) if name.endswith(".md")} - {"README.md"}
    assert documents | {"docs", "man", "completions"} <= set(manifest)
    assert {"action.yml", ".github/action.py", "constraints.txt"} <= set(manifest)
    assert re.search(r"^graft tests\nprune tests/data$", _text("MANIFEST.in"), re.MULTILINE)
