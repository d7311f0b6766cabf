"""SARIF 2.1.0, which code scanning of GitHub and others read.

A checkpoint has no lines: damage has an offset in bytes, and a required line is the first.
https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from formats.core.version import VERSION

from ...operations.report.findings import uri
from ..base import escape
from .words import sentence, title

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...operations.report.findings import Identified, Report

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
HOME = "https://github.com/ckpt-tools/ckpt"

MOST_RESULTS = 25_000
"""GitHub refuses a run with more; errors come first."""

MOST_BYTES = 9_000_000
"""Bytes of results, compressed: GitHub refuses a file of 10 MB that gzip made."""


def render(report: Report) -> str:
    found = list(report.identified())
    codes = sorted({each.finding.code for each in found})
    shown = _taken(_result(each, codes.index(each.finding.code)) for each in found[:MOST_RESULTS])
    driver = {
        "name": "ckpt",
        "version": VERSION,
        "informationUri": HOME,
        "rules": [_rule(code) for code in codes],
    }
    invocation: dict[str, Any] = {"executionSuccessful": True}
    if len(found) > len(shown):
        text = f"{len(found) - len(shown):,} more findings not included; --format json lists all"
        invocation["toolExecutionNotifications"] = [{"level": "warning", "message": {"text": text}}]
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"ckpt-{report.command}/"},
        "invocations": [invocation],
        "results": shown,
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _taken(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first results, as many as are taken when they are compressed."""
    taken, size, packer = [], 0, zlib.compressobj()
    for result in results:
        size += len(packer.compress(json.dumps(result).encode()))
        if size > MOST_BYTES:
            break
        taken.append(result)
    return taken


def _rule(code: str) -> dict[str, Any]:
    return {
        "id": code,
        "shortDescription": {"text": title(code)},
        "helpUri": f"{HOME}/blob/main/docs/reference.md#findings",
    }


def _result(each: Identified, rule: int) -> dict[str, Any]:
    finding = each.finding
    region: dict[str, int] = {"startLine": 1}
    if finding.offset is not None and finding.offset >= 0:
        region |= {"byteOffset": finding.offset, "byteLength": 1}
    place: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": uri(each.file)}, "region": region}
    }
    if finding.key:
        place["logicalLocations"] = [{"fullyQualifiedName": escape(finding.key), "kind": "member"}]
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": sentence(finding)},
        "locations": [place],
        # GitHub knows a result again by the first name alone; where that is missing it is made of the
        # file's first line, which all findings of a checkpoint have in common.
        "partialFingerprints": {
            "primaryLocationLineHash": each.fingerprint,
            "ckptFinding/v1": each.fingerprint,
        },
    }
