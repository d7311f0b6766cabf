"""`ckpt verify --made-from`: what an export was made of, in every form of output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import ckpt_cli as api
from tests.operations.origin.test_verdicts import lite, source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def weights(tmp_path: Path) -> str:
    path = tmp_path / "source.npz"
    np.savez(path, **source())
    return str(path)


@pytest.fixture
def others(tmp_path: Path) -> str:
    path = tmp_path / "others.npz"
    np.savez(path, **(source() | {"fc/bias": np.zeros(20, np.float32)}))
    return str(path)


def test_exit_code_and_document(ckpt: Callable[..., Any], weights: str, others: str) -> None:
    done = ckpt("verify", lite("int8"), "--made-from", weights, "--json")
    assert done.code == 0
    made = json.loads(done.out)["results"][0]["made_from"]
    assert made["source"] == weights
    assert {one["verdict"] for one in made["weights"]} == {"within"}
    fc = next(one for one in made["weights"] if one["key"] == "model/fc/MatMul")
    assert fc["from"] == ["fc/kernel"]
    assert 0 < fc["max_error"] <= fc["allowed"]
    done = ckpt("verify", lite("int8"), "--made-from", others, "--json")
    assert done.code == 1
    (finding,) = [one for one in json.loads(done.out)["results"][0]["findings"] if one["severity"] == "error"]
    assert (finding["code"], finding["key"]) == ("origin", "model/fc/BiasAdd/ReadVariableOp")


def test_lines_for_programs_and_services(ckpt: Callable[..., Any], weights: str, others: str) -> None:
    done = ckpt("verify", lite("float"), "--made-from", weights)
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [row[1] for row in rows] == ["ok", "within", *["equal"] * 4, "within"]
    assert rows[5][6] == "transposed (1, 0) <- fc/kernel"
    assert "6 weights were made from" in done.err
    for form in ("sarif", "junit", "gitlab"):
        done = ckpt("verify", lite("float"), "--made-from", others, "--format", form)
        assert done.code == 1
        assert "origin" in done.out
        assert "not made from" in done.out


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_names_all_sources_of_a_folded_weight(
    width: int, terminal: Callable[..., Any], weights: str
) -> None:
    done = terminal("verify", lite("int8"), "--made-from", weights, NO_COLOR="1", COLUMNS=str(width))
    words = " ".join(done.out.split())
    assert "5 tensors" in words
    assert "from dw/bias, bn/gamma, bn/beta, bn/moving_mean, bn/moving_variance" in words
    assert max(map(len, done.out.splitlines()[1:])) <= width  # the first line is the path


def test_the_function_in_python(weights: str, others: str) -> None:
    assert api.verify(lite("float16"), made_from=weights).ok
    found = api.verify(lite("float16"), made_from=others)
    assert [(one.code, one.severity) for one in found.findings] == [
        ("origin", "error"),
        ("origin", "warning"),
    ]


def test_a_source_that_is_missing_is_an_error(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    done = ckpt("verify", lite("float"), "--made-from", tmp_path / "none.h5")
    assert done.code == 3
    assert "none.h5" in done.err


def test_a_map_shows_what_names_do_not(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    one, other = (rng.normal(size=(4, 4)).astype("<f4") for _ in range(2))
    np.savez(tmp_path / "export.npz", x=one, y=np.ascontiguousarray(other.T))
    np.savez(tmp_path / "source.npz", a=one, b=other)
    command = ("verify", tmp_path / "export.npz", "--made-from", tmp_path / "source.npz")
    assert ckpt(*command).code == 1
    names = tmp_path / "names.tsv"
    names.write_text("a\tx\nb\ty\n")
    done = ckpt(*command, "--map", names, "--json")
    weights = json.loads(done.out)["results"][0]["made_from"]["weights"]
    assert [(each["key"], each["from"], each["verdict"]) for each in weights] == [
        ("x", ["a"], "equal"),
        ("y", ["b"], "other"),
    ]
    names.write_text("a\tx\nb\ty\tT\n")
    done = ckpt(*command, "--map", names, "--json")
    assert done.code == 0, done.out
    assert api.verify(tmp_path / "export.npz", made_from=tmp_path / "source.npz", map=names).ok
