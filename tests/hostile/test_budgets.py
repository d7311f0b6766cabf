"""What hostile files cost: at most their own size and 100 MB of memory, and seconds.

Every command that looks at a checkpoint is run on every bomb of `tests.hostile.bombs`, in
a process of limited memory and time (`tests.hostile.budget_server`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.counts import count
from tests.hostile.bombs import BOMBS, graph_with_slots
from tests.hostile.commands import COMMANDS, arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MEMORY = 100 << 20
SECONDS = 20
"""Of the processor; what is slow because the machine is busy does not count."""

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

EACH = ("ls -l --json {}", "verify {}", "rescue {} +")
IN_TURN = (
    "show {}",
    "diff {} {}",
    "convert {} + --to tf-object",
    "match {} {}",
    "graph {} -o +.svg",
    "state @",
)
"""Each run of the tests tries four commands on a file, `make fuzz` tries all there are."""


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
    server: Server, make: Callable[[str], str], directory: Path, commands: tuple[list[str], ...]
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


@pytest.mark.parametrize("make", BOMBS, ids=lambda make: make.__name__)
def test_hostile_files_cost_little(server: Server, tmp_path: Path, make: Callable[[str], str]) -> None:
    commands = (*EACH, IN_TURN[BOMBS.index(make) % len(IN_TURN)])
    try_commands(server, make, tmp_path, tuple(line.split() for line in commands))


@pytest.mark.fuzz
@pytest.mark.parametrize("make", BOMBS, ids=lambda make: make.__name__)
def test_hostile_files_cost_every_command_little(
    server: Server, tmp_path: Path, make: Callable[[str], str]
) -> None:
    # What inflates is honest work where all of it is asked for, as JSON or as V1's one piece a tensor.
    inflates = make.__name__ in ("npz_that_inflates_a_thousandfold", "h5_of_zeros_in_large_chunks")
    few = tuple(line.split() for line in (*EACH, *IN_TURN))
    try_commands(server, make, tmp_path, few if inflates else COMMANDS)


LARGE = 100_000
"""Nodes of an object graph, each with a tensor, that commands hold in 100 MB and 1 KB a node."""

ON_GRAPHS = (
    "ls -l {}",
    "graph {}",
    "rename --dry-run {} + --sub ^net=>model",
    "rename {} + --sub ^net=>model",
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
        assert (cost["code"], cost["err"]) == (0, ""), command
        assert cost["grown"] <= limit, f"{cost['grown'] >> 20} MiB of {limit >> 20}, {command}"
        assert cost["seconds"] < SECONDS, command


def test_the_measure_sees_memory_and_time(server: Server, tmp_path: Path) -> None:
    """What the other tests lean on: JSON that is read whole, on purpose, is seen to be so large."""
    rows = [{"key": f"k{number:0500}", "dtype": "float32", "shape": []} for number in range(100_000)]
    (tmp_path / "large.json").write_text(json.dumps({"schema": 1, "tensors": rows}))
    cost = server.measure(["ls", "--json", str(tmp_path / "large.json")])
    assert (cost["code"], cost["err"]) == (0, "")
    assert cost["grown"] > 50 << 20
    assert 0.1 < cost["seconds"] < SECONDS
