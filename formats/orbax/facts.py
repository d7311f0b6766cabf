"""What an Orbax or Flax checkpoint says beside its tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class TreeFacts(NamedTuple):
    """Texts by key, the keys of None and of empty containers by their type, and what else is shown."""

    producer: str
    values: Mapping[str, Any] = {}
    empty: Mapping[str, str] = {}
    more: Mapping[str, Any] = {}

    def document(self) -> dict[str, Any]:
        listed: dict[str, Any] = {"values": dict(self.values)} if self.values else {}
        listed |= {"empty": dict(self.empty)} if self.empty else {}
        return {"producer": self.producer, "version": None, **listed, **self.more}

    def beside(self) -> Iterable[str]:
        """Return what stands beside the tensors, by key."""
        return self.values.keys()
