"""Text for people: names made safe for a terminal, and sizes."""

from __future__ import annotations


def escape(text: str) -> str:
    r"""Return text that is safe on a terminal and in a TSV line; `\` becomes `\\`, unsafe bytes `\xNN`.

    Unsafe is what Unicode does not call printable: control and format characters, marks
    that turn the writing direction, spaces that look like others, halves of characters.
    """
    if text.isprintable() and "\\" not in text:  # nearly always, and faster than looking for each
        return text
    return printable(text.replace("\\", "\\\\"))


def printable(text: str) -> str:
    r"""Return a sentence that is safe on a terminal; `\` stays, for what it quotes is escaped already."""
    return text if text.isprintable() else "".join(map(_escape_one, text))


def _escape_one(character: str) -> str:
    if character.isprintable():
        return character
    handler = "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", handler))


def human_size(nbytes: int | None) -> str:
    """Return bytes as people write them: 1.3 GB, powers of a thousand."""
    if nbytes is None:
        return "?"
    size = float(nbytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "B" or size >= 99.5 else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError
