"""tf.compat."""

from __future__ import annotations

from . import v1

__all__ = ["v1"]
