"""README.md and docs/ say what the program does today."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import ckpt_cli.runtime as tf
import formats
from tests import hub
from tests.cli.running import Finished, Starter
from tests.estimators import NAMES, Program
from tests.readme import DOCS, PAGES, README, ROOT, commands, pictures, recipes, rendered
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


CONTRIBUTING = os.path.join(ROOT, "CONTRIBUTING.md")
HOME = re.compile(r"https://(github|raw\.githubusercontent)\.com/ckpt-tools/ckpt/(blob/)?main/")

LOSS = re.compile(r"(\d+) steps: loss (\d\.\d+)")


def _name(page: str) -> str:
    return os.path.relpath(page, DOCS)


of_each_page = pytest.mark.parametrize("page", PAGES, ids=_name)


def _text(page: str) -> str:
    with open(page, encoding="utf-8") as file:
        return file.read()


def _lines_to_run(text: str) -> list[str]:
    blocks = re.findall(r"<!-- run -->\n```sh\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def _scripts() -> Iterator[Any]:
    """Yield the lines of each page that are run; those of a recipe are run separately."""
    for page in PAGES:
        text = _text(page)
        parts = re.split(r"^## ", text, flags=re.MULTILINE) if "recipes" in page else [text]
        for part in parts:
            if lines := _lines_to_run(part):
                question = part.splitlines()[0] if len(parts) > 1 else ""
                yield pytest.param(lines, id=" ".join(filter(None, (_name(page), question))))


@of_each_page
def test_what_the_program_writes_is_todays(page: str) -> None:
    there, today = _text(page), rendered(_text(page))
    assert _without_last_digits(today) == _without_last_digits(there), (
        "python -m tests.readme brings it up to date"
    )


def _without_last_digits(text: str) -> str:
    """Leave the last digit out of numbers with six decimals: training differs by it between processors."""
    return re.sub(r"(\.\d{5})\d\b", r"\1", text)


@pytest.mark.parametrize("name", sorted(pictures()))
def test_the_picture_is_todays(name: str) -> None:
    with open(os.path.join(DOCS, name), "rb") as file:
        assert file.read() == pictures()[name], "python -m tests.readme brings it up to date"


def test_the_site_has_every_page() -> None:
    menu = _text(os.path.join(ROOT, "mkdocs.yml")).partition("\nnav:\n")[2]
    listed = re.findall(r"^(?:  - \w+:|      -) (\S+\.md)$", menu, re.MULTILINE)
    assert sorted(listed) == sorted(_name(page) for page in PAGES if page != README)
    assert re.findall(r"^  - .*", menu, re.MULTILINE) == [
        "  - Start:",
        "  - Recipes:",
        "  - Explanations:",
        "  - Reference:",
        "  - Errors: errors.md",
        "  - Contributors:",
    ]


def test_the_readme_is_short() -> None:
    assert os.path.getsize(README) <= 8_000


def test_a_recipe_is_commands_and_at_most_five_sentences() -> None:
    answered = 0
    for path, _, questions in recipes():
        parts = re.split(r"^## ", _text(os.path.join(DOCS, path)), flags=re.MULTILINE)[1:]
        for question, part in zip(questions, parts, strict=True):
            assert re.search(r"^```(sh|text|python|yaml)$", part, re.MULTILINE), (path, question)
            prose = re.sub(r"```.*?```|<!--.*?-->", "", part.partition("\n")[2], flags=re.DOTALL)
            prose = re.sub(r"`[^`]*`", "code", prose)
            assert len(re.findall(r"[.!?:](?:\s|$)", prose.strip())) <= 5, (path, question)
            answered += 1
    assert answered >= 30


def test_every_command_is_described() -> None:
    reference = _text(os.path.join(ROOT, "docs", "reference.md"))
    assert [name for name in commands() if f"### `ckpt {name}`\n" not in reference] == []
    assert [name for name in commands() if f"| `ckpt {name}` |" not in _text(README)] == []


@pytest.mark.parametrize("page", [README, CONTRIBUTING], ids=os.path.basename)
def test_links_also_work_where_the_page_is_shown_elsewhere(page: str) -> None:
    """A package index shows README.md, and docs/ shows CONTRIBUTING.md, both without the files next to
    them.
    """
    relative = [link for link in re.findall(r"\]\(([^)]+)\)", _text(page)) if not link.startswith("https://")]
    assert relative == []


@pytest.mark.parametrize("page", [*PAGES, CONTRIBUTING], ids=_name)
def test_links_lead_to_files_that_are_there(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", _text(page))
    ours = [HOME.sub(f"{ROOT}/", link) for link in links if HOME.match(link) or "://" not in link]
    paths = [os.path.join(os.path.dirname(page), link) for link in ours]
    included = [
        os.path.join(ROOT, path) for path in re.findall(r'^--8<-- "(.*)"$', _text(page), re.MULTILINE)
    ]
    assert [path for path in paths + included if not os.path.exists(path)] == []


@pytest.mark.parametrize(
    "page", [CONTRIBUTING, os.path.join(ROOT, "docs", "architecture.md")], ids=os.path.basename
)
def test_files_that_are_named_are_there(page: str) -> None:
    named = re.findall(r"`((?:formats|ckpt_cli|tests|docs|completions)/[\w/.]*)`", _text(page))
    assert named
    assert [
        path for path in named if "NAME" not in path and not os.path.exists(os.path.join(ROOT, path))
    ] == []


def _lay_out(directory: Path) -> None:
    """Put what the tasks speak of where they look for it."""
    for name in os.listdir(data_path("bert_tiny")):
        shutil.copy(data_path("bert_tiny", name), directory)
    shutil.copytree(data_path("bert_template", "other_names", "model"), directory / "fresh")
    shutil.copy(os.path.join(ROOT, "docs", "bert.py"), directory)
    shutil.copy(data_path("bert_template", "gold_map.tsv"), directory / "names.tsv")
    shutil.copytree(data_path("guide_adam_legacy", "tf_ckpts"), directory / "run")
    shutil.copytree(data_path("keras_mlp"), directory / "keras_mlp")
    shutil.copytree(data_path("orbax", "new/keras_orbax"), directory / "keras_run")
    bert = dict(hub.records("tensorflow"))["bert"]["BertModel"]
    hub.write(
        directory / "tf_bert", "tensorflow", bert, {"model_type": "bert", "architectures": ["BertModel"]}
    )
    for name in ("gguf/plain.gguf", "tflite/int8.tflite", "onnx/external.onnx"):
        shutil.copy(data_path("exports", name), directory / f"model.{name.partition('.')[2]}")
    shutil.copy(data_path("exports", "onnx", "external.bin"), directory)
    shutil.copy(data_path("exports", "saved_model", "model.keras"), directory / "source.keras")
    shutil.copytree(data_path("estimator_iris", "models", "iris"), directory / "model_dir")
    shutil.copytree(data_path("estimator_iris", "models", "iris_20_20"), directory / "model_dir_20_20")
    Program(tf.keras.optimizers.legacy.Adagrad).checkpoint.save(directory / "fresh_iris" / "ckpt")
    (directory / "iris_names.tsv").write_text("".join(f"{old}\t{new}\n" for old, new in NAMES.items()))


@pytest.fixture(scope="module")
def starter() -> Iterator[Starter]:
    with Starter() as found:
        yield found


def _run(line: str, directory: Path, starter: Starter) -> Finished:
    """Run a line as a shell does; one that asks nothing of a shell needs none."""
    words = line.partition("  #")[0].strip()
    if re.fullmatch(r"ckpt [\w ./:=,-]+", words):
        return starter.run(*words.split()[1:], cwd=directory)
    path = f"{directory / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=directory,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def test_every_command_of_a_task_is_run() -> None:
    """Except those that install, those about the checkout, and those that help with an error message."""
    for page in PAGES:
        if _name(page) != "errors.md":
            unmarked = re.findall(r"(?<!<!-- run -->\n)```sh\n(.*?)```", _text(page), re.DOTALL)
            assert [block for block in unmarked if not block.startswith(("make ", "pip install "))] == [], (
                page
            )


@pytest.mark.parametrize("lines", list(_scripts()))
def test_commands_do_what_they_say(tmp_path: Path, lines: list[str], starter: Starter) -> None:
    _lay_out(tmp_path)
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    for name, started in (("ckpt", "-m ckpt_cli"), ("python", "")):
        script = bin_directory / name
        script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} {started} "$@"\n')
        script.chmod(0o755)
    for line in lines:
        done = _run(line, tmp_path, starter)
        expected = re.search(r"# exits (\d)", line)
        assert done.code == (int(expected[1]) if expected else 0), f"{line}\n{done.err}"
        if LOSS.search(line):
            assert _losses(done.out) == pytest.approx(_losses(line), abs=1e-3), line


def _losses(text: str) -> dict[str, float]:
    return {steps: float(loss) for steps, loss in LOSS.findall(text)}


def test_the_loss_of_bert_continues_where_it_was() -> None:
    before, after = (_losses(line) for line in _lines_to_run(_text(README)) if LOSS.search(line))
    assert before == after
    assert len(before) == 3


def test_the_page_of_the_api_has_what_the_package_offers() -> None:
    with open(os.path.join(ROOT, "docs", "api.md"), encoding="utf-8") as file:
        told = re.findall(r"^::: formats\.(\w+)$", file.read(), re.MULTILINE)
    assert sorted(told) == sorted(formats.__all__)
