"""Running `ckpt` within this process, as the tests of its commands do."""

from tests.cli.conftest import ckpt

__all__ = ["ckpt"]
