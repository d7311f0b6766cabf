"""What checkpoints hold besides their tensors.

Each format that says something has a class of its own, which readers give and writers take:
`KerasFacts`, `SafetensorsFacts`, ...  Common to all is what `show` prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Facts(Protocol):
    """The facts that every format has."""

    @property
    def producer(self) -> str | None:
        """Who wrote the checkpoint."""

    def document(self) -> dict[str, Any]:
        """Return all of it as plain data, by the names that `show` prints."""


class Nothing(NamedTuple):
    """The facts of a checkpoint whose format has no place for any, or that leaves them empty."""

    producer: str | None = None

    def document(self) -> dict[str, Any]:
        return {}


@runtime_checkable
class Keyed(Protocol):
    """Facts that speak of tensors, by their keys."""

    def rekeyed(self, keys: Mapping[str, str]) -> Self:
        """Return them after keys have changed: `keys` gives the new ones."""


@runtime_checkable
class Rich(Protocol):
    """Facts of a file that holds more than tensors, for which other formats have no place."""

    def beside(self) -> Iterable[str]:
        """Return what that is, by key, in no order."""


@runtime_checkable
class Scored(Protocol):
    """Facts with the numbers that a training reported when it saved."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """The numbers by their names, such as `loss`."""


@runtime_checkable
class Tying(Protocol):
    """Facts that say which tensors are one, so that they are written once."""

    def tied_as(self, others: Sequence[Facts]) -> Self:
        """Return them without that, unless others say the same."""


@runtime_checkable
class Respelling(Protocol):
    """Facts that say which keys a file could not hold, and spells otherwise."""

    @property
    def respelled(self) -> Mapping[str, str]:
        """The key that a tensor had, by the one in the file."""


class Respelled(NamedTuple):
    """The keys that a target cannot hold, by the keys that replace them."""

    respelled: Mapping[str, str]
    producer: str | None = None

    def document(self) -> dict[str, Any]:
        return {"respelled": dict(self.respelled)}


F = TypeVar("F", bound=Facts)


def rekeyed(facts: F, keys: Mapping[str, str]) -> F:
    """Return what a file says of itself after its keys have changed: `keys` gives the new ones."""
    return facts.rekeyed(keys) if isinstance(facts, Keyed) else facts


def respelled(facts: Facts, names: Mapping[str, str]) -> Facts:
    """Return what a file is to say of itself that spells keys otherwise: `names` gives what it calls them."""
    changed = {name: key for key, name in names.items() if name != key}
    return Respelled(changed) if changed else facts


def common(facts: F, others: Sequence[Facts]) -> F:
    """Return what a file says of itself for values of others, too, which may not tie tensors as it does."""
    return facts.tied_as(others) if isinstance(facts, Tying) else facts
