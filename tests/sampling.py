"""Samples of matrices that are too large for each run, another one for each commit.

`make interop-all` goes through the whole of them.
"""

from __future__ import annotations

import os
import random
import subprocess


def seeds(few: int, whole: int) -> list[int]:
    """Return `few` of `whole` seeds, by the commit that is tested; all of them where CKPT_WHOLE is set."""
    if os.environ.get("CKPT_WHOLE"):
        return list(range(whole))
    return sorted(random.Random(_commit()).sample(range(whole), few))


def _commit() -> str:
    """Return the commit that is checked out; where there is no git, always the same."""
    here = os.path.dirname(os.path.abspath(__file__))
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
