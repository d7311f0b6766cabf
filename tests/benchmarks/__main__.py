"""`make bench`: every bar as a row; the last line says how many hold.  Judges nothing."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from typing import TYPE_CHECKING

from tests.benchmarks import reading, training, writing

if TYPE_CHECKING:
    from tests.benchmarks.harness import Row

SUITES = (reading, writing, training)


def main() -> None:
    print(f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}")
    print(f"{'':<60} {'ckpt':>12} {'rival':>12} {'figure':>8} {'bar':>9}")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="ckpt-bench-", dir=os.environ.get("CKPT_BENCH_DIR")) as directory:
        for suite in SUITES:
            for row in suite.rows(directory):
                rows.append(row)
                print(row, flush=True)
    print(f"{sum(row.holds for row in rows)} of {len(rows)} bars hold")
    with open("bench-results.json", "w", encoding="utf-8") as file:
        json.dump({"python": sys.version, "rows": [row._asdict() for row in rows]}, file, indent=1)


main()
