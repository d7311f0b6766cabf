"""The contents of a PyTorch file besides its tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..model.facts import Facts
    from .structure import NestedStructure


class TorchFacts(NamedTuple):
    """Numbers and texts of a run, by key, as people are shown them; and all of it, to be written again.

    `others` are the keys of values that are not read here.
    """

    values: Mapping[str, Any] = {}
    structure: NestedStructure | None = None
    others: tuple[str, ...] = ()
    producer: str = "PyTorch"

    def document(self) -> dict[str, Any]:
        listed: dict[str, Any] = {"values": dict(self.values)} if self.values else {}
        listed |= {"others": [*self.others]} if self.others else {}
        return {"producer": self.producer, "version": None, **listed}

    def rekeyed(self, keys: Mapping[str, str]) -> TorchFacts:
        """Return them for other keys."""
        structure = None if self.structure is None else self.structure.rekeyed(keys)
        return self._replace(structure=structure)

    def beside(self) -> Iterable[str]:
        """Return the values besides the tensors, by key."""
        return self.others if self.structure is None else self.structure.beside()

    def tied_as(self, others: Sequence[Facts]) -> TorchFacts:
        """Return them with every tensor written by itself, unless others have tied the same ones."""
        mine = self._ties()
        if all(isinstance(other, TorchFacts) and other._ties() == mine for other in others):
            return self
        structure = None if self.structure is None else self.structure._replace(is_tied=False)
        return self._replace(structure=structure)

    def _ties(self) -> dict[str, str]:
        return {} if self.structure is None else self.structure.tied()
