"""Find the calls of numpy that hold the interpreter's lock: `python -m tests.benchmarks.locks [ELEMENTS]`.

Each call is timed by one thread and by two that do as much each, in turn; the least of several rounds counts.
Two threads take as long as one where the call lets others work, and twice as long where it holds the lock.
On a busy machine times do not tell. So another thread looks at the clock all the time: where it never could
while a call ran, the call holds the lock.
"""

from __future__ import annotations

import sys
import threading
import time
from bisect import bisect
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Call = Callable[[], object]
    Make = Callable[[int], Call]
    """Makes a call over so many elements, with arrays of its own."""

ROUNDS = 5
SECONDS = 0.03
"""How long a round takes one thread, about."""

LONG = 1 << 22
"""Elements that take long enough for another thread to wake up."""

LOOKS = 30
"""Calls that the other thread tries to look at the clock in."""

LET_IN = 0.1
"""Share of calls with a look from which on a call is taken not to hold the lock."""


class Timing(NamedTuple):
    """A call: microseconds of one thread's, times as long with two, share of calls that let others in."""

    name: str
    microseconds: float
    slower: float
    let_in: float

    @property
    def holds_lock(self) -> bool:
        return self.let_in < LET_IN

    def __str__(self) -> str:
        verdict = "holds the lock" if self.holds_lock else ""
        figures = f"{self.microseconds:>9.1f} {self.slower:>7.2f} {self.let_in:>7.0%}"
        return f"{self.name:<50} {figures}  {verdict}".rstrip()


HEADER = f"{'call':<50} {'us':>9} {'2 / 1':>7} {'let in':>7}"


def _seconds(calls: list[Call], number: int) -> float:
    """Return the seconds that threads take, one for each call."""
    barrier = threading.Barrier(len(calls) + 1)

    def work(call: Call) -> None:
        barrier.wait()
        for _ in range(number):
            call()
        barrier.wait()

    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    barrier.wait()
    began = time.perf_counter()
    barrier.wait()
    seconds = time.perf_counter() - began
    for thread in threads:
        thread.join()
    return seconds


def let_in(call: Call) -> float:
    """Return the share of calls in which another thread could look at the clock."""
    looks: list[float] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            looks.append(time.perf_counter())
            time.sleep(0)  # passes the lock on

    before = sys.getswitchinterval()
    sys.setswitchinterval(60)  # no thread is forced to release it
    other = threading.Thread(target=look)
    try:
        other.start()
        spans = []
        for _ in range(LOOKS):
            time.sleep(0)
            began = time.perf_counter()
            call()
            spans.append((began, time.perf_counter()))
    finally:
        over.set()
        sys.setswitchinterval(before)
        other.join()
    return sum(bisect(looks, end) > bisect(looks, begin) for begin, end in spans) / LOOKS


def timing(name: str, make: Make, size: int) -> Timing:
    """Time a call over so many elements."""
    calls = [make(size), make(size)]
    for call in calls:
        call()
    number = max(1, int(SECONDS / min(_seconds(calls[:1], 1) for _ in range(3))))
    rounds = [(_seconds(calls[:1], number), _seconds(calls, number)) for _ in range(ROUNDS)]
    one, two = (min(times) for times in zip(*rounds, strict=True))
    return Timing(name, one / number * 1e6, two / one, let_in(make(max(size, LONG))))


