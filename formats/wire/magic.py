"""The first bytes by which containers are known."""

from __future__ import annotations

HDF5 = b"\x89HDF\r\n\x1a\n"
ZIP = b"PK\3\4"
EMPTY_ZIP = b"PK\5\6"
