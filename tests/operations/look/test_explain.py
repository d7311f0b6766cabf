"""The meaning of error messages: the table of complaints, and how a text is searched with it."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import time
from typing import TYPE_CHECKING

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.cli.main import cli
from ckpt_cli.operations.look.complaints import Complaint, complaints, placeholders, topics
from ckpt_cli.operations.look.explain import (
    MOST_BYTES,
    explain,
    explain_topic,
    read_end,
    troubleshooting_markdown,
)
from formats.find.registry import all_formats
from tests.readme import ROOT
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASES = ("2.15", "2.21")
PROGRAMS = {
    "2.15": "tensorflow-2.15",
    "2.21": "tensorflow-2.21",
    "torch": "torch",
    "packs": "transformers",
}
ROWS = [*complaints(), *topics().values()]


def said(release: str) -> dict[str, str]:
    """Return what TensorFlow, Keras, h5py, PyTorch and others said, by how it was provoked."""
    with open(data_path("explain", f"{PROGRAMS[release]}.json"), encoding="utf-8") as file:
        found: dict[str, str] = json.load(file)
    return found


def sources() -> str:
    """Return the text of all modules of the program."""
    found = []
    for package in ("formats", "ckpt_cli"):
        for folder, _, names in os.walk(os.path.join(ROOT, package)):
            for name in sorted(name for name in names if name.endswith(".py")):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    found.append(file.read())
    return "".join(found)


def titles(text: str) -> list[str]:
    return [match.title for match in explain(text)]


def commands(text: str) -> list[str]:
    return [command for match in explain(text) for command in match.commands]


# The table ----------------------------------------------------------------------------


def _provoked() -> Iterator[tuple[str, str, str]]:
    for row in complaints():
        for name in row.provoked:
            function, _, only = name.partition("@")
            yield from ((row.title, function, release) for release in ([only] if only else RELEASES))


@pytest.mark.parametrize(("title", "name", "release"), list(_provoked()))
def test_what_programs_say_is_explained(title: str, name: str, release: str) -> None:
    assert title in titles(said(release)[name])


@pytest.mark.parametrize(
    ("title", "program", "text"),
    [(row.title, program, text) for row in complaints() for program, text in row.quoted],
)
def test_what_is_quoted_is_explained(title: str, program: str, text: str) -> None:
    assert title in titles(text), program


@pytest.mark.parametrize("row", complaints(), ids=lambda row: row.title)
def test_a_complaint_has_all_that_a_reader_needs(row: Complaint) -> None:
    assert row.patterns
    assert row.seen.endswith(".")
    assert row.provoked or row.quoted or row.own, "how it came to be known"
    sentences = re.split(r"(?<=[.?!])\s+", row.meaning)
    assert 2 <= len(sentences) <= 5, sentences
    assert max(len(sentence.split()) for sentence in sentences) <= 26, sentences
    assert 1 <= len(row.commands) <= 4
    assert not re.search(r"\s{2}|\n", row.meaning)


def test_titles_are_headings_and_tell_rows_apart() -> None:
    found = [row.title for row in ROWS]
    assert len(set(found)) == len(found)
    assert not [title for title in found if "\n" in title or title != title.strip()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title)
def test_every_command_can_be_typed(row: Complaint) -> None:
    for line in row.commands:
        program, *words = shlex.split(line.format(path="run/ckpt-10", dir="run", key="net/kernel"))
        assert program == "ckpt"
        _parse(words)
        unknown = set(re.findall(r"\b[A-Z]{2,}\b", line)) - set(placeholders()) - {"REGEX", "REPLACEMENT"}
        assert unknown == set(), line


def _parse(words: list[str]) -> dict[str, object]:
    """Return the parameters of a command line as click takes them; UsageError for what it does not know."""
    context = click.Context(cli, info_name="ckpt", **cli.context_settings)
    name, command, left = cli.resolve_command(context, list(words))
    assert command is not None
    return command.make_context(name, left, parent=context).params


FRAGMENTS = """\
file signature not found
truncated file: eof
Key dense/kernel not found in checkpoint
Tensor name "dense/kernel" not found in checkpoint files
expected an object-based checkpoint
Shapes (4, 5) and (4, 3) are incompatible
Shapes [4,5] and [4,3] are incompatible
Assign requires shapes of both tensors to match
checksum does not match
not an sstable (bad magic number)
Failed to find any matching files
Unsuccessful TensorSliceReader constructor
You are trying to load a weight file containing 58 layers into a model with 107 layers
A total of 2 objects could not be loaded
Layer 'dense' expected 2 variables, but received 0 variables
Unresolved object in checkpoint
Value in checkpoint could not be found in the restored object
Weights only load failed
header too large
Missing key(s) in state_dict: "fc.weight"
size mismatch for fc.weight
Unrecognized keyword arguments: ['batch_shape']
'str' object has no attribute 'decode'
Unrecognized keyword arguments passed to Dense: {'quantization_config': None}
invalid load key, 'v'
Could not locate class 'Own'. Make sure custom classes
Requested the deserialization of a `Lambda` layer
Could not locate function 'mse'
and are newly initialized
Unknown quantization type, got fp8
restore item and on-disk value metadata tree structures do not match
""".splitlines()


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_the_part_that_people_search_for_is_enough(fragment: str) -> None:
    assert len(titles(fragment)) == 1


def test_a_message_is_known_with_any_wrapping() -> None:
    text = (
        "Layer count mismatch when loading weights from file. Model expected 3 layers, found 2 saved layers."
    )
    for at in [match.start() for match in re.finditer(" ", text)]:
        assert titles(f"{text[:at]}\n    {text[at + 1 :]}") == titles(text)


def test_the_codes_of_findings_are_all_there() -> None:
    codes = {word for word, _ in topics()["verify-codes"].entries}
    for code in codes:
        for form in (
            f"run/ckpt-10\terror\t{code}\tkey\tfile\t1\twhat",
            f"error  {code:15}  net/l1/bias",
            f'"code": "{code}"',
        ):
            assert [title for title in titles(form) if code in title], form
    written = set(re.findall(r'\bcode="([a-z0-9-]+)"', sources()))
    assert written - codes <= {"events", "meta-graph"}, "codes of files that verify does not look at"


# What is filled in ----------------------------------------------------------------------


def test_paths_and_keys_of_a_message_are_filled_in() -> None:
    text = (
        'NotFoundError: Tensor name "net/bias" not found in checkpoint files run/model.ckpt-5\n\t [[node x]]'
    )
    assert commands(text)[:2] == ["ckpt show run/model.ckpt-5 net/bias", "ckpt ls run/model.ckpt-5"]


def test_the_call_in_a_traceback_names_the_file() -> None:
    text = said("2.21")["h5_of_other_content"]
    assert 'load_weights("weights.h5")' in text
    assert commands(text)[0] == "ckpt show weights.h5"


def test_the_source_of_a_message_in_a_traceback_is_not_a_path() -> None:
    text = said("2.15")["not_object_based"]
    assert "Checkpoint in %s not an object-based checkpoint" in text or "%s" not in text
    source = '    raise ValueError("Checkpoint in %s not an object-based checkpoint." %\n'
    assert commands(source + text)[0] == "ckpt show model.ckpt-5"


def test_the_checkpoint_named_last_before_the_complaint_is_the_one() -> None:
    text = 'load_weights("a.h5")\nload_weights("b.h5")\nfile signature not found\nload_weights("c.h5")\n'
    assert commands(text)[0] == "ckpt show b.h5"
    assert commands(text.replace("load", "x_load").replace(".h5", ""))[0] == "ckpt show CHECKPOINT"


def test_an_object_is_requested_by_its_path() -> None:
    text = "Unresolved object in checkpoint (root).optimizer._variables.1: attributes {"
    assert "ckpt ls CHECKPOINT optimizer/_variables/1" in commands(text)


def test_a_command_for_a_key_is_left_out_where_no_key_is_named() -> None:
    assert not [line for line in commands("Unresolved object in checkpoint") if "KEY" in line]


def test_several_complaints_come_in_the_order_of_the_text() -> None:
    first, second = "header too large", "Weights only load failed"
    assert titles(f"{first}\n{second}") == titles(f"{second}\n{first}")[::-1]
    assert len(titles(f"{first}\n{second}\n{first}")) == 2


def test_colours_of_a_terminal_are_not_a_hindrance() -> None:
    assert titles("\x1b[31mheader too\x1b[0m large") == titles("header too large")


def test_words_that_stand_for_something_are_explained() -> None:
    (match,) = explain("Unresolved object in checkpoint (root).b")
    assert list(match.stand_ins) == ["CHECKPOINT", "FRESH"]
    (match,) = explain("restore('KEY/OUT.h5')\nUnresolved object in checkpoint")
    assert match.commands[0] == "ckpt match KEY/OUT.h5 FRESH"
    assert list(match.stand_ins) == ["FRESH"]


def test_a_path_that_cannot_be_shown_is_not_another_one() -> None:
    text = "load_weights('a.h5')\nUnable to open file: name = 'b\x1b.h5', errno = 2"
    assert commands(text)[0] == "ckpt ls DIR"


# Hostile texts ----------------------------------------------------------------------------

NAMES = st.text(st.characters(blacklist_characters="\n", blacklist_categories=()), min_size=1, max_size=40)


@given(path=NAMES, key=NAMES)
def test_what_a_text_names_is_one_word_of_a_command(path: str, key: str) -> None:
    key = key.replace('"', "'")
    text = f'Tensor name "{key}" not found in checkpoint files {path}'
    for line in commands(text):
        assert line.isprintable()
        program, *words = shlex.split(line)
        assert program == "ckpt"
        parsed = _parse(words)
        given_path = parsed.get("path") or parsed.get("source")
        assert isinstance(given_path, str)
        named = given_path.removeprefix("./")
        assert named == "CHECKPOINT" or named in path or given_path in path
        assert parsed.get("key", key) in (key, re.sub(r":\d+\Z", "", key))


@given(st.binary(max_size=2000))
def test_any_bytes_are_searched(content: bytes) -> None:
    for match in explain(content.decode("utf-8", "surrogateescape")):
        assert all(line.isprintable() for line in match.commands)


BEGINNINGS = ("a", "\n", "'", "\x1b[", "ckpt: error: ", "TensorBundle at ", "Layer '", "restore('")


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_no_text_takes_long(beginning: str) -> None:
    """A pattern that backtracks would take hours on one of these; a busy machine takes seconds."""
    text = (beginning * (MOST_BYTES // len(beginning) + 1))[:MOST_BYTES]
    began = time.process_time()
    explain(text)
    assert time.process_time() - began < 10


def test_the_end_of_a_long_log_is_what_counts() -> None:
    log = b"x" * (3 * MOST_BYTES) + b"header too large\n"

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    for file in (io.BytesIO(log), Pipe(log)):
        content, left_out = read_end(file)
        assert content == log[-MOST_BYTES:]
        assert left_out == len(log) - MOST_BYTES
    assert read_end(io.BytesIO(b"short")) == (b"short", 0)


# Topics and the page -------------------------------------------------------------------


def test_the_topic_of_formats_is_the_registrys() -> None:
    match = explain_topic("formats")
    assert match is not None
    assert match.entries == tuple((found.name, found.summary) for found in all_formats())
    assert "npz: numpy archive" in match.document()["meaning"]


def test_the_topic_of_exit_codes_is_what_the_program_does() -> None:
    from ckpt_cli.cli import main
    from ckpt_cli.cli.signals import exit_code

    ended = {exit_code(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)}
    told = {int(word) for word, _ in topics()["exit-codes"].entries}
    assert told == {0, main.ANSWER_IS_NO, main.USAGE, main.CANNOT, *ended}


def test_the_topic_of_the_environment_names_what_is_looked_at() -> None:
    entries = topics()["environment"].entries
    text = " ".join(text for entry in entries for text in entry)
    told = set(re.findall(r"[A-Z]+(?:_[A-Z]+)+|TERM|PAGER", text))
    asked = set(re.findall(r'environ\.get\("(\w+)"|environ\["(CKPT_\w+)"\]', sources()))
    looked_at = {first or second for first, second in asked}
    assert looked_at <= told
    ours = {word for word in told if word.startswith("CKPT_")}
    assert ours <= looked_at, "the others are looked at by libraries, too"


def test_what_is_not_a_topic_is_none() -> None:
    assert explain_topic("nothing") is None


def test_the_page_has_every_error_as_a_heading() -> None:
    page = troubleshooting_markdown()
    assert page == troubleshooting_markdown()
    assert page.startswith("# Errors\n")
    headings = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    assert [re.sub(r"\\(.)", r"\1", heading) for heading in headings] == [row.title for row in complaints()]
    assert page.count("```") % 2 == 0
    assert "{path}" not in page
    for row in complaints():
        assert row.meaning in page
        assert all(text in page for _, text in row.quoted)
