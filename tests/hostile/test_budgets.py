"""The cost of hostile files: at most their own size and 100 MB of memory, and seconds.

Every command that looks at a checkpoint is run on every bomb of `tests.hostile.bombs`, in
a process of limited memory and time (`tests.hostile.budget_server`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests import sampling
from tests.benchmarks.data import long_index, many_tensors, one_tensor, run_directory, sharded_bundle
from tests.counts import count
from tests.hostile import pickle_bombs
from tests.hostile.bombs import BOMBS, entries_of_the_same_bytes, graph_with_slots
from tests.hostile.budget_server import ADDRESS_SPACE
from tests.hostile.commands import COMMANDS, arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

assert pickle_bombs  # BOMBS has these as well
MEMORY = 100 << 20
SECONDS = 20
"""Of the processor; what is slow because the machine is busy does not count."""

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

LINES = (
    "ls -l --json {}",
    "show {}",
    "verify {}",
    "diff {} {}",
    "rescue {} +",
    "convert {} + --to tf-object",
    "match {} {}",
    "graph {} -o +.svg",
    "state @",
)
TRIED = 1
SOME = [BOMBS[number] for number in sampling.seeds(len(BOMBS) // 2, len(BOMBS))]
"""Each run of the tests tries one of these commands on every second file, for another commit others.

