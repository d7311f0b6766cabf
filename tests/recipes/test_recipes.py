"""The recipes for pre-commit, GitHub, GitLab and pandas, with these tools and the services' schemas.

There is no network access: the hooks and the action install from the folder of wheels that `make recipes`
filled.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import ckpt_cli as ckpt
import formats
from ckpt_cli.render.findings import junit
from tests.cli.test_reports import LINES, check_sarif, everything, place  # noqa: F401  a fixture
from tests.repository import Repository
from tests.support import data_path, write_bundle
from tests.test_architecture import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.recipes

PROGRAMS = os.path.join(sys.prefix, "bin")
WHEELS = os.path.join(sys.prefix, "wheels")
OFFLINE = {
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": WHEELS,
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_CONFIG_FILE": os.devnull,
}
PACKAGE = (
    ".pre-commit-hooks.yaml",
    "LICENSE",
    "README.md",
    "action.yml",
    "constraints.txt",
    "pyproject.toml",
    ".github",
    "ckpt_cli",
    "formats",
    "man",
)
"""The files of the checkout that the hooks and the action install."""


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of a page that are in a language."""
    with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as file:
        return re.findall(rf"```{language}\n(.*?)```", file.read(), re.DOTALL)


def _run(*words: str, cwd: object = ROOT, code: int = 0, **variables: str) -> str:
    done = subprocess.run(
        words, cwd=str(cwd), env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout


def _ckpt(*words: str, cwd: object, code: int = 0) -> str:
    return _run(sys.executable, "-m", "ckpt_cli", *words, cwd=cwd, code=code, PYTHONPATH=ROOT)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout as a repository that others name, at the version that the docs name."""
    made = Repository(tmp_path_factory.mktemp("project") / "ckpt")
    for name in PACKAGE:
        source = os.path.join(ROOT, name)
        if os.path.isdir(source):
            shutil.copytree(source, made.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, made.folder)
    made.commit("one")
    made.git("tag", "v1.0.0")
    return made.folder


# pre-commit -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def committing(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository of checkpoints with the hooks of docs/recipes/automation.md, one of them with a lock."""
    made = Repository(tmp_path_factory.mktemp("committing") / "repository")
    home = str(tmp_path_factory.mktemp("home"))
    path = f"{PROGRAMS}:{os.environ['PATH']}"
    made.environment |= {**OFFLINE, "PRE_COMMIT_HOME": home, "PATH": path, "PRE_COMMIT_COLOR": "never"}
    (config,) = (text for text in blocks("recipes/automation.md", "yaml") if "ckpt-finite" in text)
    assert "repo: https://github.com/ckpt-tools/ckpt\n" in config
    config = config.replace("https://github.com/ckpt-tools/ckpt", str(project))
    (made.folder / ".pre-commit-config.yaml").write_text(config)
    made.run("pre-commit", "validate-config", ".pre-commit-config.yaml")
    made.run("pre-commit", "install")
    (made.folder / "run é").mkdir()
    write_bundle(str(made.folder / "run é" / "ckpt-1"), SOUND)
    write_bundle(str(made.folder / "-ckpt-2"), SOUND)
    write_bundle(str(made.folder / "locked-3"), SOUND)
    lock = _ckpt("ls", "locked-3", "--json", "-l", "--digest", "sha256", cwd=made.folder)
    (made.folder / "locked-3.lock").write_text(lock)
    made.git("add", "-A")
    assert _commit(made, 0) == ["Passed"] * 3
    return made


SOUND = {"k": np.arange(300, dtype=np.float32), "w": np.ones(3)}
TITLES = (
    "checkpoints are intact",
    "no NaN and no infinity in checkpoints",
    "checkpoints are what their locks say",
)


def _commit(made: Repository, code: int) -> list[str]:
    """Commit what is staged; how each hook ended."""
    made.git("commit", "-q", "-m", "more", code=code)
    # `(no files to check)` is before how it ended.
    ends = dict(re.findall(r"^(.*?)\.{3,}(?:\(.*\))?(\w+)$", made.err, re.MULTILINE))
    return [ends[title] for title in TITLES]


@pytest.fixture
def clean(committing: Repository) -> Iterator[Repository]:
    head = committing.git("rev-parse", "HEAD").strip()
    yield committing
    committing.git("reset", "-q", "--hard", head)


def test_the_hooks_are_what_pre_commit_takes(committing: Repository) -> None:
    for kind, name in (("manifest", ".pre-commit-hooks.yaml"), ("config", ".pre-commit-config.yaml")):
        committing.run("pre-commit", f"validate-{kind}", os.path.join(ROOT, name))


@pytest.mark.parametrize("name", ["run é/ckpt-1", "-ckpt-2"])
def test_damage_is_not_committed(clean: Repository, name: str) -> None:
    """git reports only the shard, because the index is the same."""
    shard = clean.folder / f"{name}.data-00000-of-00001"
    data = bytearray(shard.read_bytes())
    data[5] ^= 1
    shard.write_bytes(data)
    clean.git("add", "-A")
    assert _commit(clean, 1)[0] == "Failed"
    assert "tensor-checksum\tk" in clean.err
    assert clean.git("diff", "--cached", "--name-only", "-z") == f"{name}.data-00000-of-00001\0"


def test_what_has_gone_bad_is_not_committed(clean: Repository) -> None:
    write_bundle(str(clean.folder / "new-4"), {**SOUND, "w": np.array([1.0, np.nan])})
    clean.git("add", "-A")
    assert _commit(clean, 1) == ["Passed", "Failed", "Passed"]
    assert "new-4\tw" in clean.err


def test_what_a_lock_does_not_say_is_not_committed(clean: Repository) -> None:
    write_bundle(str(clean.folder / "locked-3"), {**SOUND, "w": np.zeros(3)})
    clean.git("add", "-A")
    assert _commit(clean, 1) == ["Passed", "Passed", "Failed"]
    assert "contract\tw" in clean.err
    clean.git("reset", "-q", "--hard")
    lock = clean.folder / "locked-3.lock"
    lock.write_text(lock.read_text().replace("[3]", "[4]"))
    clean.git("add", "-A")
    assert _commit(clean, 1)[2] == "Failed"


def test_other_commits_start_nothing(clean: Repository) -> None:
    (clean.folder / "README.md").write_text("words\n")
    (clean.folder / "poetry.lock").write_text("words\n")
    clean.git("add", "-A")
    assert _commit(clean, 0) == ["Skipped"] * 3


# Services -------------------------------------------------------------------------


def _fits(schema: str, path: object) -> None:
    _run(os.path.join(PROGRAMS, "check-jsonschema"), "--builtin-schema", f"vendor.{schema}", str(path))


def test_files_for_services_are_valid_by_their_schemas(tmp_path: Path) -> None:
    import yaml

    _fits("github-actions", os.path.join(ROOT, "action.yml"))
    _fits("github-workflows", os.path.join(ROOT, ".github", "workflows", "ci.yml"))
    told = {next(iter(yaml.safe_load(text))): text for text in blocks("recipes/automation.md", "yaml")}
    assert sorted(told) == ["checkpoints", "permissions", "repos"]
    job = "on: push\njobs:\n  checkpoints:\n    runs-on: ubuntu-latest\n"
    (tmp_path / "workflow.yml").write_text(job + textwrap.indent(told["permissions"], " " * 4))
    _fits("github-workflows", tmp_path / "workflow.yml")
    (tmp_path / ".gitlab-ci.yml").write_text(told["checkpoints"])
    _fits("gitlab-ci", tmp_path / ".gitlab-ci.yml")


@pytest.fixture(scope="module")
def action(project: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Path]:
    """The steps of the action and the runner's folder, after the first step, which installs."""
    import yaml

    with open(project / "action.yml", encoding="utf-8") as file:
        steps = yaml.safe_load(file)["runs"]["steps"]
    runner = tmp_path_factory.mktemp("runner")
    variables = {"RUNNER_TEMP": str(runner), "ACTION": str(project)}
    constraints = {"PIP_CONSTRAINT": "constraints.txt", "PIP_BUILD_CONSTRAINT": "constraints.txt"}
    extra = {"EXTRA": "${{ inputs.signature != '' && '[sign]' || '' }}"}
    assert steps[0]["env"] == {"ACTION": "${{ github.action_path }}", **constraints, **extra}
    _run(*BASH, steps[0]["run"], **OFFLINE, **variables, **constraints)
    installed = _run(str(runner / "ckpt" / "bin" / "python"), "-m", "pip", "freeze")
    pinned = (project / "constraints.txt").read_text().replace("-", "_").lower().split()
    for line in installed.splitlines():
        assert line.startswith("ckpt-tools @ ") or line.replace("-", "_").lower() in pinned
    return steps, runner


BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
"""As GitHub starts `shell: bash`."""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("verify run", 0),
        ("verify --jobs 1 run flip", 1),
        ("verify run\n'flip'", 1),
        ("verify --nosuch", 2),
        ("verify '", 2),
    ],
)
def test_the_action_does_what_it_says(
    tmp_path: Path, project: Path, action: tuple[list[dict[str, Any]], Path], arguments: str, code: int
) -> None:
    steps, runner = action
    shutil.copytree(data_path("guide_adam_legacy", "tf_ckpts"), tmp_path / "run")
    shutil.copytree(data_path("corrupt", "data_flip"), tmp_path / "flip")
    output, summary = tmp_path / "output", tmp_path / "summary"
    output.touch()
    variables = {"RUNNER_TEMP": runner, "GITHUB_OUTPUT": output, "GITHUB_STEP_SUMMARY": summary}
    inputs = {"ARGUMENTS": "arguments", "SIGNATURE": "signature", "PUBLIC_KEY": "public-key"}
    asked = {name: f"${{{{ inputs.{value} }}}}" for name, value in inputs.items()}
    assert steps[1]["env"] == {"ACTION": "${{ github.action_path }}", **asked}
    variables["ACTION"] = project
    texts = {name: str(value) for name, value in variables.items()}
    shown = _run(*BASH, steps[1]["run"], cwd=tmp_path, code=code, **texts, ARGUMENTS=arguments)
    name, _, file = output.read_text().strip().partition("=")
    if code == 2:
        assert name == ""
        assert shown.startswith(
            "::error title=ckpt::the action's input arguments: " if "'" in arguments else ""
        )
        return
    assert name == "sarif"
    with open(file, encoding="utf-8") as sarif:
        run = check_sarif(sarif.read())
    assert bool(run["results"]) == bool(code)
    assert shown.count("::error ") == len(run["results"])
    assert summary.read_text().startswith("### ckpt verify: ")


