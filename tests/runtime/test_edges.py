"""TensorFlow's values and errors at the edges: the runtime has the same, or rejects by name."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest

import ckpt_cli.runtime as tf
from tests.interop.conftest import ROOT
from tests.interop.edges import answer, cases, families, read_answers

CLOSE = {"float32": 1e-5, "float16": 2e-3, "complex64": 1e-5, "float64": 1e-6, "complex128": 1e-9}


def difference(found: Any, expected: Any) -> str:
    """Return how an answer differs from TensorFlow's; '' where it does not, or is rejected by name."""
    if "error" in expected or "error" in found:
        return _other_error(found, expected)
    if found.keys() != expected.keys():
        return f"{found}, expected {expected}"
    kind = next(iter(expected))
    mine, other = found[kind], expected[kind]
    if kind == "list":
        if len(mine) != len(other):
            return f"{len(mine)} elements, expected {len(other)}"
        parts = [difference(*pair) for pair in zip(mine, other, strict=True)]
        return "; ".join(f"[{at}] {part}" for at, part in enumerate(parts) if part)
    if kind == "dict":
        if list(mine) != list(other):
            return f"{list(mine)}, expected {list(other)}"
        return "; ".join(f"{key}: {part}" for key in mine if (part := difference(mine[key], other[key])))
    if kind in ("tensor", "array"):
        tolerance = CLOSE.get(other[0], 0)
        same = mine[:2] == other[:2] and all(map(_close(tolerance), mine[2], other[2]))
        return "" if same else f"{mine}, expected {other}"
    return "" if _close(1e-5)(mine, other) else f"{mine!r}, expected {other!r}"


def _close(tolerance: float) -> Any:
    def close(one: Any, other: Any) -> bool:
        if isinstance(other, float) and isinstance(one, float):
            both_nan = math.isnan(one) and math.isnan(other)
            least = tolerance if tolerance == CLOSE["float16"] else tolerance / 10
            return both_nan or math.isclose(one, other, rel_tol=tolerance, abs_tol=least)
        return bool(one == other)

    return close


def _other_error(found: Any, expected: Any) -> str:
    if "error" not in found:
        return f"{found}, expected {expected['error'][0]}: {expected['message']}"
    names, text = found["error"], found["message"]
    if is_rejected(found):
        return ""
    if "error" not in expected:
        return f"{names[0]}: {text}; expected {expected}"
    wanted = [expected["error"][0]]
    if expected["message"].startswith("Could not find device for node"):
        wanted.append(
            "InvalidArgumentError"
        )  # as for dtypes that TensorFlow's operation does not take at all
    same = any(one in names for one in wanted)
    return "" if same else f"{names[0]}: {text}; expected {wanted[0]}: {expected['message']}"


def is_rejected(found: Any) -> bool:
    """Whether the runtime said that it does not support something."""
    return "NotImplementedError" in found.get("error", ()) and "is not supported" in found["message"]


TITLES = [(family, title) for family in families() for title in cases(family)]


@pytest.mark.parametrize(("family", "title"), TITLES)
def test_edges_are_tensorflows(family: str, title: str) -> None:
    program = cases(family)[title]
    assert not difference(answer(tf, program), read_answers(family)[program])


def table() -> str:
    """Return the table of `docs/runtime.md`: programs of each family, and their results."""
    names = {"losses": "Losses", "values": "Values, dtypes and errors", "arguments": "Arguments of functions"}
    names |= {
        "operations": "Operations by dtype, derivatives",
        "keras": "Keras: metrics, steps, symbolic tensors",
        "optimizers": "Ten steps of each optimizer, by each argument",
        "recurrent": "Recurrent layers, attention over axes, channels first",
        "preprocessing": "Normalization, bins, vocabularies",
        "layers": "Layers, by each argument and input, with derivatives",
        "checkpoints": "What programs do around checkpoints",
        "further": "Functions that few programs use, derivatives",
        "guides": "TensorFlow's guides to checkpoints, cell by cell",
        "sessions": "Sessions and graphs of TensorFlow 1",
        "estimators": "Canned Estimators, warm starts, feature columns",
        "shown": "What is printed: tensors, progress, summaries",
        "extremes": "Wrong arguments, extreme values",
    }
    rows = [
        "| programs about | programs | results | equal | not supported |",
        "| --- | --: | --: | --: | --: |",
    ]
    for family in families():
        found = [answer(tf, program) for program in cases(family).values()]
        rejected = sum(map(_rejections, found))
        total = sum(map(_parts, found))
        title = names[family.partition("_")[2]]
        rows.append(f"| {title} | {len(found)} | {total} | {total - rejected} | {rejected} |")
    return "\n".join(rows)


def _parts(found: Any) -> int:
    return sum(map(_parts, found["list"])) if "list" in found else 1


def _rejections(found: Any) -> int:
    return sum(map(_rejections, found["list"])) if "list" in found else is_rejected(found)


def test_the_table_in_the_docs_is_current() -> None:
    with open(os.path.join(ROOT, "docs", "runtime.md"), encoding="utf-8") as file:
        assert table() in file.read()


@pytest.mark.parametrize("family", families())
def test_every_edge_is_recorded(family: str) -> None:
    assert list(read_answers(family)) == list(cases(family).values())
