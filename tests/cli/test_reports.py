"""Findings as services read them: SARIF, JUnit, Markdown, annotations of GitHub, Code Quality of GitLab."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
from jsonschema import Draft4Validator, Draft202012Validator

from ckpt_cli.operations.look.complaints import topics
from ckpt_cli.operations.report.findings import FindingsTable, Report, Subject
from ckpt_cli.render.findings import github, gitlab, junit, markdown, sarif
from ckpt_cli.render.findings.words import CODES
from formats.model.verification import Finding
from tests.schemas import TEXT, fields, listed, one_of
from tests.support import data_path, strings, write_bundle
from tests.test_architecture import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEX = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
URI = re.compile(r"(?:[A-Za-z0-9._~/:@-]|%[0-9A-F]{2})+")


@cache
def published_sarif() -> Draft4Validator:
    with open(data_path("schemas", "sarif-2.1.0-rtm.5.json"), encoding="utf-8") as file:
        return Draft4Validator(json.load(file))


def check_sarif(text: str) -> dict[str, Any]:
    """Check a document against the published schema, and the rules of code scanning; return its run."""
    document = json.loads(text)
    published_sarif().validate(document)
    (run,) = document["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    prints = set()
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        (location,) = result["locations"]
        place = location["physicalLocation"]  # without which GitLab drops the result
        assert URI.fullmatch(place["artifactLocation"]["uri"])
        assert place["region"]["startLine"] == 1
        prints.add(result["partialFingerprints"]["primaryLocationLineHash"])
    assert len(prints) == len(run["results"])
    assert len(rules) == len(set(rules)) <= 25_000
    assert len(run["results"]) <= 25_000
    assert len(gzip.compress(text.encode())) < 10_000_000
    return run


GITLAB = listed(
    fields(
        {
            "description": TEXT,
            "check_name": TEXT,
            "fingerprint": HEX,
            "severity": one_of("info", "minor", "major", "critical", "blocker"),
            "location": fields({"path": TEXT, "lines": fields({"begin": {"const": 1}})}),
        }
    )
)

JUNIT: dict[str, tuple[set[str], set[str]]] = {
    "testsuites": ({"name", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time"}, {"testcase"}),
    "testcase": ({"name", "classname", "time"}, {"failure", "system-out"}),
    "failure": ({"message", "type"}, set()),
    "system-out": (set(), set()),
}
"""Attributes and elements that Jenkins' junit-10.xsd has for each element that is written."""


def check_junit(text: str) -> ElementTree.Element:
    """Check a document against what services read; of several cases with one name GitLab uses the first."""
    root = ElementTree.fromstring(text)
    _check_junit(root)
    cases = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(cases) == len(set(cases))
    return root


def _check_junit(element: ElementTree.Element) -> None:
    attributes, children = JUNIT[element.tag]
    assert set(element.attrib) == attributes
    for child in element:
        assert child.tag in children
        _check_junit(child)


HOSTILE = "a`|b<script>\n::error::%0A]]>&\x1b[31m/k@team"


NAMES = [HOSTILE, "", "k", "\ufffe\uffff", "\udcff\x00", "é ü/\u202e", "%0A::,", "<![CDATA[", "a" * 70_000]
PLACES = [
    "run/ckpt-1.index",
    f"a b/{HOSTILE}",
    "/absolute é.h5",
    "HEAD~1:run/x.npz",
    "s3://b/k?.npz",
    "../up",
]


def everything() -> Report:
    """Return a report with every code there is, under names and in places that want to be more."""
    codes = [*dict(topics()["verify-codes"].entries), *CODES, "unheard-of"]
    severities, offsets = ("error", "warning", "note"), (None, 0, 1 << 62, -1)
    found = [
        Finding(
            severities[number % 3],
            code,
            f"{code}: <&'\">]]> {name!a}",
            name or None,
            PLACES[number % len(PLACES)],
            offsets[number % len(offsets)],
        )
        for number, (code, name) in enumerate(itertools.product(codes, NAMES))
    ]
    table = FindingsTable("changes", ("tensor", "what"), [(name, "1") for name in NAMES])
    subjects = [
        Subject(
            path,
            path,
            "all sorts",
            found[number :: len(PLACES)],
            NAMES if number % 2 else (),
            [table],
            ["ckpt"],
        )
        for number, path in enumerate(PLACES)
    ]
    return Report("verify", subjects)


