"""Names that hypothesis thinks up, through everything that takes or gives tensors names.

A checkpoint of such names is converted, renamed, extracted and matched, and brought back.
Each time every name must come back with its bytes, or the format is one that cannot hold
it, and says so.  Anything else is a bug: a traceback, a tensor more or less, values under
another's name.
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

from ckpt_cli.operations.compare.match import match
from ckpt_cli.operations.convert.execute import execute
from ckpt_cli.operations.convert.extract import output_of, plan_extract, write
from ckpt_cli.operations.convert.planner import plan_conversion
from ckpt_cli.operations.convert.rename import plan_rename
from ckpt_cli.operations.convert.source import Settings
from ckpt_cli.operations.select.keys import Rules
from ckpt_cli.operations.select.selection import NothingSelectedError
from ckpt_cli.operations.select.slices import TensorSlice
from formats import ConversionError, open_checkpoint
from formats.core.dtypes import BY_NAME
from formats.find.registry import format_named
from formats.location import parse_location
from tests.counts import count
from tests.names import KNOWN, Arrays, checkpoints
from tests.support import same
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Callable

GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"

_few = settings(
    max_examples=settings().max_examples // 3,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not sync: these files need not survive a crash of the machine."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def of_names(test: Callable[..., None]) -> Callable[..., None]:
    """Give a test checkpoints of names: those that were wrong once, and what hypothesis makes."""
    for names in KNOWN:
        arrays = {name: np.full(2, number + 1, np.float32) for number, name in enumerate(names)}
        test = example(arrays=arrays)(test)
    return _few(given(arrays=checkpoints())(test))


BFLOAT16 = BY_NAME["bfloat16"].numpy

REFUSED = (ConversionError, NothingSelectedError)
"""Errors for values that a format cannot store, or if nothing is left to store."""


def stored(path: str) -> Arrays:
    with open_checkpoint(path) as reader:
        return {key: reader[key].read() for key in reader if reader.kinds[key] != "graph"}


def check_same(found: Arrays, expected: Arrays) -> None:
    assert sorted(found) == sorted(expected)
    for key, array in expected.items():
        assert same(found[key], array), key


def convert(source: str, target: str, into: str) -> str:
    convert_and_tell(source, target, into)
    return target


def convert_and_tell(source: str, target: str, into: str) -> dict[str, str]:
    """Convert a checkpoint, and return the names that the plan gives its tensors."""
    with open_checkpoint(source) as reader:
        plan = plan_conversion(
            reader, list(reader.specs), parse_location(target), format_named(into), Settings()
        )
        execute(plan)
    return {row["from"]: row["to"] for row in plan.rows() if row["from"]}


def saved(directory: str, arrays: Arrays, into: str = "tf-name") -> str:
    """Return a checkpoint of the arrays, without the one name that no name-based checkpoint can have."""
    known = {key: array for key, array in arrays.items() if key != GRAPH_KEY} or {"w": np.ones(2, np.float32)}
    save(os.path.join(directory, "names"), known, into)
    return os.path.join(directory, "names")


@of_names
@example(arrays={"w": np.ones(2, np.float32), "w/_iterations": np.float32(3.5)})
def test_to_objects_and_back(arrays: Arrays) -> None:
    with tempfile.TemporaryDirectory() as directory:
        source = saved(directory, arrays)
        objects = convert(source, directory + "/objects-1", "tf-object")
        with open_checkpoint(objects) as reader:
            graph = reader.object_graph
            assert graph is not None
            assert not list(graph.flaws(reader.specs))
            assert graph.tensors(reader.specs).keys() == reader.specs.keys() - {GRAPH_KEY}
        check_same(stored(convert(objects, directory + "/back", "tf-name")), stored(source))
    count("names to objects and back", len(arrays))


@pytest.mark.parametrize("into", ["npz", "safetensors", "tf-v1", "hdf5"])
@of_names
@example(arrays={"w": np.ones(2, np.float32), "global_step": np.ones(2, BFLOAT16)})
def test_to_another_format_and_back(into: str, arrays: Arrays) -> None:
    with tempfile.TemporaryDirectory() as directory:
        source = saved(directory, arrays)
        try:
            names = convert_and_tell(source, directory + "/other", into)
        except REFUSED:
            count(f"sets of names that {into} cannot hold, and says so")
            return
        # HDF5 cannot hold `a` and `a/b` as datasets; the file remembers what such a name was.
        # A count of steps of a dtype that a format lacks is left out, with a line.
        with open_checkpoint(source) as reader:
            assert all(reader.kinds[key] == "state" for key in reader if key not in names)
        expected = {key: array for key, array in stored(source).items() if key in names}
        check_same(stored(convert(directory + "/other", directory + "/back", "tf-name")), expected)
    count(f"names to {into} and back", len(arrays))


def rename(source: str, target: str, rules: Rules) -> str:
    with open_checkpoint(source) as reader:
        plan_rename(reader, parse_location(target), rules).run()
    return target


@pytest.mark.parametrize("kind", ["tf-name", "tf-object", "npz", "safetensors", "tf-v1"])
@of_names
@example(arrays={"global_step": np.ones(2, BFLOAT16)})
def test_under_a_prefix_and_back(kind: str, arrays: Arrays) -> None:
    with tempfile.TemporaryDirectory() as directory:
        source = saved(directory, arrays)
        try:
            source = convert(source, directory + "/source-1", kind)
        except REFUSED:
            return
        with open_checkpoint(source) as reader:
            before = {key: reader.full_names.get(key) for key in reader.specs}
        moved = rename(source, directory + "/moved-1", Rules.make(add="p.q/"))
        back = rename(moved, directory + "/back-1", Rules.make(strip="p.q/"))
        check_same(stored(back), stored(source))
        with open_checkpoint(back) as reader:
            assert {key: reader.full_names.get(key) for key in reader.specs} == before
    count("names under a prefix and back", len(arrays))


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".h5", ".json", "/"])
@of_names
def test_extracted(suffix: str, arrays: Arrays) -> None:
    with tempfile.TemporaryDirectory() as directory:
        known = {key: array.astype(np.float32) for key, array in arrays.items()}
        source = saved(directory, known)
        known = stored(source)
        output = output_of(parse_location(os.path.join(directory, "out" + suffix)))
        with open_checkpoint(source) as reader:
            try:
                plan = plan_extract(
                    reader, [TensorSlice(key, spec) for key, spec in reader.specs.items()], output
                )
                write(plan, output)
            except ConversionError:
                count(f"sets of names that {output.kind} cannot hold, and says so")
                return
        assert sorted(move.source or "" for move in plan.moves) == sorted(known)
        for move in plan.moves:
            found = extracted(output.kind, output.path, move.spec.key)
            assert same(np.asarray(found, np.float32), known[move.source or ""]), move
        if output.kind == "directory":
            outside = {os.path.commonpath([output.path, at]) for at, _, _ in os.walk(output.path)}
            assert outside == {output.path}
    count(f"names extracted to {output.kind}", len(known))


def extracted(kind: str, path: str, key: str) -> Any:
    if kind == "directory":
        return np.load(os.path.join(path, key))
    if kind == "json":
        with open(path, encoding="utf-8") as file:
            return json.load(file)[key]
    return stored(path)[key]


@of_names
def test_names_match_the_objects_made_of_them(arrays: Arrays) -> None:
    # TensorFlow would give the program's own counter a tensor of this name.
    others = {name: array for name, array in arrays.items() if name != "save_counter"}
    with tempfile.TemporaryDirectory() as directory:
        source = saved(directory, others)
        objects = convert(source, directory + "/objects-1", "tf-object")
        with open_checkpoint(source) as names, open_checkpoint(objects) as target:
            found = match(names, target)
            # The objects have a count of steps besides, where names tell of one.
            added = [key for key in found.unmatched_target if not key.startswith("save_counter/")]
            assert all(key.endswith("/iter/.ATTRIBUTES/VARIABLE_VALUE") for key in added), found
            assert sorted(pair.checkpoint for pair in found.restored) == sorted(names.specs)
            assert all(target.full_names[pair.target] == pair.checkpoint for pair in found.restored)
    count("names matched with objects", len(others))
