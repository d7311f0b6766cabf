"""Draws docs/performance.svg from the table of docs/performance.md: `python -m tests.benchmarks.picture`."""

from __future__ import annotations

import os
import re
from html import escape

from tests.benchmarks.harness import ROOT

PAGE = os.path.join(ROOT, "docs", "performance.md")
PICTURE = os.path.join(ROOT, "docs", "performance.svg")
ROWS = {
    "ls, small bundle, times as fast as TensorFlow": ("list a small checkpoint", "TensorFlow"),
    "verify 2 GB / sha256sum": ("verify 2 GB", "sha256sum"),
    "read all of 2 GB, checksums verified, as fast as TensorFlow": ("read 2 GB", "TensorFlow"),
    "convert 2 GB bundle to .safetensors / cp and sync": ("convert 2 GB, verified", "cp and sync"),
    "convert --link 2 GB to objects, beyond start-up / TensorFlow reading and saving": (
        "convert 2 GB, sharing the data",
        "TensorFlow",
    ),
}
"""The rows of the table that are drawn: what each does, and the other program."""

WIDTH, LEFT, BAR, HEIGHT = 470, 96, 300, 64
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#111}.work{font-weight:600}"
    ".ckpt{fill:#2563eb}.rival{fill:#9ca3af}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}.ckpt{fill:#7aa2ff}.rival{fill:#6b7280}}"
)


def times(page: str) -> dict[str, tuple[float, float]]:
    """Return the seconds of `ckpt` and of the other program, for each row that is drawn."""
    found = {}
    for name in ROWS:
        row = re.search(rf"^\| {re.escape(name)} \| ([\d.]+) s \| ([\d.]+) s \|", page, re.MULTILINE)
        assert row, f"docs/performance.md has no row {name!r}"
        found[name] = (float(row[1]), float(row[2]))
    return found


def drawn() -> bytes:
    """Return the picture of the page as it is today; each pair of bars has a scale of its own."""
    with open(PAGE, encoding="utf-8") as file:
        found = times(file.read())
    parts = []
    for number, (name, (work, rival)) in enumerate(ROWS.items()):
        top = number * (HEIGHT + 14) + 18
        parts.append(f'<text class="work" x="0" y="{top}">{escape(work)}</text>')
        longest = max(found[name])
        for line, (kind, label, seconds) in enumerate(
            zip(("ckpt", "rival"), ("ckpt", rival), found[name], strict=True)
        ):
            y = top + 10 + line * 22
            width = max(2, seconds / longest * BAR)
            parts.append(f'<text x="{LEFT - 10}" y="{y + 13}" text-anchor="end">{escape(label)}</text>')
            parts.append(f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{width:.1f}" height="17" rx="2"/>')
            parts.append(f'<text x="{LEFT + width + 8:.1f}" y="{y + 13}">{seconds:.2f} s</text>')
    height = len(ROWS) * (HEIGHT + 14)
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    title = "<title>Times of ckpt and of another program, for five jobs; shorter is better</title>"
    return "\n".join([head, title, f"<style>{STYLE}</style>", *parts, "</svg>\n"]).encode()


def main() -> None:
    with open(PICTURE, "wb") as file:
        file.write(drawn())


if __name__ == "__main__":
    main()
