"""A copy of the checkout in which one module at a time is changed, and the tests that are run there."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from tests.mutants.points import mutated, probed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.mutants.points import Point

__all__ = ["ROOT", "Copy", "Met", "Tests"]

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

BUDGET = 45.0
"""CPU seconds that the tests may take, all together, that one mutant meets in one stage."""

_MARKS = "not interop and not fuzz and not servers and not cluster and not browser"
_MARKS += " and not shells and not packs and not recipes"
_LIGHT = ("--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:pytest_cov")
"""Leaves out what a run does not need: a test that fails need not say why."""

HANGS = (-signal.SIGXCPU, -signal.SIGALRM)
"""How pytest ends where a test takes more CPU seconds than it may, or sleeps for ever."""


class Met(NamedTuple):
    """The verdict on a mutant (killed, hangs, survived or unseen), and the test that failed or did not
    end.
    """

    what: str
    test: str = ""

    @property
    def is_noticed(self) -> bool:
        return self.what in ("killed", "hangs")


def limits(expected: float) -> tuple[int, int]:
    """Return the CPU seconds and the seconds of the clock that a test may take.

    `expected` are its CPU seconds without a mutant.

    The CPU seconds decide.  The clock ends a test that sleeps for ever, and no other, even on a busy machine,
    where a process gets a small part of a CPU.
    """
    return math.ceil(30 + 10 * expected), math.ceil(300 + 100 * expected)


class Copy:
    """What git tracks, in a folder.

    Compiled files there are checked by the hash of their source, which changes several times a second.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in listed.decode().split("\0"):
            if name and os.path.exists(os.path.join(ROOT, name)):
                os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
                shutil.copy(os.path.join(ROOT, name), os.path.join(folder, name), follow_symlinks=False)
        command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash"]
        subprocess.run(
            [*command, "formats", "ckpt_cli", "tests"], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )

        self._texts: dict[str, str] = {}

    def text(self, path: str) -> str:
        """Return a module as it was copied; the checkout may change meanwhile."""
        if path not in self._texts:
            with open(os.path.join(self.folder, path), encoding="utf-8") as file:
                self._texts[path] = file.read()
        return self._texts[path]

    def put(self, path: str, text: str) -> None:
        with open(os.path.join(self.folder, path), "w", encoding="utf-8") as file:
            file.write(text)

    def probe(self, sample: Mapping[int, Point]) -> None:
        """Have the modules tell which of the points of a sample, called by their place in it, are come to."""
        for path in {point.path for point in sample.values()}:
            numbers = {point.number: told for told, point in sample.items() if point.path == path}
            self.put(path, probed(self.text(path), numbers))

    def mutate(self, point: Point) -> None:
        self.put(point.path, mutated(self.text(point.path), point.number))

    def restore(self, points: Iterable[Point]) -> None:
        for path in {point.path for point in points}:
            self.put(path, self.text(path))


class Tests:
    """Runs tests in a copy."""

    def __init__(self, copied: Copy, work: str) -> None:
        self._copy, self._work = copied, work
        self.left_out: list[str] = []
        self._passed: dict[str, tuple[float, set[int]]] = {}
        """Of each test that passes its CPU seconds, and the points that it comes to; in their order."""
        self._met: dict[int, set[str]] = {}
        """The tests that a mutant has met."""
        self._sound: set[str] = set()
        """Tests that fail or do not end because of a mutant, and pass without one."""

    def record(self, paths: Sequence[str]) -> None:
        """Run tests, and note which come to which point; those that fail are left out."""
        if not paths:
            return
        seen = os.path.join(self._work, "seen")
        self._run(paths, CKPT_MUTANTS_SEEN=f"0:{seen}")
        if not os.path.exists(seen + ".json"):
            sys.exit(self._output())
        with open(seen + ".json", encoding="utf-8") as file:
            found = json.load(file)
        os.remove(seen + ".json")
        if not found["tests"]:  # a module of them cannot be imported
            sys.exit(self._output())
        for name, (seconds, points) in found["tests"].items():
            self._passed[name] = seconds, {*points, *found["shared"].get(_file_of(name), ())}
            self._passed[name][1].update(found["shared"].get("", ()))
        self.left_out += found["failed"]

    def __len__(self) -> int:
        return len(self._passed)

    def meet(self, told: int, point: Point) -> Met:
        """Have a mutant meet the tests that come to it and that it has not met, until one fails."""
        names = self._reaching(told)
        if not names:
            return Met("unseen")
        met = self._meet_mutated(point, names)
        while met.is_noticed and not self._is_sound(met.test, names):
            names.remove(met.test)
            self._passed.pop(met.test)
            self.left_out.append(met.test)
            met = self._meet_mutated(point, names)
        return met

    def _meet_mutated(self, point: Point, names: Sequence[str]) -> Met:
        self._copy.mutate(point)
        try:
            return self._meet(names)
        finally:
            self._copy.restore([point])

    def _is_sound(self, test: str, names: Sequence[str]) -> bool:
        """Whether a test that failed or did not end passes without the mutant, within the same limits.

        It is run after those of its file that are run here.
        """
        if test not in self._sound:
            beside = [name for name in names if _file_of(name) == _file_of(test)]
            if self._meet(beside).what != "survived":
                return False
            self._sound.add(test)
        return True

    def _reaching(self, told: int) -> list[str]:
        """Return the tests that come to a point, the fastest, in their order."""
        before = self._met.setdefault(told, set())
        reaching = [name for name in self._passed.keys() - before if told in self._passed[name][1]]
        left = BUDGET
        for name in sorted(reaching, key=lambda name: self._passed[name][0]):
            left -= self._passed[name][0]
            if left >= 0:
                before.add(name)
        return [name for name in self._passed if name in before and name in reaching]

    def _meet(self, names: Sequence[str]) -> Met:
        """Run tests file by file, what takes the least time first, until one fails."""
        if not names:  # all are left out
            return Met("survived")
        seconds = dict.fromkeys(map(_file_of, names), 0.0)
        for name in names:
            seconds[_file_of(name)] += self._passed[name][0]
        only, last = (os.path.join(self._work, name) for name in ("only", "last"))
        with open(only, "w", encoding="utf-8") as file:
            json.dump({name: limits(self._passed[name][0]) for name in names}, file)
        with suppress(FileNotFoundError):
            os.remove(last)
        files = sorted(seconds, key=seconds.__getitem__)
        code = self._run(["-x", *files], CKPT_MUTANTS_ONLY=only, CKPT_MUTANTS_LAST=last)
        if code == 0:
            return Met("survived")
        what = "hangs" if code in HANGS else "killed"
        if not os.path.exists(last):  # a module cannot be imported
            return Met(what, names[0])
        with open(last, encoding="utf-8") as file:
            return Met(what, file.read())

    def _run(self, arguments: Iterable[str], **variables: str) -> int:
        """Return how pytest ended."""
        temporary = tempfile.mkdtemp(dir=self._work)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutants.plugin", "-m", _MARKS, *_LIGHT]
        command += ["--basetemp", os.path.join(temporary, "pytest"), *arguments]
        settings = {"TMPDIR": temporary, "HOME": temporary, "PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
        with open(os.path.join(self._work, "output"), "wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self._copy.folder,
                env={**os.environ, **settings, **variables},
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                return process.wait()
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                shutil.rmtree(temporary, ignore_errors=True)

    def _output(self) -> str:
        with open(os.path.join(self._work, "output"), encoding="utf-8", errors="replace") as file:
            return file.read()


def _file_of(test: str) -> str:
    return test.partition("::")[0]
