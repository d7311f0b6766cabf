"""Print the table of conversions: python -m tests.interop.families --help."""

from __future__ import annotations

import argparse
import fnmatch
import os
import tempfile

from tests.interop.conftest import TensorFlow
from tests.interop.families import drive


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.families", description=__doc__)
    parser.add_argument("--generation", choices=sorted(drive.RELEASES), action="append")
    parser.add_argument("--family", metavar="GLOB", action="append", help="families by name")
    parser.add_argument("--direction", metavar="GLOB", help="as in 'keras3 tf>keras like'")
    parser.add_argument(
        "--cache", default=os.path.join(_memory(), "ckpt-families"), help="where natives are kept"
    )
    parser.add_argument(
        "--results", metavar="FILE", help="append each verdict, and try no case that is there"
    )
    parser.add_argument("--before", metavar="FILE", help="the results of an earlier run to compare with")
    parser.add_argument("--record", action="store_true", help="write what is found to known.json")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each case with its message")
    options = parser.parse_args()
    found = drive.read(options.results) if options.results and os.path.exists(options.results) else []
    with drive.starting() as starter:
        for generation in options.generation or sorted(drive.RELEASES):
            tensorflow = TensorFlow(drive.RELEASES[generation])
            families = drive.Families(tensorflow, generation, options.cache)
            found += _judged(families, {judged.case for judged in found}, options, starter)
            tensorflow.close()
    print(drive.table(found))
    if options.before:
        print("\nchanged:\n" + drive.compare(drive.read(options.before), found))
    if options.record:
        known = drive.Known.read()
        known.learn(found)
        known.write()


def _judged(
    families: drive.Families, known: set[drive.Case], options: argparse.Namespace, starter: drive.Starter
) -> list[drive.Judged]:
    found = []
    for name in families.names():
        if options.family and not any(fnmatch.fnmatchcase(name, glob) for glob in options.family):
            continue
        for case in families.cases(name):
            if case in known or not fnmatch.fnmatchcase(case.direction, options.direction or "*"):
                continue
            judged = families.judge(case, starter)
            found.append(judged)
            if options.results:
                drive.write(options.results, judged)
            if options.verbose:
                print(drive.told(judged), flush=True)
    return found


def _memory() -> str:
    return "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()


if __name__ == "__main__":
    main()
