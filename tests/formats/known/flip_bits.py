"""Read a file again and again, each time with a few bits flipped: a program for child processes.

    python flip_bits.py SOURCE WORKSPACE FIRST COUNT

Prints a line `SEED` before each trial, so that a parent knows which one a crash belongs
to, and `SEED OUTCOME` after it.  Exits with a traceback when anything but a
CheckpointError comes out.
"""

from __future__ import annotations

import os
import random
import sys

import formats


def flipped(data: bytes, seed: int) -> bytes:
    """Return `data` with one to four bits flipped, more often than not near the beginning of something."""
    dice = random.Random(seed)
    out = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4))):
        out[dice.randrange(len(out))] ^= 1 << dice.randrange(8)
    return bytes(out)


def read_all(path: str) -> str:
    """Open, list, read and verify a file; return what came of it."""
    try:
        with formats.open_checkpoint(path, lenient=True) as reader:
            assert len(reader.kinds) == len(reader.specs)
            assert isinstance(reader.facts.document(), dict)
            damaged = 0
            for key in reader:
                try:
                    reader[key].read()
                except formats.CheckpointError:
                    damaged += 1
            findings = sum(len(step.findings) for step in reader.verify())
    except formats.CheckpointError as error:
        return "refused" if str(error) else "refused without a word"
    return "damaged" if damaged or findings else "read"


def main() -> None:
    source, workspace, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with open(source, "rb") as file:
        data = file.read()
    target = os.path.join(workspace, os.path.basename(source))
    for seed in range(first, first + count):
        print(seed, end=" ", flush=True)
        with open(target, "wb") as file:
            file.write(flipped(data, seed))
        print(read_all(target), flush=True)


if __name__ == "__main__":
    main()