def calls() -> Iterator[tuple[str, Make]]:
    """Yield calls of numpy by name."""

    def made(name: str, dtype: Any, call: Callable[[Any, Any], object], room: Any = np.float64) -> Any:
        def make(size: int) -> Call:
            values = (np.random.default_rng(1).standard_normal(size) * 4).astype(dtype)
            out = np.empty(size, room)
            return lambda: call(values, out)

        return name, make

    rows = -1, 1 << 13
    yield made("count_nonzero(float64)", "f8", lambda x, _: np.count_nonzero(x))
    yield made("count_nonzero(float32)", "f4", lambda x, _: np.count_nonzero(x))
    yield made("count_nonzero(int64)", "i8", lambda x, _: np.count_nonzero(x))
    yield made("count_nonzero(int32)", "i4", lambda x, _: np.count_nonzero(x))
    yield made("count_nonzero(bool)", "?", lambda x, _: np.count_nonzero(x))
    yield made("equal(float32, 0, out=bool)", "f4", lambda x, out: np.equal(x, 0, out=out), "?")
    yield made("equal(float64, 0, out=bool)", "f8", lambda x, out: np.equal(x, 0, out=out), "?")
    yield made("not_equal(float32, float32)", "f4", lambda x, out: np.not_equal(x, x, out=out), "?")
    yield made("isnan(float32, out=bool)", "f4", lambda x, out: np.isnan(x, out=out), "?")
    yield made("float64 @ float64", "f8", lambda x, _: x @ x)
    yield made("float64 @ float64, rows of 8,192", "f8", lambda x, _: [r @ r for r in x.reshape(rows)])
    yield made("vdot(float64)", "f8", lambda x, _: np.vdot(x, x))
    yield made("vdot(float64), rows of 8,192", "f8", lambda x, _: [np.vdot(r, r) for r in x.reshape(rows)])
    yield made(
        "matmul(rows, rows) of 8,192",
        "f8",
        lambda x, _: np.matmul(x.reshape(-1, 1, 1 << 13), x.reshape(-1, 1 << 13, 1)),
    )
    yield made("einsum(i,i)", "f8", lambda x, _: np.einsum("i,i", x, x))
    yield made("float64.sum()", "f8", lambda x, _: x.sum())
    yield made("float64.sum(axis=1), rows of 8,192", "f8", lambda x, _: x.reshape(rows).sum(axis=1))
    yield made("float32.sum(float64)", "f4", lambda x, _: x.sum(dtype="f8"))
    yield made("float32.sum(float64, axis=1), rows of 8,192", "f4", lambda x, _: x.reshape(rows).sum(1, "f8"))
    yield made("float32.min()", "f4", lambda x, _: x.min())
    yield made("float64.max()", "f8", lambda x, _: x.max())
    yield made("fmax.reduce(float64)", "f8", lambda x, _: np.fmax.reduce(x))
    yield made("subtract(float64, out=)", "f8", lambda x, out: np.subtract(x, x, out=out))
    yield made(
        "subtract(float32, float64 column, out=float64)",
        "f4",
        lambda x, out: np.subtract(
            x.reshape(rows), np.zeros((x.size >> 13, 1)), out=out.reshape(rows), dtype="f8"
        ),
    )
    yield made(
        "subtract(float64 rows, column, out=)",
        "f8",
        lambda x, out: np.subtract(x.reshape(rows), np.zeros((x.size >> 13, 1)), out=out.reshape(rows)),
    )
    for kind in ("f2", "f4", "i4", "i8", "u1", "?"):
        yield made(f"copyto(float64, {np.dtype(kind)})", kind, lambda x, out: np.copyto(out, x))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"):
        kind = getattr(ml_dtypes, name)
        yield made(f"copyto(float64, {name})", kind, lambda x, out: np.copyto(out, x))
    yield made("copyto(float32, bfloat16)", ml_dtypes.bfloat16, lambda x, out: np.copyto(out, x), "f4")
    yield made(
        "copyto(bfloat16, float64)", "f8", lambda x, out: np.copyto(out, x, "unsafe"), ml_dtypes.bfloat16
    )
    yield made(
        "copyto(bfloat16, float32)", "f4", lambda x, out: np.copyto(out, x, "unsafe"), ml_dtypes.bfloat16
    )
    yield made("copyto(float32, float64)", "f8", lambda x, out: np.copyto(out, x, "same_kind"), "f4")
    yield made("copyto(float16, float64)", "f8", lambda x, out: np.copyto(out, x, "same_kind"), "f2")
    yield made("left_shift(uint16, 16, out=uint32)", "u2", lambda x, out: np.left_shift(x, 16, out=out), "u4")
    yield made("take(256 values, uint8)", "u1", lambda x, out: _TABLE.take(x, out=out, mode="clip"))
    yield made("values[uint8]", "u1", lambda x, _: _TABLE[x])
    yield made("float64[bool]", "f8", lambda x, out: x[out], "?")
    yield made("isfinite(float64)", "f8", lambda x, out: np.isfinite(x, out=out), "?")
    yield made("flatnonzero(bool)", "?", lambda x, _: np.flatnonzero(x))
    yield made("bincount(intp)", "u1", lambda x, _: np.bincount(x))
    yield made("floor(float32)", "f4", lambda x, out: np.floor(x, out=out), "f4")
    yield made("float32.astype(intp)", "f4", lambda x, _: x.astype(np.intp))
    yield made("array_equal(uint64)", "u8", lambda x, _: np.array_equal(x, x))
    yield made("add.reduceat(float64)", "f8", lambda x, _: np.add.reduceat(x, np.arange(0, x.size, 512)))
    yield made("where(bool, 0, float64)", "?", lambda x, out: np.where(x, 0.0, out))
    yield made("abs(complex64, out=float32)", "c8", lambda x, out: np.abs(x, out=out), "f4")


_TABLE = np.arange(256, dtype=np.float64)


def main(arguments: list[str]) -> None:
    size = int(arguments[0]) if arguments else 1 << 18
    print(f"numpy {np.__version__}, {size:,} elements")
    print(HEADER)
    with np.errstate(all="ignore"):
        for name, make in calls():
            print(timing(name, make, size), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
