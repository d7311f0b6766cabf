"""Texts follow the rules of tests/prose/rules.toml, and the check finds what it is meant to find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.prose import check, texts
from tests.prose.texts import PACKAGES, PAGES, Sentence, sentences

if TYPE_CHECKING:
    from collections.abc import Callable


def test_no_room_has_more_findings_than_it_had() -> None:
    """`python -m tests.prose PATHS` prints those of a folder, with the words to use."""
    for path, found in (
        (check.KNOWN, check.findings([*PAGES, *PACKAGES])),
        (check.KNOWN_IN_CODE, check.findings([*PACKAGES, "tests"], docstrings=True)),
    ):
        assert [str(finding) for finding in check.too_many(found, path)] == []


def test_every_exception_has_a_reason_and_a_finding() -> None:
    for exception in check.exceptions():
        assert exception["reason"], exception
        texts_of = (sentences([exception["path"]], docstrings=docstrings) for docstrings in (False, True))
        found = [each for found_in in texts_of for one in found_in for each in check.broken(one)]
        assert any(check.is_excepted(finding, exception) for finding in found), exception


def rules_of(text: str) -> list[str]:
    return [finding.rule for finding in check.broken(Sentence("docs/x.md", 1, text))]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("Whoever reaches a scheduler can run any program.", ["whoever"]),
        ("Where nobody says, it is 2 GB.", ["whoever", "Where"]),
        ("The index is written anew.", ["anew"]),
        ("A key of which nothing is known.", ["of which"]),
        ("A directory that is no checkpoint.", ["is no"]),
        ("There is no checkpoint in this directory.", []),
        ("The key is no longer in the index.", []),
        ("What CODE reads in one pass is held in memory.", ["What"]),
        ("What does CODE read in one pass over the file?", []),
        ("The server answered with connection refused.", []),
        ("The way back gives the same bytes, too.", ["way back", ", too"]),
        ("A chunk has 3 bytes, too few for its checksum.", []),
        ("An export is made of a checkpoint.", ["term: made from"]),
        ("Keep a lock, or a lock file.", ["term: lock"]),
        ("Keep a lock file.", []),
        ("These are rejected:", ["these forward"]),
        ("A warning names the other one.", ["one"]),
        ("A warning names one of them.", []),
        ("The results are TensorFlow's.", ["possessive"]),
        ("TensorFlow's results are the same.", []),
        ("It reads files from 0.4.8 on.", ["from X on"]),
        ("Save the new program once.", ["term: template"]),
        ("word " * 35, []),
        ("word " * 36, ["long"]),
        ("CODE, CODE and CODE " * 20, []),
    ],
)
def test_rules_find_what_they_are_for(text: str, rules: list[str]) -> None:
    assert rules_of(text) == rules


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("found CODE columns, expected 2", ["comma, expected"]),
        ("found CODE columns; expected 2", []),
        ("lacks 3 tensors of the model", ["message without a subject"]),
        ("not a GGUF file", ["message without a subject"]),
        ("this is not a GGUF file", []),
        ("the listing has no digest for it", ["message: pronoun"]),
        ("pass it with --iterations N", ["message: pronoun"]),
        ("the listing has no digest for this tensor", []),
        ("CODE has no place in TEMPLATE", ["message: has no place"]),
        ("CODE and CODE both become this key", ["message: both become"]),
        ("CODE and CODE would both become this key", []),
        ("CODE of TEMPLATE is used, as SRC stores none", ["message: as X stores"]),
    ],
)
def test_rules_of_messages(text: str, rules: list[str]) -> None:
    found = check.broken(Sentence("ckpt_cli/operations/x.py", 1, text))
    assert [finding.rule for finding in found] == rules


def test_some_rules_apply_to_pages_alone() -> None:
    def names(path: str) -> list[str]:
        return [finding.rule for finding in check.broken(Sentence(path, 1, "It has this, too."))]

    assert (names("docs/x.md"), names("formats/x.py")) == ([", too"], [])


PAGE = """# A heading

A first sentence, e.g. this one. A second
names `several words of code`.

