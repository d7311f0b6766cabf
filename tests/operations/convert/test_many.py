"""Checkpoints of very many keys: each key is examined once."""

from __future__ import annotations

import numpy as np
import pytest

import formats
from ckpt_cli.operations.convert import execute, placement
from ckpt_cli.operations.convert import link as link_module
from ckpt_cli.operations.convert.planner import plan_conversion
from ckpt_cli.operations.convert.rename import plan_rename
from ckpt_cli.operations.convert.source import Settings
from ckpt_cli.operations.select.keys import Rules
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.errors import ConversionError
from formats.location import parse_location
from formats.model import name_kinds as kinds
from formats.tf.bundle import reader as bundle_reader
from formats.tf.bundle.index import BundleIndex
from formats.tf.bundle.shards import CLONE, LINK
from formats.wire.sstable import TableBuilder

KEYS = [f"layer_{number}/{name}" for number in range(50) for name in ("kernel", "kernel/Adam", "bias")]


@pytest.fixture
def bundle(tmp_path) -> str:
    specs = [TensorSpec(key, BY_NAME["float32"], (2, 3)) for key in KEYS]
    with formats.create_checkpoint(str(tmp_path / "many-1"), format="tf-name", specs=specs) as writer:
        for number, key in enumerate(KEYS):
            writer.write(key, np.full((2, 3), number, np.float32))
    return str(tmp_path / "many-1")


def test_a_renaming_looks_for_the_slot_of_a_key_once(bundle, tmp_path, monkeypatch) -> None:
    asked = []
    real = kinds._Names.slot
    monkeypatch.setattr(
        kinds._Names, "slot", lambda names, key, spec: asked.append(key) or real(names, key, spec)
    )
    with formats.open_checkpoint(bundle) as reader:
        rename = plan_rename(
            reader, parse_location(str(tmp_path / "new-1")), Rules(subs=(("kernel$", "weight"),))
        )
        assert rename.changed["layer_7/kernel/Adam"] == "layer_7/weight/Adam"
    assert sorted(asked) == sorted(KEYS)


@pytest.mark.parametrize("link", [False, True])
def test_a_plan_is_scanned_once_for_what_is_shared(bundle, tmp_path, monkeypatch, link) -> None:
    asked = []

    def counted_units(plan, order=None):
        for unit in placement.units(plan, order):
            asked.append(unit.name)
            yield unit

    monkeypatch.setattr(link_module, "units", counted_units)
    monkeypatch.setattr(execute, "units", counted_units)
    with formats.open_checkpoint(bundle) as reader:
        plan = plan_conversion(
            reader, KEYS, parse_location(str(tmp_path / "new-1")), reader.format, Settings()
        )
        outcome = execute.execute(plan, ways=(CLONE, LINK) if link else ())
    assert outcome.shared == link
    assert sorted(asked) == sorted((key, None) for key in KEYS)


def linked(source: str, target: str) -> None:
    with formats.open_checkpoint(source) as reader:
        plan = plan_conversion(reader, KEYS, parse_location(target), reader.format, Settings())
        execute.execute(plan, ways=(CLONE, LINK))


def test_what_is_linked_is_proved_block_by_block(bundle, tmp_path, monkeypatch) -> None:
    loaded = []
    real = BundleIndex.__init__

    def counted_init(index, prefix, **options):
        loaded.append(prefix)
        real(index, prefix, **options)

    monkeypatch.setattr(BundleIndex, "__init__", counted_init)
    monkeypatch.setattr(bundle_reader, "_MANY_BLOCKS", 1)
    linked(bundle, str(tmp_path / "new-1"))
    assert loaded == [bundle]


def test_an_index_that_says_another_place_is_found_before_it_is_moved_in(
    bundle, tmp_path, monkeypatch
) -> None:
    real = TableBuilder.add

    def add(table, key, value):
        flips = key == b"layer_9/bias"
        real(table, key, value[:-1] + bytes((value[-1] ^ 1,)) if flips else value)

    monkeypatch.setattr(TableBuilder, "add", add)
    with pytest.raises(ConversionError, match="verification failed: the entries of the index differ"):
        linked(bundle, str(tmp_path / "new-1"))
    assert not list(tmp_path.glob("new-1*"))
