"""Drawings for the docs: a terminal, and the objects of a checkpoint next to their keys in the file."""

from __future__ import annotations

import re
from html import escape
from typing import Any

ROW, STEP, LETTER, LEFT = 22, 24, 7.25, 12
STYLE = (
    "text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#111}"
    ".edge{fill:none;stroke:#999}.to{stroke:#ccc;stroke-dasharray:2 3}"
    ".slot{stroke:orange;stroke-dasharray:4 3}"
    ".suffix{fill:#777}.head{fill:#777}"
    ".object{fill:#111}.variable{fill:#2563eb}.optimizer{fill:#dc2626}.slots{fill:orange}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}.object{fill:#eee}.suffix,.head{fill:#aaa}"
    ".to{stroke:#555}.variable{fill:#7aa2ff}.optimizer{fill:#ff6b6b}}"
)
SUFFIXES = ("/.ATTRIBUTES/VARIABLE_VALUE", "/.ATTRIBUTES/ITERATOR_STATE")


def _rows(nodes: list[dict[str, Any]]) -> list[tuple[str, str, dict[str, Any], int]]:
    """Return edge, class of the mark, node and depth of each object, parents first."""
    by_id = {node["id"]: node for node in nodes}
    slots = [slot for node in nodes for slot in node["slots"]]
    found: list[tuple[str, str, dict[str, Any], int]] = []

    def visit(name: str, node: dict[str, Any], depth: int) -> None:
        mark = "optimizer" if node["slots"] else "variable" if node["key"] else "object"
        found.append((name, mark, node, depth))
        for slot in slots:
            if slot["variable"] == node["id"]:
                found.append((slot["name"], "slots", by_id[slot["id"]], depth + 1))
        for child in node["children"]:
            visit(child["name"], by_id[child["id"]], depth + 1)

    visit("(root)", nodes[0], 0)
    return found


def _key(key: str, x: float, y: float) -> str:
    suffix = next((each for each in SUFFIXES if key.endswith(each)), "")
    name = escape(key.removesuffix(suffix))
    return f'<text x="{x:.0f}" y="{y}">{name}<tspan class="suffix">{suffix}</tspan></text>'


def objects_and_keys(document: dict[str, Any]) -> bytes:
    """Return the document of `ckpt graph --json` as a picture: a tree on the left, keys on the right."""
    rows = _rows(document["nodes"])
    right = LEFT + max(depth * STEP + 16 + len(name) * LETTER for name, _, _, depth in rows) + 34
    width = right + max(len(node["key"] or "") for _, _, node, _ in rows) * LETTER + LEFT
    parts = [
        f'<text class="head" x="{LEFT}" y="18">objects of the program</text>',
        f'<text class="head" x="{right:.0f}" y="18">keys in the file</text>',
    ]
    above: dict[int, int] = {}
    for number, (name, mark, node, depth) in enumerate(rows, 2):
        x, y = LEFT + 5 + depth * STEP, number * ROW
        if depth:
            kind = "edge slot" if mark == "slots" else "edge"
            parts.append(f'<path class="{kind}" d="M{x - STEP} {above[depth - 1] + 6}V{y}H{x - 6}"/>')
        above[depth] = y
        parts.append(f'<circle class="{mark}" cx="{x}" cy="{y}" r="5"/>')
        parts.append(f'<text x="{x + 11}" y="{y + 4}">{escape(name)}</text>')
        if node["key"]:
            parts.append(
                f'<path class="edge to" d="M{x + 18 + len(name) * LETTER:.0f} {y}H{right - 8:.0f}"/>'
            )
            parts.append(_key(node["key"], right, y + 4))
    size = f'width="{width:.0f}" height="{(len(rows) + 2) * ROW - 6}"'
    box = f'viewBox="0 0 {width:.0f} {(len(rows) + 2) * ROW - 6}"'
    title = "<title>The objects of a program, and their keys in the checkpoint</title>"
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} role="img">\n{title}\n<style>{STYLE}</style>\n'
    )
    return (svg + "\n".join(parts) + "\n</svg>\n").encode()


# A terminal ---------------------------------------------------------------------------

COLUMN, LINE, MARGIN, BAR = 7.8, 19, 16, 34
COLOURS = {
    "31": "#ff7b72",
    "32": "#7ee787",
    "33": "#e3b341",
    "34": "#79c0ff",
    "35": "#d2a8ff",
    "36": "#76e3ea",
}
TERMINAL = (
    "text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}"
    ".b{font-weight:700}.d{fill:#8b949e}"
    + "".join(f".c{code}{{fill:{colour}}}" for code, colour in COLOURS.items())
)


def _spans(line: str, y: float) -> str:
    """Return a line of a terminal, each run of one colour at its own column."""
    parts: list[str] = []
    column, styles = 0, set[str]()
    for sequence, text in re.findall(r"\x1b\[([\d;]*)m|([^\x1b]+)", line):
        if text:
            names = " ".join(sorted(styles))
            head = f'<tspan x="{MARGIN + column * COLUMN:.1f}"' + (f' class="{names}">' if names else ">")
            parts.append(f"{head}{escape(text)}</tspan>")
            column += len(text)
            continue
        for code in (sequence or "0").split(";"):
            styles = set() if code == "0" else styles | {{"1": "b", "2": "d"}.get(code, f"c{code}")}
    return f'<text y="{y:.0f}" xml:space="preserve">{"".join(parts)}</text>'


def terminal(lines: list[str]) -> bytes:
    """Return lines of a terminal as a picture of its window."""
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    width = max(map(len, plain)) * COLUMN + 2 * MARGIN
    height = BAR + len(lines) * LINE + MARGIN
    size = f'width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        "<title>ckpt in a terminal</title>",
        f"<style>{TERMINAL}</style>",
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#0d1117"/>',
        *(f'<circle cx="{18 + 18 * at}" cy="17" r="5" fill="#484f58"/>' for at in range(3)),
        *(_spans(line, BAR + LINE * number + 14) for number, line in enumerate(lines)),
    ]
    return "\n".join([*parts, "</svg>\n"]).encode()
