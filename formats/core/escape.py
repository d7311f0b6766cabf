"""Text from files made safe for terminals, TSV lines and identities."""

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
