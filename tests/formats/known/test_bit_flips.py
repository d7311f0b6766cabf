"""Flipped bits, in child processes: the HDF5 library is not ours, and may crash or never return."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.support import data_path

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "flip_bits.py")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(PROGRAM))))
FILES = (
    "keras_nested/nest.full.h5",
    "keras3_mlp/mlp.weights.h5",
    "keras3_conv/conv.keras",
    "interop/weights.npz",
    "interop/weights.safetensors",
)
SECONDS_A_TRIAL = 2


def outcomes(path: str, workspace, first: int, count: int) -> Counter[str]:
    """Read `count` damaged copies of a file in a child; name the seed where it does not come back well."""
    command = [sys.executable, PROGRAM, data_path(path), str(workspace), str(first), str(count)]
    environment = {**os.environ, "PYTHONPATH": ROOT, "PYTHONFAULTHANDLER": "1"}
    done = subprocess.run(  # noqa: PLW1510  the exit code is looked at
        command, capture_output=True, text=True, env=environment, timeout=60 + SECONDS_A_TRIAL * count
    )
    assert done.returncode == 0, f"{path}: {done.stdout.splitlines()[-1:]} {done.stderr[-3000:]}"
    assert done.stderr == ""
    found = Counter(line.split()[1] for line in done.stdout.splitlines())
    assert sum(found.values()) == count
    return found


@pytest.mark.parametrize("path", FILES)
def test_flipped_bits_end_in_values_or_in_errors(tmp_path, path):
    found = outcomes(path, tmp_path, 0, 40)
    assert set(found) <= {"read", "damaged", "refused"}
    assert found["damaged"] + found["refused"] > 0


@pytest.mark.fuzz
@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_ten_thousand_flipped_bits(tmp_path, path, first):
    assert set(outcomes(path, tmp_path, 1_000_000 + first, 500)) <= {"read", "damaged", "refused"}
