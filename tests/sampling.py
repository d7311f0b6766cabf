"""Samples of matrices that are too large for each run, another one for each commit.

`make interop-all` and `CKPT_WHOLE=1 make test` go through the whole of them.
"""

from __future__ import annotations

import os
import random
import subprocess
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

Item = TypeVar("Item")


def seeds(few: int, whole: int) -> list[int]:
    """Return `few` of `whole` seeds, by the commit that is tested; all of them where CKPT_WHOLE is set."""
    if os.environ.get("CKPT_WHOLE"):
        return list(range(whole))
    return sorted(random.Random(_commit()).sample(range(whole), few))


def size(few: int, whole: int) -> int:
    """Return how large something is made: `whole` where CKPT_WHOLE is set, and `few` for each run."""
    return whole if os.environ.get("CKPT_WHOLE") else few


def turn(items: Sequence[Item], few: int, number: int) -> list[Item]:
    """Return `few` of the items for thing number `number`: those that follow what the one before it has.

    If there are as many cases as items, each item is used `few` times. The commit determines the first ones.
    With CKPT_WHOLE every case gets all items.
    """
    if os.environ.get("CKPT_WHOLE"):
        return list(items)
    (first,) = seeds(1, len(items))
    return [items[(first + number * few + each) % len(items)] for each in range(few)]


@cache
def _commit() -> str:
    """Return the commit that is checked out; where there is no git, always the same."""
    here = os.path.dirname(os.path.abspath(__file__))
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