@pytest.mark.parametrize("needed", ["click", "setuptools"])
def test_the_action_installs_no_other_releases(
    project: Path, action: tuple[list[dict[str, Any]], Path], tmp_path: Path, needed: str
) -> None:
    """Dependencies and build tools: if the release of one is missing, no other release is installed."""
    copy = shutil.copytree(project, tmp_path / "copy")
    text = (copy / "constraints.txt").read_text()
    (copy / "constraints.txt").write_text(re.sub(rf"(?m)^{needed}==.*", f"{needed}==0.0.1", text))
    step = action[0][0]
    variables = {"RUNNER_TEMP": str(tmp_path), **step["env"], "ACTION": str(copy), "EXTRA": ""}
    _run(*BASH, step["run"], code=1, **OFFLINE, **variables)


@pytest.mark.parametrize(
    ("models", "code"), [(("guide_adam_legacy", "tf_ckpts"), 0), (("corrupt", "data_flip"), 1)]
)
def test_the_lines_for_gitlab_do_what_they_say(
    tmp_path: Path, action: tuple[list[dict[str, Any]], Path], models: tuple[str, str], code: int
) -> None:
    import yaml

    (text,) = (text for text in blocks("recipes/automation.md", "yaml") if "image:" in text)
    job = yaml.safe_load(text)["checkpoints"]
    shutil.copytree(data_path(*models), tmp_path / "models")
    install, *script = job["script"]
    assert install == "pip install ckpt-tools"  # as the action did
    path = f"{action[1] / 'ckpt' / 'bin'}:{os.environ['PATH']}"
    _run("sh", "-e", "-c", "\n".join(script), cwd=tmp_path, code=code, PATH=path)
    reports = job["artifacts"]["reports"]
    with open(tmp_path / reports["codequality"], encoding="utf-8") as file:
        assert bool(json.load(file)) == bool(code)
    assert_junit((tmp_path / reports["junit"]).read_text())


