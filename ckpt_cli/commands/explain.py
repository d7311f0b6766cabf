"""`ckpt explain`: what an error message means, and the commands that help."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import click

from formats.core.words import command_line

from ..cli.help import subcommand
from ..cli.options import color_option, json_option
from ..render import base as render

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ..operations.look.explain import Explanation

__all__ = ["command"]


def _offer(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    from click.shell_completion import CompletionItem

    from ..operations.look.complaints import topics

    offered = [CompletionItem(name) for name in topics() if name.startswith(incomplete)]
    return [*offered, CompletionItem(incomplete, type="file")]


@subcommand("explain", paged=True)
@click.argument("what", required=False, metavar="[FILE|-|TOPIC]", shell_complete=_offer)
@json_option
@color_option
def command(what: str | None, *, as_json: bool) -> int:
    """Explain an error message, and show which commands help.

    Reads an error or a traceback of TensorFlow, Keras, h5py, numpy, safetensors, PyTorch or
    ckpt from FILE or stdin. Only the last megabyte is searched. You can also pass the message
    itself as one quoted argument. The printed commands contain the paths and keys of the
    message. Without an argument, lists the TOPICs. Exits 1 if the message is unknown.

    \b
      python train.py 2>&1 | ckpt explain
      ckpt explain error.txt
      ckpt explain 'Not found: Key global_step not found in checkpoint'
      ckpt explain exit-codes
    """
    from ..operations.look.explain import explain_topic

    if what is None:
        content, left_out = _read("-") if _stdin_has_text() else (b"", 0)
        if not content:
            return _list_topics(as_json=as_json)
        return _explain_text("-", content, left_out, as_json=as_json)
    topic = explain_topic(what)
    is_file = os.path.lexists(what) and not os.path.isdir(what)
    if topic is not None and not is_file:
        _print([topic], as_json=as_json)
        return 0
    if topic is not None:
        render.note(f"{what} is also the name of a topic, but the file of that name is explained")
    if not os.path.lexists(what) and _is_message(what):
        return _explain_text(None, os.fsencode(what), 0, as_json=as_json)
    return _explain_text(what, *_read(what), as_json=as_json)


def _is_message(what: str) -> bool:
    """Whether an argument that names no file is words rather than a path."""
    return len(what.split()) > 1


def _stdin_has_text() -> bool:
    """Whether something is piped or redirected into this command; /dev/null and a terminal are not."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # stdin is closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _list_topics(*, as_json: bool) -> int:
    from ..operations.look.complaints import topics

    rows = [(name, row.title) for name, row in topics().items()]
    if as_json:
        render.document({"matches": [], "topics": [{"name": name, "title": title} for name, title in rows]})
    elif render.is_terminal():
        render.table([render.Column("TOPIC"), render.Column("TITLE", prose=True)], rows)
    else:
        render.tsv(rows)
    render.note("to show a topic: ckpt explain TOPIC")
    render.note("to explain the error message in a file: ckpt explain FILE")
    return 0


def _explain_text(path: str | None, content: bytes, left_out: int, *, as_json: bool) -> int:
    """Explain a text from a path, or the message that an argument is."""
    from ..operations.look.explain import MOST_BYTES, explain

    if left_out:
        render.note(f"searched the last {MOST_BYTES:,} bytes and skipped {left_out:,} before them")
    found = explain(content.decode("utf-8", "surrogateescape"))
    if as_json or found:
        _print(found, as_json=as_json)
    if not found:
        shown = "standard input" if path == "-" else path
        hints = ["to list the topics: ckpt explain"]
        if b"\0" in content and path is not None and path != "-":
            hints.insert(0, f"to show a checkpoint instead: {command_line('show', path)}")
        is_unknown = "this message is not known" if path is None else f"{shown}: found no known error message"
        render.error_lines(is_unknown, hints)
    return 0 if found else 1


def _read(path: str) -> tuple[bytes, int]:
    """Return the end of a text, and the number of bytes before it."""
    from formats.errors import CheckpointNotFoundError, UnknownFormatError, UnsupportedFeatureError
    from formats.store.urls import public, scheme_of

    from ..operations.look.complaints import topics
    from ..operations.look.explain import read_end

    if path == "-":
        if sys.stdin is None:
            raise CheckpointNotFoundError("this stream is closed", path="standard input")
        return read_end(sys.stdin.buffer)
    if not os.path.lexists(path):
        if scheme := scheme_of(path):
            hint = "download the text, or pipe it into ckpt explain -"
            message = f"explain reads local files, not {scheme}:// URLs"
            raise UnsupportedFeatureError(message, path=public(path), hints=(hint,))
        import difflib

        close = difflib.get_close_matches(path, topics(), 1)
        message = f"no such file or topic{f'; did you mean {close[0]}?' if close else ''}"
        in_quotes = "put an error message in quotes, or pipe it into ckpt explain -"
        raise CheckpointNotFoundError(
            message, path=path, hints=(f"name a topic: {', '.join(topics())}", in_quotes)
        )
    with open(path, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
            raise UnknownFormatError("this is a device; expected a file, a pipe or -", path=path)
        return read_end(file)


def _print(found: list[Explanation], *, as_json: bool) -> None:
    if as_json:
        render.document({"matches": [match.document() for match in found]})
    elif render.is_terminal():
        for match in found:
            _show(match)
    else:
        for match in found:
            render.tsv([("title", match.title), ("meaning", match.meaning)])
            render.tsv(("entry", *entry) for entry in match.entries)
            render.tsv(("command", line) for line in match.commands)
    for word, meaning in {word: text for match in found for word, text in match.stand_ins.items()}.items():
        render.note(f"{word} is {meaning}")


def _show(match: Explanation) -> None:
    """Print one match on the terminal, wrapped to its width."""
    import textwrap

    width = min(100, render.room())
    wrapped = textwrap.wrap(match.meaning, width - 2, break_long_words=False, break_on_hyphens=False)
    render.title(match.title)
    render.lines(f"  {line}" for line in wrapped)
    wide = max((len(word) for word, _ in match.entries), default=0)
    for word, text in match.entries:
        first, *more = textwrap.wrap(text, max(30, width - wide - 6), break_on_hyphens=False) or [""]
        render.lines([f"    {word:{wide}}  {first}", *(f"    {'':{wide}}  {line}" for line in more)])
    # Names from a message are inserted only if they are printable, so commands can be pasted unchanged.
    render.lines(f"    {render.styled(line, fg='green')}" for line in match.commands)
