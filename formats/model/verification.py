"""The findings of verifying a checkpoint, and its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..core.words import counted
from ..errors import SHARD_MISSING, CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Finding(NamedTuple):
    """One thing that is wrong with a checkpoint; `severity` is error or warning."""

    severity: str
    code: str
    message: str
    key: str | None = None
    file: str | None = None
    offset: int | None = None

    @classmethod
    def of(cls, error: CheckpointError, key: str | None = None) -> Finding:
        """Return an error as a finding, about `key` where the error names none."""
        return cls("error", error.code, error.message, error.key or key, error.path, error.offset)

    @property
    def text(self) -> str:
        """The error and its place, in a line."""
        where = f" (tensor {self.key})" if self.key else ""
        return f"{self.file}: {self.message}{where}"


_CHUNK = "chunk "


def missing_shard(path: str, count: int, noun: str, example: str) -> Finding:
    """Return the finding of a missing shard: how many tensors it held, and the name of one."""
    message = f"shard {path.rpartition('/')[2]} is missing; it should contain {counted(count, noun)}"
    return Finding(
        "error", SHARD_MISSING, f"{message}, {'for example ' * (count > 1)}{example!r}", None, path
    )


def by_cause(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with those of the tensors of a missing shard as one, where the first of them stood."""
    kept: list[Finding] = []
    lost: dict[str, set[str]] = {}
    for finding in findings:
        if _is_of_shard(finding) and finding.key is not None and finding.file is not None:
            keys = lost.setdefault(finding.file, set())
            keys.add(finding.key)
            if len(keys) > 1:
                continue
        kept.append(finding)
    return tuple(
        missing_shard(one.file, len(lost[one.file]), "tensor", one.key)
        if _is_of_shard(one) and one.key is not None and one.file is not None
        else one
        for one in kept
    )


def missing_chunk(cell: Iterable[int]) -> str:
    """Return the message of a missing chunk of one tensor; its finding names the folder of the checkpoint."""
    return f"{_CHUNK}{list(cell)} of this tensor is missing"


def _is_of_shard(finding: Finding) -> bool:
    is_error = finding.severity == "error"  # a chunk that may be zeros is a warning, and stays one
    return finding.code == SHARD_MISSING and is_error and not finding.message.startswith(_CHUNK)


class Verification(NamedTuple):
    """One step of verifying a checkpoint: bytes gone through, whole tensors found sound, what was found."""

    nbytes: int = 0
    tensors: int = 0
    findings: tuple[Finding, ...] = ()


def verified_in_pieces(key: str, sizes: Iterable[int], *known: Finding) -> Iterator[Verification]:
    """Go through one tensor's bytes, and yield how far: `sizes` are those of the pieces as they are read.

    The tensor is sound where reading raised nothing, and nothing is `known` to be wrong with it.
    """
    found = list(known)
    try:
        for size in sizes:
            yield Verification(nbytes=size)
    except CheckpointError as error:
        found.append(Finding.of(error, key))
    yield Verification(tensors=int(not found), findings=tuple(found))
