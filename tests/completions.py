"""The files in completions/, which are what `ckpt completion SHELL` prints.

`python -m tests.completions` writes today's; a test fails when they are stale.
"""

from __future__ import annotations

import os

from ckpt_cli.cli.completion import SHELLS, script
from ckpt_cli.cli.main import cli

DIRECTORY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "completions")


def files() -> dict[str, str]:
    """Return the text of each file, by its path."""
    return {os.path.join(DIRECTORY, f"ckpt.{shell}"): script(shell, cli) for shell in SHELLS}


if __name__ == "__main__":
    os.makedirs(DIRECTORY, exist_ok=True)
    for path, text in files().items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