def test_every_code_under_every_name_is_valid() -> None:
    report = everything()
    count = sum(report.counts.values())
    run = check_sarif(sarif.render(report))
    assert len(run["results"]) == count > 200
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} >= CODES.keys()
    root = check_junit(junit.render(report))
    assert len(list(root.iter("failure"))) == report.counts["error"]
    told = json.loads(gitlab.render(report))
    Draft202012Validator(GITLAB).validate(told)
    assert len({each["fingerprint"] for each in told}) == count
    for line in github.render(report).splitlines():
        assert re.fullmatch(r"::(error|warning|notice) file=[^:,\n]+,line=1,title=[^:,\n]+::[^\n]+", line)
    assert len(markdown.render(report).encode()) <= markdown.MOST_BYTES


def test_what_cannot_be_compressed_stays_within_what_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long names alone are more than what GitHub takes, long before there are 25,000 findings."""
    monkeypatch.setattr(sarif, "MOST_BYTES", 500_000)
    chance = random.Random(0)
    names = [chance.randbytes(4_000).hex() for _ in range(300)]
    found = [Finding("error", "value", "is another", name, "a.npz") for name in names]
    run = check_sarif(sarif.render(Report("diff", [Subject("a", "a", "", found)])))
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    left = len(names) - len(run["results"])
    assert 0 < left < len(names)
    assert len(gzip.compress(json.dumps(run).encode())) < 600_000
    assert note["message"]["text"].startswith(f"{left:,} more findings not included")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two checkpoints that differ in all that can be, under names that want to be more than names."""
    folder = tmp_path_factory.mktemp("reports")
    values = np.linspace(0, 1, 40, dtype=np.float32)
    same = {"same/k": values, HOSTILE: values}
    write_bundle(str(folder / "left-1"), {**same, "w/gone": values, "w/k": values, "w/shape": values})
    changed = {HOSTILE: values + 1, "w/new": values, "w/k": values * 2, "w/shape": values[:3]}
    write_bundle(str(folder / "right-1"), {**same, **changed})
    write_bundle(str(folder / "bad-1"), {HOSTILE: np.array([np.nan, np.inf, 1.0]), "fine": values})
    shutil.copytree(data_path("corrupt", "data_flip"), folder / "flip")
    shutil.copytree(data_path("corrupt", "index_text"), folder / "text")
    return folder


LINES = {
    "verify": ("verify flip/ckpt left-1 text/ckpt.index", 1),
    "diff": ("diff left-1 right-1 --fail-on removed,value", 1),
    "stats": ("stats --fail-on nan,inf --files bad-1 left-1", 1),
    "same": ("diff left-1 left-1", 0),
}


