"""`python -m tests.prose [PATHS]`: the sentences that break a rule of rules.toml.

Without PATHS it reads every page, every string that users see, and the docstrings and comments of all code.
It fails if a room has more findings than known.json or docstrings.json allows, and prints those of that room.
With PATHS it prints every finding in them.
"""

from __future__ import annotations

import argparse
import os
import sys

from .check import KNOWN, KNOWN_IN_CODE, findings, lower, too_many
from .texts import PACKAGES, PAGES, ROOT


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.prose", description=__doc__)
    parser.add_argument("paths", nargs="*", metavar="PATHS", help="Files and folders to read.")
    parser.add_argument(
        "--docstrings", action="store_true", help="Read docstrings and comments of code instead."
    )
    parser.add_argument("--write", action="store_true", help="Lower the numbers of findings to today's.")
    options = parser.parse_args()
    paths = [os.path.relpath(path, ROOT).replace(os.sep, "/") for path in options.paths]
    if options.docstrings or paths:
        shown = findings(paths or [*PACKAGES, "tests"], docstrings=options.docstrings)
    else:
        seen = (
            (KNOWN, findings([*PAGES, *PACKAGES])),
            (KNOWN_IN_CODE, findings([*PACKAGES, "tests"], docstrings=True)),
        )
        if options.write:
            for path, found in seen:
                lower(found, path)
        shown = [finding for path, found in seen for finding in too_many(found, path)]
    for finding in shown:
        print(finding)
    if shown:
        print(f"{len(shown)} findings", file=sys.stderr)
    return 1 if shown else 0


if __name__ == "__main__":
    sys.exit(main())
