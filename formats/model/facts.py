"""What checkpoints say of themselves beside their tensors.

Each format that says something has a class of its own, which readers give and writers take:
`KerasFacts`, `SafetensorsFacts`, ...  Common to all is what `show` prints.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Facts(Protocol):
    """What any of them tells."""

    @property
    def producer(self) -> str | None:
        """Who wrote the checkpoint."""

    def document(self) -> dict[str, Any]:
        """Return all of it as plain data, by the names that `show` prints."""


class Nothing(NamedTuple):
    """What a checkpoint says that has no place for it, or leaves it empty."""

    producer: str | None = None

    def document(self) -> dict[str, Any]:
        return {}
