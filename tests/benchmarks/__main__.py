"""`make bench`: every bar as a row, judged.

With `--quick` a sixteenth of the data in a minute, and no verdict; with names of suites, these alone.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from typing import TYPE_CHECKING

from tests.benchmarks import comparing, listing, reading, training, writing
from tests.benchmarks.harness import HEADER, Missing, Row, Scale

if TYPE_CHECKING:
    from collections.abc import Iterator

SUITES = (listing, reading, writing, comparing, training)


def rows(scale: Scale, only: list[str]) -> Iterator[Row]:
    """Yield all rows.  A row whose rival is missing says so."""
    for suite in SUITES:
        if only and suite.__name__.rpartition(".")[2] not in only:
            continue
        with tempfile.TemporaryDirectory(
            prefix="ckpt-bench-", dir=os.environ.get("CKPT_BENCH_DIR")
        ) as folder:
            for name, measure in suite.rows(folder, scale):
                try:
                    yield measure()
                except Missing as missing:
                    yield Row(name, missing=str(missing))


def machine() -> str:
    with open("/proc/meminfo", encoding="ascii") as file:
        kilobytes = int(file.readline().split()[1])
    return (
        f"{platform.machine()}, {os.cpu_count()} processors, {kilobytes / 1e6:.0f} GB of memory, "
        f"Linux {platform.release()}, Python {platform.python_version()}"
    )


def main(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    scale = Scale(1 / 16, 1) if quick else Scale()
    only = [argument for argument in arguments if not argument.startswith("-")]
    print(machine())
    print(HEADER)
    found: list[Row] = []
    for row in rows(scale, only):
        shown = row._replace(name=row.name, bar="", holds=None) if quick else row
        found.append(shown)
        print(shown, flush=True)
    with open("bench-results.json", "w", encoding="utf-8") as file:
        document = {"machine": machine(), "quick": quick, "rows": [row._asdict() for row in found]}
        json.dump(document, file, indent=1)
    judged = [row for row in found if row.holds is not None]
    if quick:
        print(f"{len(found)} rows; bars are for `make bench`")
        return 0
    print(f"{sum(bool(row.holds) for row in judged)} of {len(judged)} bars hold")
    return int(not all(row.holds for row in judged))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
