"""What the tests of faults share with those of the commands."""

from tests.cli.conftest import ckpt

__all__ = ["ckpt"]