@pytest.fixture
def told(place: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def run(name: str, form: str) -> str:
        monkeypatch.chdir(place)
        line, code = LINES[name]
        done = ckpt(*line.split(), "--format", form)
        assert done.code == code, done.err
        return done.out

    return run


of_each = pytest.mark.parametrize("name", LINES)


def findings(name: str, told: Callable[..., str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(told(name, "gitlab"))
    return found


@of_each
def test_sarif_is_what_the_standard_says(name: str, told: Callable[..., str]) -> None:
    run = check_sarif(told(name, "sarif"))
    assert len(run["results"]) == len(findings(name, told))
    assert told(name, "sarif") == told(name, "sarif")


def test_damage_is_reported_with_its_offset(told: Callable[..., str]) -> None:
    results = json.loads(told("verify", "sarif"))["runs"][0]["results"]
    (flipped,) = (result for result in results if result["ruleId"] == "tensor-checksum")
    place = flipped["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "flip/ckpt.data-00000-of-00001"
    assert place["region"]["byteOffset"] > 0


@of_each
def test_junit_is_what_jenkins_reads(name: str, told: Callable[..., str]) -> None:
    root = check_junit(told(name, "junit"))
    cases = list(root.iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None]
    assert (int(root.get("tests", "")), int(root.get("failures", ""))) == (len(cases), len(failed))
    assert bool(failed) == bool(LINES[name][1])


def test_a_comparison_has_a_case_for_each_key(told: Callable[..., str]) -> None:
    root = ElementTree.fromstring(told("diff", "junit"))
    names = {case.get("name"): case.find("failure") is not None for case in root.iter("testcase")}
    assert {name: bad for name, bad in names.items() if name and name.startswith(("w/", "same/"))} == {
        "same/k": False,
        "w/gone": True,
        "w/k": True,
        "w/new": False,
        "w/shape": False,
    }
    assert len(names) == 6


@of_each
def test_gitlab_gets_a_list_of_findings(name: str, told: Callable[..., str]) -> None:
    found = findings(name, told)
    Draft202012Validator(GITLAB).validate(found)
    prints = [each["fingerprint"] for each in found]
    assert len(set(prints)) == len(prints)
    assert prints == [each["fingerprint"] for each in findings(name, told)]
    assert bool(found) == bool(LINES[name][1])


def test_a_finding_keeps_its_fingerprint_when_others_come(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prints = []
    for changed in (("b",), ("a", "b", "c")):
        for side, value in (("left-1", 0.0), ("right-1", 1.0)):
            tensors = {key: np.float32(value if key in changed else 0) for key in "abc"}
            write_bundle(side, tensors)
        found = json.loads(ckpt("diff", "left-1", "right-1", "--format", "gitlab").out)
        prints.append({each["description"].partition(":")[0]: each["fingerprint"] for each in found})
    assert prints[0]["b"] == prints[1]["b"]


@of_each
def test_github_shows_annotations_and_keeps_a_summary(
    name: str, told: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    lines = told(name, "github").splitlines()
    pattern = r"::(error|warning|notice) file=[^:,\n]+,line=1,title=[^:,\n]+::[^\n]+"
    assert all(re.fullmatch(pattern, line) for line in lines)
    assert len(lines) == len(findings(name, told))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    assert summary.read_text() == "before\n" + told(name, "markdown")


def test_github_shows_ten_of_a_kind_and_says_how_many_more(tmp_path: Path, ckpt: Callable) -> None:
    write_bundle(str(tmp_path / "left-1"), {f"k{n:02}": np.float32(0) for n in range(30)})
    write_bundle(str(tmp_path / "right-1"), {f"k{n:02}": np.float32(1) for n in range(30)})
    done = ckpt("diff", tmp_path / "left-1", tmp_path / "right-1", "--format", "github")
    lines = done.out.splitlines()
    assert len(lines) == github.MOST_SHOWN
    assert lines[-1].endswith("(and 20 more)")


def test_a_summary_that_cannot_be_written_is_an_error(
    told: Callable[..., str], ckpt: Callable, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place / "no" / "folder"))
    done = ckpt("verify", "left-1", "--format", "github")
    assert (done.code, done.out) == (3, "")
    assert "No such file" in done.err


def test_markdown_shows_layers_the_largest_totals_and_what_to_do(told: Callable[..., str]) -> None:
    text = told("diff", "markdown")
    assert text.startswith("### ckpt diff: 3 errors, 2 notes\n")
    assert "\n| `w` | 1 removed, 1 value, 1 added, 1 shape | 0.5 | 1 | 1 |\n" in text
    assert (
        "**The ten largest value changes**\n\n| tensor | rel_l2 | cosine | max | relative | elements |"
        in text
    )
    assert "What to do:\n\n```sh\nckpt diff left-1 right-1\n```" in text
    assert "✅ `left-1 -> left-1`: 5 same" in told("same", "markdown")


def test_every_form_says_the_values_that_the_document_says(tmp_path: Path, ckpt: Callable) -> None:
    """A layer's largest difference is one of its rows': NaN is NaN, and what has no number shows none."""
    left, right = str(tmp_path / "left-1"), str(tmp_path / "right-1")
    zero, nan, inf, word = np.zeros(3), np.array([0, np.nan, 1]), np.array([0, np.inf, 1]), strings([b"a"])
    both = np.array([np.nan, np.inf, 1])
    keys = {"nan/k": (zero, nan), "inf/k": (zero, inf), "mixed/a": (zero, inf), "mixed/b": (zero, both)}
    keys |= {"finite/k": (zero, zero + 2.5), "text/k": (word, strings([b"b"])), "gone/a": (word, None)}
    for side, path in enumerate((left, right)):
        write_bundle(path, {key: pair[side] for key, pair in keys.items() if pair[side] is not None})
    rows = {entry["key"]: entry for entry in ckpt("diff", left, right, "--json").json["entries"]}
    tsv = {row[1]: row[7] for row in ckpt("diff", left, right).rows}
    text = ckpt("diff", left, right, "--format", "markdown").out
    layers = {"nan": "nan", "inf": "inf", "mixed": "nan", "finite": "2.5", "(state)": ""}
    for layer, shown in layers.items():
        row = rf"\n\| `{re.escape(layer)}` \| [^|]+ \| [^|]* \| [^|]* \| {shown} \|\n"
        assert re.search(row, text), layer
    for key, entry in rows.items():
        assert tsv[key] == ("" if entry["max_abs"] is None else str(entry["max_abs"]))
        if entry["max_abs"] is None:
            continue
        largest = f"{float(entry['max_abs']):.3g}"
        row = next(line for line in text.splitlines() if line.startswith(f"| `{key}` |")).split(" | ")
        assert (row[3], row[5]) == (largest, f"{entry['differing']} |")
        for form in ("sarif", "junit", "gitlab", "github"):
            assert (
                f"{key}: value: {entry['differing']} element"
                in ckpt("diff", left, right, "--format", form).out
            )
            assert f", by up to {largest}" in ckpt("diff", left, right, "--format", form).out
    ordered = re.findall(r"\n\| `(\w+)` \| 1 value", text)
    assert ordered.index("nan") < ordered.index("inf") < ordered.index("finite")


def test_names_mean_nothing_in_markdown(told: Callable[..., str]) -> None:
    for name in ("diff", "stats"):
        rows = [line for line in told(name, "markdown").splitlines() if "script" in line]
        assert rows
        for row in rows:
            assert re.search(r"``a`\\\|b<script>\\x0a::error::%0A\]\]>&\\x1b\[31m[^`]*``", row), row


def test_markdown_is_cut_with_a_count(tmp_path: Path, ckpt: Callable) -> None:
    write_bundle(str(tmp_path / "bad-1"), {f"{'key' * 300}{n:03}": np.float32(np.nan) for n in range(150)})
    done = ckpt("stats", tmp_path / "bad-1", "--fail-on", "nan", "--format", "markdown")
    assert len(done.out.encode()) <= markdown.MOST_BYTES
    assert re.search(r"\*\d+ more lines are not shown\.\*\n$", done.out)


def test_sarif_stays_within_what_is_taken(told: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "MOST_RESULTS", 2)
    run = check_sarif(told("diff", "sarif"))
    assert [result["level"] for result in run["results"]] == ["error", "error"]
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"].startswith("3 more findings not included")


def test_json_is_the_document(place: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    for line, _ in LINES.values():
        assert ckpt(*line.split(), "--format", "json").out == ckpt(*line.split(), "--json").out


def test_checkpoints_on_one_side_alone_are_findings(tmp_path: Path, ckpt: Callable) -> None:
    for side, names in (("left", ("a-1", "b-1")), ("right", ("a-1", "c-1"))):
        os.mkdir(tmp_path / side)
        for name in names:
            write_bundle(str(tmp_path / side / name), {"k": np.float32(0)})
    line = ("diff", "--each", tmp_path / "left", tmp_path / "right")
    done = ckpt(*line, "--format", "gitlab")
    assert [each["check_name"] for each in json.loads(done.out)] == ["ckpt-diff/removed", "ckpt-diff/added"]
    assert done.code == 1


def test_a_key_of_two_comparisons_is_two_cases(tmp_path: Path, ckpt: Callable) -> None:
    """GitLab passed over the second, which failed."""
    for side, names in (("left", ("a-1", "b-1")), ("right", ("a-1", "b-1"))):
        os.mkdir(tmp_path / side)
        for name in names:
            write_bundle(str(tmp_path / side / name), {"k": np.float32(side == "left" and name == "b-1")})
    done = ckpt("diff", "--each", tmp_path / "left", tmp_path / "right", "--format", "junit")
    root = check_junit(done.out)
    assert [len(case) for case in root.iter("testcase")] == [0, 1]


def test_reports_are_utf_8_in_every_locale(tmp_path: Path) -> None:
    """XML that says so of itself was written in Latin-1."""
    shutil.copytree(data_path("corrupt", "data_flip"), tmp_path / "é中")
    for form in ("junit", "markdown"):
        command = [sys.executable, "-m", "ckpt_cli", "verify", "é中/ckpt", "--format", form]
        told = {
            subprocess.run(
                command,
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": ROOT, "PYTHONIOENCODING": encoding},
                capture_output=True,
                check=False,
            ).stdout
            for encoding in ("utf-8", "latin-1", "ascii")
        }
        assert len(told) == 1
        assert "é中/ckpt" in told.pop().decode()


def test_a_form_wants_something_to_tell(place: Path, ckpt: Callable) -> None:
    done = ckpt("stats", place / "bad-1", "--format", "sarif")
    assert (done.code, "--fail-on" in done.err) == (2, True)
    done = ckpt("verify", place / "bad-1", "--format", "sarif", "--json")
    assert done.code == 2
