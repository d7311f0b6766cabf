"""Settings that layers have learned from data and store in the configuration, not in tensors.

Keras 3's `Discretization.adapt()` puts the boundaries there; vocabularies and means are there
if the program gave them to the layer.  A vocabulary that `adapt()` has found is an asset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..wire.jsontext import parse_object

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .config import Config


_SETTINGS = ("bin_boundaries", "vocabulary", "idf_weights")
_OF_NORMALIZATION = ("mean", "variance")


class Learned(NamedTuple):
    """A setting that holds what a layer learned."""

    layer: str
    setting: str
    value: Any
    is_adapted: bool
    """Whether `adapt()` computed it, rather than the program's text having it."""

    def __str__(self) -> str:
        return f"{self.setting} of layer {self.layer!r}"


def learned_in(config: str | None) -> list[Learned]:
    """Return what the layers of a model's configuration have learned, in their order."""
    if config is None:
        return []
    try:
        found = parse_object(config)
    except ValueError:
        return []  # Readers say what is wrong with a configuration.
    return [each for item in _objects(found) for each in _learned(item)]


def differing(own: list[Learned], other: list[Learned]) -> Learned | None:
    """Return the first learned setting of one model that another lacks or has with another value, or None.

    Layers are paired by name, and the others by order: Keras numbers the names within a process.
    """
    named = {(each.layer, each.setting): each for each in other}
    mine = {(each.layer, each.setting) for each in own}
    rest = iter([each for each in other if (each.layer, each.setting) not in mine])
    for each in own:
        partner = named.get((each.layer, each.setting)) or next(rest, None)
        if partner is None or (partner.setting, partner.value) != (each.setting, each.value):
            return each
    return None


def unknown_to(own: list[Learned], other: list[Learned]) -> list[Learned]:
    """Return the learned settings of another model that this one does not mention."""
    mine = {(each.layer, each.setting) for each in own}
    theirs = {(each.layer, each.setting) for each in other}
    spare = len(mine - theirs)
    return [each for each in other if (each.layer, each.setting) not in mine][spare:]


def _learned(item: Config) -> Iterator[Learned]:
    config = item["config"]
    names = (*_SETTINGS, *(_OF_NORMALIZATION if item.get("class_name") == "Normalization" else ()))
    for name in names:
        value = config.get(name)
        if value is not None:
            # Only `adapt()` leaves both: a program gives boundaries or their number.
            is_adapted = name == "bin_boundaries" and config.get("num_bins") is not None
            yield Learned(f"{config.get('name', '')}", name, value, is_adapted)


def _objects(found: Any) -> Iterator[Config]:
    """Yield the objects within a configuration, in order: layers, and those within them."""
    waiting = [found]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if isinstance(item.get("config"), dict) and "class_name" in item:
                yield item
            waiting += reversed(item.values())
        elif isinstance(item, list):
            waiting += reversed(item)
