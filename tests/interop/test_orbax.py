"""Orbax 0.12.8 and 0.4.8, with tensorstore and Flax: what they save is read, and they restore ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import ckpt_cli
import formats
from tests.interop.conftest import TensorFlow
from tests.orbax_samples import summed
from tests.sampling import seeds
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEEDS = seeds(12, 400)
WITH_TEXTS, OPTAX = data_path("orbax", "new/odd_names"), data_path("orbax", "new/pytree")
PARAMETERS = data_path("orbax", "new/zarr3_files")
APIS = ("pytree", "standard", "manager", "msgpack", "v1")


@pytest.fixture(scope="session", params=["orbax", "orbax-old"])
def orbax(request: pytest.FixtureRequest) -> Iterator[TensorFlow]:
    """One release of Orbax, asked as TensorFlow is."""
    judge = TensorFlow(request.param)
    yield judge
    judge.close()


def read(path: Path | str) -> dict[str, Any]:
    """Return the leaves of a checkpoint in the form of the oracle."""
    with formats.open_checkpoint(path) as reader:
        found: dict[str, Any] = {key: summed(reader[key].read()) for key in reader}
        facts = reader.facts
        empty = {key: None if kind == "None" else "empty" for key, kind in facts.empty.items()}
        return {**found, **facts.values, **empty}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_saved_is_read(orbax: TensorFlow, tmp_path: Path, seed: int) -> None:
    path = tmp_path / "saved"
    told = orbax.ask("orbax", "save", path=str(path), seed=seed)
    assert read(path) == told


@pytest.mark.parametrize(
    ("api", "compress"), [*((api, None) for api in APIS), ("manager", "zstd"), ("v1", "zstd")]
)
@pytest.mark.parametrize("source", [WITH_TEXTS, OPTAX])
def test_what_is_written_is_restored(
    orbax: TensorFlow, tmp_path: Path, source: str, api: str, compress: str | None
) -> None:
    if api not in orbax.ask("orbax", "apis"):
        assert (api, orbax.release) == ("v1", "orbax-old")
        return
    path = tmp_path / "run" / "3" if api == "manager" else tmp_path / "out"
    ckpt_cli.convert(source, path, to="flax" if api == "msgpack" else "orbax", compress=compress)
    told = read(source)
    if source == WITH_TEXTS and api != "msgpack":
        assert told["lst/0"][0] == "float32"
        told["lst/0"] = summed(np.array(1.0))  # Orbax restores numbers as Python's
    assert orbax.ask("orbax", "restore", path=str(path), api=api) == told


@pytest.mark.parametrize("source", ["safetensors", "npz", "pytorch", "hdf5", "tf-name", "tf-object"])
def test_other_formats_become_trees(orbax: TensorFlow, tmp_path: Path, source: str) -> None:
    """Weights go through another format and come back, in chunks and whole."""
    suffix = {"safetensors": ".safetensors", "npz": ".npz", "pytorch": ".pt", "hdf5": ".h5"}.get(source, "")
    between = tmp_path / f"between{suffix}"
    told = read(PARAMETERS)
    if source == "npz":
        del told["dense_1/kernel"]  # bfloat16
    ckpt_cli.convert(PARAMETERS, between, to=source, exclude=() if len(told) == 5 else "dense_1/kernel")
    for number, (limit, codec) in enumerate(((None, None), (64, None), (None, "zstd"), (64, "zstd"))):
        path = tmp_path / f"out-{number}"
        ckpt_cli.convert(between, path, to="orbax", shard_size=limit, compress=codec, weights_only=True)
        assert orbax.ask("orbax", "restore", path=str(path), api="pytree") == told


TREE = {"a": np.ones((2, 3), np.float32), "b": np.zeros(4, np.float32)}
TARGETS = [
    TREE,
    TREE | {"c": TREE["b"]},
    {"a": TREE["a"]},
    TREE | {"b": np.zeros(6, np.float32)},
]


@pytest.mark.parametrize("target", TARGETS, ids=["same", "missing", "unused", "shape"])
def test_a_match_is_what_orbax_says(orbax: TensorFlow, tmp_path: Path, target: dict[str, Any]) -> None:
    paths = tmp_path / "one", tmp_path / "other"
    for path, tree in zip(paths, (TREE, target), strict=True):
        np.savez(f"{path}.npz", **tree)
        ckpt_cli.convert(f"{path}.npz", path, to="orbax")
    said = orbax.ask("orbax", "verdict", checkpoint=str(paths[0]), target=str(paths[1]))
    found = ckpt_cli.match(*paths)
    pads = orbax.release == "orbax-old" and bool(found.shape_mismatch)
    assert found.consumed == (said is None) or pads


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize("like", [True, False])
def test_stacked_layers_are_restored_one_by_one_and_back(tmp_path: Path, stacked: bool, like: bool) -> None:
    """The state of the optimizer is a list with an empty state, which Orbax wants as such."""
    new = TensorFlow("orbax")
    try:
        paths = {each: str(tmp_path / f"saved-{each}") for each in (True, False)}
        for each, path in paths.items():
            new.ask("orbax", "save_layers", path=path, stacked=each)
        made = tmp_path / "made"
        ckpt_cli.convert(
            paths[not stacked], made, to="orbax", map="maxtext-scan", like=paths[stacked] if like else None
        )
        assert new.ask("orbax", "restores_layers", path=str(made), stacked=stacked)
    finally:
        new.close()
    assert ckpt_cli.diff(paths[stacked], made, exact=True).same
    assert ckpt_cli.diff(paths[not stacked], paths[stacked], map="maxtext-scan").same
