"""Fixtures of the commands' tests for the tests of faults."""

from tests.cli.conftest import ckpt

__all__ = ["ckpt"]
