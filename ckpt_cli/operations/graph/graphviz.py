"""A picture laid out by Graphviz's `dot`, where that is installed."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from formats.errors import ConversionError

from .pictures import dot

if TYPE_CHECKING:
    from .folding import Drawing

_PATIENCE = 300
"""The timeout of dot in seconds: unreadably large graphs take long."""


def laid_out(drawing: Drawing) -> bytes:
    """Return a drawing as dot's SVG; ConversionError if there is no dot, or it fails."""
    program = shutil.which("dot")
    if program is None:
        hints = ("install Graphviz (apt install graphviz)", "remove --engine to use ckpt's own layout")
        raise ConversionError("--engine dot needs Graphviz's dot, which is not installed", hints=hints)
    try:
        done = subprocess.run(  # noqa: S603  whose dot is found by PATH, as the user wants
            [program, "-Tsvg"],
            input=dot(drawing).encode(),
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        message = f"dot did not finish within {_PATIENCE} seconds"
        way = "to draw fewer levels, pass --depth"
        raise ConversionError(message, path=drawing.title, hints=(way,)) from error
    if done.returncode:
        complaint = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise ConversionError(
            f"dot failed: {complaint or f'exit code {done.returncode}'}", path=drawing.title
        )
    return done.stdout
