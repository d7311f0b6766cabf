"""A drawing for the docs: the objects of a checkpoint, next to the key that each has in the file."""

from __future__ import annotations

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
