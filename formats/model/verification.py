"""What verifying a checkpoint finds, and how far it has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..errors import CorruptCheckpointError


class Finding(NamedTuple):
    """One thing that is wrong with a checkpoint; `severity` is error or warning."""

    severity: str
    code: str
    message: str
    key: str | None = None
    file: str | None = None
    offset: int | None = None

    @classmethod
    def of(cls, error: CorruptCheckpointError, key: str | None = None) -> Finding:
        return cls("error", error.code, error.message, error.key or key, error.path, error.offset)

    @property
    def text(self) -> str:
        """What is wrong, where, in a line."""
        where = f" (tensor {self.key})" if self.key else ""
        return f"{self.file}: {self.message}{where}"


class Verification(NamedTuple):
    """One step of verifying a checkpoint: bytes gone through, whole tensors found sound, what was found."""

    nbytes: int = 0
    tensors: int = 0
    findings: tuple[Finding, ...] = ()
