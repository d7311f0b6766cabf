"""The texts of the project as sentences: Markdown pages, strings that users see, docstrings and comments."""

from __future__ import annotations

import ast
import inspect
import io
import os
import re
import tokenize
import tomllib
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs")
PACKAGES = ("formats", "ckpt_cli")

CODE = "CODE"
"""Stands for a code span, or for a value that a message inserts: one word."""

FEWEST_WORDS = 3
"""A string of fewer words is a key, a label or a column head."""


class Sentence(NamedTuple):
    path: str
    line: int
    text: str

    @property
    def room(self) -> str:
        """The folder whose findings are counted together, at most two levels deep, or a page at the top."""
        folders = self.path.split("/")[:-1]
        return "/".join(folders[:2]) or self.path


def sentences(paths: list[str], *, docstrings: bool = False) -> Iterator[Sentence]:
    """Return every sentence of these files and folders, whose paths are relative to the checkout."""
    readers = {".md": _of_page, ".py": _of_code, ".toml": _of_table, ".js": _of_script}
    if docstrings:
        readers = {".py": _of_docstrings}
    for path in _files(paths):
        reader = readers.get(os.path.splitext(path)[1])
        for line, paragraph in reader(path, _source(path)) if reader else ():
            yield from (Sentence(path, line, text) for text in _split(paragraph))


def _source(path: str) -> str:
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def _files(paths: list[str]) -> Iterator[str]:
    for path in paths:
        if os.path.isfile(os.path.join(ROOT, path)):
            yield path
        for folder, _, names in sorted(os.walk(os.path.join(ROOT, path))):
            for name in sorted(names):
                if name.endswith((".md", ".py", ".js")) or name == "complaints.toml":
                    yield os.path.relpath(os.path.join(folder, name), ROOT).replace(os.sep, "/")


# A full stop, then what a sentence begins with.  Abbreviations end no sentence.
_END = re.compile(r"(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<=[.!?])[\"')\]*]*\s+(?=[\"'(\[*]*[A-Z0-9.<%-])")


def _split(paragraph: str) -> list[str]:
    text = re.sub(r"`[^`]+`", CODE, paragraph.replace("``", "`"))
    return [found for part in _END.split(text) if (found := " ".join(part.split()))]


# Markdown ----------------------------------------------------------------------------------

# Written by the program, from strings that are read in the code.
_GENERATED = re.compile(r"<!-- \w+(?:: \S+)? -->\n.*?<!-- end -->", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")


def _of_page(path: str, source: str) -> Iterator[tuple[int, str]]:
    source = _GENERATED.sub(lambda found: "\n" * found[0].count("\n"), source)
    for token in MarkdownIt().enable("table").disable("code").parse(source):
        if token.type == "inline" and token.map:
            text = _LINK.sub(r"\1", token.content)
            yield token.map[0] + 1, re.sub(r"<[^>]+>", " ", text)


# Code --------------------------------------------------------------------------------------


def _of_code(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Return the strings that users see, and the docstrings that are help or documentation."""
    tree = ast.parse(source)
    yield from _strings(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and _is_shown(path, node):
            members = node.body if isinstance(node, ast.ClassDef) else []
            methods = [each for each in members if isinstance(each, ast.FunctionDef) and each.name[0] != "_"]
            for each in (node, *methods):
                yield from _docstring(each)


def _strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Assert) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _prose(node.lineno, node.value)
    elif isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else CODE for part in node.values)
        yield from _prose(node.lineno, "".join(map(str, parts)))
        inserted = (part for part in node.values if isinstance(part, ast.FormattedValue))
        for part in inserted:
            yield from _strings(part.value)
        return
    for child in ast.iter_child_nodes(node):
        yield from _strings(child)


_NO_PROSE = re.compile(r"\(\?|\\[a-zA-Z.]|[\[(]\^|</?\w+[ >]|^[\s%,;|]*$")
"""A regular expression, or markup."""


def _prose(line: int, text: str) -> Iterator[tuple[int, str]]:
    if len(re.findall(r"(?<![\w./=-])[A-Za-z]{2,}(?![\w/=])", text)) >= FEWEST_WORDS and not _NO_PROSE.search(
        text
    ):
        yield from ((line, paragraph) for paragraph in re.split(r"\n\s*\n", text))


def _is_shown(path: str, node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Return whether people read a docstring: as the help of a command, or in a page about the API."""
    decorators = {ast.unparse(each).partition("(")[0] for each in node.decorator_list}
    return "subcommand" in decorators or (path.partition("/")[0], node.name) in _documented()


@cache
def _documented() -> set[tuple[str, str]]:
    """Return the package and the name of everything that the pages document."""
    pages = (path for path in _files(["docs"]) if path.endswith(".md"))
    named = (re.findall(r"^::: (\w+)[\w.]*\.(\w+)$", _source(path), re.MULTILINE) for path in pages)
    return {pair for pairs in named for pair in pairs}


def _docstring(node: ast.FunctionDef | ast.ClassDef) -> Iterator[tuple[int, str]]:
    text = ast.get_docstring(node)
    if text:
        yield from _paragraphs(node.body[0].lineno, text)


def _paragraphs(line: int, text: str) -> Iterator[tuple[int, str]]:
    """Return the paragraphs of a docstring; indented ones are examples, or layouts of bytes.

    The cells of a table, with at least three spaces between them, are paragraphs of their own.
    """
    for found in re.finditer(r"(?:^|\n\n+)((?:(?!\n\n).)+)", text, re.DOTALL):
        paragraph = found[1]
        if not paragraph.lstrip("\n").startswith((" ", "\b", "\\b")):
            at = line + text[: found.start(1)].count("\n")
            yield from ((at, cell) for cell in re.split(r"(?<=\S) {3,}(?=\S)", paragraph))


def _of_docstrings(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Return the docstrings, those of names included, the comments, and the names of tests as sentences."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.replace("_", " ")
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield from _paragraphs(node.lineno, inspect.cleandoc(node.value.value))
    yield from _comments(source)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Return the comments; lines that follow one another are one text."""
    first, last, texts = 0, -1, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            if line != last + 1 or token.line.strip()[:1] != "#":
                yield first, " ".join(texts)
                first, texts = line, []
            texts.append(token.string.lstrip("#: "))
            last = line
    yield first, " ".join(texts)


_SCRIPT_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')


def _of_script(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Return the strings of a script of the pages that `ckpt report` writes."""
    for found in _SCRIPT_STRING.finditer(source):
        text = re.sub(r"\$\{[^}]*\}", CODE, found[1] or found[2] or "")
        yield from _prose(source[: found.start()].count("\n") + 1, text)


# The table of `ckpt explain` ----------------------------------------------------------------


def _of_table(path: str, source: str) -> Iterator[tuple[int, str]]:
    found = tomllib.loads(source)
    texts = [*found["placeholders"].values()]
    for row in [*found["complaint"], *found["topic"]]:
        texts += [row[key] for key in ("meaning", "seen") if key in row]
        texts += [meaning for _, meaning in row.get("entries", [])]
    at = 0
    for text in texts:
        start = source.find(text.lstrip("\n")[:40], at)
        at = max(at, start)
        yield source[:at].count("\n") + 1, text
