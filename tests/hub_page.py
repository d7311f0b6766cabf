"""The table of architectures in the page about the Hub: `python -m tests.hub_page` writes it."""

from __future__ import annotations

from pathlib import Path

from ckpt_cli.operations.convert.hub.architectures import architectures

PAGE = Path(__file__).parent.parent / "docs" / "hub.md"
_BEGIN, _END = "<!-- architectures -->\n", "<!-- end -->"


def table() -> str:
    """Return the rows of all architectures."""
    lines = ["| `model_type` | TensorFlow | Flax |", "| --- | --- | --- |"]
    known = architectures()
    for model_type in sorted({name for name, _ in known}):
        cells = []
        for library in ("tensorflow", "flax"):
            names = sorted(name for one in known.get((model_type, library), ()) for name in one.classes)
            cells.append(", ".join(f"`{name}`" for name in names) or "no")
        lines.append(f"| `{model_type}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page with the current table."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    return f"{before}{_BEGIN}\n{table()}\n{_END}{rest.partition(_END)[2]}"


def write() -> None:
    """Write the table into the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
