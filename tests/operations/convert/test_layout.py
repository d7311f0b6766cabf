"""Every command that rewrites a bundle as a bundle gives TensorFlow's bytes."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ckpt_cli.operations.convert.average import plan_average
from ckpt_cli.operations.convert.execute import execute
from ckpt_cli.operations.convert.pairing import Strictness, plan_like
from ckpt_cli.operations.convert.planner import plan_conversion
from ckpt_cli.operations.convert.source import Settings
from formats import open_checkpoint
from formats.location import parse_location
from tests.support import BUNDLES, data_path, numbers, partitioned, recorded, strings, variants, write_bundle
from tests.writing import files

if TYPE_CHECKING:
    from pathlib import Path

    from formats.model.reader import FormatReader

PATHS = [data_path(golden["path"]) for golden in recorded(*BUNDLES)]
IN_SHARDS = [path for path in PATHS if len(glob.glob(glob.escape(path) + ".data-*")) > 1]
FEW = IN_SHARDS + [
    data_path(name) for name in ("guide_adam_legacy/tf_ckpts/ckpt-10", "name_based/partitioned/model.ckpt-4")
]


def bundle(prefix: str) -> dict[str, bytes]:
    """Return the files of a bundle by what their names have behind its prefix."""
    found = {}
    for path in glob.glob(glob.escape(prefix) + ".*"):
        if path.endswith(".index") or ".data-" in path:
            with open(path, "rb") as file:
                found[path[len(prefix) :]] = file.read()
    return found


def rewritten(reader: FormatReader, target: str, settings: Settings | None = None) -> dict[str, bytes]:
    execute(
        plan_conversion(
            reader, list(reader.specs), parse_location(target), reader.format, settings or Settings()
        )
    )
    return bundle(target)


def test_there_are_bundles_in_shards() -> None:
    assert len(PATHS) >= 165
    assert len(IN_SHARDS) >= 3


@pytest.mark.parametrize("path", PATHS)
def test_conversion_to_the_same_format_changes_no_byte(path: str, tmp_path: Path) -> None:
    with open_checkpoint(path) as reader:
        assert rewritten(reader, str(tmp_path / "c-1")) == bundle(path)


@pytest.mark.parametrize("path", FEW)
def test_average_of_one_checkpoint_changes_no_byte(path: str, tmp_path: Path) -> None:
    with open_checkpoint(path) as reader:
        execute(plan_average([reader, reader], parse_location(str(tmp_path / "c-1"))))
    assert bundle(str(tmp_path / "c-1")) == bundle(path)


@pytest.mark.parametrize("path", FEW)
def test_template_filled_with_its_own_values_is_itself(path: str, tmp_path: Path) -> None:
    with open_checkpoint(path) as source, open_checkpoint(path) as template:
        execute(
            plan_like(
                source, list(source.specs), template, parse_location(str(tmp_path / "c-1")), Strictness()
            )[0]
        )
    assert bundle(str(tmp_path / "c-1")) == bundle(path)


def test_slices_that_are_among_other_tensors_stay_there(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    tensors = {
        "z": numbers(np.ones(3), shard=0),
        "split": partitioned(array, [((2, 2), (0, 6)), ((0, 2), (0, 6))], [1, 0]),
        "a": numbers(np.zeros(5), shard=1),
        "s": strings([b"{}", b"config"]),
        "empty": numbers(np.zeros((0, 2))),
    }
    write_bundle(str(tmp_path / "source"), tensors, num_shards=2)
    with open_checkpoint(str(tmp_path / "source")) as reader:
        assert rewritten(reader, str(tmp_path / "c-1")) == bundle(str(tmp_path / "source"))


def test_graph_and_strings_that_are_among_the_tensors_stay_there(tmp_path: Path) -> None:
    source = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
    with open_checkpoint(source) as reader:
        graph = reader["_CHECKPOINTABLE_OBJECT_GRAPH"].read().item()
        arrays = {key: reader[key] for key in reversed(list(reader.specs))}
        tensors = {"_CHECKPOINTABLE_OBJECT_GRAPH": strings([graph], ())}
        for key, tensor in arrays.items():
            if key not in tensors:
                value = tensor.read()
                made = {"string": strings, "variant": variants}.get(tensor.spec.dtype.name)
                tensors[key] = made(list(value.flat), value.shape) if made else numbers(value)
    write_bundle(str(tmp_path / "source"), tensors)
    with open_checkpoint(str(tmp_path / "source")) as reader:
        assert rewritten(reader, str(tmp_path / "c-1")) == bundle(str(tmp_path / "source"))


def test_what_is_left_out_leaves_the_others_in_their_order(tmp_path: Path) -> None:
    path = data_path("max_shard_size", "split")
    with open_checkpoint(path) as reader:
        keys = [key for key in reader.specs if not key.startswith("w1")]
        execute(
            plan_conversion(reader, keys, parse_location(str(tmp_path / "c-1")), reader.format, Settings())
        )
    with open_checkpoint(str(tmp_path / "c-1")) as left:
        assert left.specs.keys() == reader.specs.keys() - {"w1/.ATTRIBUTES/VARIABLE_VALUE"}
        assert left["w2/.ATTRIBUTES/VARIABLE_VALUE"].pieces()
    assert sum(".data-" in name for name in files(tmp_path)) == 3


def test_a_shard_size_decides_over_the_shards_of_the_source(tmp_path: Path) -> None:
    path = data_path("shards", "saver", "model.ckpt-1")
    with open_checkpoint(path) as reader:
        plan = plan_conversion(
            reader, list(reader.specs), parse_location(str(tmp_path / "c-1")), reader.format, Settings()
        )
        execute(plan, shard_size=1 << 20)
    (shard,) = (data for name, data in bundle(str(tmp_path / "c-1")).items() if ".data-" in name)
    assert shard == b"".join(data for name, data in sorted(bundle(path).items()) if ".data-" in name)


def test_merged_slices_are_where_the_first_was(tmp_path: Path) -> None:
    path = data_path("max_shard_size", "split")
    with open_checkpoint(path) as reader:
        rewritten(reader, str(tmp_path / "c-1"), Settings(merge_slices=True))
    with open_checkpoint(str(tmp_path / "c-1")) as merged:
        places = {key: merged[key].stored for key in merged.specs}
        assert places["w1/.ATTRIBUTES/VARIABLE_VALUE"].shard == 0
        assert places["w2/.ATTRIBUTES/VARIABLE_VALUE"].shard == 1
    assert os.path.exists(tmp_path / "c-1.index")
