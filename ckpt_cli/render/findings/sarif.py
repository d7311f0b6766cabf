"""SARIF 2.1.0, which code scanning of GitHub and others read.

A checkpoint has no lines: what is damaged is told by its offset in bytes, and where a line must
stand it is the first.  https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from formats.core.version import VERSION

from ...operations.report.findings import uri
from ..base import escape
from .words import sentence, title

if TYPE_CHECKING:
    from ...operations.report.findings import Identified, Report

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
HOME = "https://github.com/ckpt-tools/ckpt"

MOST_RESULTS = 25_000
"""GitHub refuses a run with more; errors come first."""


def render(report: Report) -> str:
    found = list(report.identified())
    shown = found[:MOST_RESULTS]
    codes = sorted({each.finding.code for each in shown})
    driver = {
        "name": "ckpt",
        "version": VERSION,
        "informationUri": HOME,
        "rules": [_rule(code) for code in codes],
    }
    invocation: dict[str, Any] = {"executionSuccessful": True}
    if len(found) > len(shown):
        text = f"{len(found) - len(shown):,} more findings are left out; --format json has them all"
        invocation["toolExecutionNotifications"] = [{"level": "warning", "message": {"text": text}}]
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"ckpt-{report.command}/"},
        "invocations": [invocation],
        "results": [_result(each, codes.index(each.finding.code)) for each in shown],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


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
        "partialFingerprints": {"ckptFinding/v1": each.fingerprint},
    }
