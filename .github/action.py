"""Runs `ckpt` with the inputs of action.yml: once for code scanning, once for the step's log."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

COMMANDS = ("verify", "diff", "stats")
USAGE = 2

_QUOTED_OR_ESCAPED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.""", re.DOTALL)


def words_of(text: str) -> list[str]:
    """Return the words of all lines, as a shell splits them; nothing is expanded.

    Raises ValueError for what is no line of a command that the action can run.
    """
    # A backslash at the end of a line joins two lines in a shell, and does not for shlex.
    joined = _QUOTED_OR_ESCAPED.sub(lambda found: "" if found[0] == "\\\n" else found[0], text)
    try:
        words = shlex.split(joined)
    except ValueError as error:
        raise ValueError(f"{str(error).lower()}: {text.strip()}") from error
    if not words or words[0] not in COMMANDS:
        found = repr(words[0]) if words else "nothing"
        raise ValueError(f"expected verify, diff or stats as the first word, found {found}")
    options = words[: words.index("--")] if "--" in words else words
    for word in options:
        if word.partition("=")[0] in ("--format", "--json"):
            raise ValueError(f"the action chooses the output format itself; remove {word}")
    return words


def signed(command: str, signature: str, public_key: str) -> list[str]:
    """Return the options that verify a signature; ValueError where one of them is missing."""
    if not (signature or public_key):
        return []
    if not (signature and public_key):
        raise ValueError("signature and public-key go together")
    if command != "verify":
        raise ValueError(f"signature needs verify as the first word, found {command!r}")
    return [f"--signature={signature}", f"--public-key={public_key}"]


def main() -> int:
    try:
        command, *words = words_of(os.environ["ARGUMENTS"])
        words = [*signed(command, os.environ.get("SIGNATURE", ""), os.environ.get("PUBLIC_KEY", "")), *words]
    except ValueError as error:
        message = " ".join(str(error).split()).replace("%", "%25")  # one line, as GitHub wants it
        print(f"::error title=ckpt::the action's input arguments: {message}")
        return USAGE
    ckpt = os.path.join(os.environ["RUNNER_TEMP"], "ckpt", "bin", "ckpt")
    sarif = os.path.join(os.environ["RUNNER_TEMP"], "ckpt.sarif")
    with open(sarif, "wb") as file:
        code = subprocess.run(
            [ckpt, command, "--format", "sarif", *words], stdout=file, check=False
        ).returncode
    code = subprocess.run([ckpt, command, "--format", "github", *words], check=False).returncode or code
    if os.path.getsize(sarif):
        with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as output:
            output.write(f"sarif={sarif}\n")
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
