r"""Text that GitHub Actions does not take for commands.

The runner reads the output of a step, and obeys lines such as `::add-mask::x`, also after white space. It
obeys its older commands, `##[add-mask]x`, anywhere in a line. A key can be either, so in a step the first
character of such a command is printed as `\xNN`.
https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
"""

from __future__ import annotations

import os
import re

__all__ = ["without_commands"]

_COMMAND = r"(?m)(^[^\S\n]*):(?=:)"
_OLDER_COMMAND = "##["


def without_commands(text: str) -> str:
    """Return lines of text as they may be printed here; they are changed in steps of GitHub Actions alone."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return text
    return re.sub(_COMMAND, r"\1\\x3a", text).replace(_OLDER_COMMAND, r"\x23#[")
