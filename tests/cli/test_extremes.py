"""Checkpoints that are very large in one respect: little memory, few open files, right results.

Data are holes and made-up indexes.  Where CKPT_WHOLE is set they have the sizes of the names.
"""

from __future__ import annotations

import json
import os
import resource
from typing import TYPE_CHECKING

from tests.benchmarks.data import long_index, one_tensor, run_directory, sharded_bundle
from tests.cli.running import run_ckpt
from tests.sampling import size

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.running import Finished

MEMORY = 600 << 20
"""Bytes of addresses: Python, numpy, and the stacks of threads have most of them."""


def little(*arguments: object, memory: int = MEMORY) -> Finished:
    """Run `ckpt` in little memory, with few open files."""
    done = run_ckpt(*arguments, limits=[(resource.RLIMIT_AS, memory), (resource.RLIMIT_NOFILE, 256)])
    assert done.code in (0, 1), done.err
    return done


def test_one_tensor_larger_than_memory(tmp_path: Path) -> None:
    nbytes = size(640 << 20, 64 << 30)
    assert nbytes > MEMORY
    huge, other = one_tensor(str(tmp_path / "huge-1"), nbytes), one_tensor(str(tmp_path / "other-1"), nbytes)
    sound = json.loads(little("verify", "--json", huge).out)
    assert (sound["ok"], sound["results"][0]["checked"]) == (True, {"tensors": 1, "nbytes": nbytes})
    shown = json.loads(little("show", "--json", huge, "huge[0:1,0:3]").out)
    assert shown["values"] == [[0.0, 0.0, 0.0]]
    assert little("diff", "-q", "--exact", huge, other).code == 0
    for words in ["convert", "--to", "object"], ["rename", "--add-prefix", "x/"]:
        assert little(*words, huge, tmp_path / f"{words[0]}-1", "--link").code == 0
    with open(f"{other}.data-00000-of-00001", "r+b") as file:
        file.seek(nbytes - 1)
        file.write(b"\1")
    assert little("verify", other).code == 1


def test_a_hundred_thousand_checkpoints_in_a_directory(tmp_path: Path) -> None:
    count = size(1_000, 100_000)
    directory = run_directory(str(tmp_path / "run"), count)
    lines = little("ls", directory).out.splitlines()
    assert len(lines) == count
    assert [line.split("\t")[0] for line in lines[:2]] == ["ckpt-0", "ckpt-1"]
    assert {line.split("\t")[3] for line in lines} == {"3"}
    assert json.loads(little("state", "--json", directory).out)["latest"] == f"ckpt-{count - 1}"
    assert little("verify", f"{directory}/ckpt-7").code == 0


def test_ten_thousand_shards(tmp_path: Path) -> None:
    shards = size(400, 10_000)
    path = sharded_bundle(str(tmp_path / "sharded-1"), shards, 2 * shards)
    assert len(little("ls", path).out.splitlines()) == 2 * shards
    assert json.loads(little("verify", "--json", path).out)["results"][0]["checked"]["tensors"] == 2 * shards
    for target, options in ("linked-1", ["--link"]), ("copied-1", []):
        assert little("convert", path, tmp_path / target, "--to", "name", *options).code == 0
        assert little("diff", "-q", "--exact", path, tmp_path / target).code == 0
    assert len(little("stats", path).out.splitlines()) == 2 * shards
    os.unlink(f"{path}.data-{shards // 2:05d}-of-{shards:05d}")
    found = json.loads(little("verify", "--json", path).out)["results"][0]["findings"]
    assert [finding["code"] for finding in found] == ["shard-missing"]


def test_an_index_of_500_megabytes(tmp_path: Path) -> None:
    nbytes = size(40_000_000, 500_000_000)
    path = long_index(str(tmp_path / "long-1"), nbytes)
    assert os.path.getsize(path + ".index") >= nbytes
    lines = little("ls", path, memory=min(MEMORY, nbytes + (400 << 20))).out.splitlines()
    assert len(lines) == -(-nbytes // 900)
    assert lines[-1].startswith(f"{len(lines) - 1:08d}/kkk")
