"""The cost of an object graph grows with its nodes and edges, not with their square."""

from __future__ import annotations

import cProfile
import gc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ckpt_cli.cli.main import cli
from formats.wire.messages import TrackableObject, TrackableObjectGraph
from tests.hostile.bombs import GRAPH, _node, _variable
from tests.support import strings, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
FEW, SOME, MORE = 10, 40, 160
"""From the second to the third a layer may take a tenth more steps than from the first to the second."""
Graph = tuple[list[TrackableObject], list[str]]


def wide(count: int) -> Graph:
    keys = [f"net/l{number}/k{VALUE}" for number in range(count)]
    layers = [_node([(2 + count + number, "k")]) for number in range(count)]
    net = _node([(2 + number, f"l{number}") for number in range(count)])
    return [_node([(1, "net")]), net, *layers, *map(_variable, keys)], keys


def deep(count: int) -> Graph:
    chain = [_node([(number + 1, "net" if not number else "x")]) for number in range(count)]
    return [*chain, _variable("v" + VALUE)], ["v" + VALUE]


def shared(count: int) -> Graph:
    """Every layer has edges to the list of all, and to itself; two lists have every layer."""
    nodes, keys = wide(count)
    layers = [(2 + number, str(number)) for number in range(count)]
    lists = len(nodes)
    for number in range(count):
        nodes[2 + number].children += _node([(lists, "all"), (2 + number, "self"), (0, "root")]).children
    return [*nodes, _node(layers), _node(layers)], keys


def slotted(count: int) -> Graph:
    keys = [f"net/l{number}/k{VALUE}" for number in range(count)]
    slot_keys = [f"net/l{number}/k/.OPTIMIZER_SLOT/opt/m{VALUE}" for number in range(count)]
    layers = [_node([(3 + count + number, "k")]) for number in range(count)]
    net = _node([(3 + number, f"l{number}") for number in range(count)])
    slots = [(3 + count + number, "m", 3 + 2 * count + number) for number in range(count)]
    variables = map(_variable, [*keys, *slot_keys])
    return [_node([(1, "net"), (2, "opt")]), net, _node([], slots), *layers, *variables], [*keys, *slot_keys]


COMMANDS = {
    "ls": "ls -l {a}",
    "show": "show {a}",
    "graph": "graph {a}",
    "rename": "rename {a} {new} --sub ^net=>model",
    "rename of each": "rename {a} {new} --sub ^net/l=>other/m",
    "rename of what ends so": "rename {a} {new} --sub x$=>y",
    "match": "match {a} {b}",
    "match with itself": "match {a} {a}",
    "convert to names": "convert {a} {new} --to name",
    "convert to a template": "convert {a} {new} --like {b} --partial",
}


def steps(line: str) -> int:
    """Return how many functions a command calls, Python's own among them.

    Garbage of other tests stays meanwhile: what it calls as it goes would count.
    """
    counter = cProfile.Profile()
    gc.disable()
    try:
        with counter:
            cli.main(line.split(), standalone_mode=False)
    finally:
        gc.enable()
    return sum(entry.callcount for entry in counter.getstats())


CASES = [
    pytest.param(make, command, id=f"{name}, {make.__name__}")
    for name, command in COMMANDS.items()
    for make in (wide, deep, shared, slotted)
]


@pytest.mark.parametrize(("make", "command"), CASES)
def test_steps_grow_with_the_graph(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], make: Callable[[int], Graph], command: str
) -> None:
    counts = []
    for number, size in enumerate((FEW, FEW, SOME, MORE)):  # the first imports what there is to import
        places = {name: str(tmp_path / f"{name}-{number}") for name in ("a", "b", "new")}
        nodes, keys = make(size)
        for name, net in (("a", "net"), ("b", "new")):
            for edge in nodes[0].children:
                edge.local_name = edge.local_name.replace("net", net)
            data = TrackableObjectGraph(nodes=nodes).encode()
            tensors = dict.fromkeys(keys, np.float32(1))
            write_bundle(places[name], {GRAPH: strings([data], ()), **tensors})
        try:
            counts.append(steps(command.format(**places)))
        except Exception as error:
            if "matches no" in str(error):
                return
            raise
    capfd.readouterr()
    _, few, some, more = counts
    assert (more - some) / (MORE - SOME) < 1.1 * (some - few) / (SOME - FEW), counts