# Reports --------------------------------------------------------------------------


def assert_junit(text: str) -> None:
    """Check a document with Jenkins' schema."""
    import xmlschema

    xmlschema.validate(text, data_path("schemas", "junit-10.xsd"))


@pytest.mark.parametrize("name", LINES)
def test_junit_is_valid_by_the_published_schema(name: str, place: Path) -> None:  # noqa: F811  the fixture
    line, code = LINES[name]
    assert_junit(_ckpt(*line.split(), "--format", "junit", cwd=place, code=code))


def test_junit_of_every_code_under_every_name_is_valid() -> None:
    import xmlschema

    text = junit.render(everything())
    assert_junit(text)
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        assert_junit(text.replace("<testcase ", "<testcase other='1' "))


# Notebooks ------------------------------------------------------------------------


def test_specs_are_rows_of_a_data_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas

    shutil.copytree(data_path("guide_adam_legacy", "tf_ckpts"), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    (program,) = (text for text in blocks("recipes/python.md", "python") if "import pandas" in text)
    scope = {"formats": formats}
    exec(program, scope)
    frame = scope["frame"]
    assert isinstance(frame, pandas.DataFrame)
    with formats.open_checkpoint("run/ckpt-10") as reader:
        assert list(frame["key"]) == list(reader.specs)
        assert [tuple(shape) for shape in frame["shape"]] == [spec.shape for spec in reader.specs.values()]
        assert [dtype.name for dtype in frame["dtype"]] == [spec.dtype.name for spec in reader.specs.values()]


def test_a_checkpoint_is_a_data_frame_of_plain_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(data_path("guide_adam_legacy", "tf_ckpts"), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    (program,) = (text for text in blocks("recipes/python.md", "python") if "to_frame" in text)
    scope = {"ckpt": ckpt}
    exec(program, scope)
    frame = scope["frame"]
    assert list(frame.columns) == ["key", "object_path", "dtype", "shape", "nbytes", "kind"]
    with ckpt.open("run") as found:
        rows = [
            (each.key, each.object_path, each.dtype, each.shape, each.nbytes, each.kind)
            for each in found.values()
        ]
        variables = sum(each.nbytes or 0 for each in found.values() if each.kind == "variable")
    assert list(frame.itertuples(index=False, name=None)) == rows
    assert {type(value) for row in frame.itertuples(index=False) for value in row} <= {
        str,
        int,
        tuple,
        type(None),
    }
    assert capsys.readouterr().out == f"{variables}\n"


def test_a_frame_holds_keys_that_are_not_utf_8(tmp_path: Path) -> None:
    write_bundle(str(tmp_path / "odd-1"), {b"a\xff": np.zeros(3, np.float32)})
    with ckpt.open(tmp_path / "odd-1") as found:
        assert list(found.to_frame()["key"]) == ["a\udcff"]
