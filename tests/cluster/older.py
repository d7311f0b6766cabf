"""Loaded by a worker to make it another version."""

from __future__ import annotations

from formats.store.work import executors


def dask_setup(_: object) -> None:
    executors.VERSION = "0.0.9"
