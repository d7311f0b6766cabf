"""The runtime computes with nan and infinities without a warning, also where tests make warnings errors."""

from __future__ import annotations

import warnings

import pytest


@pytest.fixture(autouse=True)
def runtime_filter() -> None:
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"ckpt_cli\.runtime\b")
