"""How keys change, and in which layout tensors are wanted: what several commands and functions take."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from .rules import KEY_NAMES, STORED, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from formats.location import Location

    from ..operations.convert.requested_layout import FrameworkLayout
    from ..operations.select.keys import Rules
    from ..operations.select.name_map import NameMap
    from .calls import PathLike

__all__ = ["LAYOUTS", "KeyChanges", "keeps_stored", "key_changes"]

LAYOUTS = ("pytorch", "tensorflow", "flax")


def keeps_stored(names: str) -> bool:
    """Return whether keys of objects are to stay as they are stored; OptionError for another word."""
    if names not in KEY_NAMES:
        raise OptionError(f"--keys: {names!r} is not one of {', '.join(map(repr, KEY_NAMES))}")
    return names == STORED


class KeyChanges(NamedTuple):
    """How keys change: rules in their order, a map in a file or as it is, and a framework's layout."""

    subs: tuple[str, ...] = ()
    strip_prefix: str | None = None
    add_prefix: str | None = None
    map: Location | NameMap | None = None
    layout: str | None = None
    config: Location | None = None

    def names(self) -> NameMap:
        """Return the map."""
        from ..operations.select.name_map import NO_NAMES, NameMap, read_map

        if self.map is None:
            return NO_NAMES
        return self.map if isinstance(self.map, NameMap) else read_map(self.map)

    def rules(self, layout: FrameworkLayout | None = None) -> Rules:
        """Return the rules, which leave the map to a layout where there is one; OptionError for nonsense."""
        from ..operations.select.keys import Rules
        from ..operations.select.name_map import NO_NAMES

        names = self.names() if layout is None else NO_NAMES
        if names.has_operations:
            raise names.operations_error("but only convert, diff and extract support them")
        try:
            return Rules.make(self.subs, self.strip_prefix, self.add_prefix, names)
        except ValueError as error:
            raise OptionError(str(error)) from error

    def framework_layout(self, *, every_map: bool = False) -> FrameworkLayout | None:
        """Return the requested layout, by its name or by a map with operations, or None.

        With `every_map` a map that changes names alone is one, too.
        """
        from formats.model.hub_config import read_hub_config

        from ..operations.convert.keras.plan import read_config
        from ..operations.convert.requested_layout import FrameworkLayout

        names = self.names()
        if self.layout is None and not names.has_operations and not (every_map and names.rows):
            return None
        hub = read_hub_config(self.config) if self.config else None
        config = read_config(self.config) if self.config and hub is None else None
        return FrameworkLayout(self.layout, names if self.map is not None else None, config, hub=hub)


def key_changes(
    sub: str | Iterable[str] = (),
    strip_prefix: str | None = None,
    add_prefix: str | None = None,
    map: PathLike | Mapping[str, str] | None = None,  # noqa: A002  the option's name
    *,
    layout: str | None = None,
    config: PathLike | None = None,
) -> KeyChanges:
    """Return what the arguments of a function say; a map is a file, or a mapping of old keys to new ones."""
    from ..operations.select.name_map import names_of
    from .calls import choice, location, several

    if layout is not None:
        choice("layout", layout, LAYOUTS)
    names: Location | NameMap | None
    if map is None or isinstance(map, str | os.PathLike):
        names = None if map is None else location(map)
    else:
        names = names_of(map)
    where = None if config is None else location(config)
    return KeyChanges(several(sub), strip_prefix, add_prefix, names, layout, where)