- An item with a [link](https://example.org/a_b).

    !!! note
        Indented text is read.

| column | other |
| --- | --- |
| A cell. | `code` |

<!-- help -->
Written by the program.
<!-- end -->

```sh
ckpt ls whoever
```
"""


@pytest.fixture
def holding(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return what gives a file of the checkout another content."""

    def change(changed: str, content: str) -> None:
        source = texts._source
        monkeypatch.setattr(texts, "_source", lambda path: content if path == changed else source(path))

    return change


def test_pages_are_read_without_code_and_generated_parts(holding: Callable[[str, str], None]) -> None:
    holding("README.md", PAGE)
    assert [(found.line, found.text) for found in sentences(["README.md"])] == [
        (1, "A heading"),
        (3, "A first sentence, e.g. this one."),
        (3, "A second names CODE."),
        (6, "An item with a link."),
        (8, "!!! note Indented text is read."),
        (11, "column"),
        (11, "other"),
        (13, "A cell."),
        (13, "CODE"),
    ]


MODULE = '''"""Module docstring of this file."""
# A comment. It has two
# sentences.
LIMIT = 4
"""An attribute's own docstring."""
@subcommand("ls")
@option("--x", help="Print only these keys.", metavar="KEY")
def command(path, names):
    """Shown as the help of it.

    \\b
      ckpt ls whoever
    """
    raise Error(f"{path}: expected {names[0]} names, "
                f"found {'not a single one' if not names else len(names)}")
    re.compile(r"three words (?:or|more)")
    assert path, "an internal error here"
def _open():
    """Documented nowhere at all."""
def test_names_are_sentences():
    pass
'''


def test_code_is_read_for_what_users_see(holding: Callable[[str, str], None]) -> None:
    holding("ckpt_cli/commands/ls.py", MODULE)
    assert {(found.line, found.text) for found in sentences(["ckpt_cli/commands/ls.py"])} == {
        (7, "Print only these keys."),
        (9, "Shown as the help of it."),
        (14, "CODE: expected CODE names, found CODE"),
        (15, "not a single one"),
    }


def test_scripts_of_reports_are_read(holding: Callable[[str, str], None]) -> None:
    holding(
        "ckpt_cli/render/web/run.js", 'h("span", "Choose a layer here."), `${n} of ${m} tensors are shown`'
    )
    found = sentences(["ckpt_cli/render/web/run.js"])
    assert [one.text for one in found] == ["Choose a layer here.", "CODE of CODE tensors are shown"]


def test_docstrings_and_comments_are_read_by_a_switch(holding: Callable[[str, str], None]) -> None:
    holding("formats/errors.py", MODULE)
    assert {(found.line, found.text) for found in sentences(["formats/errors.py"], docstrings=True)} == {
        (1, "Module docstring of this file."),
        (2, "A comment."),
        (2, "It has two sentences."),
        (5, "An attribute's own docstring."),
        (9, "Shown as the help of it."),
        (19, "Documented nowhere at all."),
        (20, "test names are sentences"),
    }


def test_the_cells_of_a_table_in_a_docstring_are_texts(holding: Callable[[str, str], None]) -> None:
    holding(
        "formats/errors.py", '"""Its files.\n\nindex    names and offsets\n3, 4     the data shards\n"""\n'
    )
    found = [one.text for one in sentences(["formats/errors.py"], docstrings=True)]
    assert found == ["Its files.", "index", "names and offsets 3, 4", "the data shards"]


def test_a_room_that_has_more_is_shown_and_numbers_only_fall(tmp_path: object) -> None:
    known = f"{tmp_path}/known.json"
    with open(known, "w", encoding="utf-8") as file:
        file.write('{"docs": 1, "formats/tf": 5, "formats/h5": 2}')
    found = [
        each
        for path in ("docs/a.md", "docs/b.md", "formats/tf/a.py", "formats/wire/a.py")
        for each in check.broken(Sentence(path, 1, "It begins anew."))
    ]
    shown = [finding.sentence.path for finding in check.too_many(found, known)]
    assert shown == ["docs/a.md", "docs/b.md", "formats/wire/a.py"]
    check.lower(found, known)
    assert check.known(known) == {"docs": 1, "formats/tf": 1}