`make fuzz` tries all commands there are on all files.
"""


class Server:
    """The process that commands are measured by."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.budget_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )

    def measure(self, line: list[str]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(line), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def try_commands(
    server: Server, make: Callable[[str], str], directory: Path, commands: Sequence[list[str]]
) -> None:
    (directory / "run").mkdir()
    path = make(str(directory / "run"))
    size = sum(entry.stat().st_size for entry in (directory / "run").iterdir())
    for number, command in enumerate(commands):
        line = arguments(command, path, str(directory / f"new{number}"))
        cost = server.measure(line)
        what = f"{' '.join(command)}: {cost}"
        assert cost["code"] in (0, 1, 3), what
        assert "Traceback" not in cost["err"], what
        opened = max(1, command.count("{}"))
        assert cost["grown"] <= opened * (size + MEMORY), f"{cost['grown'] >> 20} MiB of {size >> 20}, {what}"
        assert cost["seconds"] < SECONDS, what
    count("commands on files that ask for too much, in bounded memory and time", len(commands))


@pytest.mark.parametrize("make", SOME, ids=lambda make: make.__name__)
def test_hostile_files_cost_little(server: Server, tmp_path: Path, make: Callable[[str], str]) -> None:
    try_commands(
        server, make, tmp_path, [line.split() for line in sampling.turn(LINES, TRIED, BOMBS.index(make))]
    )


@pytest.mark.fuzz
@pytest.mark.parametrize("make", BOMBS, ids=lambda make: make.__name__)
def test_hostile_files_cost_every_command_little(
    server: Server, tmp_path: Path, make: Callable[[str], str]
) -> None:
    # Inflating all values is necessary if they are printed as JSON or written as one piece of V1.
    inflates = make.__name__ in ("npz_that_inflates_a_thousandfold", "h5_of_zeros_in_large_chunks")
    few = [line.split() for line in LINES]
    try_commands(server, make, tmp_path, few if inflates else COMMANDS)


@pytest.mark.parametrize("line", ["log @", "report {} -o +.html"])
def test_an_error_for_each_tensor_is_not_kept(server: Server, tmp_path: Path, line: str) -> None:
    """Those of 50,000 tensors took 270 MB."""
    try_commands(server, entries_of_the_same_bytes, tmp_path, [line.split()])


LARGE = 100_000
"""Nodes of an object graph, each with a tensor, that commands hold in 100 MB and 1 KB a node."""

ON_GRAPHS = (
    "ls -l {}",
    "graph {}",
    "rename --dry-run {} + --sub ^net=>model",
    "rename {} + --sub ^net=>model",
)


def _without_last_line(err: str) -> str:
    """Return what a command says on stderr except for what it wrote, or how many keys it changed."""
    lines = err.splitlines(keepends=True)
    return "".join(
        line
        for line in lines
        if not re.match(r"(would write|wrote) |note: [\d,]+ of [\d,]+ keys changed", line)
    )


@pytest.mark.parametrize("nodes", [LARGE // 5, pytest.param(LARGE, marks=pytest.mark.fuzz)])
def test_large_graphs_take_a_kilobyte_a_node(server: Server, tmp_path: Path, nodes: int) -> None:
    """A smaller graph may take as small a part of the 100 MB, and 4 MB that any command takes."""
    (tmp_path / "run").mkdir()
    path = graph_with_slots(str(tmp_path / "run" / "b-1"), nodes // 3)
    size = sum(entry.stat().st_size for entry in (tmp_path / "run").iterdir())
    limit = size + nodes * 1024 + min(MEMORY, MEMORY * nodes // LARGE + (4 << 20))
    for command in ON_GRAPHS:
        cost = server.measure(arguments(command.split(), path, str(tmp_path / "new")))
        assert (cost["code"], _without_last_line(cost["err"])) == (0, ""), command
        assert cost["grown"] <= limit, f"{cost['grown'] >> 20} MiB of {limit >> 20}, {command}"
        assert cost["seconds"] < SECONDS, command


def test_the_measure_sees_memory_and_time(server: Server, tmp_path: Path) -> None:
    """The other tests need this: reading a large JSON file is measured as large."""
    rows = [{"key": f"k{number:0500}", "dtype": "float32", "shape": []} for number in range(100_000)]
    (tmp_path / "large.json").write_text(json.dumps({"schema": 1, "tensors": rows}))
    cost = server.measure(["ls", "--json", str(tmp_path / "large.json")])
    assert (cost["code"], cost["err"]) == (0, "")
    assert cost["grown"] > 50 << 20
    assert 0.1 < cost["seconds"] < SECONDS


# Files that are large in one respect --------------------------------------------------
#
# `make fuzz` reads them at full size, and each run of the tests at a smaller one. Their content needs far
# more memory than a command may use.

SHARE = 50
"""A run of the tests tries so small a part."""


def whole_or_part(whole: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("amount", [whole // SHARE, pytest.param(whole, marks=pytest.mark.fuzz)])


def try_line(server: Server, line: str, path: str, tmp_path: Path, limit: int) -> dict[str, Any]:
    """Run a command that finds nothing wrong, in at most so many bytes more than one that does nothing."""
    cost = server.measure(arguments(line.split(), path, str(tmp_path / "new")))
    assert (cost["code"], _without_last_line(cost["err"])) == (0, ""), line
    assert cost["grown"] <= limit, f"{cost['grown'] >> 20} MiB of {limit >> 20}, {line}"
    return cost


@pytest.mark.parametrize(
    "line",
    [
        "verify {}",
        *(
            pytest.param(line, marks=pytest.mark.fuzz)
            for line in (
                "stats {}",
                "diff -q --exact {} {}",
                "convert {} +-1 --quiet",
                "convert {} +-1 --quiet --to object --link",
                "show {} huge[0:1,0:4]",
            )
        ),
    ],
)
def test_a_tensor_larger_than_memory_is_scanned_in_pieces(server: Server, tmp_path: Path, line: str) -> None:
    path = one_tensor(str(tmp_path / "c-1"), ADDRESS_SPACE + (1 << 30))
    try_line(server, line, path, tmp_path, 40 << 20)


@whole_or_part(100_000)
def test_a_hundred_thousand_checkpoints_in_a_directory(server: Server, tmp_path: Path, amount: int) -> None:
    path = run_directory(str(tmp_path / "run"), amount)
    for line in ("ls {}", "ls --json {}", "state {}"):
        cost = try_line(server, line, path, tmp_path, (10 << 20) + 4608 * amount)
        assert f"ckpt-{amount - 1}" in cost["out"] or amount > 10, line


@whole_or_part(10_000)
def test_ten_thousand_shards(server: Server, tmp_path: Path, amount: int) -> None:
    path = sharded_bundle(str(tmp_path / "c-1"), amount, 2 * amount)
    for line in (
        "ls -l {}",
        "verify {}",
        "diff --exact {} {}",
        "convert {} +-1",
        "rename -q --link {} +-2 --add-prefix p/",
        "convert -q --link {} +-3",
    ):
        try_line(server, line, path, tmp_path, (20 << 20) + 4096 * amount)
    # Two tensors a shard are four nodes of the object graph that is made: half a kilobyte for each.
    for line in ("convert -q {} +-4 --to object", "convert -q --link {} +-5 --to object"):
        try_line(server, line, path, tmp_path, (20 << 20) + (4096 + 4 * 512) * amount)


@whole_or_part(500_000_000)
def test_an_index_of_500_megabytes_is_listed_in_a_few(server: Server, tmp_path: Path, amount: int) -> None:
    path = long_index(str(tmp_path / "c-1"), amount)
    assert os.path.getsize(path + ".index") > amount
    for line in ("ls {}", "ls -1 {}", "diff {} {}"):
        try_line(server, line, path, tmp_path, 80 << 20)


@whole_or_part(1_000_000)
def test_a_million_keys_are_listed_and_compared_in_the_size_of_their_indexes(
    server: Server, tmp_path: Path, amount: int
) -> None:
    path = many_tensors(str(tmp_path / "c-1"), amount)
    size = os.path.getsize(path + ".index")
    for line in ("ls {}", "ls -1 {}", "diff {} {}"):
        try_line(server, line, path, tmp_path, line.count("{}") * (size + (20 << 20)))
