"""Puts the table of the last `make bench` into docs/performance.md, and draws its picture.

`python -m tests.benchmarks.table` does it.
"""

from __future__ import annotations

import json
import os
import re

from tests.benchmarks import picture
from tests.benchmarks.harness import ROOT, Row

_BLOCK = re.compile(r"(<!-- benchmarks -->\n).*?(<!-- end -->)", re.DOTALL)


def table(machine: str, rows: list[Row]) -> str:
    """Return the rows as Markdown, under a line that says which machine it was."""
    lines = [
        f"The figures are medians. `ckpt` and the rival ran alternately on a virtual machine: {machine}.",
        "",
        "| work | ckpt | rival | figure | limit | met | memory |",
        "| --- | ---: | ---: | ---: | ---: | --- | ---: |",
    ]
    for row in rows:
        figure = "" if row.figure is None else f"{row.figure:.2f}"
        holds = {True: "yes", False: "**no**", None: ""}[row.holds]
        peak = f"{row.peak / 1e6:.0f} MB" if row.peak else ""
        cells = (
            row.name,
            row.ours,
            row.rival,
            figure,
            row.bar.replace("<=", "≤").replace(">=", "≥"),
            holds,
            peak,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    with open(os.path.join(ROOT, "bench-results.json"), encoding="utf-8") as file:
        document = json.load(file)
    if document["quick"]:
        raise SystemExit("the last run was a quick one; make bench first")
    text = table(document["machine"], [Row(**row) for row in document["rows"]])
    path = os.path.join(ROOT, "docs", "performance.md")
    with open(path, encoding="utf-8") as file:
        page = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(_BLOCK.sub(lambda match: match[1] + "\n" + text + "\n" + match[2], page))
    picture.main()


if __name__ == "__main__":
    main()
