"""What runs the checks elsewhere asks for what is here: targets of make, Pythons that are supported."""

from __future__ import annotations

import ast
import glob
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

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
    lint = re.findall(r"^\t\$\(VENV\)/bin/(ruff .*|mypy)$", _text("Makefile"), re.MULTILINE)
    assert [hook.replace(" --force-exclude", " .") for hook in hooks] == lint


@pytest.mark.parametrize(("code", "sarif"), [(0, "{}"), (1, "{}"), (3, "")])
def test_the_action_hands_on_the_exit_code_and_what_there_is_to_upload(
    tmp_path: Path, code: int, sarif: str
) -> None:
    """`hashFiles` sees nothing outside the work tree: the action asked it, and uploaded nothing."""
    text = _text("action.yml")
    assert "hashFiles" not in text
    assert "sarif_file: ${{ steps.run.outputs.sarif }}" in text
    script = textwrap.dedent(re.split(r"\n    - ", text.partition("      run: |\n")[2])[0])
    program = tmp_path / "ckpt" / "bin" / "ckpt"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nprintf '%s' '{sarif}'\nexit {code}\n")
    program.chmod(0o755)
    output = tmp_path / "output"
    output.touch()
    variables = {"RUNNER_TEMP": str(tmp_path), "GITHUB_OUTPUT": str(output), "ARGUMENTS": "verify models/"}
    # As the service starts `shell: bash`.
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(command, check=False, env={**os.environ, **variables}, capture_output=True)
    assert done.returncode == code, done.stderr
    assert output.read_text() == (f"sarif={tmp_path}/ckpt.sarif\n" if sarif else "")


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
    assert re.search(r"^graft tests\nprune tests/data$", _text("MANIFEST.in"), re.MULTILINE)
